#!/usr/bin/env bash
# kas-gpu sensitivity: kernels at each layer alone, as table, JSON and picture; bad input.
set -eu
. tests/e2e/expect.bash

"$kas" dataset make shapes -o "$dir/s.h5" --train 80 --test 10 --size 8 --classes 4 >/dev/null
sensitivity=("$kas" sensitivity --net resnet20 --dataset "$dir/s.h5" --machine cpu --batch 8)
kernels=(kernels/conv.json kernels/nas_pte_2.json)
expect 0 'sensitive layers' "${sensitivity[@]}" "${kernels[@]}" --threads 1
expect 0 '' "${sensitivity[@]}" "${kernels[@]}" --threads 2 --json --picture "$dir/p.svg"
cp "$dir/out" "$dir/lines"
expect 0 '' "${sensitivity[@]}" "${kernels[@]}" --threads 1 --json
cmp "$dir/out" "$dir/lines" || fail "the number of threads changes the figures"
/usr/bin/python3 - "$dir" <<'END' || fail "the figures"
import json, sys, xml.etree.ElementTree as tree
folder = sys.argv[1]
lines = [json.loads(l) for l in open(folder + "/lines")]
layers = sorted({l["layer"] for l in lines})
conv = [l for l in lines if l["name"] == "conv"]
two = [l for l in lines if l["name"] == "nas_pte_2"]
assert len(layers) == 18 and all(l["kind"] == "sensitivity" and l["fisher"] > 0 for l in lines)
assert len(conv) == 18 and all(abs(l["params_ratio"] - 1) <= 1e-9 for l in conv), conv
assert 0 < len(two) < 18 and all(l["params_ratio"] < 1 for l in two), two # 16 channels are too few
circles = [e for e in tree.parse(folder + "/p.svg").getroot().iter() if e.tag.endswith("}circle")]
assert len(circles) == 3 * len(lines), (len(circles), len(lines))
for layer in layers:
    worst = max(l["fisher_ratio"] for l in lines if l["layer"] == layer)
    assert all(l["sensitive"] == (worst < 1) for l in lines if l["layer"] == layer), layer
# A network in which one layer alone has the kernel, as score and predict take it.
alone = {"format": "kas-gpu layers", "version": 1, "kernels": [json.load(open("kernels/nas_pte_2.json"))],
         "layers": {l: 0 if l == "layer3.2.conv2" else None for l in layers}}
json.dump(alone, open(folder + "/alone.json", "w"))
END

# That network's potential is the same number, and its latency differs by that of the layer.
expect 0 '' "$kas" score "$dir/alone.json" --net resnet20 --dataset "$dir/s.h5" --batch 8 --scores fisher,latency --machine cpu --json
/usr/bin/python3 - "$dir" <<'END' || fail "score says something else of a layer"
import json, sys
plain, alone = [json.loads(l)["scores"] for l in open(sys.argv[1] + "/out")]
at = next(l for l in map(json.loads, open(sys.argv[1] + "/lines")) if (l["layer"], l["name"]) == ("layer3.2.conv2", "nas_pte_2"))
assert abs(at["fisher"] / alone["fisher"] - 1) <= 1e-9 and abs(at["fisher_unmodified"] / plain["fisher"] - 1) <= 1e-9
gained = (at["latency_ratio"] - 1) * at["latency_unmodified"]
error = abs(gained - (alone["latency"] - plain["latency"])) / plain["latency"]
print(f"latency of a layer: error {error:.1e} of the network's")
assert error <= 1e-9
END

# One minibatch is all that the potential looks at.
expect 0 'sensitive layers' "${sensitivity[@]}" kernels/group_conv.json --batch 70
expect 2 'kernel files are needed' "${sensitivity[@]}"
expect 2 '--keep-slower' "${sensitivity[@]}" kernels/conv.json --keep-slower
expect 3 'nowhere.json' "${sensitivity[@]}" "$dir/nowhere.json"
sed 's/"G0": 4/"G0": 7/' kernels/group_conv.json >"$dir/seven.json"
expect 6 'no kernel fits' "${sensitivity[@]}" "$dir/seven.json"
expect 1 'no-folder' "${sensitivity[@]}" kernels/conv.json --picture "$dir/no-folder/p.svg"
echo "ok: sensitivity"
