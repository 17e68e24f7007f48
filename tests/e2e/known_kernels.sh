#!/usr/bin/env bash
# Every file of kernels/ is right on the CPU device, forward and gradient, and trains: the loss of an epoch is finite.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
kas=${KAS_GPU:-./kas-gpu}
fail() { echo "FAILED: $*"; tail -n 5 "$dir/out" "$dir/err"; exit 1; }

files=(kernels/*.json)
"$kas" check "${files[@]}" --net resnet20 --input 3x8x8 --targets 3x3 --device cpu >"$dir/out" 2>"$dir/err" || fail check
grep -q "^kernels: ${#files[@]}; .* failures: 0$" "$dir/out" || fail "not all were checked"

"$kas" dataset make shapes -o "$dir/s.h5" --train 32 --test 8 --size 8 --classes 2 >"$dir/out"
for file in "${files[@]}"; do
    "$kas" train --net resnet20 --dataset "$dir/s.h5" --device cpu --threads 1 --batch 16 --epochs 1 --lr 0.01 --kernel "$file" --json \
        >"$dir/out" 2>"$dir/err" || fail "$file does not train"
    grep -Eq '"event":"epoch".*"train_loss":[0-9]' "$dir/out" || fail "$file: no finite loss"
done
echo "known_kernels: ok (${#files[@]} kernels)"
