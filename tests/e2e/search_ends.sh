#!/usr/bin/env bash
# How a search ends on the command line: finalists and seeds, an answer that is named before the test set is opened, a --max-loss
# that no kernel reaches, and rounds.
set -eu
. tests/e2e/expect.bash

"$kas" dataset make shapes -o "$dir/s.h5" --train 200 --test 60 --size 8 --classes 4 >/dev/null
search=("$kas" search --strategy random --dataset "$dir/s.h5" --net tests/e2e/own_network.json --targets 3x3 --candidates 3 --epochs 2 --batch 20 --lr 0.02 --seed 3
    --device cpu --threads 1 --prune none)
number() { sed -n "s/.*\"$1\": \([-0-9.e]*\).*/\1/p"; } # key: from lines of JSON

expect 2 '--objective' "${search[@]}" --objective speed
expect 2 '--max-loss' "${search[@]}" --max-loss -1
expect 2 '--finalists' "${search[@]}" --finalists -1
expect 2 '--seeds' "${search[@]}" --seeds 31
# What would have no effect is refused.
expect 2 '--max-loss has no effect with --objective accuracy' "${search[@]}" --objective accuracy --max-loss 2
expect 2 'give --latency too' "${search[@]}" --objective accuracy --latency-on h100
expect 2 '--seeds has no effect with --finalists 0' "${search[@]}" --finalists 0 --seeds 3
expect 2 '--ranks has no effect with --finalists 0' "${search[@]}" --finalists 0 --ranks 2
expect 2 '--tune frontier has no effect with --finalists 0' "${search[@]}" --finalists 0 --tune frontier
expect 0 'more epochs than the unmodified network (--epochs 2)' "${search[@]}" --imitate 3 --study "$dir/dry" --dry-run
expect 0 '' "${search[@]}" --imitate 2 --study "$dir/dry" --dry-run
! grep -q 'more epochs' "$dir/err" || fail "a warning without a reason: $(cat "$dir/err")"

# Ten images select, so that one of them is ten points; with 70 of them it is 1.43.
expect 0 '--max-loss 1: each of the 10 images that select is worth 10 points' "${search[@]}" --study "$dir/dry" --dry-run
for enough in '--max-loss 11' '--max-loss 1.5 --validation 0.7' '--objective accuracy' '--max-loss 0'; do
    expect 0 '' "${search[@]}" --study "$dir/dry" --dry-run $enough
    ! grep -q 'images that select' "$dir/err" || fail "a warning without a reason, $enough: $(cat "$dir/err")"
done
expect 0 '--max-loss 1.4: each of the 70 images that select is worth 1.43 points' "${search[@]}" --study "$dir/dry" --dry-run --max-loss 1.4 --validation 0.7

# Every candidate is slower than a thousandth of the unmodified network, so none is trained.
expect 6 'all 500 candidates were predicted to be slower than --latency 0.001 allows' "${search[@]}" --study "$dir/slow" --latency 0.001
[ "$("$kas" log "$dir/slow" --json | grep -c '"state": "predicted-slow"')" = 500 ] || fail "slow candidates were trained"

expect 0 'exploratory' "${search[@]}" --study "$dir/a" --objective accuracy --finalists 2 --seeds 2
grep -q "95% interval is over the seeds" "$dir/err" "$dir/out" || fail "no interval over the seeds"
"$kas" best "$dir/a" --json >"$dir/a.json"
[ "$(grep -c '"kind": "final"' "$dir/a.json")" = 4 ] && [ "$(grep -c '"kind": "final-baseline"' "$dir/a.json")" = 2 ] &&
    [ "$(grep -c '"kind": "finalist"' "$dir/a.json")" = 3 ] || fail "not two finalists by two seeds"
[ "$(grep '"kind": "final"' "$dir/a.json" | grep -c '"answers": true')" = 2 ] || fail "not one answer"
answer=$(grep '"kind": "finalist"' "$dir/a.json" | grep '"answers": true' | sed -n 's/.*"kernel": "\([0-9a-f]*\)".*/\1/p')
grep -q "\"kernel\": \"$answer\"" "$dir/a/best/model.json" || fail "best/ is not of the answer"
[ -n "$("$kas" log "$dir/a" final-baseline-seed1)" ] || fail "no log of the second seed"
diff <("$kas" log "$dir/a" final --json | number train_loss) <("$kas" log "$dir/a" final-baseline --json | number train_loss) >/dev/null &&
    fail "the kernel trains like the unmodified network"
one=$("$kas" log "$dir/a" final-baseline --json | number train_loss) two=$("$kas" log "$dir/a" final-baseline-seed1 --json | number train_loss)
[ "$one" != "$two" ] || fail "two seeds, one training"

# Both finalists were timed in turns with the unmodified network, before the test set was opened.
grep -q 'latency: ratio to the unmodified network, timed in turns with it' "$dir/out" || fail "no latency in turns: $(cat "$dir/out")"
[ "$(grep '"kind": "turns"' "$dir/a.json" | grep -c '"state": "finished".*"latency_ratio": [0-9.]*, "latency_ratio_low": [0-9.]*, "latency_ratio_high": [0-9.]*}')" = 2 ] ||
    fail "not two finalists in turns"
awk -v turns="$(grep '"kind": "turns"' "$dir/a.json" | number ended | sort -n | tail -n 1)" \
    -v final="$(grep '"kind": "final' "$dir/a.json" | number started | sort -n | head -n 1)" 'BEGIN { exit !(turns > 0 && turns <= final) }' ||
    fail "a final training began before the finalists were timed"
[ "$(grep -oE '"latency_ratio": [0-9.]+' "$dir/a/best/model.json" | sort)" = "$(grep '"kind": "turns"' "$dir/a.json" | grep -oE '"latency_ratio": [0-9.]+' | sort)" ] ||
    fail "other ratios in model.json: $(cat "$dir/a/best/model.json")"
[ -n "$("$kas" log "$dir/a" "turns-000$(grep '"kind": "turns"' "$dir/a.json" | number index | head -n 1)")" ] || fail "no log of a measurement in turns"
expect 0 "\"done\": true, \"answer\": \"$answer\"" "$kas" status "$dir/a" --json
# Candidates are timed so as well: their latency is that of the unmodified network, times the ratio.
base=$(grep '"kind": "baseline"' "$dir/a.json" | number latency_seconds)
grep '"kind": "candidate"' "$dir/a.json" | grep '"latency_ratio": [0-9]' >"$dir/timed"
paste <(number latency_seconds <"$dir/timed") <(number latency_ratio <"$dir/timed") | awk -v base="$base" '
    { off = $1 - base * $2; if (off < 0) off = -off; if (!($1 > 0 && off < 1e-6 * $1)) bad = 1 } END { exit bad || !NR }' ||
    fail "latencies that are not $base times their ratios: $(cat "$dir/timed")"
expect 0 'best kernel:' "${search[@]}" --study "$dir/h100" --objective accuracy --latency-on h100 --latency 100 --candidates 1
grep -q '"kind": "turns"' <<<"$("$kas" best "$dir/h100" --json)" && fail "timed here for another machine"

# The mean and the paired difference are those of the trainings.
grep '"kind": "final"' "$dir/a.json" | grep '"answers": true' | number accuracy >"$dir/ours"
grep '"kind": "final-baseline"' "$dir/a.json" | number accuracy >"$dir/base"
difference=$(grep '"kind": "finalist"' "$dir/a.json" | grep '"answers": true' | number difference)
paste "$dir/ours" "$dir/base" | awk -v said="$difference" '{ sum += $1 - $2 } END { exit !(NR == 2 && sum / 2 - said < 1e-9 && said - sum / 2 < 1e-9) }' ||
    fail "difference $difference of $(paste "$dir/ours" "$dir/base")"
# The search's figures are of half of the 20 validation images each.
grep '"kind": "baseline"' "$dir/a.json" | awk '{ n = split($0, a, /"confirm_accuracy": /); split(a[2], b, ","); x = b[1] * 10; exit !(n == 2 && x - int(x + 0.5) < 1e-6 && int(x + 0.5) - x < 1e-6) }' ||
    fail "the half that confirms: $(grep '"kind": "baseline"' "$dir/a.json")"

# Nothing is within a loss of 0 points and one standard error: the nearest is named, and nothing is lost.
expect 6 'The nearest is candidate' "${search[@]}" --study "$dir/none" --max-loss 0 --latency 100 --validation 0.5
expect 0 'complete, but no kernel is faster' "$kas" status "$dir/none"
expect 0 '"done": true, "answer": null' "$kas" status "$dir/none" --json
expect 0 'the study has ended without an answer, because no kernel is faster' "$kas" export "$dir/none" -o "$dir/nearest"
grep -q 'Note: the study has ended without an answer' "$dir/nearest/README.md" && grep -q 'Latency: [0-9.]* times' "$dir/nearest/README.md" ||
    fail "an export without an answer: $(head -8 "$dir/nearest/README.md")"
expect 0 '' "$kas" report "$dir/none" -o "$dir/none.html"
grep -q 'The study is complete and has no answer: no kernel is faster' "$dir/none.html" || fail "the page does not say that there is no answer"
grep -q 'final' <<<"$("$kas" log "$dir/none")" && fail "the test set was opened without an answer"
expect 6 'The nearest is candidate' "$kas" resume "$dir/none"
# Without finalists a search ends with its candidates.
expect 0 "no finalists were asked for; to train the best of these in another study: kas-gpu search --from $dir/zero" "${search[@]}" --study "$dir/zero" --candidates 1 --finalists 0 --latency 0
expect 0 'complete; it has no finalists' "$kas" status "$dir/zero"
expect 0 '"done": true, "answer": null' "$kas" status "$dir/zero" --json
grep -qE 'final|turns' <<<"$("$kas" log "$dir/zero")" && fail "finalists that nobody asked for"
expect 2 '--finalists 0 names no answer, which --shrink needs' "${search[@]}" --study "$dir/rounds" --max-loss 1 --shrink 0.5 --finalists 0
# Rounds: each has less FLOPs and begins with the kernels of the one before; the last finds none. Latency is
# predicted, because a measured one decides about an answer, and another program may disturb it.
expect 2 '--shrink needs --study' "${search[@]}" --shrink 0.5
expect 2 '--shrink needs --objective latency' "${search[@]}" --study "$dir/rounds" --shrink 0.5 --objective accuracy
expect 6 'The nearest is candidate' "${search[@]}" --study "$dir/rounds0" --shrink 0.5 --max-loss 0 --latency 100 --validation 0.5
[ ! -e "$dir/rounds0/round-1" ] || fail "a round after one without an answer"
rounds=("$kas" search --strategy random --dataset "$dir/s.h5" --net resnet20:n=1 --known yes --candidates 1 --epochs 1 --batch 20 --seed 3 --device cpu --threads 1
    --max-loss 100 --latency 100 --latency-on cpu --study "$dir/rounds" --shrink 0.01)
expect 0 'the answer is that of round' "${rounds[@]}"
grep -q 'round 1: at most 0.005 times the FLOPs' "$dir/err" || fail "the limit did not fall"
"$kas" best "$dir/rounds/round-0" --json | grep -q '"answers": true' || fail "round 0 has no answer"
expect 0 'the answer is that of round' "${rounds[@]}" # again: nothing to do
expect 2 '--candidates (the study has 1, this command 2)' "${rounds[@]}" --candidates 2
expect 0 'the answer is that of round' "${rounds[@]}" # and nothing has changed
for command in status best report resume; do
    expect 4 'whose rounds are studies: give round-0 in it, or a later one' "$kas" $command "$dir/rounds"
done
expect 3 'whose rounds are studies' "${search[@]}" --study "$dir/x" --from "$dir/rounds"
"${rounds[@]}" --study "$dir/longer" --shrink 0.9 >/dev/null 2>"$dir/err" & pid=$!
await "the second round" [ -s "$dir/longer/round-1/from.json" ]
kill -9 $pid 2>/dev/null || true
wait $pid 2>/dev/null || true
first=$("$kas" best "$dir/longer/round-0" --json | sed -n 's/.*"kind": "candidate", "index": 0, "kernel": "\([0-9a-f]*\)".*/\1/p')
[ -n "$first" ] && grep -q "$first" "$dir/longer/round-1/from.json" || fail "round 1 does not begin with the kernel \"$first\" of round 0"
echo "ok: 2 finalists by 2 seeds; no answer where there is none"
