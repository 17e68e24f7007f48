#!/usr/bin/env bash
# kas-gpu check and show --source: exit codes, one line for each shape, and text that compiles.
set -eu
. tests/e2e/expect.bash
trap 'echo "FAILED at line $LINENO"' ERR

"$kas" check kernels/involution.json --net resnet20 --input 3x8x8 --device cpu >"$dir/out"
[ "$(grep -c ' ok$' "$dir/out")" = 5 ]
grep -Eq '^kernels: 1; comparisons on .*: 5 .* failures: 0$' "$dir/out"
# The code for CPUs, in whatever pieces the device cuts the batch.
"$kas" check kernels/involution.json --net resnet20 --input 3x8x8 --device cpu --source cpu --directions 0 >"$dir/own"
[ "$(grep -c ' ok$' "$dir/own")" = 5 ]
grep -q ' of the code for CPUs: 5 ' "$dir/own"
grep -q 'reference against finite differences [0-9]' "$dir/out"
[ "$(grep -c 'finite differences' "$dir/own")" = 0 ] # nobody has computed them
[ "$(grep -c ' of the code for CPUs' "$dir/out")" = 0 ]
"$kas" check --sampled 1 --seed 3 --net resnet20 --input 3x8x8 --device cpu --json >"$dir/json"
[ "$(grep -c '"kind": *"check"' "$dir/json")" = 5 ]
grep -q '"failures": *0' "$dir/json"
# One shape a kernel, another for the next one, so that five kernels see all five.
"$kas" check --sampled 5 --shapes 1 --seed 4 --net resnet20 --input 3x8x8 --device cpu >"$dir/out"
[ "$(grep ' ok$' "$dir/out" | awk '{ print $2 }' | sort -u | wc -l)" = 5 ]
grep -Eq '^screened out.*: [0-9]+ of [0-9]+ sampled kernels$' "$dir/out"

# Of several files, one that does not fit is left out.
check="$kas check --net resnet20 --input 3x8x8 --device cpu --directions 0"
expect 0 'left out: kernels/nas_pte_2.json' $check kernels/nas_pte_2.json kernels/depthwise.json
grep -q '^kernels: 1; .* failures: 0$' "$dir/out"
grep -q '^left out, because they do not fit resnet20: 1 of 2 files$' "$dir/out" || fail "not counted: $(cat "$dir/out")"
expect 3 'a kernel does not fit resnet20' $check kernels/nas_pte_2.json
sed 's/"G0": 4/"G0": 7/' kernels/group_conv.json >"$dir/seven.json"
expect 3 'none fits resnet20' $check kernels/nas_pte_2.json "$dir/seven.json"
expect 0 '"left_out": 2,' $check kernels/nas_pte_2.json "$dir/seven.json" --sampled 1 --seed 3 --shapes 1 --json

code=0
"$kas" check 2>/dev/null || code=$?
[ $code = 2 ]
code=0
"$kas" check "$dir/out" 2>/dev/null || code=$?
[ $code = 3 ]
code=0
"$kas" check kernels/involution.json --net resnet20 --schedule "$dir/out" --source cpu 2>/dev/null || code=$?
[ $code = 2 ]

# Schedules: what is printed can be prescribed; a step more is taken, changes no value and may change bits; mistakes name
# their line.
scheduled() { "$kas" check kernels/involution.json --net resnet20 --input 3x8x8 --device cpu --directions 0 --schedule "$1"; }
"$kas" show kernels/involution.json --net resnet20 --input 3x8x8 --layer layer2.0.conv1 --schedule cpu --batch 2 >"$dir/s.txt"
grep -q '^layer layer2.0.conv1$' "$dir/s.txt"
scheduled "$dir/s.txt" >"$dir/out"
grep -q ' layer2.0.conv1 .* ok, bits as by the default schedules$' "$dir/out"
# The file says for which images it is.
"$kas" check kernels/involution.json --net resnet20 --device cpu --directions 0 --schedule "$dir/s.txt" >"$dir/out"
grep -q ' layer2.0.conv1 .* 4x4 .* ok, bits as by the default schedules$' "$dir/out" || fail "other images: $(cat "$dir/out")"
code=0
"$kas" check kernels/involution.json --net resnet20 --input 3x16x16 --device cpu --directions 0 --schedule "$dir/s.txt" 2>"$dir/err" || code=$?
[ $code = 2 ] && grep -q -- '--input 3x16x16: .*s.txt is for 3x8x8' "$dir/err" || fail "another input: $(cat "$dir/err")"
# Without that line the images are small, and a schedule for others fails with a hint.
"$kas" show kernels/involution.json --net resnet20 --input 3x32x32 --layer layer2.0.conv1 --schedule cpu --batch 2 | sed '/^input /d' >"$dir/large.txt"
expect 3 'the file has no line input; give --input if its images are not 3x16x16: ' "$kas" check kernels/involution.json --net resnet20 --device cpu --directions 0 --schedule "$dir/large.txt"
# The summary has the numbers and the device of the schedule, not those of the command.
"$kas" show kernels/involution.json --net resnet20 --input 3x8x8 --layer layer2.0.conv1 --schedule cpu --precision bf16 --batch 2 >"$dir/bf16.txt"
scheduled "$dir/bf16.txt" >"$dir/out"
grep -q 'of the code for CPUs' "$dir/out" && grep -q 'forward .* (tolerance 2e-02)' "$dir/out" || fail "bf16: $(tail -n 3 "$dir/out")"
printf '%s\n' 'layer layer1.0.conv1' 'device cpu' 'batch 2' 'kernel f3 # a window' 'lane c0' 'serial n' 'serial h' 'block w x' >"$dir/own.txt"
scheduled "$dir/own.txt" >"$dir/out"
grep -q ' ok, bits ' "$dir/out"
refused() { # step message
    code=0
    { cat "$dir/own.txt" && echo "$1"; } >"$dir/bad.txt"
    scheduled "$dir/bad.txt" >"$dir/out" 2>"$dir/err" || code=$?
    [ $code != 0 ] && [ $code -lt 100 ]
    grep -q "$2" "$dir/err"
}
refused 'block r0 y' 'bad.txt:9: block r0 y: illegal: dependence S2 -> S2'
refused 'block q y' 'bad.txt:9: found "q"; the loops here are'
refused 'kernel f77' 'bad.txt:9: found kernel "f77"'
"$kas" show kernels/squeeze_excite.json --net resnet20 --input 3x8x8 --schedule cuda >"$dir/split" # a gradient in two launches
grep -q '^# loops: d0 4, d1 64, d6 16; reductions: r0 2, r1 8; parts of a sum: d0$' "$dir/split"

for kind in cuda cpu; do
    "$kas" show kernels/involution.json --net resnet20 --source $kind >"$dir/$kind.c"
    grep -q 'KAS_KERNEL(k0_f' "$dir/$kind.c"
done

# Either order of the two unfolds is the same convolution, by the library or directly: no unfold in memory.
kernel() { # file first second between grouped
    printf '{"format":"kas-gpu kernel","version":1,"nodes":[{"op":"input"},%s{"op":"unfold","in":[%d],"axes":"%s"},{"op":"unfold","in":[%d],"axes":"%s"},{"op":"fc","in":[%d],%s"out":"C"}],"groups":{}}' \
        "$4" $((${#4} > 0)) "$2" $((1 + (${#4} > 0))) "$3" $((2 + (${#4} > 0))) "$5" >"$1"
}
all='{"op":"group_all","in":[0],"dim":0},'
kernel "$dir/hw.json" h w '' ''
kernel "$dir/wh.json" w h '' ''
kernel "$dir/dhw.json" h w "$all" '"grouped":true,'
kernel "$dir/dwh.json" w h "$all" '"grouped":true,'
"$kas" check "$dir"/*hw.json "$dir"/*wh.json --net resnet20 --input 3x7x8 --device cpu >"$dir/out"
grep -Eq '^kernels: 4; comparisons on .*: 20 .* failures: 0$' "$dir/out"
count() { "$kas" show "$dir/$1.json" --net resnet20 --source cuda | grep -c '^KAS_KERNEL('; }
[ "$(count hw)" = "$(count wh)" ]
[ "$(count dhw)" = "$(count dwh)" ]
cc -std=gnu17 -fsyntax-only "$dir/cpu.c"
# Rounding decides which of many equal channels is the largest: counted apart, not a failure; and noise is no agreement.
norm='{"op":"norm","in":[0],"dim":2,"dim_end":3},{"op":"softmax","in":[1],"dim":2,"dim_end":3}'
node() { printf '{"format":"kas-gpu kernel","version":1,"nodes":[{"op":"input"},%s],"groups":{}}' "$1"; }
node "$norm"',{"op":"fold_max","in":[2],"dim":0},{"op":"conv","in":[3],"axes":"h","out":"C"}' >"$dir/ties.json"
node '{"op":"softmax","in":[0],"dim":2,"dim_end":3},{"op":"pool_avg","in":[1],"axes":"w","kernel":5},{"op":"norm","in":[2],"dim":0,"dim_end":2},{"op":"norm","in":[3],"dim":0,"dim_end":2},{"op":"fc","in":[4],"out":"C"}' >"$dir/noise.json"
"$kas" check "$dir/ties.json" --net resnet18 --input 3x8x8 --seed 1 --device cpu --directions 0 >"$dir/out"
grep -Eq 'ill-conditioned \(float32 rounding alone: [0-9.e-]+\) \(inputs drawn again\)$' "$dir/out"
grep -Eq '^ill-conditioned: [1-9][0-9]* comparisons .* undecided: 0, of 1 kernels$' "$dir/out"
cat >"$dir/net.json" <<'END'
{"format": "kas-gpu network", "version": 1, "name": "one", "layers": [
    {"conv": "stem", "channels": 64, "kernel": 3}, {"conv": "conv", "channels": 64, "kernel": 3},
    {"global_avg_pool": "pool"}, {"linear": "fc", "channels": "classes"}]}
END
code=0
"$kas" check "$dir/noise.json" --net "$dir/net.json" --input 3x2x2 --device cpu --directions 0 --json >"$dir/out" 2>"$dir/err" || code=$?
[ $code = 1 ]
grep -q '"undecided": *[1-9]' "$dir/out"
grep -q 'the check proves nothing' "$dir/err"
echo "ok: check and show --source"
