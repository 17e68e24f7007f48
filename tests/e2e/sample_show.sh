#!/usr/bin/env bash
# kas-gpu sample and show: the same seed gives the same kernels, files are read back, exit codes.
set -eu
. tests/e2e/expect.bash

budget="--net resnet20 --flops 0.5 --params 1 --seed 3"
expect 0 '--net resnet18 --count 20' "$kas" sample --help
expect 0 '"kind": "kernel"' "$kas" sample $budget --count 20 --json -o "$dir/k"
cp "$dir/out" "$dir/first"
[ "$(wc -l <"$dir/first")" = 20 ] || fail "20 lines expected"
[ "$(ls "$dir/k" | wc -l)" = 20 ] || fail "20 files expected"
expect 0 '' "$kas" sample $budget --count 20 --json
cmp "$dir/first" "$dir/out" || fail "the same seed gave other kernels"
expect 0 '' "$kas" sample $budget --count 20 --json --seed 4
! cmp -s "$dir/first" "$dir/out" || fail "another seed gave the same kernels"
expect 0 'over budget' "$kas" sample $budget --count 3 --stats
expect 0 'types ' "$kas" sample $budget --count 3 --stats
expect 0 '"primitives": {"5": 4}' "$kas" sample $budget --count 4 --min-primitives 5 --max-primitives 5 --stats --json
expect 2 'require exp' "$kas" sample $budget --require exp --forbid exp
expect 0 'checked again: 200 kernels, 0 illegal, 0 over a budget or limit, 0 for one image size only, 0 with the name of another, 0 the same as' \
    "$kas" sample $budget --count 200 --recheck
expect 0 '"kind": "recheck", "kernels": 5, "illegal": 0' "$kas" sample $budget --count 5 --recheck --json

# Children of a folder, and of one kernel.
expect 0 'checked again: 60 kernels, 0 illegal, 0 over a budget or limit, 0 for one image size only, 0 with the name of another, 0 the same as' \
    "$kas" sample $budget --parents kernels --count 60 --recheck
expect 0 '"change": "insert"' "$kas" sample $budget --parents kernels/residual.json --count 30 --json -o "$dir/children"
cp "$dir/out" "$dir/first_children"
expect 0 '' "$kas" sample $budget --parents kernels/residual.json --count 30 --json
cmp "$dir/first_children" "$dir/out" || fail "the same seed gave other children"
expect 0 'with the name of another' "$kas" sample $budget --parents "$dir/children" --count 30 --recheck
mkdir "$dir/empty"
expect 3 'the folder has no kernel file' "$kas" sample $budget --parents "$dir/empty"
expect 3 'nonesuch' "$kas" sample $budget --parents nonesuch
expect 2 'kernels of either space can be parents' "$kas" sample $budget --parents kernels --space nas-pte
expect 2 'give one of them' "$kas" sample $budget --parents kernels --sequence pte-2

# The space of NAS-PTE, and the sequences that the paper names.
pte="--net resnet18 --input 3x64x64"
expect 0 'checked again: 100 kernels, 0 illegal, 0 over a budget or limit, 0 for one image size only, 0 with the name of another, 0 the same as' \
    "$kas" sample $pte --space nas-pte --count 100 --flops 0.5 --params 1 --recheck
expect 0 '0.375' "$kas" sample $pte --sequence pte-3 -o "$dir/pte"
[ "$(ls "$dir/pte")" = "$("$kas" show kernels/nas_pte_3.json --json | sed 's/.*"name": *"\([0-9a-f]*\)".*/\1/').json" ] ||
    fail "pte-3 is not kernels/nas_pte_3.json"
expect 3 'transformation "blur(2)": expected interchange' "$kas" sample $pte --sequence 'group(2) blur(2)'
expect 3 'a group loop, which numbers outputs and inputs alike' "$kas" sample $pte --sequence 'group(2) group(2)'
expect 0 'G0=4' "$kas" sample $pte --sequence 'group(2) interchange(g,ci) group(2)'
expect 0 '"transformation": "neural"' "$kas" sample $pte --sequence pte-1 --json
grep -q 'the sequence is a neural transformation by step 0, bands_h: a band has weights of its own' "$dir/err" || fail "the dependence is not named"
expect 0 '"transformation": "program"' "$kas" sample $pte --sequence 'split(2) interchange(co,kw)' --json
expect 3 'does not fit resnet20' "$kas" sample --net resnet20 --sequence pte-2
expect 2 'one of canvas, nas-pte' "$kas" sample $pte --space nas
expect 2 'belong to --space canvas' "$kas" sample $pte --space nas-pte --forbid slice
expect 2 'belong to --space canvas' "$kas" sample $pte --space nas-pte --min-primitives 20 --max-primitives 25

for file in "$dir"/k/*.json; do # show reads what sample wrote, and finds the same name, cost and sizes
    name=$(basename "$file" .json)
    expect 0 "\"name\": \"$name\"" "$kas" show "$file" --net resnet20 --flops 0.5 --params 1 --json
    flops=$(sed -n "s/.*\"name\": \"$name\".*\"flops\": \([0-9.e+]*\), \"params\".*/\1/p" "$dir/first")
    grep -qF "\"flops\": $flops," "$dir/out" || fail "$name: other FLOPs than $flops when read back"
done
for file in kernels/*.json; do
    expect 0 'x 32 x 32' "$kas" show "$file" --net resnet18 --flops 2 --params 2
done
expect 0 'mul, LHS repeated C/G0 times' "$kas" show kernels/involution.json
expect 0 'label="LHS"' "$kas" show kernels/involution.json --dot
if command -v dot >/dev/null; then
    dot -Tsvg "$dir/out" -o "$dir/out.svg" || fail "Graphviz refused the picture"
else
    skip_part "no Graphviz: the picture was not drawn"
fi

expect 2 'no network is given' "$kas" sample
expect 2 'in this order' "$kas" sample --net resnet20 --min-primitives 9 --max-primitives 8
expect 2 'no kernel is given' "$kas" show
expect 2 'no such replaced convolution' "$kas" show kernels/conv.json --net resnet20 --layer stem
expect 3 'unknown network' "$kas" show kernels/conv.json --net nonesuch
expect 3 'cannot open' "$kas" show "$dir/none.json"
expect 3 'does not fit' "$kas" show kernels/conv.json --net resnet20 --flops 0.1
expect 6 'no kernel needs so few parameters' "$kas" sample --net resnet20 --params 0.00001
expect 6 'no new kernel' "$kas" sample --net vgg16_bn --flops 1e-7 --attempts 50
echo '{"format": "kas-gpu kernel"}' >"$dir/bad.json"
expect 3 '"version" is missing' "$kas" show "$dir/bad.json"
echo "ok: sample and show"
