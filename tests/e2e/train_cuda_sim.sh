#!/usr/bin/env bash
# A tiny training run on the CUDA device, with the stand-in for NVIDIA's libraries: the same figures as
# on the CPU device, the same bits whatever order the stand-in picks, and clear ends when the GPU fails.
set -eu
. tests/e2e/expect.bash
sim=${KAS_SIM_LIBRARY:-$PWD/build/tests/libkas_cuda_sim.so}
[ -f "$sim" ] || { echo "SKIPPED: $sim is not built (make test builds it)"; exit 77; }
command -v python3 >/dev/null || { echo "SKIPPED: no python3 to compare the figures"; exit 77; }
export KAS_CUDA_PLANS=heuristic # the stand-in's time says nothing

"$kas" dataset make shapes -o "$dir/s.h5" --train 36 --test 8 --size 8 --classes 4 >/dev/null
options=()
train() { # device out [VARIABLE=value...], with `options`
    local device=$1 out=$2
    shift 2
    env KAS_CUDA_LIBS="$sim" "$@" "$kas" train --net resnet20 --dataset "$dir/s.h5" --device "$device" --batch 8 \
        --lr 0.01 --epochs 2 --seed 3 --json "${options[@]}" >"$dir/$out" 2>"$dir/$out.err"
}
train cpu cpu || fail "CPU: $(cat "$dir/cpu.err")"
train cuda cuda || fail "CUDA: $(cat "$dir/cuda.err")"
train cuda cuda2 KAS_SIM_SEED=77 || fail "CUDA, other order: $(cat "$dir/cuda2.err")"
train cuda plain KAS_SIM_REFUSE=cublasLt,cudnn || fail "own kernels: $(cat "$dir/plain.err")"

# All that a recipe can switch on. Adam divides by the root of squares that may be tiny: hence epsilon.
options=(--optimiser adamw --epsilon 1e-3 --ema 0.9 --clip 1 --cutout 2 --erase 0.5 --mixup 0.5 --cutmix 1)
train cpu cpu_all || fail "CPU, all options: $(cat "$dir/cpu_all.err")"
train cuda cuda_all || fail "CUDA, all options: $(cat "$dir/cuda_all.err")"
options=()

python3 - "$dir" <<'PY' || exit 1
import json, sys
def epochs(name):
    rows = [json.loads(line) for line in open(f"{sys.argv[1]}/{name}")]
    return [[r[k] for k in ("train_loss", "train_accuracy", "validation_loss", "validation_accuracy")]
            for r in rows if r["event"] == "epoch"]
cpu, cuda, again, plain = map(epochs, ("cpu", "cuda", "cuda2", "plain"))
assert len(cpu) == 2 and len(cuda) == 2, (cpu, cuda)
assert cuda == again, f"the order of independent work changed the result: {cuda} {again}"
for name, ours, other in (("libraries", cpu, cuda), ("own kernels", cpu, plain),
                          ("all options", epochs("cpu_all"), epochs("cuda_all"))):
    worst = max(abs(a - b) / max(abs(a), 1e-3) for x, y in zip(ours, other) for a, b in zip(x, y))
    print(f"{name}: largest relative difference to the CPU {worst:.3g}, tolerance 1e-4")
    assert worst <= 1e-4, f"CPU {ours}, CUDA {other}"
PY

ends() { # what exit-code words VARIABLE=value...
    local what=$1 code=$2 words=$3 rc=0
    shift 3
    train cuda failed "$@" || rc=$?
    [ $rc = "$code" ] || fail "$what: exit code $rc, expected $code: $(cat "$dir/failed.err")"
    grep -q "$words" "$dir/failed.err" || fail "$what: no \"$words\" in $(cat "$dir/failed.err")"
}
ends "dead GPU" 5 "illegal memory access" KAS_SIM_FAIL=cuStreamSynchronize:5:700:sticky
ends "launch refused" 5 "kernel kas_dev_" KAS_SIM_FAIL=cuLaunchKernel:50
ends "GPU too small" 1 "MB of memory left" KAS_SIM_MEMORY=1000000
ends "no GPU" 5 "no CUDA-capable device" KAS_SIM_DEVICES=0

# A GPU with room for the step only when batch norms are computed again: the run says so, and has the same bits.
step=(--net resnet20 --dataset "$dir/s.h5" --batch 16 --epochs 1 --seed 3 --json)
plan=$("$kas" train "${step[@]}" --dry-run)
bytes() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" <<<"$plan"; }
between=$(((($(bytes device_memory_bytes) + $(bytes recompute_memory_bytes)) / 2 - $(bytes image_bytes)) * 16 / 15))
for memory in $((1 << 30)) $between; do
    env KAS_CUDA_LIBS="$sim" KAS_SIM_REFUSE=cublasLt,cudnn KAS_SIM_MEMORY=$memory "$kas" train "${step[@]}" --device cuda \
        --weights "$dir/weights$memory" >"$dir/out" 2>"$dir/err" || fail "GPU of $memory bytes: $(cat "$dir/err")"
done
grep -q "computed again in the backward pass" "$dir/err" || fail "GPU of $between bytes: $(cat "$dir/err")"
cmp "$dir/weights$((1 << 30))" "$dir/weights$between" || fail "recomputation gives other weights"
echo "ok: the figures of the CPU device, and clear ends"
