#!/usr/bin/env bash
# A small real search, start to end, on whatever device there is: `make demo`.  Under 5 minutes on 2 cores,
# no download.  What it leaves lies in build/demo (KAS_DEMO_DIR chooses another folder).
set -eu
cd "$(dirname "$0")/.."
kas=${KAS_GPU:-./kas-gpu}
out=${KAS_DEMO_DIR:-build/demo}
study=$out/study
start=$SECONDS

step() { printf '\n$ %s\n' "$*"; "$@"; }

rm -rf "$out"
mkdir -p "$out"
echo "A small search for kernels that replace the convolutions of ResNet-20."
step $kas dataset make shapes -o "$out/shapes.h5" --train 2500 --test 2000 --size 16 --classes 10
step $kas search --dataset "$out/shapes.h5" --study "$study" --net resnet20 --candidates 16 --generation 4 \
    --ancestors 300 --epochs 12 --rungs 4 --prune none --objective frontier --max-loss 4 --batch 50 --lr 0.05 --validation 0.2 --finalists 1 --seed 1
step $kas best "$study"
step $kas report "$study" -o "$out/report.html"
step $kas export "$study" -o "$out/best" --verify
echo
echo "The best kernel's files:"
(cd "$out/best" && find . -type f | sort | sed "s|^\./|    $out/best/|")
echo
echo "Done in $((SECONDS - start)) s. Next: your own data (datasets/FORMAT.md), and more candidates and epochs:"
echo "    ./kas-gpu search --dataset mine.h5 --net resnet18 --candidates 200 --epochs 30 --study mine"
