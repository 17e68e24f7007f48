#!/usr/bin/env bash
# One network on two nodes of a real Slurm (Debian: slurm-wlm), batch/train.sbatch: four ranks, each with a GPU of the stand-in for
# CUDA. The job is preempted, warned, requeued by an administrator, and loses a rank to kill -9; it goes on from its checkpoint
# each time. The training is longer than any test, so it does not end before its last stop however late Slurm is; every epoch
# is compared, to the last digit, with the same ranks undisturbed.
set -eu
. tests/e2e/expect.bash
. tests/support/slurm.bash
export KAS_CUDA_PLANS=heuristic KAS_SIM_DEVICES=4 KAS_CUDA_LIBS=${KAS_SIM_LIBRARY:-$PWD/build/tests/libkas_cuda_sim.so}
[ -f "$KAS_CUDA_LIBS" ] || { echo "SKIPPED: $KAS_CUDA_LIBS is not built (make test builds it)"; exit 77; }
every=0.3 # Slurm answers through programs of its own
plain=
trap 'rc=$?; set +e; [ $rc = 0 ] || tail -n 20 "$dir"/*.out; [ -z "$plain" ] || kill $plain 2>/dev/null; slurm_stop "$dir/slurm"; rm -rf "$dir"' EXIT
slurm_start "$dir/slurm" 2

"$kas" dataset make shapes -o "$dir/s.h5" --train 60 --test 21 --size 8 --classes 4 >/dev/null
tiny_network '{"dropout": "drop", "probability": 0.2},' >"$dir/net.json"
train=(--dataset "$dir/s.h5" --net "$dir/net.json" --batch 16 --epochs 100000 --lr 0.05 --seed 3 --threads 1 --json)

cp batch/*.bash "$dir"
echo "kas=$kas requeue=self" >>"$dir/study.bash"
sed "s|/shared/\$USER|$dir|g; s|^train=.*|train=(${train[*]})|" batch/train.sbatch >"$dir/train.sbatch"
cd "$dir"
submit() { job=$(sbatch --parsable --time=60 --ntasks-per-node=2 --gpus-per-node=2 --cpus-per-task=1 --output=job.out train.sbatch); }
figures() { cat "$1" 2>/dev/null | sed -n 's/.*"event":"epoch",\(.*\),"seconds".*/\1/p'; }
epochs() { figures "$1" | wc -l; }
further() { [ "$(epochs job.out)" -ge $wanted ]; }
restarted() { [ "$(scontrol -o show job "$job" | sed -n 's/.* Restarts=\([0-9]*\) .*/\1/p')" -ge $1 ]; }
queued() { squeue -h --name=kas-gpu-train -o %i 2>/dev/null; }
gone() { left=$(queued) && [ -z "$left" ]; }
ranks() { mapfile -t pids < <(grep -lsz "^SLURM_JOB_ID=$job\$" /proc/[0-9]*/environ | cut -d / -f 3 | xargs -I {} sh -c 'readlink /proc/{}/exe | grep -qx "'"$kas"'" && echo {}'); }

wanted=2
submit
for stop in 1 2 3; do
    await "epochs before stop $stop" further
    case $stop in
    1) sbatch -Q --partition=high --nodes=2 --gpus-per-node=1 --output=high.out --wrap true ;;
    2) scancel --batch --signal=USR1 "$job" ;;
    3) scontrol requeue "$job" ;;
    esac
    await "stop $stop" restarted $stop 2>/dev/null
    wanted=$(($(epochs job.out) + 2))
    await "the queue after stop $stop" slurm_begin_again "$job" 2>/dev/null
done
await "epochs before a rank is killed" further
four() { ranks && [ ${#pids[@]} = 4 ]; } # for a moment there may be one more, which becomes a compiler
await "four ranks" four
end=$(date -d "$(scontrol -o show job "$job" | sed -n 's/.* EndTime=\([^ ]*\) .*/\1/p')" +%s)
tr '\0' ' ' <"/proc/${pids[0]}/cmdline" | grep -q -- " --until $((end - 120)) " || fail "rank 0 does not know that the job ends at $end"
said=$(wc -l <job.out)
kill -KILL "${pids[2]}"
await "the end of a job without a rank" gone
for pid in "${pids[@]}"; do ended "$pid" || fail "rank $pid still runs"; done
tail -n "+$((said + 1))" job.out | grep -q 'error: .*rank' || fail "no rank says why it ended"
wanted=$(($(epochs job.out) + 2))
submit
await "epochs after a rank was killed" further
scancel "$job" # and it stays away
await "the end of the job" gone
[ ! -e ranks ] || [ -z "$(ls ranks)" ] || fail "a file was left where the ranks met: $(ls ranks)"

figures job.out | awk '!seen[$0]++' >got
"$kas" train --device cuda --ranks 4 "${train[@]}" >plain 2>plain.out & # undisturbed
plain=$!
further() { [ "$(epochs plain)" -ge "$(wc -l <got)" ]; }
await "as many epochs of the undisturbed training" further
kill $plain
figures plain | head -n "$(wc -l <got)" | diff - got || fail "other figures than undisturbed"
lost=$(($(epochs job.out) - $(wc -l <got)))
[ $lost -le 5 ] || fail "$lost epochs were trained again, at most 5 may be"
echo "ok: slurm: four ranks on two nodes, 5 stops, $lost of $(wc -l <got) epochs trained again, all as undisturbed"
