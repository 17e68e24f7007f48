#!/usr/bin/env bash
# kas-gpu score: kernels, files of layers and sampled kernels, tables and JSON, agreement; bad inputs.
set -eu
. tests/e2e/expect.bash

"$kas" dataset make shapes -o "$dir/s.h5" --train 120 --test 30 --size 8 --classes 4 >/dev/null
score=("$kas" score --net resnet20 --dataset "$dir/s.h5")
expect 0 'kas-gpu score --net resnet20' "$kas" score --help
expect 0 'unmodified network' "${score[@]}"
expect 0 'kernels/conv.json' "${score[@]}" kernels/conv.json kernels/depthwise.json --sampled 3 --scores all
expect 0 'two initialisations' "${score[@]}" --sampled 4 --scores fisher,az_nas --agreement
expect 0 'left out: kernels/nas_pte_2.json' "${score[@]}" kernels/conv.json kernels/nas_pte_2.json
expect 0 '' "${score[@]}" --sampled 2 --space nas-pte --json
expect 0 '"seed": 18446744073709551615,' "${score[@]}" --scores params --seed 18446744073709551615 --json

# Threads change nothing but the time, where the machine of latencies is named; the same call gives the same numbers.
expect 0 '' "${score[@]}" --sampled 6 --scores all --agreement --json --machine cpu --threads 1
sed 's/, "cpu_seconds": .*//' "$dir/out" >"$dir/one"
expect 0 '' "${score[@]}" --sampled 6 --scores all --agreement --json --machine cpu --threads 3
sed 's/, "cpu_seconds": .*//' "$dir/out" | cmp - "$dir/one" || fail "the number of threads changes scores"
/usr/bin/python3 - "$dir/out" <<'END' || fail "the lines are not as documented"
import json, sys
lines = [json.loads(l) for l in open(sys.argv[1])]
scores = [l for l in lines if l["kind"] == "score"]
assert len(scores) == 7 and scores[0]["kernel"] is None and scores[0]["states"]["az_nas"] == "not-asked"
for l in scores:
    assert l["scores"].keys() == l["states"].keys() and len(l["scores"]) == 20 and l["cpu_seconds"] > 0
    assert all((l["states"][s] == "ok") == (v is not None) for s, v in l["scores"].items())
    assert l["states"]["params"] == "ok"
agreement = {l["score"]: l for l in lines if l["kind"] == "agreement"}
assert len(agreement) == 20 and agreement["params"]["minibatches"] == 1
END

# Data are needed by some scores only.
expect 0 '"synflow": ' "$kas" score --net resnet20 --input 3x8x8 --scores synflow,zen,meco,az_nas,latency kernels/conv.json --json
expect 0 '"meco": "blind"' "$kas" score --net resnet34 --input 3x8x8 --scores meco --json # 64 channels of 64 pixels
expect 2 'the score naswot needs images: give --dataset' "$kas" score --net resnet20 --scores naswot
expect 2 'there is no score "fishers"; there are fisher, ' "${score[@]}" --scores fishers
expect 2 '--batch: expected an integer in [8, 1024]' "${score[@]}" --batch 7
expect 0 'fisher' "${score[@]}" --batch 64 # one minibatch
expect 3 '--batch 64: '"$dir/s.h5"': train/images: 120 images are too few for 2 minibatches of 64; give --batch 60 or less, or a data' \
    "${score[@]}" --sampled 3 --batch 64 --agreement
expect 3 'too few for 1 minibatch of 121; give --batch 120 or less' "${score[@]}" --batch 121
expect 0 ' us' "$kas" score --net resnet20 --input 3x8x8 --scores latency,params --machine h100 # a unit
! grep -q 'e+05' out || fail "parameters are no whole number"
expect 3 'kernels/nas_pte_2.json' "${score[@]}" kernels/nas_pte_2.json
expect 0 'params' "${score[@]}" --batch 64 --scores params,synflow # which look at no images
expect 2 '--input and --classes: the data set has them' "${score[@]}" --input 3x16x16
expect 2 '--input and --classes: the data set has them' "${score[@]}" --classes 4
# The score imitation imitates a trained network, or one whose weights are drawn.
"$kas" train --net resnet20 --dataset "$dir/s.h5" --epochs 1 --batch 32 --device cpu --quiet --weights "$dir/trained.safetensors" >/dev/null
expect 0 '' "${score[@]}" --scores imitation kernels/depthwise.json --json
drawn=$(grep -o '"imitation": 0[^,}]*' "$dir/out")
expect 0 '' "${score[@]}" --scores imitation kernels/depthwise.json --json --init "$dir/trained.safetensors"
trained=$(grep -o '"imitation": 0[^,}]*' "$dir/out")
[ -n "$drawn" ] && [ -n "$trained" ] && [ "$drawn" != "$trained" ] || fail "--init changes no score: $drawn, $trained"
expect 2 '--init is for the score imitation' "${score[@]}" --init "$dir/trained.safetensors"
expect 3 'belongs to no layer of network resnet18' "$kas" score --net resnet18 --dataset "$dir/s.h5" --scores imitation --init "$dir/trained.safetensors"
# Images that say nothing: all of one value; in a minibatch all of one class.
for kind in constant class; do
    mkdir "$dir/$kind"
    /usr/bin/python3 - "$dir/$kind" <<'END'
import random, struct, sys
folder, draw = sys.argv[1], random.Random(0)
constant = folder.endswith("constant")
for part, count in (("train", 60), ("t10k", 8)):
    pixels = bytes(64 * count) if constant else draw.randbytes(64 * count)
    labels = bytes(i % 4 if constant or i < 4 else 0 for i in range(count))
    open(f"{folder}/{part}-images-idx3-ubyte", "wb").write(struct.pack(">4i", 2051, count, 8, 8) + pixels)
    open(f"{folder}/{part}-labels-idx1-ubyte", "wb").write(struct.pack(">2i", 2049, count) + labels)
END
    "$kas" dataset import idx "$dir/$kind" -o "$dir/$kind.h5" --quiet
done
expect 3 'of the training set is constant' "$kas" score --net resnet20 --dataset "$dir/constant.h5" kernels/conv.json
expect 3 'all 8 images of the minibatch are of class 0' "$kas" score --net resnet20 --dataset "$dir/class.h5" --batch 8 --agreement kernels/conv.json kernels/depthwise.json kernels/group_conv.json

# A kernel that overflows has no score that looks at the network, and no rank; the other one has.
/usr/bin/python3 - "$dir/over.json" <<'END'
import json, sys
kernel = json.load(open("kernels/conv.json"))
kernel["nodes"] += [{"op": "mul", "in": [i, i]} for i in range(2, 10)]
json.dump(kernel, open(sys.argv[1], "w"))
END
expect 0 '"not_finite_at": "layer1.0.conv1"' "${score[@]}" "$dir/over.json" kernels/conv.json --scores all --json
/usr/bin/python3 - "$dir/out" <<'END' || fail "a score that is not finite has a value"
import json, sys
_, over, conv = [json.loads(l) for l in open(sys.argv[1])]
assert {s for s, state in over["states"].items() if state == "ok"} == {"params", "flops", "layers", "latency"}, over["states"]
assert all((over["states"][s] == "not-finite") == (v is None) for s, v in over["scores"].items())
assert set(conv["states"].values()) == {"ok"}, conv["states"]
END
# What zen looks at ends in front of the last pool, not of a gate's.
for width in 4 16; do
    printf '{"format": "kas-gpu network", "version": 1, "name": "gated", "layers": [{"conv": "stem", "channels": 8, "kernel": 3},
        {"batch_norm": "bn"}, {"relu": "a"}, {"global_avg_pool": "mean", "from": "a"}, {"conv": "map", "channels": 8, "kernel": 1},
        {"multiply": "gate", "from": ["a", "map"]}, {"conv": "last", "channels": %d, "kernel": 3}, {"relu": "b"},
        {"global_avg_pool": "gap"}, {"linear": "fc", "channels": "classes"}]}' $width >"$dir/gated$width.json"
    expect 0 '"zen"' "$kas" score --net "$dir/gated$width.json" --dataset "$dir/s.h5" --scores zen --json
    grep -o '"zen": *[0-9.-]*' "$dir/out" >"$dir/zen$width"
done
! cmp -s "$dir/zen4" "$dir/zen16" || fail "zen is the same with other layers behind a gate"
expect 0 '2 of the kernels could be scored, too few' "${score[@]}" --agreement --scores params kernels/conv.json kernels/nas_pte_2.json kernels/depthwise.json
if grep -q 'rank correlation' "$dir/out"; then fail "ranks of two kernels: $(cat "$dir/out")"; fi
expect 2 'no network is given' "$kas" score --dataset "$dir/s.h5"
echo "ok: scores of files and samples, and bad inputs"
