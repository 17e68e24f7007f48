#!/usr/bin/env bash
# Do all networks that come with kas-gpu train?  50 steps of each on a few procedural images, five epochs of ten steps:
# the mean loss of the last epoch must be below that of the first.
#   bash bench/train_networks.sh [DEVICE [PATTERN]]      (cpu; networks whose line matches)
set -eu
kas=${KAS_GPU:-./kas-gpu}
device=${1:-cpu}
pattern=${2:-.}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for size in 16 32; do
    "$kas" dataset make shapes -o "$dir/$size.h5" --train 160 --test 10 --size $size --quiet
done
failed=0
while read -r net size; do
    [[ "$net" =~ $pattern ]] || continue
    start=$(date +%s)
    losses=$("$kas" train --net "$net" --dataset "$dir/$size.h5" --test --device "$device" --batch 16 --epochs 5 \
        --lr 0.02 --flip off --crop-pad 0 --json | sed -n 's/.*"train_loss":\([^,}]*\).*/\1/p' | tr '\n' ' ')
    verdict=$(awk '{ print NF == 5 && $5 < $1 ? "falls" : "DOES NOT FALL" }' <<<"$losses")
    printf '%-24s %sx%-4s %-14s %s(%d s)\n' "$net" "$size" "$size" "$verdict" "$losses" $(($(date +%s) - start))
    [ "$verdict" = falls ] || failed=$((failed + 1))
done <<'LIST'
resnet20 32
mobilenet_v2 32
mnasnet1_0 32
regnet_x_800mf 16
densenet169:small=0 32
densenet201:small=0 32
densenet161:small=0 32
resnet18 16
resnet29 16
resnet34 16
resnext29_2x64d 16
vgg16_bn 32
LIST
[ "$failed" = 0 ]
