#!/usr/bin/env bash
# A network that comes with nobody, with branches that are concatenated, a multiply and a stride: from its file to a
# search in two commands, on to resume and export without the file; what is said about files that are wrong.
set -eu
. tests/e2e/expect.bash
. tests/e2e/torch.bash

net=$dir/mine.json
cp tests/e2e/own_network.json "$net"
"$kas" dataset make shapes -o "$dir/s.h5" --train 300 --test 60 --size 16 --classes 4 >/dev/null

# The two commands.
expect 0 'convolutions to replace' "$kas" net check "$net" --input 3x16x16 --classes 4
search=("$kas" search --strategy random --objective accuracy --dataset "$dir/s.h5" --net "$net" --candidates 1 --epochs 1 --batch 30 --lr 0.05 --device cpu --threads 1 --prune none --study "$dir/study")
expect 0 'best kernel:' "${search[@]}"

# The study has what was in the file.
grep -q 'gated_fire-' "$dir/study/best/model.json" || fail "the study does not name the network"
expect 0 '' "${search[@]}"
sed -i 's/"width = 8"/"width = 12"/' "$net"
expect 2 '--net (the study has "gated_fire-' "${search[@]}"
rm "$net"
expect 0 '' "$kas" resume "$dir/study"
expect 0 'kernel and network written' "$kas" export "$dir/study" -o "$dir/taken"
# Names that Python would read otherwise ("class", "0", "a-b"), and every kind of layer.
expect 0 '' "$kas" export kernels/depthwise_separable.json --net tests/e2e/odd_names.json --input 3x17x13 --flops 2 --params 2 -o "$dir/odd"
grep -q 'eps=0.00123456789, momentum=0.1)' "$dir/odd/network.py" && grep -q 'F.dropout(.*, 0.123456789, ' "$dir/odd/network.py" ||
    fail "numbers of the network lost digits"
# Attributes of every module ("double", "train", "type") are no attributes of these.
grep -q 'self\["type"\] = ' "$dir/odd/network.py" && grep -q '"train": Kernel' "$dir/odd/network.py" &&
    grep -q 'self\["double"\]\["train"\](' "$dir/odd/network.py" || fail "a layer hides a method of PyTorch"
if [ -n "$python" ]; then
    expect 0 'ok: logits' "$python" "$dir/taken/network.py" --check
    expect 0 'ok: logits' "$python" "$dir/odd/network.py" --check
else
    skip_part "export in PyTorch: $no_torch"
fi

# Files and names wherever a network is asked for.
cp tests/e2e/own_network.json "$net"
expect 0 '"name":"gated_fire"' "$kas" net show "$net" --json
expect 0 '"parameters":' "$kas" net show "$net:width=16" --json
expect 0 '3x16x16' "$kas" net show "$net" --input 3x16x16
expect 0 'accuracy' "$kas" train --net "$net" --dataset "$dir/s.h5" --epochs 1 --batch 30 --device cpu --threads 1
expect 0 '' "$kas" sample --net "$net" --input 3x16x16 --classes 4 --count 3 -o "$dir/kernels"
for kernel in "$dir"/kernels/*.json; do break; done
expect 0 '' "$kas" show "$kernel" --net "$net" --input 3x16x16
expect 0 '' "$kas" check "$kernel" --net "$net" --input 3x8x8 --device cpu
expect 0 '' "$kas" export "$kernel" --net "$net" --input 3x16x16 --classes 4 -o "$dir/k"

# Mistakes: the line, or what was expected.
wrong() { # sed-expression words...
    sed "$1" tests/e2e/own_network.json >"$dir/wrong.json"
    shift
    expect 3 "$dir/wrong.json" "$kas" net check "$dir/wrong.json"
    for words; do grep -qF -- "$words" "$dir/err" || { cat "$dir/err"; fail "expected \"$words\""; }; done
    expect 3 "$1" "$kas" search --dataset "$dir/s.h5" --net "$dir/wrong.json" --dry-run
}
wrong 's/"silu": "act"/"swish": "act"/' 'line 13' 'neither a kind of layer nor a block'
wrong 's/"from": \["in", "act"\]/"from": ["in", "gone"]/' 'line 24' 'no layer or block "gone"'
wrong 's/"from": \["narrow", "wide"\]/"from": ["squeeze", "wide"]/' 'line 33: layer fire2.cat' 'the same height and width'
wrong 's/"channels \/\/ 4"/"channels \/ 3"/' 'line 30' 'leaves a rest'
wrong 's/^        }$/        },/' 'not valid JSON'
expect 3 'cannot open' "$kas" net check "$dir/none.json"
expect 3 'densenet161, ' "$kas" net check lenet
expect 2 'no network is given' "$kas" net check
echo "ok: a network of its own, from its file to resume and export"
