#!/usr/bin/env bash
# Gains: a kernel whose scale is far off is calibrated, trained, shown, checked and exported, by `train` and by a search.
set -eu
. tests/e2e/expect.bash
kas=${KAS_BUILD:-build}/kas-gpu
on=(--device cpu --threads 1 --quiet)

# exp(4 fc(x)): its deviation is beyond 1000.
cat >"$dir/tower.json" <<'JSON'
{"format": "kas-gpu kernel", "version": 1, "nodes": [
  {"op": "input"},
  {"op": "fc", "in": [0], "out": "C"},
  {"op": "exp", "in": [1]},
  {"op": "square", "in": [2]},
  {"op": "square", "in": [3]}
], "groups": {}}
JSON
"$kas" dataset make shapes -o "$dir/s.h5" --train 60 --test 20 --size 8 --classes 3 >/dev/null
train=("$kas" train --net resnet20 --dataset "$dir/s.h5" --epochs 1 --batch 20 --device cpu --threads 1)
"${train[@]}" --kernel "$dir/tower.json" --weights "$dir/w.safetensors" >"$dir/out" 2>&1 || fail "$(cat "$dir/out")"
grep -q 'calibrated: .* a gain at [0-9]* of 18 layers' "$dir/out" || fail "no calibration: $(cat "$dir/out")"
grep -aq 'layer1.0.conv1.gain' "$dir/w.safetensors" || fail "the weights lack the gains"
echo "ok: train"

# From its own weights a training takes their gains; weights and kernel file together are the network.
"${train[@]}" --kernel "$dir/tower.json" --init "$dir/w.safetensors" >"$dir/out" 2>&1 || fail "$(cat "$dir/out")"
grep -q calibrated "$dir/out" && fail "calibrated again: $(cat "$dir/out")"
"$kas" export "$dir/tower.json" -o "$dir/e" --input 3x8x8 --classes 3 --weights "$dir/w.safetensors" --verify --json \
    "${on[@]:0:2}" --quiet >"$dir/out" || fail "$(cat "$dir/out")"
grep -Eq '"device": "(ok|skipped)".*"pytorch": "(ok|skipped)"' "$dir/out" || fail "$(cat "$dir/out")"
grep -q 'gain=' "$dir/e/network.py" || fail "network.py has no gains"
grep -q 'pixels / 255, then per channel mean [0-9. ]*, std [0-9. ]*: (x - mean) / std' "$dir/e/README.md" || fail "README.md does not say how images are normalised"
echo "ok: export"

# So do the kernels of an imitation, whose weights have the gains, and those that are assembled.
"${train[@]}" --weights "$dir/plain" >/dev/null 2>&1 || fail "the unmodified network was not trained"
with=(--net resnet20 --dataset "$dir/s.h5" --device cpu --threads 1)
expect 0 'calibrated: ' "$kas" imitate "${with[@]}" --batch 6 --kernel "$dir/tower.json" --weights "$dir/plain" --out "$dir/start"
grep -aq 'layer1.0.conv1.gain' "$dir/start" || fail "the weights of an imitation lack the gains"
expect 6 'calibrated: ' "$kas" assemble "$dir/tower.json" "${with[@]}" --batch 6 --init "$dir/plain" --latency 1 --dry-run -o "$dir/assembled"
echo "ok: imitate and assemble"

# A search finds gains, keeps them, and trains the winner with the same.
"$kas" search --strategy random --dataset "$dir/s.h5" --net resnet20 --candidates 3 --epochs 1 --batch 20 --seed 3 --latency 0 --prune none \
    --study "$dir/study" "${on[@]}" >"$dir/out" || fail "$(cat "$dir/out")"
"$kas" best "$dir/study" --json >"$dir/all"
candidate=$(grep '"kind": "candidate"' "$dir/all" | grep '"rank": 1,')
final=$(grep '"kind": "final"' "$dir/all")
gains() { sed 's/.*"gains": //; s/, "accuracy.*//' <<<"$1"; }
gains "$candidate" | grep -q 'layer1.0.conv1' || fail "the winner has no gains: $candidate"
[ "$(gains "$candidate" | cut -c1-200)" = "$(gains "$final" | cut -c1-200)" ] || fail "the final training has other gains"
logs=("$dir"/study/logs/final*.log)
[ "${#logs[@]}" -ge 2 ] || fail "no logs of the final trainings: $(ls "$dir/study/logs")"
grep -l 'gains {' "${logs[@]}" && fail "the final training was calibrated anew"
grep -q '"gains": {"layer1.0.conv1"' "$dir/study/best/kernel.json" || fail "$(cat "$dir/study/best/kernel.json")"
"$kas" show "$dir/study/best/kernel.json" | grep -Eq '^(layer[^ ]* +[0-9.e-]+|gain 1 at .* layers)$' || fail "show prints no gains"
sed 's/\("gains": {\).*/\1"layer1.0.conv1": 1, "layer1.0.conv2": 0.5, "layer1.1.conv1": 1}/' "$dir/study/best/kernel.json" >"$dir/mixed.json"
"$kas" show "$dir/mixed.json" >"$dir/out"
grep -q '^gain 1 at the other 2 layers$' "$dir/out" && [ "$(grep -c '^layer1' "$dir/out")" = 1 ] || fail "gains that are 1: $(cat "$dir/out")"
sed -i 's/: 0.5,/: 1,/' "$dir/mixed.json"
expect 0 'gain 1 at all 3 layers' "$kas" show "$dir/mixed.json"
"$kas" check "$dir/study/best/kernel.json" --net resnet20 --input 3x8x8 "${on[@]}" >"$dir/out" || fail "$(cat "$dir/out")"
"$kas" export "$dir/study" -o "$dir/best" --verify --json --device cpu --quiet >"$dir/out" || fail "$(cat "$dir/out")"
grep -Eq '"device": "(ok|skipped)".*"pytorch": "(ok|skipped)"' "$dir/out" || fail "$(cat "$dir/out")"
echo "ok: search"

# Damaged gains.
set +e
sed 's/"layer1.0.conv1": [0-9.e-]*/"layer1.0.conv1": 0/' "$dir/study/best/kernel.json" >"$dir/bad.json"
"$kas" show "$dir/bad.json" >/dev/null 2>"$dir/err"
[ $? = 3 ] || fail "a gain of 0: exit code"
grep -q 'bad.json: gains: field "layer1.0.conv1": expected a number' "$dir/err" || fail "a gain of 0: $(cat "$dir/err")"
echo "ok: refusals"
