#!/usr/bin/env bash
# Every file of kernels/ is right on the CPU device, forward and gradient, and trains: the loss of an epoch is finite.
set -eu
. tests/e2e/expect.bash
fail() { echo "FAILED: $*"; tail -n 5 "$dir/out" "$dir/err"; exit 1; }

files=(kernels/*.json)
# One block a stage, and half more channels: sequence 2 of NAS-PTE needs more than the 16 that resnet20 begins with.
sed 's/\<16\>/24/g; s/\<32\>/48/g; s/\<64\>/96/g; s/n = 3/n = 1/' networks/resnet20.json >"$dir/net.json"
"$kas" check "${files[@]}" --net "$dir/net.json" --input 3x8x8 --targets 3x3 --device cpu >"$dir/out" 2>"$dir/err" || fail check
grep -q "^kernels: ${#files[@]}; .* failures: 0$" "$dir/out" || fail "not all were checked"

quick_compiler
"$kas" dataset make shapes -o "$dir/s.h5" --train 64 --test 8 --size 8 --classes 2 >"$dir/out"
for file in "${files[@]}"; do
    "$kas" train --net "$dir/net.json" --dataset "$dir/s.h5" --device cpu --threads 1 --batch 8 --epochs 1 --lr 0.01 --kernel "$file" --json \
        >"$dir/out" 2>"$dir/err" || fail "$file does not train"
    grep -Eq '"event":"epoch".*"train_loss":[0-9]' "$dir/out" || fail "$file: no finite loss"
done
echo "ok: ${#files[@]} kernels are right and train"
