#!/usr/bin/env bash
# The jobs of batch/ on a real Slurm (Debian: slurm-wlm) of two nodes: an array of two runs one study with its store in a job of
# its own, and has to go again and again: preempted, warned, or requeued by an administrator. Each time it comes back, and nothing
# is lost. The study has more candidates than it can ever train, so it does not end before its last stop however late Slurm is.
# Then the array is cancelled, and every epoch that it trained is compared with a search in one job that nobody disturbs.
#     KAS_SLURM_TIMES=20 bash tests/e2e/slurm.sh
set -eu
. tests/e2e/expect.bash
. tests/support/slurm.bash
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || { echo "SKIPPED: PostgreSQL is not installed"; exit 77; }
times=${KAS_SLURM_TIMES:-5}
every=0.3 # Slurm answers through programs of its own
chmod 755 "$dir" # the server runs as another user where this one is root
trap 'rc=$?; set +e; [ $rc = 0 ] || tail -n 20 "$dir"/job/*.out; slurm_stop "$dir/slurm"; "$kas" store stop "$dir/pg" >/dev/null 2>&1 || true; rm -rf "$dir"' EXIT
slurm_start "$dir/slurm" 1

mkdir "$dir/job"
cp batch/* "$dir/job"
"$kas" dataset make shapes -o "$dir/s.h5" --train 1000 --test 24 --size 8 --classes 4 >/dev/null
configure() { # study candidates
    cat >"$dir/job/study.bash" <<CONF
kas=$kas study=$dir/$1 device=cpu store=$dir/pg address=127.0.0.1 spare=20 requeue=self
search=(--strategy random --objective accuracy --dataset $dir/s.h5 --net $repository/tests/e2e/own_network.json --targets 3x3 --candidates $2
    --finalists 0 --epochs 60 --batch 16 --lr 0.005 --seed 1 --threads 1 --prune deterministic --prune-window 1 --compile-ahead 0)
export KAS_CACHE_DIR=${KAS_CACHE_DIR:-$dir/cache}
CONF
}
repository=$PWD
cd "$dir/job"
configure study 100000
sbatch -Q --time=60 --partition=high --output=store.out store.sbatch
array=$(sbatch --parsable --time=60 --gpus-per-node=1 --cpus-per-task=1 --array=0-1 --output=task%a.out array.sbatch)

epochs() { cat "$dir/study/logs/"[0-9b]*.log 2>/dev/null | grep -c ' epoch ' || true; }
starts() { cat "task$1.out" 2>/dev/null | grep -c ', 1 worker on cpu,' || true; }
restarts() { scontrol -o show job "${array}_$1" | sed -n 's/.* Restarts=\([0-9]*\) .*/\1/p'; }
trains() { [ "$(starts 0)" -ge $i ] && [ "$(starts 1)" -ge $i ] && [ "$(epochs)" -ge $wanted ]; }
stopped() { [ "$(restarts 0)" -ge $i ] && [ "$(restarts 1)" -ge $i ]; }
begin_again() { slurm_begin_again "${array}_0" && slurm_begin_again "${array}_1"; }
wanted=6
for ((i = 1; i <= times; i++)); do
    await "epochs before stop $i" trains
    case $((i % 3)) in
    1) sbatch -Q --partition=high --nodes=2 --gpus-per-node=1 --output=high.out --wrap true ;;
    2) scancel --batch --signal=USR1 "$array" ;;
    0) scontrol requeue "${array}_0" && scontrol requeue "${array}_1" ;;
    esac
    await "stop $i of both tasks" stopped 2>/dev/null
    wanted=$(($(epochs) + 6))
    await "the queue after stop $i" begin_again 2>/dev/null
done
await "epochs after the last stop" trains
await "candidate 3, which is held back until 0 and 1 have ended" [ -e "$dir/study/logs/0003.log" ]
scancel "$array" # and it stays away
gone() { left=$(squeue -h --name=kas-gpu 2>/dev/null) && [ -z "$left" ]; }
await "the end of the array" gone
scancel --signal=USR1 --batch --name=kas-gpu-store
no_server() { ! "$kas" store status "$dir/pg" >/dev/null 2>&1; }
await "the end of the server" no_server
saved=$(cat task*.out | grep -c '^everything is saved') || fail "no task says that everything is saved"

# What the array has begun, in a search that ends by itself.
items=("$dir"/study/logs/[0-9b]*.log)
configure plain $((${#items[@]} - 1))
sbatch -Q --time=60 --gpus-per-node=1 --cpus-per-task=1 --output=plain.out node.sbatch
await "the undisturbed search" gone
"$kas" status "$dir/plain" | grep -q 'the study is complete' || fail "the undisturbed search is not complete"
[ "$(grep -c ', 1 worker on cpu,' plain.out)" = 1 ] || fail "the undisturbed search was disturbed"
figures() { sed -n 's/^[^ ]* \(epoch .*\); .*/\1/p; s/^[^ ]* \(ends: [fp].*\)/\1/p' "$1"; } # finished or pruned
ends=0 lost=0
for log in "${items[@]}"; do
    figures "$log" >"$dir/all"
    awk '!seen[$0]++' "$dir/all" >"$dir/got"
    figures "$dir/plain/logs/${log##*/}" | head -n "$(wc -l <"$dir/got")" | diff - "$dir/got" || fail "${log##*/}: other figures"
    ends=$((ends + $(grep -c '^ends' "$dir/got" || true)))
    # Behind an epoch there is a checkpoint, so a lost one is seen as an epoch that was trained twice.
    lost=$((lost + $(wc -l <"$dir/all") - $(wc -l <"$dir/got")))
done
[ $ends -ge 3 ] || fail "only $ends of ${#items[@]} items ended"
[ $lost -le $((2 * times)) ] || fail "$lost epochs were trained again, at most $((2 * times)) may be"
echo "ok: slurm: $times stops of both tasks and their end, $saved of $((2 * times + 2)) with checkpoints saved, $lost of $(epochs) epochs trained again; $ends of ${#items[@]} items ended, all as undisturbed"
