#!/usr/bin/env bash
# search --warm-start: the baseline first; candidates begin with its weights; final trainings do not; the same results with two
# workers, after kills, and when the weights are gone.
set -eu
. tests/e2e/expect.bash
"$kas" dataset make shapes -o "$dir/s.h5" --train 200 --test 40 --size 8 --classes 4 >/dev/null
search=("$kas" search --strategy random --objective accuracy --dataset "$dir/s.h5" --net tests/e2e/own_network.json --targets 3x3 --epochs 3 --batch 20 --lr 0.02 --seed 1 --threads 1 --prune none --device cpu --compile-ahead 0)
expect 0 'best kernel' "${search[@]}" --candidates 2 --warm-start --study "$dir/a"
weights=baseline/search.safetensors
[ -s "$dir/a/$weights" ] || fail "no weights of the baseline"
grep -q 'weights of kernels begin at random' "$dir/a/logs/0000.log" || fail "the candidate began at random"
grep -q 'tensors of .* taken' "$dir/a/logs/baseline.log" "$dir"/a/logs/final*.log && fail "a training from scratch began warm"
results "$dir/a" >"$dir/results"
[ "$("$kas" log "$dir/a" baseline --json | grep -c epoch)" = 3 ] || fail "the baseline's log"
expect 0 'best kernel' "${search[@]}" --candidates 2 --warm-start --workers 2 --study "$dir/b"
results "$dir/b" | diff "$dir/results" - || fail "two workers changed the results"
cmp "$dir/a/$weights" "$dir/b/$weights" || fail "two workers changed the baseline's weights"
field() { "$kas" best "$1" --json | sed -n "s/.*\"kind\": \"$2\".*\"$3\": \([0-9.]*\).*/\1/p" | sort -n; }
awk -v a="$(field "$dir/b" candidate started | head -n 1)" -v b="$(field "$dir/b" baseline ended)" 'BEGIN { exit !(a >= b) }' &&
    [ "$(field "$dir/b" candidate leases | uniq)" = 1 ] || fail "a candidate began before the baseline had ended"
expect 2 '--warm-start (the study has true, this command false)' "${search[@]}" --candidates 2 --study "$dir/a"

# Killed between two epochs of a candidate; its baseline's weights lost; more candidates.
"${search[@]}" --candidates 2 --warm-start --study "$dir/c" >/dev/null 2>&1 &
await "a candidate's first epoch" grep -qs 'epoch' "$dir/c/logs/0000.log"
kill -9 $! && wait $! 2>/dev/null || true
rm "$dir/c/$weights"
expect 0 'best kernel' "$kas" resume "$dir/c"
results "$dir/c" | diff "$dir/results" - || fail "a kill changed the results"
cmp "$dir/a/$weights" "$dir/c/$weights" || fail "the baseline's second training gave other weights"
rm "$dir/c/$weights"
expect 0 'best kernel' "$kas" resume "$dir/c"
[ ! -e "$dir/c/$weights" ] || fail "the baseline of a complete study was trained again"
expect 0 'best kernel' "${search[@]}" --candidates 3 --warm-start --study "$dir/c"
results "$dir/c" | grep -v -e final -e turns >"$dir/more"
grep -v -e final -e turns "$dir/results" | diff - <(grep -v '^candidate 2 ' "$dir/more") || fail "more candidates changed the first ones"

# Kernels imitate first, and candidates have fewer epochs than the baseline. Killed between imitation and the first epoch's end.
imitate=("${search[@]}" --candidates 2 --imitate 2 --rungs 1 --generation 2)
expect 0 'best kernel' "${imitate[@]}" --study "$dir/d"
grep -q 'steps of imitation the kernels miss' "$dir/d/logs/0000.log" && grep -q 'checkpoints/0000.ckpt.start: .*taken' "$dir/d/logs/0000.log" ||
    fail "the candidate did not begin by imitation"
grep -q imitation "$dir"/d/logs/baseline.log "$dir"/d/logs/final*.log && fail "a training from scratch imitated"
[ "$("$kas" log "$dir/d" baseline --json | grep -c epoch)" = 3 ] || fail "the baseline was trained like a candidate"
[ "$("$kas" best "$dir/d" --json | grep '"kind": "candidate"' | grep -o '"epochs": [0-9]*' | sort | tr -d '\n')" = '"epochs": 1"epochs": 2' ] ||
    fail "epochs of the candidates"
[ -z "$(ls "$dir/d/checkpoints")" ] || fail "files of candidates that have ended are left"
results "$dir/d" >"$dir/results"
"${imitate[@]}" --workers 2 --study "$dir/e" >/dev/null 2>&1 &
await "weights of imitation" [ -s "$dir/e/checkpoints/0000.ckpt.start" ]
kill -9 $! && wait $! 2>/dev/null || true
rm -f "$dir"/e/checkpoints/0001*.start # this one imitates again
expect 0 'best kernel' "$kas" resume "$dir/e" --workers 2
results "$dir/e" | diff "$dir/results" - || fail "a kill or two workers changed the results"
missed() { "$kas" best "$1" --json | sed -n 's/.*"kind": "candidate", "index": \([0-9]*\).*"missed": \([^,]*\),.*/\1 \2/p' | sort; }
missed "$dir/e" | diff <(missed "$dir/d") - || fail "a kill lost what the kernels miss"
[ "$(missed "$dir/e" | grep -c '\.')" = 2 ] || fail "what the kernels miss is not known"
expect 2 '--rungs: the last rung is after 3 epochs, and a candidate is trained for 2' "${imitate[@]}" --rungs 3 --study "$dir/f"

# What imitates too little is not trained, and nothing of it is left.
expect 2 '--most-missed needs --imitate' "${search[@]}" --most-missed 0.5 --study "$dir/f"
expect 6 '' "${imitate[@]}" --most-missed 0.01 --study "$dir/f"
expect 0 "of the convolutions' variance, where 1.0% is allowed" "$kas" log "$dir/f" --json
[ "$("$kas" log "$dir/f" --json | grep '"kind": "candidate"' | grep -c '"state": "screened"')" = 2 ] || fail "not both candidates were screened out"
[ -z "$(ls "$dir/f/checkpoints")" ] || fail "weights of imitation are left"
expect 0 'best kernel' "${imitate[@]}" --most-missed 1000 --study "$dir/g"
results "$dir/g" | diff "$dir/results" - || fail "a limit that all are within changes the results"

# The first rung is an imitation: what goes on from it begins with random weights, and its epochs are those of this training only.
first=("${search[@]}" --candidates 4 --generation 4 --rungs imitate,2)
expect 0 'after imitation, 2 of the 4 candidates of generation 0 went on' "${first[@]}" --study "$dir/h"
epochs() { "$kas" best "$1" --json | grep '"kind": "candidate"' | grep -o '"epochs": [0-9]*' | sort | tr -dc '0-9'; }
[ "$(epochs "$dir/h")" = 0023 ] || fail "epochs of the candidates: $(epochs "$dir/h")"
[ "$(missed "$dir/h" | grep -c '\.')" = 4 ] || fail "not all candidates imitated"
best=$("$kas" best "$dir/h" --json | sed -n 's/.*"kind": "candidate", "index": \([0-9]*\),.*"rank": 1,.*/\1/p')
[ "$(grep -c 'steps of imitation' "$dir/h/logs/000$best.log")" = 1 ] && [ "$(grep -c 'begins (process' "$dir/h/logs/000$best.log")" = 3 ] &&
    [ "$(grep -c 'tensors of .* taken' "$dir/h/logs/000$best.log")" = 1 ] || fail "the best candidate's training did not begin at random"
[ -z "$(ls "$dir/h/checkpoints")" ] || fail "files of imitation are left"
expect 0 'rung 0:     imitation, reached by 4' "$kas" status "$dir/h"
expect 0 '"rungs": [{"epochs": 0, "reached": 4' "$kas" status "$dir/h" --json
"$kas" report "$dir/h" -o "$dir/h.html" >/dev/null && grep -q -- '--rungs=imitate,2' "$dir/h.html" || fail "the report's command"
results "$dir/h" >"$dir/results"
"${first[@]}" --workers 2 --study "$dir/i" >/dev/null 2>&1 &
await "weights of imitation" [ -s "$dir/i/checkpoints/0000.ckpt.start" ]
kill -9 $! && wait $! 2>/dev/null || true
"$kas" resume "$dir/i" >/dev/null 2>&1 &
await "a training after the imitation" [ -s "$dir/i/checkpoints/000$best.ckpt" -a ! -e "$dir/i/checkpoints/000$best.ckpt.start" ]
kill -9 $! && wait $! 2>/dev/null || true
expect 0 'best kernel' "$kas" resume "$dir/i" --workers 2
results "$dir/i" | diff "$dir/results" - || fail "a kill or two workers changed the results of imitation"
expect 0 'goes on after imitation: place 1 of 3' "${first[@]:0:${#first[@]}-4}" --rungs imitate --asynchronous --study "$dir/j"
! grep -q 'says little' "$dir/err" || fail "a warning without a reason: $(cat "$dir/err")"
expect 2 'give one of the two' "${first[@]}" --imitate 1 --study "$dir/k"
expect 2 'imitate may be the first' "${first[@]}" --rungs 1,imitate --study "$dir/k"
expect 2 'expected integers in [1, 1e+06], found 0' "${first[@]}" --rungs 0,2 --study "$dir/k"
echo "ok: warm start"
