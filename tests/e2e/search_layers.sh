#!/usr/bin/env bash
# NAS-PTE's space with a sequence for each layer on the command line: drawn, checked again, searched, exported.
set -eu
. tests/e2e/expect.bash

pte=(--net resnet20 --input 3x32x32 --space nas-pte --flops 0.5 --params 1)
expect 0 'checked again: 20 kernels, 0 illegal, 0 over a budget or limit, 0 for one image size only, 0 with the name of another, 0 the same as another' \
    "$kas" sample "${pte[@]}" --count 20 --recheck -o "$dir/pte"
[ "$(ls "$dir/pte" | wc -l)" = 20 ] || fail "not a file for each sample"
file=$(ls "$dir"/pte/*.json | head -n 1)
expect 0 "\"name\": \"$(basename "$file" .json)\"" "$kas" show "$file" --json
expect 0 '"kernel": {"format": "kas-gpu layers"' "$kas" sample "${pte[@]}" --count 1 --json
expect 0 '"kernel": {"format": "kas-gpu kernel"' "$kas" sample "${pte[@]}" --count 1 --json --per-layer no
expect 2 'only --space nas-pte chooses for each layer' "$kas" sample --net resnet20 --per-layer yes
expect 0 'kernels: 2; comparisons on' "$kas" check --sampled 2 --space nas-pte --net resnet20 --input 3x8x8 --device cpu --threads 1
grep -q 'failures: 0' "$dir/out" || fail "check --sampled"
echo "ok: sample, show, check"

"$kas" dataset make shapes -o "$dir/s.h5" --train 64 --test 16 --size 8 --classes 4 >/dev/null
search=("$kas" search --strategy random --objective accuracy --dataset "$dir/s.h5" --net tests/e2e/own_network.json --targets 3x3 --space nas-pte --flops 1 --params 2
    --candidates 2 --epochs 1 --batch 16 --device cpu --threads 1 --prune none --study "$dir/a")
names() { sed -n 's/.*"kind": "candidate".*"kernel": "\([0-9a-f]*\)".*/\1/p' "$dir/out" | sort; }
expect 0 '"kind": "candidate"' "${search[@]}" --workers 2 --dry-run --json
planned=$(names)
expect 0 'test set, after training on the whole training set' "${search[@]}" --workers 1
expect 0 '"kind": "candidate"' "$kas" best "$dir/a" --json
[ -n "$planned" ] && [ "$(names)" = "$planned" ] || fail "other candidates than planned with more workers: $planned; $(names)"
grep -q '"format": "kas-gpu layers"' "$dir/a/best/kernel.json" || fail "the winner is no file of layers"
expect 2 '--per-layer (the study has "yes"' "${search[@]}" --per-layer no
expect 0 '' "${search[@]}" --per-layer yes
expect 0 "README.md" "$kas" export "$dir/a" -o "$dir/x"
cmp "$dir/a/best/kernel.json" "$dir/x/kernel.json" || fail "the kernels that are exported"
expect 0 'of the FLOPs' "$kas" train --net tests/e2e/own_network.json --targets 3x3 --dataset "$dir/s.h5" --device cpu \
    --threads 1 --batch 16 --kernel "$dir/x/kernel.json" --dry-run
echo "ok: search, best, export"
