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
"$kas" dataset make shapes -o "$dir/shapes.h5" --train 160 --test 10 --size 32 --quiet
failed=0
while read -r net; do
    [[ "$net" =~ $pattern ]] || continue
    start=$(date +%s)
    losses=$("$kas" train --net "$net" --dataset "$dir/shapes.h5" --test --device "$device" --batch 16 --epochs 5 \
        --lr 0.02 --flip off --crop-pad 0 --json | sed -n 's/.*"train_loss":\([^,}]*\).*/\1/p' | tr '\n' ' ')
    verdict=$(awk '{ print NF == 5 && $5 < $1 ? "falls" : "DOES NOT FALL" }' <<<"$losses")
    printf '%-24s %-14s %s (%d s)\n' "$net" "$verdict" "$losses" $(($(date +%s) - start))
    [ "$verdict" = falls ] || failed=$((failed + 1))
done <<'LIST'
resnet20
resnet18
resnet29
resnet34
vgg16_bn
densenet161:small=0
densenet169:small=0
densenet201:small=0
mobilenet_v2
resnext29_2x64d
regnet_x_800mf
mnasnet1_0
LIST
[ "$failed" = 0 ]
