#!/usr/bin/env bash
# kas-gpu interpolate: networks between two, by layers and by shares of a layer's outputs.
set -eu
. tests/e2e/expect.bash

net="--net resnet20 --input 3x8x8 --machine cpu"
two=$dir/two.json four=kernels/group_conv.json # in 2 and in 4 groups
sed 's/"G0": 4/"G0": 2/' $four >"$two"
expect 0 '0.50 of 18' "$kas" interpolate "$two" $four $net --points 37 -o "$dir/path"
[ "$(ls "$dir/path" | wc -l)" = 37 ] || fail "not 37 files"
expect 0 '"layers_changed": 17.5' "$kas" interpolate "$two" $four $net --points 37 --json --picture "$dir/way.svg"
/usr/bin/python3 - "$dir/out" "$dir/path" "$dir/way.svg" <<'EOF' || fail "the way from 2 to 4 groups"
import json, sys, xml.etree.ElementTree
lines = [json.loads(l) for l in open(sys.argv[1])]
flops = [l["flops_ratio"] for l in lines]
assert all(a > b for a, b in zip(flops, flops[1:])), flops
assert abs(flops[0] - 0.5) < 0.01 and abs(flops[-1] - 0.25) < 0.01, flops
assert len({l["kernel"] for l in lines}) == 37
middle = json.load(open(sys.argv[2] + "/001.json"))
assert len(middle["kernels"]) == 2 and any(n["op"] == "concat" for k in middle["kernels"] for n in k["nodes"])
way = xml.etree.ElementTree.parse(sys.argv[3]).getroot()
circles = [e for e in way.iter() if e.tag.endswith("}circle")]
assert len(circles) == 3 * 37 and all(e[0].text for e in circles), len(circles)
EOF
# A file of layers from the middle, in a training; ends with kept layers; whole layers only.
expect 0 'failures: 0' "$kas" check "$dir/path/001.json" --net resnet20 --input 3x8x8 --threads 1
expect 0 'of 18' "$kas" interpolate "$two" kernels/involution.json $net --points 5
expect 0 'only 19 networks' "$kas" interpolate "$two" $four $net --points 100 --within 1
sed 's/"layer3.2.conv2": [0-9]*/"layer3.2.conv2": null/' "$dir/path/036.json" >"$dir/kept.json"
expect 0 'of 18' "$kas" interpolate "$dir/kept.json" "$two" $net --points 4 -o "$dir/path2"

# A depthwise convolution has no shares: a layer changes as a whole, all networks differ, and the table counts whole layers. A run
# with fewer networks leaves none of an earlier one, but other files; the inputs of the command are never removed.
whole="$four kernels/depthwise.json $net -o $dir/whole"
expect 0 '' "$kas" interpolate $whole --points 37 --json
/usr/bin/python3 - "$dir/out" <<'EOF' || fail "the way to a depthwise convolution"
import json, sys
lines = [json.loads(l) for l in open(sys.argv[1])]
assert [l["layers_changed"] for l in lines] == list(range(19)), lines
assert len({l["kernel"] for l in lines}) == 19
EOF
touch "$dir/whole/notes.json"
expect 0 '9.00 of 18' "$kas" interpolate $whole --points 3
[ "$(ls "$dir/whole" | tr '\n' ' ')" = "000.json 001.json 002.json notes.json " ] || fail "networks of an earlier run are left"
expect 1 '002.json' "$kas" interpolate "$dir/whole/002.json" "$four" $net -o "$dir/whole"
[ "$(ls "$dir/whole" | wc -l)" = 4 ] || fail "an input or its neighbours are removed"

expect 3 'are the same at every layer' "$kas" interpolate $four $four $net
expect 2 'expected two kernel files' "$kas" interpolate $four $net
expect 2 'expected two kernel files' "$kas" interpolate $four "$two" "$two" $net
expect 3 'nowhere.json' "$kas" interpolate $four "$dir/nowhere.json" $net
expect 2 '--within' "$kas" interpolate $four "$two" $net --within 5
echo "ok: interpolate"
