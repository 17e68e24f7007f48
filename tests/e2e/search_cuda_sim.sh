#!/usr/bin/env bash
# A whole search on two pretended GPUs (tests/cuda_sim), and one whose GPUs die again and again: each
# death costs the candidate that was running, is told with its cause, and the search goes on.
set -eu
. tests/e2e/expect.bash
sim=${KAS_SIM_LIBRARY:-$PWD/build/tests/libkas_cuda_sim.so}
[ -f "$sim" ] || { echo "SKIPPED: $sim is not built (make test builds it)"; exit 77; }
export KAS_CUDA_LIBS=$sim KAS_SIM_DEVICES=2 KAS_CUDA_PLANS=heuristic

"$kas" dataset make shapes -o "$dir/s.h5" --train 36 --test 8 --size 8 --classes 4 >/dev/null
search() { # study [VARIABLE=value...]
    local study=$1
    shift
    env "$@" "$kas" search --strategy random --objective accuracy --net tests/e2e/own_network.json --targets 3x3 --dataset "$dir/s.h5" --study "$dir/$study" --candidates 3 --epochs 1 \
        --batch 8 --lr 0.005 --seed 4 --device cuda --pack "${pack:-auto}" >"$dir/$study.out" 2>"$dir/$study.err"
}

search good || fail "exit code $?: $(cat "$dir/good.err")"
"$kas" log "$dir/good" >"$dir/good.log"
# Which kernels are drawn, and what the screening says of them, is not this test's: all get an end, most finish.
[ "$(grep -cE '^candidate.* (finished|screened)' "$dir/good.log")" = 3 ] || fail "the end of 3 candidates expected: $(cat "$dir/good.log")"
[ "$(grep -c '^candidate.* finished' "$dir/good.log")" -ge 2 ] || fail "2 finished candidates expected: $(cat "$dir/good.log")"
grep -q 'on cuda:0' "$dir/good.err" || fail "the GPUs are not named: $(cat "$dir/good.err")"

# The plans of the libraries are the study's: a worker that begins later takes what is written there.
plans=$(ls "$dir"/good/plans/*/*.plan | wc -l)
[ "$plans" -gt 30 ] || fail "$plans plans are pinned"
cp -r "$dir/good" "$dir/more"
(cd "$dir/good/plans" && sha256sum */*.plan) >"$dir/pinned"
"$kas" search --strategy random --objective accuracy --net tests/e2e/own_network.json --targets 3x3 --dataset "$dir/s.h5" --study "$dir/more" --candidates 4 --epochs 1 \
    --batch 8 --lr 0.005 --seed 4 --device cuda >"$dir/more.out" 2>"$dir/more.err" || fail "one more: $(cat "$dir/more.err")"
(cd "$dir/more/plans" && sha256sum --quiet -c "$dir/pinned") || fail "pinned plans were changed"

# Every worker's GPU dies at its 9th capture of a graph. An item has eight at most, so the second item is under way: one
# after the other, as side by side it depends on the machine's speed whose capture that is, and of the baseline it ends all.
pack=1 search bad KAS_SIM_FAIL=cuStreamBeginCapture_v2:9:700:sticky || true
"$kas" log "$dir/bad" >"$dir/bad.log"
finished=$(grep -c ' finished' "$dir/bad.log" || true)
grep -q 'try 1 of 3: .*illegal memory access' "$dir/bad.err" || fail "no GPU died, or the cause is not told: $(cat "$dir/bad.err")"
[ "$finished" -ge 1 ] || fail "nothing survived: $(cat "$dir/bad.log")"
[ "$(grep -cE '^(baseline|candidate)' "$dir/bad.log")" = 4 ] || fail "baseline and 3 candidates expected: $(cat "$dir/bad.log")"
# A worker that is about to end gets no more work, and an item whose GPU died has another try in a new worker.
[ "$(grep -cE '^(baseline|candidate)' "$dir/bad.log")" = \
    "$(grep -cE '^(baseline|candidate).* (finished|screened)' "$dir/bad.log")" ] || fail "$(cat "$dir/bad.log")"
echo "ok: $finished items finished, though GPUs died"

# Every round of --shrink finds the GPUs anew: the process that forks for it has initialised no driver.
KAS_SIM_DEVICES=1 "$kas" search --strategy random --net tests/e2e/own_network.json --targets 3x3 --dataset "$dir/s.h5" --study "$dir/rounds" --candidates 1 --epochs 1 \
    --batch 8 --lr 0.005 --seed 4 --latency 0 --max-loss 100 --shrink 0.98 >/dev/null 2>"$dir/rounds.err" & pid=$!
await "round 1" grep -q '^study .*/round-1: ' "$dir/rounds.err"
kill -TERM $pid
wait $pid || true
[ "$(grep -c '^study .*/round-[01]: .* on cuda:0' "$dir/rounds.err")" = 2 ] || fail "not both rounds on the GPUs: $(cat "$dir/rounds.err")"
echo "ok: rounds find the GPUs"
