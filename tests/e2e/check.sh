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
# One shape a kernel, another for the next one, so that five kernels see all five.
./kas-gpu check --sampled 5 --shapes 1 --seed 1 --net resnet20 --input 3x8x8 --device cpu >"$folder/out"
[ "$(grep ' ok$' "$folder/out" | awk '{ print $2 }' | sort -u | wc -l)" = 5 ]
grep -Eq '^screened out.*: [0-9]+ of [0-9]+ sampled$' "$folder/out"

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

# Either order of the two unfolds is the same convolution, by the library or directly: no unfold in memory.
kernel() { # file first second between grouped
    printf '{"format":"kas-gpu kernel","version":1,"nodes":[{"op":"input"},%s{"op":"unfold","in":[%d],"axes":"%s"},{"op":"unfold","in":[%d],"axes":"%s"},{"op":"fc","in":[%d],%s"out":"C"}],"groups":{}}' \
        "$4" $((${#4} > 0)) "$2" $((1 + (${#4} > 0))) "$3" $((2 + (${#4} > 0))) "$5" >"$1"
}
all='{"op":"group_all","in":[0],"dim":0},'
kernel "$folder/hw.json" h w '' ''
kernel "$folder/wh.json" w h '' ''
kernel "$folder/dhw.json" h w "$all" '"grouped":true,'
kernel "$folder/dwh.json" w h "$all" '"grouped":true,'
./kas-gpu check "$folder"/*hw.json "$folder"/*wh.json --net resnet20 --input 3x7x8 --device cpu >"$folder/out"
grep -Eq '^kernels: 4; comparisons on .*: 20 .* failures: 0$' "$folder/out"
count() { ./kas-gpu show "$folder/$1.json" --net resnet20 --source cuda | grep -c '^KAS_KERNEL('; }
[ "$(count hw)" = "$(count wh)" ]
[ "$(count dhw)" = "$(count dwh)" ]
cc -std=gnu17 -fsyntax-only "$folder/cpu.c"
# Rounding decides which of many equal channels is the largest: counted apart, not a failure; and noise is no agreement.
norm='{"op":"norm","in":[0],"dim":2,"dim_end":3},{"op":"softmax","in":[1],"dim":2,"dim_end":3}'
node() { printf '{"format":"kas-gpu kernel","version":1,"nodes":[{"op":"input"},%s],"groups":{}}' "$1"; }
node "$norm"',{"op":"fold_max","in":[2],"dim":0},{"op":"conv","in":[3],"axes":"h","out":"C"}' >"$folder/ties.json"
node '{"op":"softmax","in":[0],"dim":2,"dim_end":3},{"op":"pool_avg","in":[1],"axes":"w","kernel":5},{"op":"norm","in":[2],"dim":0,"dim_end":2},{"op":"norm","in":[3],"dim":0,"dim_end":2},{"op":"fc","in":[4],"out":"C"}' >"$folder/noise.json"
./kas-gpu check "$folder/ties.json" --net resnet18 --input 3x8x8 --seed 1 --device cpu --directions 0 >"$folder/out"
grep -Eq 'ill-conditioned \(float32 rounding alone: [0-9.e-]+\) \(inputs drawn again\)$' "$folder/out"
grep -Eq '^ill-conditioned: [1-9][0-9]* comparisons .* undecided: 0, of 1 kernels$' "$folder/out"
cat >"$folder/net.json" <<'END'
{"format": "kas-gpu network", "version": 1, "name": "one", "layers": [
    {"conv": "stem", "channels": 64, "kernel": 3}, {"conv": "conv", "channels": 64, "kernel": 3},
    {"global_avg_pool": "pool"}, {"linear": "fc", "channels": "classes"}]}
END
code=0
./kas-gpu check "$folder/noise.json" --net "$folder/net.json" --input 3x2x2 --device cpu --directions 0 --json >"$folder/out" 2>"$folder/err" || code=$?
[ $code = 1 ]
grep -q '"undecided": *[1-9]' "$folder/out"
grep -q 'nothing is shown' "$folder/err"
echo "check: ok"
