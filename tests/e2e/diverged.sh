#!/usr/bin/env bash
# Networks that are not finite: train and search call them diverged, no file of weights has such a number, and none is taken.
set -eu
. tests/e2e/expect.bash

# Float32 numbers of a file of safetensors whose exponent is that of infinity and NaN.
not_finite() { # file
    local header
    header=$(od -An -v -tu8 -N8 "$1" | tr -d ' ')
    tail -c +$((header + 9)) "$1" | od -An -v -tx4 -w4 | grep -c '^ *[7f]f[89a-f]' || true
}

"$kas" dataset make shapes -o "$dir/t8.h5" --train 600 --test 200 --size 8 --classes 4 >/dev/null
common=(--net resnet20:n=1 --dataset "$dir/t8.h5" --device cpu --threads 1 --batch 32)
train=("$kas" train "${common[@]}" --epochs 4)

# A training: no weights, and the checkpoint ends the next one at once; with averaged weights too.
broken=("${train[@]}" --lr 100 --weights "$dir/broken" --checkpoint "$dir/checkpoint")
expect 1 'the network diverged, and no weights are written; try a smaller --lr than 100' "${broken[@]}"
expect 1 'is not finite: the run had diverged' "${broken[@]}"
expect 1 'the network diverged' "${train[@]}" --lr 100 --weights "$dir/broken" --ema 0.99
expect 1 '"state":"diverged"' "${train[@]}" --lr 100 --weights "$dir/broken" --json
[ ! -e "$dir/broken" ] || fail "weights of a network that diverged were written"

# Weights with a NaN in the last number: refused by name, whatever is left out.
expect 0 'trained after 1 epoch' "$kas" train "${common[@]}" --epochs 1 --lr 0.02 --weights "$dir/weights"
[ "$(not_finite "$dir/weights")" = 0 ] || fail "weights of a trained network are not finite"
cp "$dir/weights" "$dir/nan"
printf '\000\000\300\177' | dd of="$dir/nan" bs=1 seek=$(($(stat -c %s "$dir/nan") - 4)) conv=notrunc status=none
[ "$(not_finite "$dir/nan")" = 1 ] || fail "the test's own NaN is not there"
for options in '' --init-partial --dry-run; do
    expect 3 'nan: tensor "fc.bias" is not finite: element 3 of 4 is nan' "${train[@]}" --init "$dir/nan" $options
done
search=("$kas" search --strategy random --objective accuracy "${common[@]}" --epochs 1)
expect 3 'tensor "fc.bias" is not finite' "${search[@]}" --candidates 1 --init "$dir/nan" --study "$dir/refused"
[ ! -e "$dir/refused" ] || fail "a study was made for weights that are not finite"

# A search at a rate that the unmodified network bears and about half of the kernels do not: some as candidates, and some
# only in the final training, which ends the search.
for seed in 4 5 6 7 8 9; do
    rc=0
    "${search[@]}" --candidates 2 --lr 3 --seed $seed --study "$dir/study$seed" >"$dir/out" 2>"$dir/err" || rc=$?
    grep -q 'diverged: .* was not finite' "$dir/out" "$dir/err" && break
    [ $rc = 0 ] || [ $rc = 6 ] || { cat "$dir/out" "$dir/err"; fail "a search of seed $seed"; }
done
grep -q 'diverged: .* was not finite' "$dir/out" "$dir/err" || fail "no candidate diverged"
for file in $(find "$dir"/study* -name '*.safetensors'); do
    [ "$(not_finite "$file")" = 0 ] || fail "$file is not finite"
done
expect 1 'the unmodified network could not be trained (diverged: ' "${search[@]}" --candidates 1 --lr 1000 --weight-decay 10 --study "$dir/hopeless"
echo "ok: networks that are not finite: all as expected"
