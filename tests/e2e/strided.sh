#!/usr/bin/env bash
# Kernels that take the stride of the convolution ("stride": "inside"): the device, the reference, training and PyTorch agree.
set -eu
. tests/e2e/expect.bash

inside() { sed 's/"nodes":/"stride": "inside", "nodes":/' "kernels/$1.json" >"$dir/$1.json"; }
for k in conv nas_pte_1 nas_pte_3 depthwise residual; do inside $k; done
net="--net resnet20 --input 3x10x10 --classes 4" # 10, 5 and 3 pixels: a stride of 2 on 5 pixels
expect 0 'failures: 0' "$kas" check "$dir/conv.json" "$dir/nas_pte_3.json" "$dir/depthwise.json" $net --threads 1
expect 0 'failures: 0' "$kas" check "$dir/nas_pte_1.json" --net resnet20 --input 3x8x8 --threads 1
expect 0 'failures: 0' "$kas" check --sampled 2 --space nas-pte $net --threads 1
# A layer with a stride reads another image than one without, so with the stride inside each has a program of its own.
echo '{"format": "kas-gpu network", "version": 1, "name": "two", "layers": [{"conv": "stem", "channels": 16, "kernel": 3},
    {"conv": "down", "channels": 16, "kernel": 3, "stride": 2}, {"conv": "same", "channels": 16, "kernel": 3},
    {"global_avg_pool": "p"}, {"linear": "fc", "channels": "classes"}]}' >"$dir/two.json"
two="--net $dir/two.json --input 3x8x8 --directions 0 --threads 1"
expect 0 ': 2 (' "$kas" check "$dir/depthwise.json" $two
expect 0 ': 1 (' "$kas" check kernels/depthwise.json $two
expect 0 '16 -> 32, strided' "$kas" show "$dir/nas_pte_3.json" $net
expect 0 '16 -> 32, pooled' "$kas" show kernels/nas_pte_3.json $net
expect 3 'with the stride inside, a kernel consists of' "$kas" show "$dir/residual.json"
sed -i 's/"inside"/"outside"/' "$dir/residual.json"
expect 3 'expected "inside" or no such field, found "outside"' "$kas" show "$dir/residual.json"
echo "ok: check, show"

"$kas" dataset make shapes -o "$dir/s.h5" --train 64 --test 16 --size 10 --classes 4 >/dev/null
expect 0 'trained after 1 epoch' "$kas" train --net resnet20 --dataset "$dir/s.h5" --kernel "$dir/nas_pte_3.json" --epochs 1 --batch 16 \
    --device cpu --threads 1 --weights "$dir/w.safetensors"
expect 0 'device: ok' "$kas" export "$dir/nas_pte_3.json" $net --weights "$dir/w.safetensors" -o "$dir/x" --verify
if grep -q 'PyTorch: SKIPPED' "$dir/out"; then skip_part "PyTorch"; else grep -q 'PyTorch: ok' "$dir/out" || fail "PyTorch"; fi
echo "ok: train, export"
