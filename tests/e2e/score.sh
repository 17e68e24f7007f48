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

# Threads change nothing but the time; the same call gives the same numbers.
expect 0 '' "${score[@]}" --sampled 6 --scores all --agreement --json --threads 1
sed 's/, "cpu_seconds": .*//' "$dir/out" >"$dir/one"
expect 0 '' "${score[@]}" --sampled 6 --scores all --agreement --json --threads 3
sed 's/, "cpu_seconds": .*//' "$dir/out" | cmp - "$dir/one" || fail "the number of threads changes scores"
/usr/bin/python3 - "$dir/out" <<'END' || fail "the lines are not as documented"
import json, sys
lines = [json.loads(l) for l in open(sys.argv[1])]
scores = [l for l in lines if l["kind"] == "score"]
assert len(scores) == 7 and scores[0]["kernel"] is None and scores[0]["states"]["az_nas"] == "not-asked"
for l in scores:
    assert l["scores"].keys() == l["states"].keys() and len(l["scores"]) == 19 and l["cpu_seconds"] > 0
    assert all((l["states"][s] == "ok") == (v is not None) for s, v in l["scores"].items())
    assert l["states"]["params"] == "ok"
agreement = {l["score"]: l for l in lines if l["kind"] == "agreement"}
assert len(agreement) == 19 and agreement["params"]["minibatches"] == 1
END

# Data are needed by some scores only.
expect 0 '"synflow": ' "$kas" score --net resnet20 --input 3x8x8 --scores synflow,zen,meco,az_nas,latency kernels/conv.json --json
expect 2 'the score naswot needs images: give --dataset' "$kas" score --net resnet20 --scores naswot
expect 2 'there is no score "fishers"; there are fisher, ' "${score[@]}" --scores fishers
expect 2 '--batch: expected an integer in [8, 1024]' "${score[@]}" --batch 7
expect 3 '120 images are too few for 2 minibatches of 64' "${score[@]}" --batch 64
expect 3 'kernels/nas_pte_2.json' "${score[@]}" kernels/nas_pte_2.json
expect 2 'no network is given' "$kas" score --dataset "$dir/s.h5"
echo "ok: scores of files and samples, and bad inputs"
