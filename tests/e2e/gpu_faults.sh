#!/usr/bin/env bash
# What a search does when its GPU (the stand-in, tests/cuda_sim) never answers: the item ends with the state that says
# so, and nothing else does; and when it has no memory left: the items are tried again.
set -eu
. tests/e2e/expect.bash
sim=${KAS_SIM_LIBRARY:-$PWD/build/tests/libkas_cuda_sim.so}
[ -f "$sim" ] || { echo "SKIPPED: $sim is not built (make test builds it)"; exit 77; }
export KAS_CUDA_LIBS=$sim KAS_CUDA_PLANS=heuristic

"$kas" dataset make shapes -o "$dir/s.h5" --train 36 --test 8 --size 8 --classes 4 >/dev/null
search() { # study KAS_SIM_FAIL options...
    local study=$1 fault=$2
    shift 2
    KAS_SIM_FAIL=$fault "$kas" search --strategy random --objective accuracy --net tests/e2e/own_network.json --targets 3x3 --dataset "$dir/s.h5" --study "$dir/$study" --candidates 2 \
        --epochs 1 --batch 8 --seed 4 --device cuda --workers 1 --pack 1 "$@" >"$dir/$study.out" 2>"$dir/$study.err" || true
    "$kas" log "$dir/$study" >"$dir/$study.log"
}

# The hand-written kernels are compiled once, so that no time limit below is that of a compiler.
"$kas" train --net tests/e2e/own_network.json --dataset "$dir/s.h5" --epochs 1 --batch 8 --device cuda >"$dir/train.out" 2>&1 || fail "$(cat "$dir/train.out")"

# Loading the first program of a candidate never returns: the baseline, which needs the hand-written kernels alone, eight images, is done by then.
# How many graphs an item captures depends on the machine's speed, how many images it loads does not.
KAS_SIM_FAIL_ONCE=$dir/hangs search hung cuModuleLoadData:9:0:hang --hang-timeout 25
grep -qE '^candidate.* hung +no progress for 25 s' "$dir/hung.log" || fail "no hang: $(cat "$dir/hung.log" "$dir/hung.err")"
[ "$(grep -cE '^(baseline|candidate).* (finished|hung)' "$dir/hung.log")" = 3 ] || fail "other states: $(cat "$dir/hung.log")"
for process in /proc/[0-9]*/cmdline; do
    if tr '\0' ' ' 2>/dev/null <"$process" | grep -qF -e "--study $dir/hung"; then fail "a process was left behind: $process"; fi
done

# Every worker runs out of memory in its first item. No candidate is too large for the device, so somebody else had its memory:
# the candidates wait, and the same command without the fault finishes them.
search memory '' --candidates 1
search memory cuMemAlloc_v2:3:2 --candidates 3
grep -qE 'try 1 of 3: .*(memory left|out of memory)' "$dir/memory.err" || fail "no fault was told: $(cat "$dir/memory.err")"
grep -q '2 of the 3 candidates could not be evaluated on this machine' "$dir/memory.err" || fail "no end: $(cat "$dir/memory.err")"
[ "$(grep -cE '^candidate.* machine-fault' "$dir/memory.log")" = 2 ] || fail "no faults: $(cat "$dir/memory.log")"
search memory '' --candidates 3
[ "$(grep -cE '^(baseline|candidate).* finished' "$dir/memory.log")" = 4 ] || fail "not tried again: $(cat "$dir/memory.log")"
echo "ok: a hang ends its item alone, failed allocations none"
