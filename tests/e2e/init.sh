#!/usr/bin/env bash
# Weights that another program wrote: a training and a whole search start from them; a classifier of other classes
# is refused, or left out when that is asked for.
set -eu
. tests/e2e/expect.bash
command -v python3 >/dev/null || { echo "SKIPPED: no python3 to write the file of weights"; exit 77; }
loss() { sed -n 's/.*"epoch":0,"train_loss":\([0-9.]*\),.*/\1/p' "$dir/out"; }

"$kas" dataset make shapes -o "$dir/s.h5" --train 160 --test 40 --size 8 --classes 4 >/dev/null
common=(--net resnet20 --dataset "$dir/s.h5" --device cpu --threads 1 --batch 16 --lr 0.02)
train=("$kas" train "${common[@]}" --epochs 1 --json)
expect 0 '"result"' "${train[@]}" --epochs 4 --weights "$dir/own"
python3 tests/e2e/init_weights.py "$dir/own" "$dir/theirs" 4
python3 tests/e2e/init_weights.py "$dir/own" "$dir/ten" 10

expect 0 '"result"' "${train[@]}"
random=$(loss)
expect 0 '97 of the 97 tensors of resnet20 taken' "${train[@]}" --init "$dir/theirs"
trained=$(loss)
awk -v a="$trained" -v b="$random" 'BEGIN { exit !(a < b - 0.1) }' ||
    fail "the first epoch's loss is $trained with weights, $random without"
expect 0 '36 weights of kernels begin at random' "${train[@]}" --init "$dir/theirs" --kernel kernels/depthwise_separable.json
expect 3 'fc.weight" has shape [10, 64]; expected [4, 64]; give weights of this network, or leave the tensor out with --init-partial' "${train[@]}" --init "$dir/ten"
expect 0 'left out: fc.weight (has shape [10, 64]; expected [4, 64]), fc.bias' "${train[@]}" --init "$dir/ten" --init-partial
expect 2 '--init-partial needs --init' "${train[@]}" --init-partial
expect 3 'fc.weight" has shape [10, 64]; expected [4, 64]; give weights of this network, or leave the tensor out with --init-partial' "${train[@]}" --init "$dir/ten" --dry-run
expect 0 '"event":"plan"' "${train[@]}" --init "$dir/theirs" --kernel kernels/depthwise_separable.json --dry-run

# Weights that have seen images which are held out: of all images, of another split, and of weights of one of these.
seen='was trained on another split'
unseen() { expect 0 "$@" && ! grep -F "$seen" "$dir/err" || fail "a warning of images that were not seen: $*"; }
expect 0 '' "${train[@]}" --test --weights "$dir/all"
expect 0 "$seen" "${train[@]}" --init "$dir/all" --weights "$dir/more"
expect 0 "$seen" "${train[@]}" --init "$dir/more"
expect 0 "$seen" "${train[@]}" --init "$dir/own" --seed 1
expect 0 "$seen" "${train[@]}" --init "$dir/own" --validation 0.2 --dry-run
expect 0 "$seen" "$kas" imitate "${common[@]}" --weights "$dir/all" --kernel kernels/group_conv.json --images 16
expect 0 "$seen" "$kas" search "${common[@]}" --candidates 1 --ancestors 0 --study "$dir/none" --dry-run --init "$dir/all"
expect 0 "$seen" "$kas" assemble kernels/group_conv.json "${common[@]}" --init "$dir/all" --loss fisher --latency 0.9 -o "$dir/none" --dry-run
unseen '' "${train[@]}" --init "$dir/own"
unseen '' "${train[@]}" --init "$dir/all" --test
unseen '' "${train[@]}" --init "$dir/theirs" # which does not say

# A study keeps its own copy, by content.
search=("$kas" search --strategy random --objective accuracy "${common[@]}" --epochs 1 --candidates 1 --known yes --prune none --seed 2 --study "$dir/study")
expect 3 '--init-partial' "${search[@]}" --init "$dir/ten"
[ ! -e "$dir/study" ] || fail "a study was made for weights that do not fit"
expect 0 'best kernel' "${search[@]}" --init "$dir/theirs"
cmp "$dir/theirs" "$dir/study/init.safetensors" || fail "the study has no copy of the weights"
grep -q 'tensors of resnet20 taken' "$dir/study/logs/baseline.log" || fail "the baseline began at random"
grep -q 'weights of kernels begin at random' "$dir/study/logs/0000.log" || fail "the candidate did not use the weights"
# Ancestors are scored by how well they imitate the network of the file.
evolve=("$kas" search "${common[@]}" --ancestors 12 --population 8 --candidates 1 --epochs 1 --finalists 0 --latency 0)
expect 0 'the best gives' "${evolve[@]}" --study "$dir/trained" --init "$dir/theirs"
expect 0 'the best gives' "${evolve[@]}" --study "$dir/drawn"
for study in trained drawn; do
    grep -o '"imitation": [^,]*' "$dir/$study/ancestors.json" >"$dir/$study.scores" || fail "no scores of $study"
done
expect 2 '--init (the study was begun with other weights)' "${evolve[@]}" --study "$dir/trained" --init "$dir/own"
cmp -s "$dir/trained.scores" "$dir/drawn.scores" && fail "ancestors do not depend on the weights that they imitate"
rm "$dir/theirs"
expect 0 'best kernel' "$kas" resume "$dir/study"
expect 2 '--init (the study was begun with other weights)' "${search[@]}" --init "$dir/own"
echo x >>"$dir/study/init.safetensors"
expect 4 'not the weights that the study was begun with' "$kas" resume "$dir/study"
rm "$dir/study/init.safetensors"
expect 4 'there is no such file any more, and the study was begun with the weights in it' "$kas" resume "$dir/study"
echo "ok: weights of other programs"
