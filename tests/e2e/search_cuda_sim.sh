#!/usr/bin/env bash
# A whole search on two pretended GPUs (tests/cuda_sim), and one whose GPUs die again and again: each
# death costs the candidate that was running, is told with its cause, and the search goes on.
set -eu
kas=$(realpath "${KAS_GPU:-./kas-gpu}")
sim=${KAS_CUDA_SIM:-$PWD/build/tests/libkas_cuda_sim.so}
[ -f "$sim" ] || { echo "SKIPPED: $sim is not built (make test builds it)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
export KAS_CUDA_LIBS=$sim KAS_SIM_DEVICES=2 KAS_CUDA_PLANS=heuristic

"$kas" dataset make shapes -o "$work/s.h5" --train 36 --test 8 --size 8 --classes 4 >/dev/null
search() { # study [VARIABLE=value...]
    local study=$1
    shift
    env "$@" "$kas" search --net resnet20 --dataset "$work/s.h5" --study "$work/$study" --candidates 3 --epochs 1 \
        --batch 8 --seed 1 --device cuda >"$work/$study.out" 2>"$work/$study.err"
}

search good || fail "exit code $?: $(cat "$work/good.err")"
"$kas" log "$work/good" >"$work/good.log"
[ "$(grep -c '^candidate.* finished' "$work/good.log")" = 3 ] || fail "3 candidates finished expected: $(cat "$work/good.log")"
grep -q 'on cuda:0' "$work/good.err" || fail "the GPUs are not named: $(cat "$work/good.err")"

# The plans of the libraries are the study's: a worker that begins later takes what is written there.
plans=$(ls "$work"/good/plans/*/*.plan | wc -l)
[ "$plans" -gt 30 ] || fail "$plans plans are pinned"
cp -r "$work/good" "$work/more"
(cd "$work/good/plans" && sha256sum */*.plan) >"$work/pinned"
"$kas" search --net resnet20 --dataset "$work/s.h5" --study "$work/more" --candidates 4 --epochs 1 \
    --batch 8 --seed 1 --device cuda >"$work/more.out" 2>"$work/more.err" || fail "one more: $(cat "$work/more.err")"
(cd "$work/more/plans" && sha256sum --quiet -c "$work/pinned") || fail "pinned plans were changed"

# Every worker's GPU dies at its 40th launch of a graph, which is in the middle of its second or third item.
search bad KAS_SIM_FAIL=cuGraphLaunch:40:700:sticky || true
"$kas" log "$work/bad" >"$work/bad.log"
lost=$(grep -c ' device-lost ' "$work/bad.log" || true)
finished=$(grep -c ' finished' "$work/bad.log" || true)
[ "$lost" -ge 1 ] || fail "no GPU died: $(cat "$work/bad.log")"
[ "$finished" -ge 1 ] || fail "nothing survived: $(cat "$work/bad.log")"
[ "$(grep -cE '^(baseline|candidate)' "$work/bad.log")" = 4 ] || fail "baseline and 3 candidates expected: $(cat "$work/bad.log")"
# A worker that is about to end gets no more work: no item ends as anything else.
[ "$(grep -cE '^(baseline|candidate)' "$work/bad.log")" = \
    "$(grep -cE '^(baseline|candidate).* (finished|device-lost)' "$work/bad.log")" ] || fail "$(cat "$work/bad.log")"
grep -q 'illegal memory access' "$work/bad.err" || fail "the cause is not told: $(cat "$work/bad.err")"
echo "$finished items finished, $lost lost their GPU"
