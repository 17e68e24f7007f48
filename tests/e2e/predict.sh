#!/usr/bin/env bash
# kas-gpu predict: networks, kernels and machines; bad inputs. doctor --calibrate itself takes minutes: only its options.
set -eu
. tests/e2e/expect.bash

net="--net resnet20 --input 3x16x16"
expect 0 '--net resnet18 --machine h100' "$kas" predict --help
expect 0 'unmodified network' "$kas" predict $net --machine cpu
for machine in cpu cpu-avx2 a100 h100 h200 l4 rtx4090 orin orin-nano; do
    expect 0 '"ratio_to_unmodified": 1,' "$kas" predict $net --machine $machine --json
done
expect 0 'never calibrated' "$kas" predict --net resnet18 --machine h100
expect 0 "two cores and scaled to another number, so" "$kas" predict --net resnet20 --machine cpu --threads 8
expect 0 "two cores, so" "$kas" predict --net resnet20 --machine cpu
expect 0 '' "$kas" predict --net resnet18 --machine h100 --quiet
[ ! -s "$dir/err" ] || fail "--quiet warned: $(cat "$dir/err")"

# One kernel has its launches; several are a table, and a line of JSON each behind the unmodified network.
expect 0 'kernel forward' "$kas" predict kernels/depthwise_separable.json $net --machine h100
expect 0 '' "$kas" predict kernels/depthwise_separable.json kernels/involution.json $net --machine h100
! grep -q 'kernel forward' "$dir/out" || fail "launches of several kernels without --launches"
expect 0 'kernel forward' "$kas" predict kernels/depthwise_separable.json kernels/involution.json $net --machine h100 --launches
expect 0 '"bound": "' "$kas" predict kernels/depthwise_separable.json kernels/involution.json $net --machine h100 --json --precision bf16
[ "$(wc -l <"$dir/out")" = 3 ] || fail "3 lines expected"
/usr/bin/python3 - "$dir/out" <<'EOF' || fail "the launches do not add up"
import json, sys
for line in open(sys.argv[1]):
    p = json.loads(line)
    assert p["kind"] == "prediction" and not p["calibrated"] and p["batch"] == 32
    assert abs(sum(l["seconds"] for l in p["launches"]) / p["seconds"] - 1) < 1e-9
    assert all(l["seconds"] >= l["floor_seconds"] > 0 for l in p["launches"])
    assert all(l["bound"] in ("memory", "arithmetic", "latency", "launch") for l in p["launches"])
EOF
seconds() { KAS_CUDA_LIBS=/nowhere/lib.so "$kas" predict $net --machine auto --json --quiet "$@" | sed 's/.*"error": 0, "seconds": \([^,]*\),.*/\1/'; }
[ "$(seconds --threads 1)" != "$(seconds --threads 2)" ] || fail "this machine's CPU is predicted with the same number of threads"

# Every launch of sampled kernels and of files, on a machine that is not here.
expect 0 'of their floor' "$kas" bench predicted $net --repeats 1 --machine a100 --precision bf16
expect 0 '"median_program_ratio"' "$kas" bench predicted $net --kernel kernels/involution.json --machine auto --json
expect 0 '"median_program_ratio"' "$kas" bench predicted $net --kernel kernels/involution.json --machine h200 --json
expect 3 'machine "h101"' "$kas" bench predicted --machine h101
expect 2 '--machine is an option of the suite predicted only' "$kas" bench step --machine h100

# A kernel that does not fit the network is an error alone, and left out among others.
expect 3 'kernels/nas_pte_2.json' "$kas" predict kernels/nas_pte_2.json $net --machine h100
expect 0 'left out: kernels/nas_pte_2.json' "$kas" predict kernels/nas_pte_2.json kernels/conv.json $net --machine h100 --json
[ "$(wc -l <"$dir/out")" = 2 ] || fail "2 lines expected"

# A machine file, and damaged ones.
cat >"$dir/m.json" <<'EOF'
{"schema_version":1,"kind":"machine","name":"mine","device":"","gpu":false,"calibrated":true,"cores":4,"clock":3e9,
"lanes":8,"warp":8,"threads":0,"memory_bandwidth":2e10,"outer_bytes":1e7,"inner_bytes":1e6,"rate_fp32":1e11,
"rate_tf32":1e11,"rate_bf16":1e11,"rate_fp16":1e11,"read_latency":0,"error":0.2,"margin":1.5,"outer_bandwidth":4e10,
"inner_bandwidth":8e10,"launch":1e-6,"call":1e-6,"efficiency_window":0.5,"efficiency_map":0.5,"efficiency_grouped":0.5,
"efficiency_depthwise":0.5,"half_channels":8,"half_grouped":8,"pass":0.5,"arithmetic":1,"function":1,"load":1,"reduce":1,"gather":1,"division":1,
"shared":1,"turn":1}
EOF
expect 0 'on mine, fp32; calibrated' "$kas" predict $net --machine "$dir/m.json"
sed 's/"cores":4/"cores":-4/' "$dir/m.json" >"$dir/bad.json"
expect 3 'cores' "$kas" predict $net --machine "$dir/bad.json"
sed 's/"load":1,//' "$dir/m.json" >"$dir/bad.json"
expect 3 'load' "$kas" predict $net --machine "$dir/bad.json"
echo '{"schema_version":1' >"$dir/bad.json"
expect 3 'bad.json' "$kas" predict $net --machine "$dir/bad.json"
expect 3 '"schema_version" is missing' "$kas" predict $net --machine recipes/cifar200.json

expect 2 'no network is given' "$kas" predict --machine h100
expect 3 'machine "h101": expected "auto"' "$kas" predict $net --machine h101
expect 3 'nonesuch.json' "$kas" predict nonesuch.json $net --machine h100
expect 3 'kernels/involution.json' "$kas" predict $net --machine kernels/involution.json
expect 3 'unknown network' "$kas" predict --net nonesuch --machine h100
expect 2 '--batch' "$kas" predict $net --machine h100 --batch 0
expect 2 '--precision' "$kas" predict $net --machine h100 --precision int8
expect 2 '--calibrate' "$kas" doctor --calibrate=2
expect 2 '--output needs --calibrate' "$kas" doctor -o "$dir/x.json"
expect 1 '/nowhere' "$kas" doctor --calibrate --device cpu -o /nowhere/x.json
echo "ok: predict on every built-in machine, from files, and bad inputs"
