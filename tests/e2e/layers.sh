#!/usr/bin/env bash
# A file of layers in every command that takes a kernel file: shown, checked, trained, timed, exported; and refused where
# it does not fit.
set -eu
. tests/e2e/expect.bash
file=tests/e2e/layers.json

expect 0 '2 kernels for 16 layers; 2 convolutions stay' "$kas" show $file
expect 0 'in place of 16 of 18 convolutions' "$kas" show $file --net resnet20
expect 0 '"layer1.1.conv1": null' "$kas" show $file --json
expect 0 'with this kernel in place of 8 convolutions' "$kas" show $file --net resnet20 --layer layer1.0.conv2
expect 0 'k0_' "$kas" show $file --net resnet20 --layer layer1.0.conv2 --source cuda
expect 2 'leaves this convolution as it is' "$kas" show $file --net resnet20 --layer layer1.1.conv1
expect 2 'say of which --layer' "$kas" show $file --dot
echo "ok: show"

# Its name is that of what it says, not of how it says it.
tr -d ' \n' <$file >"$dir/short.json" && sed -i 's/kas-gpukernel/kas-gpu kernel/g; s/kas-gpulayers/kas-gpu layers/' "$dir/short.json"
name() { "$kas" show "$@" --json | grep -o '"name": "[0-9a-f]*"' | head -n 1; }
[ "$(name $file)" = "$(name "$dir/short.json")" ] || fail "another layout has another name"
sed 's/"layer1.0.conv1": 0/"layer1.0.conv1": 1/' $file >"$dir/other.json"
[ "$(name $file)" != "$(name "$dir/other.json")" ] || fail "another assignment has the same name"
echo "ok: names"

# Refusals say which file, which layer, and what was expected.
expect 3 'layers.json does not fit resnet18: layer "layer1.2.conv1"' "$kas" show $file --net resnet18
grep -v '"layer2.1.conv2"' $file >"$dir/missing.json"
expect 3 'missing.json does not fit resnet20: layer "layer2.1.conv2" is missing; expected the number of its kernel, or null' \
    "$kas" show "$dir/missing.json" --net resnet20
sed 's/"G0": 4/"G0": 5/' $file >"$dir/misfit.json"
expect 3 'misfit.json does not fit resnet20: kernel 1: ' "$kas" show "$dir/misfit.json" --net resnet20
grep -q 'not an integer at layer1.0.conv2' "$dir/err" || fail "the layer is not named"
sed 's/"layer2.1.conv2": 1/"layer2.1.conv2": 2/' $file >"$dir/number.json"
expect 3 'number.json: layer "layer2.1.conv2": expected the number of one of the 2 kernels' "$kas" show "$dir/number.json"
echo "ok: refusals"

expect 0 'kernels: 2; comparisons on' "$kas" check $file --net resnet20 --input 3x8x8 --device cpu --threads 1
grep -q 'failures: 0' "$dir/out" || fail "check"

expect 0 'images' "$kas" dataset make shapes -o "$dir/s.h5" --train 64 --test 16 --size 8 --classes 4
train() { "$kas" train --net resnet20 --dataset "$dir/s.h5" --device cpu --threads 1 --batch 16 --kernel "$@"; }
expect 0 'kernel: 29.2% of the FLOPs' train $file --dry-run
expect 0 'trained after 1 epoch' train $file --epochs 1 --weights "$dir/w.safetensors"
expect 3 'missing.json: layer "layer2.1.conv2" is missing' train "$dir/missing.json" --dry-run
expect 3 'other.json: kernels of fixed size and kept convolutions need' train "$dir/other.json" --dry-run --flops 0.2
echo "ok: train"

expect 0 "$(name $file | grep -o '[0-9a-f]\{16\}')" "$kas" bench step --net resnet20 --kernel $file --device cpu --threads 1 --batch 4 --repeats 2

expect 0 'device: ok' "$kas" export $file -o "$dir/x" --net resnet20 --input 3x8x8 --classes 4 --device cpu \
    --weights "$dir/w.safetensors" --verify
grep -q 'conv1=Kernel0(' "$dir/x/network.py" && grep -q 'conv2=Kernel1(' "$dir/x/network.py" || fail "network.py"
grep -q 'nn.Conv2d(16, 16' "$dir/x/network.py" || fail "a kept convolution"
cmp $file "$dir/x/kernel.json" || fail "kernel.json is not the file"
"$kas" export kernels/conv.json -o "$dir/x" --net resnet20 --input 3x8x8 --quiet >/dev/null
[ -e "$dir/x/kernel.py" ] && [ ! -e "$dir/x/kernel0.py" ] && [ ! -e "$dir/x/kernel1.dot" ] || fail "files of an earlier export"
echo "ok: export"
