#!/usr/bin/env bash
# kas-gpu train and net on the command line: a run stopped by a signal and continued ends with the same bits, --until ends one, a
# kernel trains, weights go out and come in, and what does not fit is refused.
set -eu
. tests/e2e/expect.bash

expect 0 '269722 parameters' "$kas" net show resnet20
expect 0 '"parameters":11173962,' "$kas" net show resnet18 --json
expect 2 '3x32x32' "$kas" net show resnet20 --input 32
expect 3 'known are: ' "$kas" net show resnet21

expect 0 'images' "$kas" dataset make shapes -o "$dir/s.h5" --train 160 --test 40 --size 8 --classes 4
args=(--net resnet20 --dataset "$dir/s.h5" --device cpu --threads 1 --batch 16)
train() { "$kas" train "${args[@]}" "$@"; }

# With --until a run ends at that time, while the others here go on, and none begins in the last half minute before it.
expect 75 'does not begin in the last 30 s before --until' train --checkpoint "$dir/none" --until $(($(date +%s) + 20))
expect 2 '--until needs --checkpoint' train --until $(($(date +%s) + 60))
until=$(($(date +%s) + 33))
train --epochs 100000 --checkpoint "$dir/late" --until $until >"$dir/late.out" 2>"$dir/late.err" &
late=$!

expect 0 '"event":"result"' train --epochs 2 --json
[ "$(grep -c '"event":"epoch"' "$dir/out")" = 2 ] || fail "one line an epoch"
expect 0 'of device memory' train --dry-run

# Recipes: by name, by file, with options of their own before and after.
expect 0 'naspte200' "$kas" recipe list
expect 0 '"steps":[60, 120, 160]' "$kas" recipe show naspte200 --json
"$kas" recipe show cifar200 | cmp - recipes/cifar200.json || fail "a recipe is not shown as its file"
"$kas" recipe show search | sed 's/"epochs": 30/"epochs": 7/' >"$dir/mine.json"
expect 0 ', 7 epochs of' train --recipe "$dir/mine.json" --dry-run
expect 0 ', 5 epochs of' train --epochs 5 --recipe "$dir/mine.json" --dry-run
sed 's/"lr": 0.1/"lr": -1/' "$dir/mine.json" >"$dir/bad.json"
expect 3 'bad.json: field "lr": expected a number in [0, 1000], found -1' train --recipe "$dir/bad.json"
expect 3 'known are: canvas300, cifar200' train --recipe cifar300
expect 3 'steps is empty' train --schedule steps
expect 3 'the rate falls after epoch 160, behind the last of 50 epochs' train --recipe cifar200 --epochs 50
expect 3 'the rate falls after epoch 3, behind the last of 3 epochs' train --schedule steps --steps 2,3 --epochs 3
expect 0 'with AdamW 0.001 to 0.005 is usual' train --optimiser adamw --dry-run
expect 0 '' train --optimiser adamw --lr 0.003 --dry-run
! grep -q usual "$dir/err" || fail "a warning of a rate that was given"
expect 2 '--crop-area has no effect' train --crop-area 0.5 --dry-run
expect 2 '--decay-all is an option of --weight-decay above 0' train --decay-all on --weight-decay 0
expect 3 'cutout 16 leaves nothing of images of 8x8' train --cutout 16 --dry-run
expect 0 '' train --cutout 15 --dry-run
expect 2 '--steps: expected integers in rising order' train --schedule steps --steps 2,1
expect 0 'trained after 2 epochs' train --epochs 2 --optimiser sgd --schedule steps --steps 1 --flip off
expect 0 'of the FLOPs' train --dry-run --kernel kernels/depthwise_separable.json

# Stopped by SIGTERM as soon as the first epoch is done, then continued.
expect 0 'trained after 6 epochs' train --epochs 6 --weights "$dir/straight"
"$kas" train "${args[@]}" --epochs 6 --checkpoint "$dir/ckpt" --weights "$dir/resumed" >"$dir/out" 2>"$dir/err" &
pid=$!
await "a checkpoint" [ -e "$dir/ckpt" ]
kill -TERM $pid 2>/dev/null || true
rc=0; wait $pid || rc=$?
if [ $rc = 75 ]; then
    grep -qF -- 'to go on: kas-gpu train' "$dir/err" || fail "the command that continues was not printed"
    [ ! -e "$dir/resumed" ] || fail "weights of a stopped run"
    expect 0 'trained after 6 epochs' train --epochs 6 --checkpoint "$dir/ckpt" --weights "$dir/resumed"
elif [ $rc != 0 ]; then
    cat "$dir/out" "$dir/err"; fail "expected exit code 75 after SIGTERM, got $rc"
fi
cmp "$dir/straight" "$dir/resumed" || fail "a resumed run has other bits"
expect 3 'another network, kernel' train --epochs 7 --checkpoint "$dir/ckpt"
expect 3 'validation share' train --epochs 6 --validation 0.2 --checkpoint "$dir/ckpt"

expect 0 'trained after 1 epoch: test accuracy' train --epochs 1 --init "$dir/straight" --test
expect 0 '"test_accuracy":null' train --epochs 2 --test --json # once, after the last epoch
expect 0 'trained after 1 epoch:' train --epochs 1 --kernel kernels/depthwise_separable.json --weights "$dir/kernel"
expect 3 'has shape' train --epochs 1 --init "$dir/kernel" --kernel kernels/involution.json
expect 3 'belongs to no layer' train --epochs 1 --init "$dir/kernel"

# The layer that gives the logits works in float32 in all modes, also in front of a dropout, and is never replaced.
printf '%s' '{"format": "kas-gpu network", "version": 1, "name": "end", "layers": [{"conv": "stem", "channels": 8, "kernel": 3},
    {"batch_norm": "bn"}, {"relu": "relu"}, {"global_avg_pool": "gap"}, {"linear": "fc", "channels": "classes"},
    {"dropout": "drop", "probability": 0.5}]}' >"$dir/end.json"
for precision in fp32 bf16 fp16; do
    expect 0 'trained after 2 epochs' train --net "$dir/end.json" --epochs 2 --precision $precision
done
expect 3 'no layer to replace' train --net "$dir/end.json" --epochs 1 --kernel kernels/conv.json --targets linear

expect 2 'are needed' "$kas" train --net resnet20
expect 2 'are the same file' train --epochs 1 --weights "$dir/both" --checkpoint "$dir/both"
expect 2 '--epsilon' train --epochs 1 --optimiser adamw --epsilon 0
expect 2 'exclude each other' train --test --validation 0.1
expect 2 '--epochs: expected an integer' train --epochs 0
expect 3 'smaller batch' train --batch 1000
expect 3 'nothing.h5' "$kas" train --net resnet20 --dataset "$dir/nothing.h5"
expect 3 'nothing.json' train --kernel "$dir/nothing.json"

rc=0; wait $late || rc=$?
over=$(($(date +%s) - until))
[ $rc = 75 ] && [ $over -ge 0 ] && [ -s "$dir/late" ] || { cat "$dir/late.err"; fail "--until: exit code $rc, $over s after the time"; }
grep '^to go on: kas-gpu train ' "$dir/late.err" | grep -qv -- --until || { cat "$dir/late.err"; fail "the command that continues"; }
echo "ok: net and train"
