#!/usr/bin/env bash
# bench/gpu.sh with stand-ins for the programs that it runs: a failure, a hang and a lack of time are told apart, none of
# them stops what comes after, and a second call runs only what is left.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; [ ! -f "$work/out/summary.txt" ] || cat "$work/out/summary.txt"; exit 1; }

mkdir "$work/build"
cat >"$work/build/kas-gpu" <<'END'
#!/bin/sh
echo "{\"ran\": \"$*\"}"
case "$*" in
*"bench layers"*) echo "no layers today" >&2; [ -f "${0%/*}/mended" ] || exit 5 ;;
*"bench jit"*) [ -f "${0%/*}/mended" ] || sleep 600 ;;
esac
END
chmod +x "$work/build/kas-gpu"
run() { BUILD=$work/build KAS_NO_INSTALL=1 bench/gpu.sh -o "$work/out" --small --device cpu "$@" >"$work/said" 2>&1; }
state() { grep -q "^$1 *$2" "$work/out/summary.txt" || fail "$1 is not $2"; }

run -s 6 bench && fail "a call with failures ended well"
run -t 1 train && fail "a call without time ended well"
state bench-step.json ok
state bench-layers.json "failed (5)"
state bench-jit.json "timed out"
state train/shapes "no time"
grep -q '"ran": "bench step --device cpu --json' "$work/out/bench-step.json" || fail "the lines are not in the file"
grep -q 'no layers today' "$work/out/log/bench-layers.log" || fail "the message is not in the log"
grep -q '2 failed, 0 skipped, 2 left' "$work/out/summary.txt" || fail "the sum is wrong"

touch "$work/build/mended"
run bench train || fail "nothing fails any more, and the call did"
grep -q 'bench-step.json *ok before' "$work/said" || fail "what was ok has run again"
for step in bench-layers.json bench-jit.json train.json; do state $step ok; done
grep -q ' 0 failed, 0 skipped, 0 left' "$work/out/summary.txt" || fail "the sum is wrong"

for wrong in "" "no-such-part" "-t soon bench" "--dataset $work/none.h5 train" "bench -o"; do
    # shellcheck disable=SC2086 # words
    bench/gpu.sh $wrong >"$work/said" 2>&1 && fail "\"$wrong\" was taken"
done
echo ok
