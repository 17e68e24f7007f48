#!/usr/bin/env bash
# Scores in a search: a candidate that --legality rejects, proposals of which --prefilter trains one, and the search that
# trains nothing; bad options and bad images.
set -eu
. tests/e2e/expect.bash

"$kas" dataset make shapes -o "$dir/s.h5" --train 200 --test 40 --size 8 --classes 4 >/dev/null

# ---- with training ----
# Three candidates of seed 14 have a third of the unmodified network's Fisher potential or less, so that no rounding decides.
search=("$kas" search --strategy random --dataset "$dir/s.h5" --net resnet20 --study "$dir/study" --seed 14 --candidates 2
    --epochs 1 --batch 32 --threads 1 --latency 0 --legality fisher --prefilter naswot:2)
expect 0 'best kernel:' "${search[@]}"
expect 0 '' "$kas" log "$dir/study" --json
cp "$dir/out" "$dir/list"
/usr/bin/python3 - "$dir/list" <<'END' || fail "the study has other candidates"
import json, sys
items = [l for l in map(json.loads, open(sys.argv[1])) if l.get("kind") == "candidate"]
states = [l["state"] for l in items]
assert states.count("finished") == 2 and "prefiltered" in states and "low-score" in states, states
for l in items:
    if l["state"] == "prefiltered":
        assert "of 2 proposals of like FLOPs" in l["reason"], l
    if l["state"] == "low-score":
        assert l["reason"].startswith("score fisher "), l
END
# Another process walks through the same list.
expect 0 'best kernel:' "$kas" resume "$dir/study"
expect 0 '' "$kas" log "$dir/study" --json
cmp "$dir/out" "$dir/list" || fail "the list changed when the study was resumed"
expect 2 '--prefilter (the study has "naswot:2", this command "naswot:3")' "${search[@]}" --prefilter naswot:3
expect 2 'expected SCORE:K with K from 2 to 32' "$kas" search --dataset "$dir/s.h5" --net resnet20 --study "$dir/x" --prefilter fishes:4
expect 2 'the tree chooses each candidate' "$kas" search --dataset "$dir/s.h5" --net resnet20 --study "$dir/x" --strategy tree --rungs none --prefilter naswot:4

# ---- without ----
pte=("$kas" search --dataset "$dir/s.h5" --net resnet20 --space nas-pte --no-training --study "$dir/pte")
expect 0 "the fastest legal configuration: $dir/pte/best/kernel.json" "${pte[@]}" --configurations 12 --latency-on orin --finalists 2 --latency 2
expect 0 '' "${pte[@]}" --configurations 12 --latency-on orin --finalists 2 --latency 2 --score-all --threads 1 --json
cmp "$dir/out" "$dir/pte/untrained.jsonl" || fail "the folder has other lines than --json"
/usr/bin/python3 - "$dir/out" "$dir/pte" <<'END' || fail "the lines are not as documented"
import json, os, sys
head, *rest = [json.loads(l) for l in open(sys.argv[1])]
states = [c["state"] for c in rest]
assert head["configurations"] == len(rest) == 12 and head["unscored"] == 0
assert head["scored"] == head["legal"] + head["rejected"] and head["legal"] == states.count("legal") > 0
assert head["rejected_share"] == head["rejected"] / head["scored"]
assert head["best"] == rest[0]["configuration"]
assert sorted(os.listdir(sys.argv[2] + "/legal")) == sorted(
    c["configuration"] + ".json" for c in rest if c["state"] == "legal")
assert all((c["fisher"] >= head["least_fisher"]) == (c["state"] == "legal") for c in rest if c["fisher"] is not None)
END
cmp "$dir/pte/best/kernel.json" "$dir/pte/legal/$(sed -n 's/.*"best": "\([0-9a-f]*\)".*/\1/p' "$dir/out").json" ||
    fail "best/ has another configuration"
expect 0 'kernel.json' "$kas" predict "$dir/pte/best/kernel.json" --net resnet20 --input 3x8x8 --machine orin
expect 6 'none of 2 configurations is legal: none was scored, for 2 are predicted to be slower than --latency 0.01 allows' "${pte[@]}" --configurations 2 --seed 5 --latency 0.01
grep -q 'what an earlier search found stays' "$dir/err" || fail "what stays is not said: $(cat "$dir/err")"
cmp "$dir/pte/best/kernel.json" "$dir/pte/legal/$(sed -n 's/.*"best": "\([0-9a-f]*\)".*/\1/p' "$dir/pte/untrained.jsonl").json" ||
    fail "a search that finds nothing changed what an earlier one had found"
for command in status best report resume; do
    expect 4 "$dir/pte: the folder of a search with --no-training, which is no study" "$kas" $command "$dir/pte"
done
expect 3 'the kernel files that it found are in best/ and legal/' "$kas" search --dataset "$dir/s.h5" --net resnet20 --study "$dir/x" --from "$dir/pte"
expect 2 'expected fisher or imitation' "$kas" search --dataset "$dir/s.h5" --net resnet20 --study "$dir/x" --legality snip
expect 2 '--legality is fisher' "${pte[@]}" --legality imitation
expect 2 'found "none"' "${pte[@]}" --legality none
expect 2 '--no-training needs --space nas-pte' "$kas" search --dataset "$dir/s.h5" --no-training
expect 2 'need --no-training' "$kas" search --dataset "$dir/s.h5" --configurations 5
expect 2 'a search without training needs a folder of its own' "$kas" search --dataset "$dir/s.h5" --net resnet20 --space nas-pte --no-training --study "$dir/study"
mkdir -p "$dir/mine/best" && echo weights >"$dir/mine/best/mine"
expect 2 'there is a best/ in it that no earlier search' "$kas" search --dataset "$dir/s.h5" --net resnet20 --space nas-pte --no-training --study "$dir/mine" --configurations 2 --legality fisher:1 --latency 0
[ -e "$dir/mine/best/mine" ] || fail "a search deleted a folder of somebody else"
expect 2 '--dataset is needed' "$kas" search --space nas-pte --no-training
# What has no effect there is refused: options of the search, of the recipe (by letter, shortened), of workers and of the end.
for option in '--strategy random' '--epochs 3' '-e3' '--recip search' '--candidates 4' '--prefilter naswot:4' '--workers 2' '--retrain' '--dry-run' '--keep-slower'; do
    expect 2 ' has no effect with --no-training' "${pte[@]}" $option
done
expect 0 'configuration' "${pte[@]}" --configurations 2 --legality fisher:1 --latency 0 --precision tf32 --per-layer yes --params 2 --targets 3x3

# --measure compiles the legal ones and orders them by what it measures.
cat >"$dir/two.json" <<'END'
{"format": "kas-gpu network", "version": 1, "name": "two", "layers": [
 {"conv": "stem", "channels": 16, "kernel": 3}, {"conv": "a", "channels": 16, "kernel": 3}, {"batch_norm": "bn0"}, {"relu": "relu0"},
 {"conv": "b", "channels": 16, "kernel": 3}, {"batch_norm": "bn1"}, {"relu": "relu1"}, {"global_avg_pool": "pool"}, {"linear": "fc", "channels": "classes"}]}
END
expect 0 '' "$kas" search --dataset "$dir/s.h5" --net "$dir/two.json" --space nas-pte --no-training --study "$dir/m" --configurations 6 --finalists 3 \
    --latency 0 --legality fisher:1 --measure --json --threads 1
/usr/bin/python3 - "$dir/out" <<'END' || fail "the legal ones are not in the order of what was measured"
import json, sys
head, *rest = [json.loads(l) for l in open(sys.argv[1])]
legal = [c for c in rest if c["state"] == "legal"]
assert len(legal) == 3 and head["measure_seconds"] > 0 and head["best"] == legal[0]["configuration"], head
assert all(0 < c["latency_ratio_low"] <= c["latency_ratio"] <= c["latency_ratio_high"] for c in legal), legal
assert [c["latency_ratio"] for c in legal] == sorted(c["latency_ratio"] for c in legal), legal
assert all(c["latency_ratio"] is None for c in rest if c["state"] != "legal")
END
echo "ok: candidates that scores reject, and a search that trains nothing"
