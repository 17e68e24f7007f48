#!/usr/bin/env bash
# Kernels that imitate the convolutions of a trained network: what they miss, the file of weights and a training from it,
# bad input.
set -eu
. tests/e2e/expect.bash
value() { sed -n "s/.*\"event\":\"$1\".*\"$2\":\([-0-9.e]*\).*/\1/p" "$dir/out" | head -n 1; }
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }

"$kas" dataset make shapes -o "$dir/s.h5" --train 400 --test 40 --size 8 --classes 4 >/dev/null
common=(--net resnet20 --dataset "$dir/s.h5" --device cpu --threads 1 --batch 20 --json)
expect 0 '"result"' "$kas" train "${common[@]}" --epochs 4 --lr 0.05 --weights "$dir/trained"
trained=$(value result validation_accuracy)

imitate=("$kas" imitate "${common[@]}" --weights "$dir/trained" --kernel)
expect 0 '"layer":"layer3.2.conv2"' "${imitate[@]}" kernels/group_conv.json --images 200 --out "$dir/start"
[ "$(grep -c '"event":"target"' "$dir/out")" = 18 ] || fail "not 18 targets"
[ "$(value result trained_validation_accuracy)" = "$trained" ] ||
    fail "the trained network's accuracy is $trained by train, $(value result trained_validation_accuracy) by imitate"
[ "$(value result steps)" = 10 ] || fail "$(value result steps) steps of 20 images are not 200 images"
few=$(value result missed)
expect 0 '"result"' "${imitate[@]}" kernels/group_conv.json --images 200 --out "$dir/again"
cmp "$dir/start" "$dir/again" || fail "the same options gave other weights"
expect 0 '"result"' "${imitate[@]}" kernels/group_conv.json --epochs 4 --out "$dir/start"
more=$(value result missed) accuracy=$(value result validation_accuracy)
less "$more" "$few" || fail "72 steps miss $more, 10 miss $few"

# A training from the file continues from these kernels: without a step it scores what imitate said, up to the running
# statistics, and its first loss is smaller than that of kernels at random.
continue=("$kas" train "${common[@]}" --kernel kernels/group_conv.json --epochs 1 --init)
expect 0 '"result"' "${continue[@]}" "$dir/start" --lr 0
less "$accuracy" "$(awk -v a="$(value epoch validation_accuracy)" 'BEGIN { print a + 0.101 }')" ||
    fail "the network scores $accuracy by imitate, $(value epoch validation_accuracy) by train"
warm=$(value epoch train_loss)
expect 0 'weights of kernels begin at random' "${continue[@]}" "$dir/trained" --lr 0
less "$warm" "$(value epoch train_loss)" || fail "the first loss is $warm with imitating kernels, $(value epoch train_loss) at random"

expect 2 '--kernel and --weights are needed' "$kas" imitate "${common[@]}" --kernel kernels/conv.json
expect 3 'a trained network without kernels is needed' "${imitate[@]}" kernels/group_conv.json --weights "$dir/start"
expect 3 '--images: 361 asked for' "${imitate[@]}" kernels/conv.json --images 361
expect 3 'fp32 or tf32' "${imitate[@]}" kernels/conv.json --precision bf16
expect 6 'the imitation diverged' "${imitate[@]}" kernels/conv.json --optimiser sgd --lr 1000 --images 200
echo "ok: imitation; group_conv misses $few after 10 steps, $more after 72"
