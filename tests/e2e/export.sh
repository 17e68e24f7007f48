#!/usr/bin/env bash
# kas-gpu export: every known kernel becomes files that stand on their own, and PyTorch gives our logits with them.
set -eu
. tests/e2e/expect.bash
kas=${KAS_BUILD:-build}/kas-gpu

for kernel in kernels/*.json; do
    out=$dir/$(basename "$kernel" .json)
    where=(--input 3x9x9)
    case $kernel in
    */nas_pte_1*.json) where=(--input 3x16x16) ;;              # halves of the image
    */nas_pte_2.json) where=(--input 3x8x8 --net resnet18) ;; # more than 16 channels
    esac
    "$kas" export "$kernel" -o "$out" "${where[@]}" --quiet >/dev/null
    for file in kernel.json kernel.py network.py weights.safetensors check.safetensors kernel.cu kernel.c prelude.h \
        kernel.dot README.md; do
        [ -s "$out/$file" ] || fail "$kernel: $file is missing"
    done
    cmp -s "$kernel" "$out/kernel.json" || fail "$kernel: kernel.json differs"
    if command -v dot >/dev/null; then dot -Tsvg "$out/kernel.dot" >/dev/null || fail "$kernel: kernel.dot"; fi
done
command -v dot >/dev/null || skip_part "no Graphviz: pictures were not drawn"
echo "ok: files of every kernel"

# Both sources build as the first line says.
if command -v clang >/dev/null; then
    (cd "$dir/involution" && clang -O1 -Wno-pass-failed -shared -fPIC -o libkernel.so kernel.c -lm) || fail "kernel.c does not compile"
    echo "ok: kernel.c compiles"
else
    skip_part "no clang: kernel.c was not compiled"
fi
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
if [ -n "$nvcc" ]; then
    (cd "$dir/involution" && "$nvcc" -arch=sm_80 -cubin -o kernel.cubin kernel.cu) || fail "kernel.cu does not compile"
    echo "ok: kernel.cu compiles"
else
    skip_part "no nvcc: kernel.cu was not compiled"
fi

# What must be refused. Weights of another kernel change nothing of an earlier export.
cp -r "$dir/conv" "$dir/x"
set +e
"$kas" export kernels/conv.json -o "$dir/x" --input 3x10x10 --weights "$dir/involution/weights.safetensors" 2>"$dir/err"
[ $? = 3 ] || fail "weights of another kernel: exit code"
grep -q 'layer1.0.conv1.weight0' "$dir/err" || fail "weights of another kernel: $(cat "$dir/err")"
diff -r "$dir/conv" "$dir/x" || fail "weights that are refused change an earlier export"
"$kas" export kernels/none.json -o "$dir/x" 2>/dev/null
[ $? = 3 ] || fail "a missing kernel file: exit code"
"$kas" export kernels/conv.json -o "$dir/x" --candidate 3 2>/dev/null
[ $? = 2 ] || fail "--candidate with a file: exit code"
"$kas" export kernels/conv.json 2>/dev/null
[ $? = 2 ] || fail "no -o: exit code"
set -e
# Files that are not an export's are not replaced. An export replaces those of an earlier one, with other kernels.
for file in README.md kernel.py kernel0.dot network.py; do
    mkdir "$dir/mine"
    echo mine >"$dir/mine/$file"
    expect 1 "$file would be replaced" "$kas" export kernels/conv.json -o "$dir/mine" --input 3x9x9
    [ "$(ls "$dir/mine")" = "$file" ] && [ "$(cat "$dir/mine/$file")" = mine ] || fail "an export changed $file"
    rm -r "$dir/mine"
done
mkdir "$dir/mine"
echo mine >"$dir/mine/notes"
touch "$dir/x/kernel0.py" "$dir/x/kernel1.dot"
expect 0 '' "$kas" export kernels/conv.json -o "$dir/mine" --input 3x9x9
expect 0 '' "$kas" export kernels/conv.json -o "$dir/x" --input 3x9x9
[ "$(cat "$dir/mine/notes")" = mine ] && diff -r "$dir/conv" "$dir/x" || fail "another export than the first"
echo "ok: refusals"

# Weights from a file come out as they went in.
"$kas" export kernels/involution.json -o "$dir/again" --input 3x9x9 --quiet --seed 7 >/dev/null
cmp -s "$dir/again/weights.safetensors" "$dir/involution/weights.safetensors" && fail "the seed changes nothing"
"$kas" export kernels/involution.json -o "$dir/copy" --input 3x9x9 --weights "$dir/again/weights.safetensors" >/dev/null
cmp -s "$dir/again/check.safetensors" "$dir/copy/check.safetensors" || fail "--weights gives other logits"
echo "ok: --weights"

. tests/e2e/torch.bash
if [ -z "$python" ]; then
    "$kas" export kernels/conv.json -o "$dir/conv" --input 3x9x9 --quiet --verify | grep -q SKIPPED || fail "--verify"
    skip_part "$no_torch: the logits were not compared"
    exit 0
fi
# Known kernels do not use every primitive; sampled ones do.
"$kas" sample --net resnet20 --input 3x8x8 --count 8 --seed 5 -o "$dir/sampled" --quiet >/dev/null
for kernel in "$dir"/sampled/*.json; do
    "$kas" export "$kernel" -o "${kernel%.json}" --input 3x8x8 --quiet >/dev/null
done
"$python" tests/e2e/export_check.py "$dir"/sampled/*/ $(for kernel in kernels/*.json; do echo "$dir/$(basename "$kernel" .json)"; done) \
    "$dir/copy" || fail "PyTorch gives other logits"
"$kas" export kernels/involution.json -o "$dir/involution" --net resnet18 --input 3x8x8 --classes 7 --verify --json \
    --quiet | grep -q '"device": "ok".*"pytorch": "ok"' || fail "--verify --json"

# A study: its winner comes with trained weights and scores, another candidate with those of its training where it is on
# the frontier, else with initial ones.
"$kas" dataset make shapes -o "$dir/s.h5" --train 60 --test 20 --size 8 --classes 3 >/dev/null
"$kas" search --strategy random --objective accuracy --dataset "$dir/s.h5" --net resnet20:n=1 --candidates 2 --epochs 1 --batch 20 --lr 0.01 --device cpu --threads 1 \
    --prune none --study "$dir/study" --quiet >/dev/null
"$kas" export "$dir/study" -o "$dir/winner" --verify --device cpu >"$dir/text" || fail "a study: $(cat "$dir/text")"
grep -Eq '^device: (ok|SKIPPED)' "$dir/text" && grep -q '^PyTorch: ok' "$dir/text" || fail "a study: $(cat "$dir/text")"
cmp -s "$dir/study/best/kernel.json" "$dir/winner/kernel.json" || fail "a study: another kernel"
grep -q 'Test accuracy: ' "$dir/winner/README.md" || fail "a study: no accuracy in README.md"
grep -q 'weights of the final training' "$dir/winner/README.md" || fail "a study: README.md: weights"
"$kas" export "$dir/study" -o "$dir/first" --candidate 0 --quiet >/dev/null || fail "--candidate 0"
grep -Eq 'initial weights, not trained|weights of its training in the search' "$dir/first/README.md" ||
    fail "--candidate 0: README.md"
name=$("$kas" log "$dir/study" --json | sed -n 's/.*"kind": "candidate", "index": 0, "kernel": "\([0-9a-f]*\)".*/\1/p')
expect 0 '' "$kas" export "$dir/study" -o "$dir/named" --candidate "${name:0:8}"
cmp -s "$dir/named/kernel.json" "$dir/first/kernel.json" || fail "--candidate NAME: another kernel"
expect 3 'no candidate "9"' "$kas" export "$dir/study" -o "$dir/x" --candidate 9
expect 3 'more than one candidate ""' "$kas" export "$dir/study" -o "$dir/x" --candidate ""
expect 2 'leave out --net' "$kas" export "$dir/study" -o "$dir/x" --net resnet18
expect 2 '--seed has no effect' "$kas" export "$dir/study" -o "$dir/x" --seed 1
expect 2 '--device has no effect' "$kas" export "$dir/study" -o "$dir/x" --device cpu
echo "ok: a study"

# The check can fail: one operation of the module changed, and another run's weights.
sed -i 's/torch.relu(n1)/torch.relu(n1) * 1.0001/' "$dir/copy/kernel.py"
"$python" tests/e2e/export_check.py "$dir/copy" && fail "a changed module passes its check"
cp "$dir/conv/weights.safetensors" "$dir/group_conv/" 2>/dev/null
"$python" tests/e2e/export_check.py "$dir/group_conv" 2>/dev/null && fail "foreign weights pass the check"
echo "ok: PyTorch gives our logits, and a changed module does not"
