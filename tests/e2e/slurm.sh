#!/usr/bin/env bash
# The jobs of batch/ on a real Slurm (Debian: slurm-wlm) of two nodes: an array of two runs one study with its store in a job of
# its own, and has to go again and again: preempted, warned, or requeued by an administrator. Each time it comes back, nothing is
# lost, and the results are those of an undisturbed search.
#     KAS_SLURM_TIMES=20 bash tests/e2e/slurm.sh
set -eu
. tests/e2e/expect.bash
for program in slurmctld slurmd munged sbatch; do
    command -v $program >/dev/null || { echo "SKIPPED: no $program: Slurm is not installed"; exit 77; }
done
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || { echo "SKIPPED: PostgreSQL is not installed"; exit 77; }
. tests/support/slurm.bash
times=${KAS_SLURM_TIMES:-5}
chmod 755 "$dir" # the server runs as another user where this one is root
plain=
trap 'rc=$?; set +e; [ -z "$plain" ] || kill $plain 2>/dev/null; slurm_stop "$dir/slurm"; [ $rc = 0 ] || tail -n 20 "$dir"/job/*.out; "$kas" store stop "$dir/pg" >/dev/null 2>&1 || true; rm -rf "$dir"' EXIT
slurm_start "$dir/slurm"

mkdir "$dir/job"
cp batch/* "$dir/job"
"$kas" dataset make shapes -o "$dir/s.h5" --train 200 --test 24 --size 8 --classes 4 >/dev/null
cat >"$dir/job/study.bash" <<CONF
kas=$kas study=$dir/study device=cpu store=$dir/pg address=127.0.0.1 spare=20 requeue=self
search=(--objective accuracy --dataset $dir/s.h5 --net $PWD/tests/e2e/own_network.json --targets 3x3 --candidates 4
    --epochs $((20 + 5 * times)) --batch 16 --lr 0.005 --seed 1 --threads 1 --prune deterministic --prune-window 1 --compile-ahead 0)
export KAS_CACHE_DIR=${KAS_CACHE_DIR:-$dir/cache}
CONF
cd "$dir/job"
. ./study.bash
"$kas" search --study "$dir/plain" --device cpu "${search[@]}" >/dev/null 2>"$dir/err" & # undisturbed
plain=$!
sbatch -Q --time=60 --partition=high --output=store.out store.sbatch
array=$(sbatch --parsable --time=60 --gpus-per-node=1 --cpus-per-task=1 --array=0-1 --output=task%a.out array.sbatch)

running() { [ "$(squeue -h -t R -j "$array" -o %i 2>/dev/null | wc -l)" = 2 ]; }
epochs() { cat "$dir/study/logs/"[0-9b]*.log 2>/dev/null | grep -c ' epoch ' || true; }
further() { running && [ "$(epochs)" -ge $wanted ]; }
restarts() { scontrol -o show job "$array" | sed 's/.* Restarts=\([0-9]*\) .*/\1/' | awk '{ all += $1 } END { print all }'; }
stopped() { [ "$(restarts)" -ge $wanted ]; }
begin_again() { # without this Slurm waits for two minutes; at once would be too early for its credentials
    scontrol update JobId="${array}_0" StartTime=now+3 && scontrol update JobId="${array}_1" StartTime=now+3
}
for ((i = 1; i <= times; i++)); do
    wanted=$(($(epochs) + 6))
    await "epochs before stop $i" further
    wanted=$((2 * i))
    case $((i % 3)) in
    1) sbatch -Q --partition=high --nodes=2 --gpus-per-node=1 --output=high.out --wrap true ;;
    2) scancel --batch --signal=USR1 "$array" ;;
    0) scontrol requeue "${array}_0" && scontrol requeue "${array}_1" ;;
    esac
    await "stop $i of both tasks" stopped
    await "the queue after stop $i" begin_again 2>/dev/null
    [ $i = "$times" ] || await "both tasks after stop $i" running
done
gone() { [ -z "$(squeue -h -j "$array" 2>/dev/null)" ]; }
until gone; do sleep 1; done

wait $plain || { cat "$dir/err"; fail "the undisturbed search"; }
results "$dir/plain" >"$dir/results"
[ "$(grep -c '^candidate' "$dir/results")" = 4 ] || { cat "$dir/results"; fail "too few candidates"; }
results "$dir/study" | diff "$dir/results" - || fail "the jobs gave other results"
# Behind an epoch there is a checkpoint, so a lost one is seen as an epoch that was trained twice.
lost=$(for log in "$dir/study/logs/"[0-9b]*.log; do sed -n 's/.* \(epoch [0-9]*\):.*/\1/p' "$log" | sort | uniq -d; done | wc -l)
[ "$lost" -le $((2 * times)) ] || fail "$lost epochs were trained again, at most $((2 * times)) may be"
scancel --signal=USR1 --batch --name=kas-gpu-store
no_server() { ! "$kas" store status "$dir/pg" >/dev/null 2>&1; }
await "the end of the server" no_server
echo "ok: slurm: $times stops of both tasks, $(cat task*.out | grep -c "^everything is saved") of $((2 * times)) with checkpoints saved before the end, $lost epochs trained again"
