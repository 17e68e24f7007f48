#!/usr/bin/env bash
# Ranks that a batch system starts (train --nodes), here by hand with the variables that srun sets: on one node on the CPU, and on
# two pretended nodes with the stand-in for CUDA. Nothing watches them but each other.
set -eu
. tests/e2e/expect.bash
export KAS_CUDA_PLANS=heuristic KAS_SIM_DEVICES=2
export KAS_CUDA_LIBS=${KAS_SIM_LIBRARY:-$PWD/build/tests/libkas_cuda_sim.so}
tiny_network >"$dir/net.json"
"$kas" dataset make shapes -o "$dir/s.h5" --train 100 --test 21 --size 8 --classes 4 >/dev/null
"$kas" dataset make shapes -o "$dir/other.h5" --train 100 --test 21 --size 8 --classes 4 --seed 7 >/dev/null
shared=$dir/shared/ranks
train=("$kas" train --net "$dir/net.json" --batch 16 --threads 1 --epochs 2 --lr 0.05 --seed 3)
job=1 attempt=0 nodes=1
meeting() { echo "$shared/job-$1-step-0-attempt-$2-of-2-ranks"; } # job attempt
rank() { # rank options...: as a task of a step with two; each of two nodes has one
    local number=$1 variables=(SLURM_JOB_ID=$job SLURM_STEP_ID=0 SLURM_RESTART_COUNT=$attempt SLURM_NNODES=$nodes SLURM_NTASKS=2)
    shift
    env "${variables[@]}" SLURM_PROCID=$number SLURM_LOCALID=$((nodes == 1 ? number : 0)) "${train[@]}" --nodes "$shared" \
        --rank-timeout 60 "$@" >"$dir/out$number" 2>"$dir/err$number"
}
both() { # exit-code options for rank 1... -- options for both...
    local code=$1 own=() first=0 second=0
    shift
    job=$((job + 1))
    while [ "$1" != -- ]; do own+=("$1"); shift; done
    shift
    rank 1 "$@" "${own[@]}" & local other=$!
    rank 0 "$@" || first=$?
    wait $other || second=$?
    [ $first = "$code" ] && [ $second = "$code" ] || { cat "$dir"/err?; fail "exit codes $first and $second: $*"; }
    [ ! -e "$(meeting $job $attempt)" ] || fail "a file was left where the ranks met"
}
says() { grep -qF -- "$1" "$dir/err0" && grep -qF -- "$1" "$dir/err1" || { cat "$dir"/err?; fail "expected \"$1\" of both"; }; }

one=(--dataset "$dir/s.h5" --device cpu)
"${train[@]}" "${one[@]}" --ranks 2 --weights "$dir/ranks" >/dev/null 2>&1
both 0 -- "${one[@]}" --weights "$dir/nodes"
cmp "$dir/ranks" "$dir/nodes" || fail "--nodes gives other bits than --ranks"
[ ! -s "$dir/out1" ] || fail "rank 1 prints"

# What an earlier attempt of a job left behind, and nonsense, are no id.
head -c 256 /dev/zero >"$(meeting 3 0)"
attempt=1
both 0 -- "${one[@]}"
attempt=0
job=10
head -c 256 /dev/zero >"$(meeting 10 0)"
rank 1 "${one[@]}" & other=$!
rank 0 "${one[@]}" || { cat "$dir"/err?; fail "a file of nonsense"; }
wait $other || { cat "$dir"/err?; fail "a file of nonsense was read"; }

# Ranks that differ.
both 3 --dataset "$dir/other.h5" -- "${one[@]}"
says 'has another data set (digest '
both 3 --lr 0.1 -- "${one[@]}"
says 'has another network, kernel, recipe, seed or split than rank'

# A rank that is gone ends the other one.
rank 1 "${one[@]}" --epochs 100000 & other=$!
rank 0 "${one[@]}" --epochs 100000 & first=$!
await "an epoch" grep -q 'epoch ' "$dir/out0"
kill -KILL "$(children $other | head -n 1)"
wait $other || true
rc=0; wait $first || rc=$?
[ $rc = 5 ] && grep -q 'rank 1 has ended' "$dir/err0" || { cat "$dir"/err?; fail "rank 0 ended with $rc"; }

# What cannot be.
bad() { # words VARIABLE=value... -- options...
    local words=$1 set=()
    shift
    while [ "$1" != -- ]; do set+=("$1"); shift; done
    shift
    expect 2 "$words" env -u SLURM_PROCID SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_NNODES=1 SLURM_NTASKS=2 SLURM_LOCALID=0 "${set[@]}" \
        "${train[@]}" --dataset "$dir/s.h5" --device cpu --nodes "$shared" "$@"
}
bad 'SLURM_PROCID is not set; start the ranks with srun' --
bad 'SLURM_PROCID=two: expected a number' SLURM_PROCID=two --
bad 'SLURM_NTASKS=2 contradict each other' SLURM_PROCID=2 --
bad 'SLURM_LOCALID=1 and SLURM_NTASKS=2 contradict' SLURM_PROCID=0 SLURM_LOCALID=1 --
bad 'SLURM_STEP_NUM_TASKS=4 contradict' SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4 --
bad 'this job step has 2 nodes' SLURM_PROCID=0 SLURM_STEP_NUM_NODES=2 --
bad '--ranks 4 and SLURM_NTASKS=2' SLURM_PROCID=0 -- --ranks 4
bad 'must not depend on the machine' SLURM_PROCID=0 -- --device auto
bad 'as many GPUs as tasks on a node' SLURM_PROCID=1 SLURM_LOCALID=1 -- --device cuda:0
bad 'cannot be shared by 3 ranks' SLURM_PROCID=0 SLURM_NTASKS=3 --

[ -f "$KAS_CUDA_LIBS" ] || { skip_part "$KAS_CUDA_LIBS is not built (make test builds it)"; echo "ok: nodes"; exit 0; }
"${train[@]}" --dataset "$dir/s.h5" --device cuda --ranks 2 --weights "$dir/ranks" >/dev/null 2>&1
nodes=2
both 0 -- --dataset "$dir/s.h5" --device cuda --weights "$dir/nodes"
cmp "$dir/ranks" "$dir/nodes" || fail "two nodes give other bits than one"
echo "ok: nodes"
