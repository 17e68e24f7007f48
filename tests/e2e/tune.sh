#!/usr/bin/env bash
# kas-gpu tune: a line for each generated launch, and a file of schedules that changes no value.
set -eu
. tests/e2e/expect.bash
trap 'echo "FAILED at line $LINENO"' ERR

tune() { "$kas" tune kernels/involution.json --net resnet20 --input 3x8x8 --device cpu --threads 1 --batch 2 --trials 8 "$@"; }
tune --layer layer2.0.conv1 --json -o "$dir/s.txt" >"$dir/json"
for launch in f1 f3 b0 b1 b4 b7; do # the others are the library's
    grep -q "\"kind\": *\"tuned\".*\"layer\": *\"layer2.0.conv1\".*\"kernel\": *\"$launch\"" "$dir/json"
done
[ "$(wc -l <"$dir/json")" = 6 ]
[ "$(grep -c '"kept": *true' "$dir/json")" = "$(grep -c '^kernel ' "$dir/s.txt")" ]
[ "$(sed -n '1,3p' "$dir/s.txt" | tr '\n' ' ')" = 'layer layer2.0.conv1 device cpu batch 2 ' ]
"$kas" check kernels/involution.json --net resnet20 --input 3x8x8 --device cpu --directions 0 --schedule "$dir/s.txt" >"$dir/out"
grep -q ' layer2.0.conv1 .* ok, bits ' "$dir/out"

code=0
tune --layer nowhere >"$dir/out" 2>"$dir/err" || code=$?
[ $code = 2 ]
grep -q -- '--layer nowhere: no such replaced convolution' "$dir/err"
code=0
"$kas" tune kernels/involution.json 2>"$dir/err" || code=$?
[ $code = 2 ]
echo "ok: tune"
