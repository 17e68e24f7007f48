#!/usr/bin/env bash
# A network with a layer of every kind trains: 50 steps with falling loss, and the same weights to the last bit when
# batch norms are computed again in place of being kept. All networks: bench/train_networks.sh.
set -eu
. tests/e2e/expect.bash

"$kas" dataset make shapes -o "$dir/shapes.h5" --train 160 --test 10 --size 16 --classes 3 --quiet
train() {
    "$kas" train --net ./tests/networks/zoo.json --dataset "$dir/shapes.h5" --test --device cpu --threads 1 --batch 16 \
        --epochs 5 --optimiser adamw --lr 0.02 --flip off --crop-pad 0 "$@"
}
losses=$(train --weights "$dir/kept" --json | sed -n 's/.*"train_loss":\([^,}]*\).*/\1/p' | tr '\n' ' ')
awk '{ exit !(NF == 5 && $5 < 0.95 * $1) }' <<<"$losses" || fail "mean losses of five epochs of ten steps do not fall: $losses"
echo "ok: mean losses of five epochs of ten steps: $losses"

train --weights "$dir/again" --recompute --quiet >"$dir/out"
cmp "$dir/kept" "$dir/again" || fail "recomputation gives other weights"
echo "ok: the same weights with --recompute"

plan=$(train --dry-run --json)
memory() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" <<<"$plan"; }
[ "$(memory recompute_memory_bytes)" -lt "$(memory device_memory_bytes)" ] || fail "recomputation saves no memory: $plan"
[ $(($(memory kept_bytes) + $(memory gradient_bytes) + $(memory activation_bytes) + $(memory image_bytes))) = \
    "$(memory device_memory_bytes)" ] || fail "the parts of the plan are not the whole: $plan"
train --dry-run | grep -q 'with --recompute' || fail "the dry run does not say what recomputation saves"
echo "ok: the dry run's plan"
