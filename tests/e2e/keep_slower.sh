#!/usr/bin/env bash
# --keep-slower: layers keep their convolution where a kernel does not fit or is predicted to be slower, in every command alike;
# and the other layers that --targets names: windows that are not square, groups, linear layers.
set -eu
. tests/e2e/expect.bash

"$kas" dataset make shapes -o "$dir/s.h5" --train 64 --test 16 --size 16 --classes 4 >/dev/null
net="--net resnet20 --input 3x16x16 --classes 4"
kernel=kernels/nas_pte_2.json # 16 outputs of all inputs leave nothing at the first stage
run="--net resnet20 --dataset $dir/s.h5 --epochs 1 --batch 16 --device cpu --threads 1"
expect 3 'layer1.0.conv1: node 3 (slice)' "$kas" train $run --kernel $kernel
expect 0 '12 of 18 layers keep their convolution' "$kas" train $run --kernel $kernel --keep-slower=cpu --checkpoint "$dir/c" \
    --weights "$dir/w.safetensors"
grep -q 'slower on cpu: layer1.0.conv1, layer1.0.conv2' "$dir/err" || fail "the layers are not named"

# The decision is a file of layers, with which no machine model is asked; it gives the same network, bit by bit.
expect 0 "$kernel" "$kas" predict $kernel $net --machine cpu --keep-slower -o "$dir/layers.json"
[ "$(grep -c null "$dir/layers.json")" = 12 ] || fail "12 layers are not kept in the file"
expect 0 'trained after 1 epoch' "$kas" train $run --kernel "$dir/layers.json" --weights "$dir/w2.safetensors"
cmp "$dir/w.safetensors" "$dir/w2.safetensors" || fail "the file of layers gives another network"
expect 0 'going on after 1 epoch and' "$kas" train $run --kernel "$dir/layers.json" --checkpoint "$dir/c"

# A checkpoint of another decision is refused.
sed 's/"layer3.0.conv2": 0/"layer3.0.conv2": null/' "$dir/layers.json" >"$dir/fewer.json"
cmp -s "$dir/layers.json" "$dir/fewer.json" && fail "layer3.0.conv2 has no kernel"
expect 3 'checkpoint' "$kas" train $run --kernel "$dir/fewer.json" --checkpoint "$dir/c"

name=$("$kas" predict "$dir/layers.json" $net --machine cpu --json --quiet | sed -n 's/.*"kernel": "\([0-9a-f]*\)".*/\1/p')
[ ${#name} = 16 ] || fail "no name: $name"
expect 0 "$name" "$kas" show $kernel $net --keep-slower=cpu --json
expect 0 "$name" "$kas" predict $kernel $net --machine cpu --keep-slower --json
expect 0 "$name" "$kas" bench step $net --kernel $kernel --keep-slower=cpu --batch 4 --repeats 1 --device cpu --threads 1 --json
expect 0 'failures: 0' "$kas" check $kernel $net --keep-slower=cpu --threads 1
expect 0 'device: ok' "$kas" export $kernel $net --keep-slower=cpu -o "$dir/x" --weights "$dir/w.safetensors" --verify
cmp "$dir/layers.json" "$dir/x/kernel.json" || fail "the export has other layers"
echo "ok: train, show, predict, bench, check, export"

# Where the option names no machine, the device decides on which the command runs, and for score the machine of its predictions.
expect 0 "$name" "$kas" score $kernel $net --keep-slower --machine cpu --scores params --json
expect 0 'slower on h100: layer1.0.conv1' "$kas" score $kernel $net --keep-slower --machine h100 --scores params
sim=${KAS_SIM_LIBRARY:-$PWD/build/tests/libkas_cuda_sim.so}
if [ -f "$sim" ]; then
    export KAS_CUDA_LIBS=$sim
    expect 0 'slower on cpu' "$kas" train $run --kernel $kernel --keep-slower --dry-run
    expect 2 'slower on cpu' "$kas" tune $kernel $net --device cpu --keep-slower --layer nowhere
    expect 0 'slower on a100: layer1.0.conv1' "$kas" train ${run/--device cpu/--device cuda} --kernel $kernel --keep-slower --dry-run
    unset KAS_CUDA_LIBS
else
    skip_part "$sim is not built (make test builds it)"
fi

# Bad input.
expect 3 'no layer is replaced' "$kas" predict kernels/involution.json $net --machine cpu --keep-slower
expect 3 'h101' "$kas" train $run --kernel $kernel --keep-slower=h101
expect 2 'need --kernel' "$kas" train $run --keep-slower
expect 2 'leave out' "$kas" export "$dir" --keep-slower -o "$dir/y"
expect 2 '--keep-slower' "$kas" sample $net --keep-slower
expect 2 '--output needs one kernel' "$kas" predict $net -o "$dir/none.json"
expect 2 'non-square, grouped' "$kas" predict $net --targets 3x4

# In a search each candidate is a file of layers, the same ones again when it goes on.
mkdir "$dir/k"
cp $kernel "$dir/k"
search=("$kas" search --objective accuracy --dataset "$dir/s.h5" --net resnet20 --known no --from "$dir/k" --strategy evolution --ancestors 0 --legality none --rungs none --candidates 1 --flops 0 --params 0 --epochs 1
    --batch 16 --device cpu --threads 1 --prune none --latency-on cpu --latency 0 --keep-slower --study "$dir/a")
names() { sed -n 's/.*"kind": "candidate".*"kernel": "\([0-9a-f]*\)".*/\1/p' "$dir/out" | sort; }
expect 0 '"kind": "candidate"' "${search[@]}" --dry-run --json
planned=$(names)
expect 0 'test set, after training on the whole training set' "${search[@]}"
expect 0 '"kind": "candidate"' "$kas" best "$dir/a" --json
[ "$planned" = "$name" ] && [ "$(names)" = "$planned" ] || fail "other candidates than planned: $planned; $(names)"
grep -q '"format": "kas-gpu layers"' "$dir/a/best/kernel.json" || fail "the winner is no file of layers"
expect 0 '' "${search[@]}"
expect 3 'none of the 1 kernels fits' "${search[@]/--keep-slower/--quiet}" --latency 100
expect 0 'README.md' "$kas" export "$dir/a" -o "$dir/best"
expect 2 'keep-slower' "$kas" search --dataset "$dir/s.h5" --study "$dir/b" --keep-slower=cpu
echo "ok: search"

# Windows that are not square, groups, linear layers.
other="--net tests/e2e/other_layers.json --targets all"
expect 0 'replaced: 7 layers' "$kas" net show tests/e2e/other_layers.json --input 3x8x8 --targets all
expect 0 'replaced: 1 layers' "$kas" net show tests/e2e/other_layers.json --input 3x8x8
expect 0 'failures: 0' "$kas" check kernels/conv.json kernels/nas_pte_3.json $other --input 3x8x8 --threads 1
expect 0 'trained after 1 epoch' "$kas" train $other --dataset "$dir/s.h5" --kernel kernels/group_conv.json --epochs 1 --batch 16 --device cpu \
    --threads 1 --weights "$dir/w3.safetensors"
expect 0 'device: ok' "$kas" export kernels/group_conv.json $other --input 3x16x16 --classes 4 -o "$dir/z" --weights "$dir/w3.safetensors" --verify
if grep -q 'PyTorch: SKIPPED' "$dir/out"; then skip_part "PyTorch"; else grep -q 'PyTorch: ok' "$dir/out" || fail "PyTorch"; fi
expect 0 'checked again: 60 kernels, 0 illegal, 0 over a budget' "$kas" sample $other --input 3x8x8 --space nas-pte --count 60 --recheck
expect 0 'checked again: 20 kernels, 0 illegal, 0 over a budget' "$kas" sample $other --input 3x8x8 --flops 0.7 --params 0.9 --count 20 --recheck
echo "ok: other layers"
