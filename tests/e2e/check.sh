#!/usr/bin/env bash
# kas-gpu check and show --source: exit codes, one line for each shape, and text that compiles.
set -eu
trap 'echo "FAILED at line $LINENO"' ERR
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

./kas-gpu check kernels/involution.json --net resnet20 --input 3x8x8 --device cpu >"$folder/out"
[ "$(grep -c ' ok$' "$folder/out")" = 5 ]
grep -Eq '^kernels: 1; comparisons on .*: 5 .* failures: 0$' "$folder/out"
./kas-gpu check --sampled 1 --seed 3 --net resnet20 --input 3x8x8 --device cpu --json >"$folder/json"
[ "$(grep -c '"kind": *"check"' "$folder/json")" = 5 ]
grep -q '"failures": *0' "$folder/json"

code=0
./kas-gpu check 2>/dev/null || code=$?
[ $code = 2 ]
code=0
./kas-gpu check "$folder/out" 2>/dev/null || code=$?
[ $code = 3 ]

for kind in cuda cpu; do
    ./kas-gpu show kernels/involution.json --net resnet20 --source $kind >"$folder/$kind.c"
    grep -q 'KAS_KERNEL(k0_f' "$folder/$kind.c"
done
cc -std=gnu17 -fsyntax-only "$folder/cpu.c"
echo "check: ok"
