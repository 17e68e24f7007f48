#!/usr/bin/env bash
# kas-gpu starts, and doctor tells, with NVIDIA's libraries there or not, with a host compiler or not.
set -eu
. tests/e2e/expect.bash
sim=$PWD/build/tests/libkas_cuda_sim.so

# Nothing of NVIDIA is linked: the loader cannot miss it.
if ldd "$kas" | grep -iE 'libcuda|cudnn|nvrtc|nccl|cublas'; then fail "the program is linked with NVIDIA's libraries"; fi

"$kas" --help >/dev/null
"$kas" doctor >"$dir/here" || fail "doctor: exit code $?"
grep -q '^Devices for --device: cpu' "$dir/here" || fail "no line of devices"

# No library, no compiler: still exit 0, and each missing part says what it would enable.
env PATH=/nowhere KAS_CC=/nowhere/cc KAS_CUDA_LIBS=/nowhere/lib.so "$kas" doctor >"$dir/bare" || fail "bare machine: exit code $?"
[ "$(grep -c 'would enable' "$dir/bare")" -ge 8 ] || fail "a bare machine lacks 8 parts: $(cat "$dir/bare")"
grep -q 'No GPU can be used' "$dir/bare" || fail "no word on the GPU"

# What the JSON says is looked at where there is a python3; a fresh machine may have none.
if ! command -v python3 >/dev/null; then
    "$kas" doctor --json | grep -q '^{"schema_version":1,.*"gpus":' || fail "doctor --json"
    skip_part "no python3: the JSON was not read"
    exit 0
fi
json() { python3 -c "import json,sys; d=json.load(open('$dir/json')); sys.exit(0 if ($1) else 1)"; }
"$kas" doctor --json >"$dir/json"
json 'd["schema_version"] == 1 and d["cpu"]["threads"] >= 1 and len(d["nvidia"]) == 5' || fail "JSON: $(cat "$dir/json")"
json 'all(p["found"] or p["missing"] for p in d["host"] + d["nvidia"])' || fail "a missing part has no reason"

if [ -f "$sim" ]; then
    KAS_CUDA_LIBS=$sim KAS_SIM_DEVICES=2 "$kas" doctor --json >"$dir/json"
    json '[g["device"] for g in d["gpus"]] == ["cuda:0", "cuda:1"] and all(g["usable"] for g in d["gpus"])' ||
        fail "two pretended GPUs: $(cat "$dir/json")"
fi
echo "ok: doctor with and without the libraries of NVIDIA"
