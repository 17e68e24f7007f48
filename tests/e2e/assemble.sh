#!/usr/bin/env bash
# A network assembled layer by layer, by each strategy: from a data set to a file of layers that other commands take; killed and
# resumed; bad input.
set -eu
. tests/e2e/expect.bash
value() { sed -n "s/.*\"event\": \"$1\".*\"$2\": \"\{0,1\}\([^,\"}]*\).*/\1/p" "$dir/out" | tail -n 1; }
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a <= b) }'; }

"$kas" dataset make shapes -o "$dir/s.h5" --train 240 --test 40 --size 8 --classes 4 >/dev/null
common=(--net resnet20 --dataset "$dir/s.h5" --device cpu --threads 1 --batch 20 --epochs 1 --seed 3)
kernels=(kernels/group_conv.json kernels/nas_pte_2.json kernels/depthwise.json)
assemble=("$kas" assemble "${common[@]}" --machine cpu)

# The knapsack trains the network first, imitates once with each kernel, and trains the result; predict says the same latency.
expect 0 '"event": "assembled"' "${assemble[@]}" "${kernels[@]}" --latency 0.8 -o "$dir/k" --json
cp "$dir/out" "$dir/first"
folder=$(value assembled folder) latency=$(value assembled latency)
less "$latency" 0.8 || fail "the latency is $latency"
[ "$(wc -l <"$dir/k/measured.jsonl")" = 3 ] || fail "3 kernels are not 3 imitations"
[ "$(grep -c '"event": "layer"' "$dir/out")" = 18 ] || fail "not 18 layers"
[ -s "$folder/weights.safetensors" ] || fail "no weights"
grep '"event": "frontier"' "$dir/out" | sed 's/.*"latency": \([^,]*\), "loss": \([^,]*\),.*/\1 \2/' >"$dir/frontier"
awk 'NR > 1 && ($1 <= x || $2 >= y) { exit 1 } { x = $1; y = $2 }' "$dir/frontier" || fail "the frontier is no frontier"
! grep '"event": "frontier"' "$dir/out" | grep -v '"gap": 0}' || fail "so few choices were thinned"
expect 0 '"ratio_to_unmodified"' "$kas" predict "$folder/layers.json" --net resnet20 --input 3x8x8 --classes 4 --machine cpu --json
predicted=$(sed -n 's/.*"ratio_to_unmodified": *\([^,}]*\).*/\1/p' "$dir/out" | tail -n 1)
awk -v a="$predicted" -v b="$latency" 'BEGIN { exit !((a - b) ^ 2 < 1e-12) }' || fail "predict says $predicted, assemble $latency"

# The same command measures and trains nothing again; another latency measures nothing again.
expect 0 '"event": "assembled"' "${assemble[@]}" "${kernels[@]}" --latency 0.8 -o "$dir/k" --json
grep -v '"event":"\|seconds' "$dir/first" | diff - <(grep -v '"event":"\|seconds' "$dir/out") || fail "the same command chose something else"
grep -q 'missed\|trained first' "$dir/err" && fail "the same command measured again"
expect 0 "$dir/k" "${assemble[@]}" "${kernels[@]}" --latency 0.9 -o "$dir/k" --dry-run
[ "$(wc -l <"$dir/k/measured.jsonl")" = 3 ] || fail "another latency imitates again"
trained=$(echo "$dir"/k/trained-*.safetensors)

# Killed in the middle of the imitations, it goes on and chooses the same.
"${assemble[@]}" "${kernels[@]}" --latency 0.8 -o "$dir/killed" --init "$trained" --dry-run >/dev/null 2>&1 &
pid=$!
await "an imitation" [ -s "$dir/killed/measured.jsonl" ]
kill -9 $pid 2>/dev/null || true
wait $pid 2>/dev/null || true
expect 0 'assembled' "${assemble[@]}" "${kernels[@]}" --latency 0.8 -o "$dir/killed" --init "$trained" --dry-run --json
[ "$(wc -l <"$dir/killed/measured.jsonl")" = 3 ] || fail "after the kill not 3 imitations"
grep '"event": "layer"' "$dir/out" | diff - <(grep '"event": "layer"' "$dir/first") || fail "the kill changed the choice"

# A budget rules out faster kernels and not the latency: what another kernel makes possible is found beside them.
expect 0 '"event": "assembled"' "${assemble[@]}" kernels/group_conv.json kernels/bottleneck.json --latency 0.9 --params 0.2 --loss fisher -o "$dir/f" --dry-run --json
less "$(value assembled params)" 0.2 || fail "$(value assembled params) of the parameters"
# Latencies can be measured: those of the network, with the kernel, and as it is assembled.
expect 0 'measured latency of the unmodified' "$kas" assemble "${common[@]}" kernels/depthwise.json --loss fisher --latency 1 --measure -o "$dir/t" --dry-run
[ "$(grep -vc 'Fisher potential' "$dir/t/measured.jsonl")" = 3 ] || fail "not 3 latencies: $(cat "$dir/t/measured.jsonl")"
# Fisher losses need no trained network; BlockSwap obeys its budget; FBNet goes on after a kill.
expect 0 '"event": "assembled"' "${assemble[@]}" "${kernels[@]}" --latency 0.8 --loss fisher -o "$dir/f" --dry-run --json
expect 0 '"event": "assembled"' "${assemble[@]}" "${kernels[@]}" --strategy blockswap --params 0.5 --samples 10 -o "$dir/b" --json
less "$(value assembled params)" 0.5 || fail "$(value assembled params) of the parameters"
lines=$(wc -l <"$dir/b/measured.jsonl")
[ "$lines" = 10 ] || fail "$lines potentials"
expect 0 'layers replaced' "${assemble[@]}" "${kernels[@]}" --strategy blockswap --params 0.5 --samples 10 -o "$dir/b" --dry-run
grep -q loss "$dir/out" && fail "BlockSwap has no losses of layers to show"
fbnet=("${assemble[@]}" "${kernels[@]}" --strategy fbnet --latency 0.8 --epochs 3 --dry-run --json)
expect 0 '"strategy": "fbnet"' "${fbnet[@]}" -o "$dir/n"
cp "$dir/out" "$dir/whole"
"${fbnet[@]}" -o "$dir/m" >/dev/null 2>&1 &
pid=$!
await "an epoch of the supernet" compgen -G "$dir/m/supernet-*" >/dev/null
kill -9 $pid 2>/dev/null || true
wait $pid 2>/dev/null || true
expect 0 '"strategy": "fbnet"' "${fbnet[@]}" -o "$dir/m"
diff <(sed "s#$dir/n#DIR#" "$dir/whole") <(sed "s#$dir/m#DIR#" "$dir/out") || fail "the kill changed the supernet"
# The latencies are in its loss: for another machine another one learns.
expect 0 '"strategy": "fbnet"' "${fbnet[@]}" --machine orin -o "$dir/n"
[ "$(ls -d "$dir"/n/supernet-* | wc -l)" = 2 ] || fail "the supernet of another machine: $(ls "$dir/n")"

# Bad input.
expect 2 '--latency is needed' "${assemble[@]}" "${kernels[@]}" -o "$dir/x"
expect 2 '--params, --flops or --latency' "${assemble[@]}" "${kernels[@]}" -o "$dir/x" --strategy blockswap
expect 2 'a study or kernel files are needed' "${assemble[@]}" --latency 0.5 -o "$dir/x"
sed 's/"G0": 4/"G0": 7/' kernels/group_conv.json >"$dir/seven.json"
expect 6 'no kernel fits' "${assemble[@]}" "$dir/seven.json" --latency 0.5 -o "$dir/x"
expect 6 'reaches' "${assemble[@]}" "${kernels[@]}" --latency 0.001 -o "$dir/k" --dry-run
expect 6 'with these kernels every network is above --params; allow more' "${assemble[@]}" "${kernels[@]}" --loss fisher --latency 0.9 --params 0.0001 -o "$dir/f" --dry-run
expect 6 'at least with these kernels and not above --params; allow more' "${assemble[@]}" "${kernels[@]}" --loss fisher --latency 0.001 --params 1 -o "$dir/f" --dry-run
expect 6 'none of' "${assemble[@]}" "${kernels[@]}" --strategy blockswap --params 0.0001 --samples 2 -o "$dir/b"
expect 3 'none.json' "${assemble[@]}" "$dir/none.json" --latency 0.5 -o "$dir/x"
"$kas" dataset make shapes -o "$dir/other.h5" --train 240 --test 40 --size 8 --classes 5 >/dev/null
expect 3 'fc.weight' "${assemble[@]}" "${kernels[@]}" --dataset "$dir/other.h5" --init "$trained" --latency 0.8 -o "$dir/x"
# Too few images for the imitations are found before anything is trained.
expect 3 '24 validation images are fewer than one batch of 32' "${assemble[@]}" "${kernels[@]}" --batch 32 --latency 0.8 -o "$dir/few"
[ ! -e "$dir/few" ] || fail "a network was trained for nothing"
expect 3 '24 validation images are fewer' "${assemble[@]}" "${kernels[@]}" --batch 32 --init "$trained" --loss fisher --latency 0.8 -o "$dir/few"
expect 3 '217 asked for' "${assemble[@]}" "${kernels[@]}" --images 217 --latency 0.8 -o "$dir/few"
mkdir -p "$dir/empty"
expect 3 "error: $dir/empty: there is no kernel file" "${assemble[@]}" "$dir/empty" --latency 0.5 -o "$dir/x"
cp kernels/group_conv.json "$dir/empty"
echo '{}' >"$dir/empty/bad.json"
expect 0 "warning: $dir/empty: 1 file is not used" "${assemble[@]}" "$dir/empty" --loss fisher --latency 0.9 -o "$dir/x" --dry-run

# A study: one without finished candidates, and then the same with them.
search=("$kas" search --strategy random --dataset "$dir/s.h5" --net resnet20 --study "$dir/study" --candidates 4 --epochs 2 --batch 20 --device cpu --threads 1
    --flops 0.8 --finalists 1)
"${search[@]}" >/dev/null 2>&1 &
pid=$!
await "a study" "$kas" best "$dir/study" >/dev/null 2>&1
kill -9 $pid 2>/dev/null || true
wait $pid 2>/dev/null || true
expect 3 'no candidate of this study has finished' "${assemble[@]}" "$dir/study" --latency 0.9 -o "$dir/s"
expect 0 '' "${search[@]}"
expect 0 'layers replaced' "${assemble[@]}" "$dir/study" --latency 0.95 --init "$trained" --best 2 -o "$dir/s" --dry-run
# The budget of a study gives sizes to its own kernels, so that under this budget a kernel of a file is another one.
sizes() { "${assemble[@]}" "$@" --latency 1 --loss fisher -o "$dir/sizes" --dry-run >/dev/null 2>&1 || true; wc -l <"$dir/sizes/measured.jsonl"; }
both=$(sizes kernels/spatial_separable.json "$dir/study")
[ "$(sizes kernels/spatial_separable.json --flops 0.8 --params 1)" -gt "$both" ] || fail "potentials of other sizes were taken"
echo "ok: assemble; $(wc -l <"$dir/frontier") points on the frontier, $latency of the latency"
