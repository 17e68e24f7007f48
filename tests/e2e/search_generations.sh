#!/usr/bin/env bash
# Evolution and rungs: the same list and the same leaderboard with one and with two workers, and when supervisor and workers
# are killed (-9); known kernels, kernels of another study, and options that cannot be.
set -eu
. tests/e2e/expect.bash
export KAS_CACHE_DIR=${KAS_CACHE_DIR:-$dir/cache}
RANDOM=${KAS_FUZZ_SEED:-1}
"$kas" dataset make shapes -o "$dir/s.h5" --train 300 --test 24 --size 8 --classes 4 >/dev/null
base=("$kas" search --strategy random --objective accuracy --dataset "$dir/s.h5" --net tests/e2e/own_network.json --targets 3x3 --batch 16 --lr 0.005 --seed 1 --threads 1 --device cpu --compile-ahead 0)
evolve=("${base[@]}" --epochs 4 --strategy evolution --known no --ancestors 0 --legality none --population 6 --generation 3 --rungs 1,2 --candidates 12)

"${evolve[@]}" --study "$dir/plain" >/dev/null 2>"$dir/err" || { cat "$dir/err"; fail "the undisturbed search"; }
grep -qE 'children: [0-9]+ from [0-9]+ attempts; not legal: [0-9]+; in the study already: [0-9]+' "$dir/err" || fail "nothing is said of the children"
grep -qE 'after epoch 1 of 4, [0-9]+ of the [0-9]+ candidates of generation 0 went on' "$dir/err" || fail "nothing is said of a rung"
results "$dir/plain" >"$dir/results"
lines() { "$kas" best "$dir/plain" --json | grep -c "$1"; }
[ "$(lines '"kind": "candidate".*"generation": 2.*"origin": "\(change\|replace\|insert\|delete\|regrow\|graft\)"')" = 3 ] || fail "no children of generation 2"
[ "$(lines '"state": "not-promoted"')" -ge 5 ] || fail "too few ended at a rung"
expect 0 'rung 0:     epoch 1, reached by' "$kas" status "$dir/plain"
expect 0 '"generations": 3, "rungs": [{"epochs": 1, "reached": ' "$kas" status "$dir/plain" --json

same_when_disturbed "${evolve[@]}"

# Rungs without generations: killed after a promotion and resumed, every candidate ends, and no promotion is lost.
rungs() { "$kas" best "$dir/free" --json | sed -n 's/.*"kind": "candidate", "index": \([0-9]*\),.*"rung": \([0-9]*\),.*/\1 \2/p' | sort -n; }
"${base[@]}" --epochs 4 --rungs 1,2 --asynchronous --candidates 8 --prune none --workers 2 --study "$dir/free" >/dev/null 2>"$dir/err" &
pid=$!
await "a promotion" grep -q 'goes on after epoch 1 of 4: place 1 of ' "$dir/err"
kill -9 $pid; wait $pid 2>/dev/null || true
rungs >"$dir/rungs"
grep -q ' 1$' "$dir/rungs" || { cat "$dir/rungs"; fail "the promotion is not in the store"; }
expect 0 'best kernel:' "$kas" resume "$dir/free" --workers 2
rungs | join "$dir/rungs" - | awk '$3 < $2 { exit 1 }' || fail "a promotion was lost"
[ "$(rungs | wc -l)" = 8 ] || fail "not 8 candidates"
[ "$("$kas" best "$dir/free" --json | grep '"kind": "candidate"' | grep -cE '"state": "(finished|not-promoted|screened|diverged)"')" = 8 ] || fail "a candidate has not ended"
expect 0 '"asynchronous":true' "$kas" status "$dir/free" --json

# Kernels of another study; they are copied, and the study is bound to them.
from=("${base[@]}" --epochs 1 --candidates 2 --study "$dir/next" --from "$dir/plain")
expect 0 'best kernel:' "${from[@]}"
first=$("$kas" best "$dir/next" --json | sed -n 's/.*"kind": "candidate", "index": 0, "kernel": "\([0-9a-f]*\)".*"origin": "from:\([0-9a-f]*\)".*/\1 \2/p')
best=$("$kas" best "$dir/plain" --json | sed -n 's/.*"kind": "candidate".*"kernel": "\([0-9a-f]*\)".*"rank": 1,.*/\1 \1/p')
[ "$first" = "$best" ] && [ -n "$best" ] || fail "candidate 0 is \"$first\", the best of the other study \"$best\""
rm -r "$dir/two"
echo '{"kernels": []}' >"$dir/next/from.json"
expect 4 'not the kernels that the study was begun with' "$kas" resume "$dir/next"
rm "$dir/next/from.json"
expect 4 'there is no such file any more, and the study was begun with the kernels in it; restore the file, or run the search command with --from' \
    "$kas" resume "$dir/next"
expect 0 '' "${from[@]}"
expect 2 '--from (the study was begun with other kernels)' "${from[@]}" --from kernels
expect 2 '--from (the study was begun without such kernels)' "${base[@]}" --study "$dir/plain" --from kernels

# What a command chooses that names no strategy: evolution with rungs, and random where there are no generations or no children.
open_ended=("$kas" search --objective accuracy --dataset "$dir/s.h5" --net tests/e2e/own_network.json --targets 3x3 --epochs 3 --batch 50 --threads 1 --device cpu --prune none --candidates 1 --finalists 0)
chosen=("${open_ended[@]}" --ancestors 30 --study "$dir/chosen")
expect 0 '' "${chosen[@]}"
expect 0 '"strategy":"evolution"' "$kas" status "$dir/chosen" --json && expect 0 '"rungs":[1, 3]' "$kas" status "$dir/chosen" --json
expect 0 '' "${chosen[@]}" --strategy evolution --rungs auto --known yes
expect 2 '--rungs (the study has [1, 3], this command [])' "${chosen[@]}" --rungs none
expect 2 '--ancestors (the study has 30, this command 0)' "${chosen[@]}" --ancestors 0
expect 2 '--legality (the study has "imitation:0.9", this command "")' "${chosen[@]}" --legality none
expect 2 '--ancestors is an option of --strategy evolution' "${base[@]}" --study "$dir/x" --ancestors 5

# Their time counts, although they evolve before there is a study.
number() { "$kas" status "$dir/chosen" --json | sed -n "s/.*\"$1\": \([0-9.e+-]*\),.*/\1/p"; }
items=$("$kas" best "$dir/chosen" --json | sed -n '/"kind": "\(baseline\|candidate\)"/s/.*"processor_seconds": \([0-9.e+-]*\),.*/\1/p' | awk '{ sum += $1 } END { print sum }')
awk -v all="$(number device_seconds)" -v items="$items" 'BEGIN { exit !(items > 0 && all > items + 0.05) }' ||
    fail "a device time of $(number device_seconds) s has no ancestors beside $items s of items"

# Ancestors: the study begins with the first of its file, and goes on with that file and no other.
first=$(grep -o '"name": "[^"]*"' "$dir/chosen/ancestors.json" | head -n 1 | cut -d'"' -f4)
expect 0 "$first" "$kas" best "$dir/chosen" --json
sed -i 's/"imitation": 0/"imitation": 1/' "$dir/chosen/ancestors.json"
expect 4 'not the kernels that the study was begun with' "$kas" resume "$dir/chosen"
"$kas" dataset make shapes -o "$dir/few.h5" --train 24 --test 24 --size 8 --classes 4 >/dev/null
expect 3 '--legality imitation:0.9 (--ancestors 0 --legality none goes without)' "${open_ended[@]}" --ancestors 30 --dataset "$dir/few.h5" --batch 12 --study "$dir/x"
! grep -q 'kas-gpu score' "$dir/err" || fail "the way out of another command: $(cat "$dir/err")"
expect 3 '--ancestors 30 (0 goes without)' "${open_ended[@]}" --ancestors 30 --legality none --dataset "$dir/few.h5" --batch 12 --study "$dir/x"
expect 6 'allow a larger --latency' "${open_ended[@]}" --ancestors 30 --latency 0.0001 --study "$dir/x"
[ ! -e "$dir/x/study.db" ] || fail "without ancestors there is a study"
rm -rf "$dir/x"
"${open_ended[@]}" --ancestors 100000 --study "$dir/x" >/dev/null 2>"$dir/err" &
pid=$! rc=0
await "scores of ancestors" test -s "$dir/x/ancestors.scores"
kill -TERM $pid
wait $pid || rc=$?
[ $rc = 75 ] && grep -q 'stopped before the first training' "$dir/err" || { cat "$dir/err"; fail "exit code $rc of a search that was stopped early"; }
[ ! -e "$dir/x/study.db" ] || fail "a search that was stopped early left a study"
scored=$(wc -l <"$dir/x/ancestors.scores")
expect 75 'stopped before' "${open_ended[@]}" --ancestors 100000 --until 1000000000 --study "$dir/x"
[ "$(wc -l <"$dir/x/ancestors.scores")" = "$scored" ] || fail "a search that goes on has lost the scores of its ancestors"
# One that died when it had made the store, and had not begun the study yet: the same command begins it, with all that it has.
if command -v sqlite3 >/dev/null; then
    begun=("${open_ended[@]}" --ancestors 30 --study "$dir/begun")
    expect 0 '' "${begun[@]}"
    options=$("$kas" status "$dir/begun" --json | grep -o '"options": .*')
    sqlite3 "$dir/begun/study.db" 'DELETE FROM epoch; DELETE FROM work; DELETE FROM study'
    rm "$dir/begun/ancestors.json" "$dir/begun/machine.json"
    expect 0 '' "${begun[@]}"
    [ "$("$kas" status "$dir/begun" --json | grep -o '"options": .*')" = "$options" ] || fail "begun again with other options than $options"
else
    skip_part "there is no sqlite3 to take a study out of its store"
fi
[ ! -e "$dir/begun/ancestors.scores" ] || fail "scores are left where the ancestors are known"
rm -rf "$dir/x"
expect 0 sampled "${open_ended[@]}" --study "$dir/x" --rungs 2 --asynchronous --dry-run
expect 0 '' "${open_ended[@]}" --study "$dir/x" --space nas-pte --flops 1 --params 2 --dry-run

mkdir "$dir/empty"
expect 3 "--from: $dir/empty: there is no kernel file" "${base[@]}" --study "$dir/x" --from "$dir/empty"
expect 3 "$dir/nowhere" "${base[@]}" --study "$dir/x" --from "$dir/nowhere"
expect 2 'expected one of random, evolution, tree' "${base[@]}" --study "$dir/x" --strategy cleverness
expect 0 'the first rung is after epoch 1 of 6, and the order there says little' "${base[@]}" --study "$dir/x" --epochs 6 --rungs 1 --dry-run
expect 0 '' "${base[@]}" --study "$dir/x" --epochs 6 --rungs 2 --dry-run
! grep -q 'says little' "$dir/err" || fail "a warning without a reason: $(cat "$dir/err")"
expect 2 'rising order' "${base[@]}" --study "$dir/x" --rungs 3,1
expect 2 'the last rung is after 50 epochs, and a candidate is trained for 6' "${base[@]}" --study "$dir/x" --epochs 6 --rungs 1,50
expect 2 '--population and --tournament are options of --strategy evolution' "${base[@]}" --study "$dir/x" --population 5
expect 2 'larger than the population' "${base[@]}" --study "$dir/x" --strategy evolution --rungs none --population 5 --tournament 6
expect 2 '--strategy evolution: only kernels of --space canvas' "${base[@]}" --study "$dir/x" --strategy evolution --rungs none --space nas-pte
expect 2 '--rungs (the study has [1, 2], this command [2])' "${evolve[@]}" --study "$dir/plain" --rungs 2
[ ! -e "$dir/x" ] || fail "a refused command left a study"
expect 0 'known:' "${base[@]}" --study "$dir/x" --strategy evolution --rungs none --dry-run
echo "ok: evolution and rungs"
