#!/usr/bin/env bash
# Every network that comes with kas-gpu beside PyTorch (network_step.py): forward pass and every gradient from the same
# weights, with the stem for small images and with ImageNet's. Images are small, the reference's smallest: it is naive.
# The device's may not be: a batch norm over few values in float32 is off by much, PyTorch's as well.
#   bash bench/peers/networks.sh [PATTERN [reference|device]]      networks whose name matches; needs a python3 with torch
set -u
build=${KAS_BUILD:-build}
pattern=${1:-.}
parts=${2:-reference device}
make -s BUILD="$build" "$build/bench/step_dump" || exit 1
python=/usr/bin/python3
"$python" -c 'import torch' 2>/dev/null || python=python3
failed=0
while read -r net reference batch device device_batch; do
    [[ "$net" =~ $pattern ]] || continue
    echo "== $net"
    compare() {
        "$python" bench/peers/network_step.py --dump "$build/bench/step_dump" --net "$net" "$@" || failed=$((failed + 1))
    }
    [[ "$parts" =~ reference ]] && compare --part reference --input "$reference" --batch "$batch" --runs 1
    [[ "$parts" =~ device ]] && compare --part device --input "$device" --batch "$device_batch" --steps 2
done <<'LIST'
resnet20 3x32x32 4 3x32x32 8
resnet18:small=1 3x16x16 4 3x32x32 8
resnet18:small=0 3x64x64 2 3x64x64 16
resnet29 3x8x8 4 3x32x32 8
resnet34:small=1 3x8x8 4 3x16x16 4
resnet34:small=0 3x64x64 2 3x64x64 16
vgg16_bn:small=1 3x32x32 4 3x32x32 16
densenet161:small=1 3x8x8 4 3x16x16 8
densenet161:small=0 3x32x32 4 3x64x64 16
densenet169:small=0 3x32x32 4 3x64x64 16
densenet201:small=0 3x32x32 4 3x64x64 16
mobilenet_v2:small=1 3x16x16 4 3x32x32 16
mobilenet_v2:small=0 3x64x64 4 3x64x64 16
resnext29_2x64d 3x8x8 4 3x32x32 8
regnet_x_800mf:small=1 3x16x16 2 3x32x32 8
regnet_x_800mf:small=0 3x64x64 2 3x64x64 16
mnasnet1_0:small=1 3x16x16 4 3x32x32 16
mnasnet1_0:small=0 3x64x64 4 3x64x64 16
LIST
echo "$failed comparisons failed"
[ "$failed" = 0 ]
