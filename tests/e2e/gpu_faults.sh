#!/usr/bin/env bash
# What a search does when its GPU (the stand-in, tests/cuda_sim) never answers, and when it has no memory
# left for once: the item ends with the state that says so, and nothing else does.
set -eu
kas=$(realpath "${KAS_GPU:-./kas-gpu}")
sim=${KAS_CUDA_SIM:-$PWD/build/tests/libkas_cuda_sim.so}
[ -f "$sim" ] || { echo "SKIPPED: $sim is not built (make test builds it)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
export KAS_CUDA_LIBS=$sim KAS_CUDA_PLANS=heuristic

"$kas" dataset make shapes -o "$work/s.h5" --train 36 --test 8 --size 8 --classes 4 >/dev/null
search() { # study KAS_SIM_FAIL options...
    local study=$1 fault=$2
    shift 2
    KAS_SIM_FAIL=$fault "$kas" search --net resnet20 --dataset "$work/s.h5" --study "$work/$study" --candidates 2 \
        --epochs 1 --batch 8 --seed 1 --device cuda --workers 1 "$@" >"$work/$study.out" 2>"$work/$study.err" || true
    "$kas" log "$work/$study" >"$work/$study.log"
}

# The 40th launch of a graph never returns: the baseline is done by then, a candidate is under way.
search hung cuGraphLaunch:40:0:hang --hang-timeout 12
grep -qE '^candidate.* hung +no progress for 12 s' "$work/hung.log" || fail "no hang: $(cat "$work/hung.log" "$work/hung.err")"
[ "$(grep -cE '^(baseline|candidate).* (finished|hung)' "$work/hung.log")" = 3 ] || fail "other states: $(cat "$work/hung.log")"
if pgrep -f "$work/hung" >/dev/null; then fail "a worker that hung was left behind"; fi

# One allocation of the first candidate fails; the worker goes on with the second.
search memory cuMemAlloc_v2:30:2:once
[ "$(grep -cE '^candidate.* out-of-memory .*no .* of memory left' "$work/memory.log")" = 1 ] || fail "no memory: $(cat "$work/memory.log" "$work/memory.err")"
[ "$(grep -cE '^(baseline|candidate).* finished' "$work/memory.log")" = 2 ] || fail "the worker did not go on: $(cat "$work/memory.log")"
echo "hangs and failed allocations end their items alone"
