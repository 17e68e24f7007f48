#!/usr/bin/env bash
# The strategy tree: the same list and the same leaderboard with one and with two workers, and when workers and
# supervisors are killed (-9); known kernels and kernels of another study come first; options that cannot be.
set -eu
. tests/e2e/expect.bash
export KAS_CACHE_DIR=${KAS_CACHE_DIR:-$dir/cache}
RANDOM=${KAS_FUZZ_SEED:-1}
"$kas" dataset make shapes -o "$dir/s.h5" --train 300 --test 24 --size 8 --classes 4 >/dev/null
base=("$kas" search --strategy random --objective accuracy --dataset "$dir/s.h5" --net tests/e2e/own_network.json --targets 3x3 --batch 16 --lr 0.005 --seed 1 --threads 1 --device cpu --compile-ahead 0)
tree=("${base[@]}" --epochs 3 --strategy tree --exploration 1 --known no --legality none --generation 4 --rungs 1 --candidates 8)

"${tree[@]}" --study "$dir/plain" >/dev/null 2>"$dir/err" || { cat "$dir/err"; fail "the undisturbed search"; }
grep -qE 'tree: 8 candidates from [0-9]+ attempts; [0-9]+ nodes' "$dir/err" || fail "nothing is said of the tree"
results "$dir/plain" >"$dir/results"
lines() { "$kas" best "$dir/plain" --json | grep -c "$1"; }
[ "$(lines '"kind": "candidate".*"generation": 1.*"origin": "tree"')" = 4 ] || fail "generation 1 does not come from the tree"
[ "$(lines '"state": "not-promoted"')" -ge 4 ] || fail "too few ended at a rung"

same_when_disturbed "${tree[@]}"

# Kernels of another study come first, and the tree learns from them.
finished=$(lines '"kind": "candidate".*"state": "finished"')
expect 0 'tree: 1 candidates' "${base[@]}" --epochs 1 --strategy tree --rungs none --known no --legality none --generation "$finished" --candidates $((finished + 1)) --study "$dir/next" --from "$dir/plain"
[ "$("$kas" best "$dir/next" --json | grep -c '"kind": "candidate".*"generation": 0.*"origin": "from:')" = "$finished" ] || fail "the kernels of the other study are not generation 0"
[ "$("$kas" best "$dir/next" --json | grep -c '"kind": "candidate".*"generation": 1.*"origin": "tree"')" = 1 ] || fail "generation 1 does not come from the tree"
expect 0 'known:' "${base[@]}" --study "$dir/x" --strategy tree --rungs none --dry-run
expect 0 '' "$kas" report "$dir/plain" -o "$dir/report.html"
grep -q -- '--exploration=1' "$dir/report.html" || fail "the report's command has another exploration"

expect 2 '--exploration is an option of --strategy tree' "${base[@]}" --study "$dir/x" --exploration 2
expect 2 '--population and --tournament are options of --strategy evolution' "${base[@]}" --study "$dir/x" --strategy tree --rungs none --tournament 2
expect 2 '--strategy tree: only kernels of --space canvas' "${base[@]}" --study "$dir/x" --strategy tree --rungs none --space nas-pte
expect 2 '--exploration (the study has 1, this command 2)' "${tree[@]}" --study "$dir/plain" --exploration 2
[ ! -e "$dir/x" ] || fail "a refused command left a study"
echo "ok: tree"
