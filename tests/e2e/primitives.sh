#!/usr/bin/env bash
# Kernels of tests/kernels, one for each primitive beyond the paper's Table 1: agree with the reference at every shape of
# ResNet-20, train for an epoch, and come out as Python that parses and gives the same logits.
set -eu
. tests/e2e/expect.bash
trap 'echo "FAILED at line $LINENO"' ERR
kas=${KAS_BUILD:-build}/kas-gpu
files=(tests/kernels/*.json)
exported=()

"$kas" check "${files[@]}" --net resnet20 --input 3x8x8 --device cpu >"$dir/out" || { cat "$dir/out"; exit 1; }
[ "$(grep -c ' ok$' "$dir/out")" = $((5 * ${#files[@]})) ]
tail -2 "$dir/out"

"$kas" dataset make shapes -o "$dir/s.h5" --train 64 --test 16 --size 8 --classes 4 >/dev/null
for file in "${files[@]}"; do
    name=$(basename "$file" .json)
    "$kas" train --net resnet20:n=1 --dataset "$dir/s.h5" --device cpu --batch 16 --epochs 1 --kernel "$file" --quiet >"$dir/out"
    grep -q 'trained after 1 epoch' "$dir/out"
    "$kas" export "$file" -o "$dir/$name" --input 3x9x11 --quiet >/dev/null
    exported+=("$dir/$name")
    cmp "$file" "$dir/$name/kernel.json"
    ! command -v python3 >/dev/null || python3 - "$dir/$name/kernel.py" "$dir/$name/network.py" <<'END'
import ast, sys
for path in sys.argv[1:]:
    ast.parse(open(path).read(), path)
END
    echo "ok: $name"
done
command -v python3 >/dev/null || skip_part "no python3: the modules were not parsed"

. tests/e2e/torch.bash
[ -n "$python" ] || { skip_part "$no_torch: the logits were not compared"; exit 0; }
"$python" tests/e2e/export_check.py "${exported[@]}"
echo "ok: the same logits in PyTorch"
