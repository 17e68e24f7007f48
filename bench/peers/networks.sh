#!/usr/bin/env bash
# Every network that comes with kas-gpu beside PyTorch (network_step.py): forward pass and every gradient from the same
# weights, with the stem for small images and with ImageNet's. Images are small, so that each takes less than a minute.
#   bash bench/peers/networks.sh [PATTERN]      networks whose line matches; needs a python3 with torch
set -u
build=${KAS_BUILD:-build}
pattern=${1:-.}
make -s BUILD="$build" "$build/bench/step_dump" || exit 1
python=/usr/bin/python3
"$python" -c 'import torch' 2>/dev/null || python=python3
failed=0
while read -r net input batch; do
    [[ "$net $input" =~ $pattern ]] || continue
    echo "== $net $input"
    "$python" bench/peers/network_step.py --dump "$build/bench/step_dump" --net "$net" --input "$input" --batch "$batch" \
        --runs 1 --steps 2 || failed=$((failed + 1))
done <<'LIST'
resnet20 3x32x32 4
resnet18:small=1 3x16x16 4
resnet18:small=0 3x64x64 4
resnet29 3x16x16 4
resnet34:small=1 3x16x16 4
resnet34:small=0 3x64x64 4
vgg16_bn:small=1 3x32x32 4
densenet161:small=1 3x8x8 8
densenet161:small=0 3x48x48 4
densenet169:small=0 3x48x48 4
densenet201:small=0 3x48x48 4
mobilenet_v2:small=1 3x16x16 8
mobilenet_v2:small=0 3x64x64 4
resnext29_2x64d 3x8x8 4
regnet_x_800mf:small=1 3x16x16 4
regnet_x_800mf:small=0 3x64x64 4
mnasnet1_0:small=1 3x16x16 8
mnasnet1_0:small=0 3x64x64 4
LIST
echo "$failed networks failed"
[ "$failed" = 0 ]
