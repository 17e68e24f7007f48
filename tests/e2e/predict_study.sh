#!/usr/bin/env bash
# bench/studies/predict.sh stands disturbances: a line beside which the unmodified network was slow is measured again and
# does not count. The lines are made up; nothing is timed, and one kernel compiled.
set -eu
. tests/e2e/expect.bash
study=${KAS_BUILD:-build}/bench/predict_times
[ -x "$study" ] || fail "$study is not there: make"
times=$dir/times.jsonl

put() { # kernel unmodified-seconds ratio file
    python3 - "$@" >>"$times" <<'END'
import json, sys
name, unmodified, ratio, path = sys.argv[1:]
text = open(path).read() if path != "-" else ""
print(json.dumps({"kind": "predict_time", "source": "known" if text else "unmodified", "kernel": name, "net": "resnet20",
                  "input": "3x8x8", "batch": 2, "seconds": 1, "unmodified_seconds": float(unmodified),
                  "ratio": float(ratio), "launches": [], "text": text}))
END
}
left() { expect 0 "$1" "$study" resnet20 3x8x8 2 cpu 1 5 0 "$times"; }

put unmodified 0.0100 1 -
put aaaa 0.0104 0.5 kernels/conv.json
put bbbb 0.0120 9 kernels/group_conv.json
left '0 measured; for the next call: 1 disturbed, 1 left'
expect 0 '1 kernels were disturbed' python3 bench/studies/predict.py "$kas" cpu "$times"
expect 0 '| known | 1 |' python3 bench/studies/predict.py "$kas" cpu "$times"
expect 0 '| known | 2 |' python3 bench/studies/predict.py "$kas" cpu "$times" --disturbed
put bbbb 0.0101 0.3 kernels/group_conv.json
put aaaa 0.0300 7 kernels/conv.json # the quiet line stays
left ': 0 disturbed, 1 left'
expect 0 '| aaaa | known | 0.50 |' python3 bench/studies/predict.py "$kas" cpu "$times"
expect 0 '| bbbb | known | 0.30 |' python3 bench/studies/predict.py "$kas" cpu "$times"
# A fit needs the times of all launches.
fit=${study%/*}/predict_fit
[ -x "$fit" ] || fail "$fit is not there: make"
expect 1 'measured 0 launches' "$fit" cpu "$dir/m.json" "$times"
put cccc 0.0050 1 kernels/conv.json # all that was there before was slow
left ': 3 disturbed, 2 left'

# Kernels are compiled ahead: nothing is timed, and no line is written.
KAS_CACHE_DIR=$dir/cache expect 0 '2 compiled; for the next call: 0 disturbed, 0 left' "$study" resnet20 3x8x8 2 cpu 1 5 compile "$dir/none.jsonl"
[ ! -s "$dir/none.jsonl" ] || fail "lines of a call that only compiles"
[ -d "$dir/cache/jit" ] || fail "nothing was compiled"
echo "ok: disturbed lines are found, and measured again"
