#!/usr/bin/env bash
# Study: a search on CIFAR-100 in two commands, one that explores with a cheap verdict and one that trains the best of it.
#
#   bench/studies/campaign.sh WORK CIFAR100 [MINUTES]
#
# CIFAR100 is the folder of the official binary files. All 50,000 images, at 16x16; ResNet-20.
#
#   WORK/explore  evolution of 200 candidates with a predicted latency of at most 0.68 of the unmodified network's (--latency 0.34:
#                 the margin of a machine that was not calibrated is 2). The verdict is one epoch behind an imitation of the
#                 trained network's convolutions, which ranks like six epochs at a sixth of their cost (results/*ranks.md); a
#                 candidate that misses 70% of their variance is not trained. No finalists.
#   WORK/answer   its best 27 candidates, trained from random weights like the unmodified network: all for 6 epochs, a third for
#                 20, three for 60. Two finalists and the unmodified network then see all images, with three seeds.
#
# A part ends after MINUTES (default 55) with exit code 75, and the same command goes on. Both searches have one worker of one thread.
set -eu
cd "$(dirname "$0")/../.."
[ $# -ge 2 ] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 2; }
work=$1 data=$2 end=$(($(date +%s) + 60 * ${3:-55}))
kas=${KAS_GPU:-build/kas-gpu}
images=$work/cifar100-16.h5
mkdir -p "$work"
[ -f "$images" ] || "$kas" dataset import cifar100 "$data" -o "$images" --resize 16
search() { "$kas" search --dataset "$images" --net resnet20 --seed 1 --batch 128 --lr 0.2 --device cpu --workers 1 --threads 1 --until "$end" "$@"; }

search --study "$work/explore" --strategy evolution --candidates 200 --population 40 --generation 10 --imitate 1 --most-missed 0.7 \
    --objective accuracy --latency 0.34 --keep-slower --flops 1 --epochs 12 --finalists 0
search --study "$work/answer" --from "$work/explore" --candidates 27 --rungs 6,20 --epochs 60 --latency 0.667 --keep-slower --flops 1 \
    --max-loss 1.0 --objective frontier --finalists 2 --seeds 3
