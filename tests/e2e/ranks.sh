#!/usr/bin/env bash
# Ranks that train one network (docs/parallel.md), on the CPU device and on the stand-in for CUDA: the same as one rank
# with the whole batch, the same bits in every run, resumed and streamed too. rank_faults.sh has ranks that die, hang or fail.
set -eu
. tests/e2e/expect.bash
command -v python3 >/dev/null || { echo "SKIPPED: no python3 to compare weights"; exit 77; }
mkdir "$dir/t m p"
export KAS_CUDA_PLANS=heuristic KAS_SIM_DEVICES=4 TMPDIR="$dir/t m p"
export KAS_CUDA_LIBS=${KAS_SIM_LIBRARY:-$PWD/build/tests/libkas_cuda_sim.so}
devices=cpu
if [ -f "$KAS_CUDA_LIBS" ]; then devices="cpu cuda"; else skip_part "$KAS_CUDA_LIBS is not built (make test builds it)"; fi

cat >"$dir/net.json" <<'JSON'
{"format": "kas-gpu network", "version": 1, "name": "tiny", "layers": [
    {"conv": "stem", "channels": 8, "kernel": 3}, {"batch_norm": "bn0"}, {"relu": "relu0"},
    {"conv": "conv1", "channels": 8, "kernel": 3}, {"batch_norm": "bn1"},
    {"add": "sum", "from": ["bn1", "relu0"]}, {"relu": "relu1"},
    {"conv": "conv2", "channels": 16, "kernel": 3, "stride": 2}, {"batch_norm": "bn2"}, {"relu": "relu2"},
    {"global_avg_pool": "pool"}, {"dropout": "drop", "probability": 0.2}, {"linear": "fc", "channels": "classes"}]}
JSON
"$kas" dataset make shapes -o "$dir/s.h5" --train 100 --test 21 --size 8 --classes 4 >/dev/null
train() { # out options...
    local out=$1
    shift
    "$kas" train --net "$dir/net.json" --dataset "$dir/s.h5" --batch 16 --threads 1 --epochs 2 --lr 0.05 --seed 3 --erase 0.5 \
        --weights "$dir/$out" --json "$@" >"$dir/$out.json" 2>"$dir/$out.err" || { rc=$?; cat "$dir/$out.err"; return $rc; }
}
no_rest() { # nothing of a group stays behind
    [ -z "$(ls -d "$TMPDIR"/kas-train-* 2>/dev/null)" ] || fail "$1: the folder of the ranks is still there"
}

cat >"$dir/weights.py" <<'PY'
import json, struct
def weights(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    return {k: struct.unpack(f"<{(v['data_offsets'][1] - v['data_offsets'][0]) // 4}f",
                             data[8 + size + v["data_offsets"][0]:8 + size + v["data_offsets"][1]])
            for k, v in head.items() if k != "__metadata__"}
PY
cat >"$dir/compare.py" <<'PY'
import json, sys
from weights import weights
folder, one, other, tolerance = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
a, b = weights(f"{folder}/{one}"), weights(f"{folder}/{other}")
assert a.keys() == b.keys()
worst = max(abs(x - y) / max(max(map(abs, a[k])), 1e-3) for k in a for x, y in zip(a[k], b[k]))
rows = [[[r[k] for k in ("train_loss", "train_accuracy", "validation_loss", "validation_accuracy")] for r in
         map(json.loads, open(f"{folder}/{name}.json")) if r["event"] == "epoch"] for name in (one, other)]
worst_figure = max(abs(x - y) / max(abs(x), 1e-3) for p, q in zip(*rows) for x, y in zip(p, q))
print(f"{other}: largest difference to {one}: weights {worst:.3g} of a tensor's largest, figures {worst_figure:.3g}; tolerance {tolerance:g}")
assert len(rows[0]) == len(rows[1]) == 2 and worst <= tolerance and worst_figure <= tolerance, rows
PY
compare() { python3 "$dir/compare.py" "$dir" "$@" || fail "$*"; }

bytes() { sed -n 's/.*"device_memory_bytes":\([0-9]*\).*/\1/p' "$dir/$1.json"; }
train one --device cpu --sync-batch-norm
for device in $devices; do
    for ranks in 2 4; do
        train $device$ranks --device $device --ranks $ranks --sync-batch-norm
        compare one $device$ranks 1e-5
    done
    KAS_SIM_SEED=9 train $device-again --device $device --ranks 2 --sync-batch-norm
    cmp "$dir/${device}2" "$dir/$device-again" || fail "$device: two runs with two ranks have other bits"
    train $device-shard --device $device --ranks 2 --sync-batch-norm --shard-optimiser
    cmp "$dir/${device}2" "$dir/$device-shard" || fail "$device: --shard-optimiser gives other bits"
    [ "$(bytes $device-shard)" -lt "$(bytes ${device}2)" ] || fail "$device: --shard-optimiser takes $(bytes $device-shard) bytes, without it $(bytes ${device}2)"
    train $device-own --device $device --ranks 2
    ! cmp -s "$dir/${device}2" "$dir/$device-own" || fail "$device: --sync-batch-norm changes nothing"
    train $device-stream --device $device --ranks 2 --stream
    cmp "$dir/$device-own" "$dir/$device-stream" || fail "$device: a streamed run has other bits"
done

# After one step the running statistics show the forward pass: with --sync-batch-norm the bits of one rank, where each rank has
# whole chunks of 128 rows (here 8 images of 4x4 and more).
"$kas" dataset make shapes -o "$dir/step.h5" --train 18 --test 8 --size 8 --classes 4 >/dev/null
cat >"$dir/forward.py" <<'PY'
import sys
from weights import weights
one, two = map(weights, sys.argv[1:])
statistics = [k for k in one if "running" in k]
print("the same" if len(statistics) == 6 and all(one[k] == two[k] for k in statistics) else "other")
PY
for device in $devices; do
    step=(--device $device --dataset "$dir/step.h5" --epochs 1)
    train step1 "${step[@]}" --sync-batch-norm
    train step2 "${step[@]}" --sync-batch-norm --ranks 2
    train step2-own "${step[@]}" --ranks 2
    [ "$(python3 "$dir/forward.py" "$dir/step1" "$dir/step2")" = "the same" ] || fail "$device: --sync-batch-norm gives other bits forward"
    [ "$(python3 "$dir/forward.py" "$dir/step1" "$dir/step2-own")" = other ] || fail "$device: batch norms are synchronised unasked"
done
train one-tests --device cpu --test --sync-batch-norm
train cpu-tests --device cpu --test --sync-batch-norm --ranks 4 # 21 images: the last step has some for two ranks
figure() { sed -n 's/.*"result".*"test_accuracy":\([0-9.]*\),.*/\1/p' "$dir/$1.json"; }
[ -n "$(figure one-tests)" ] && [ "$(figure one-tests)" = "$(figure cpu-tests)" ] || fail "test accuracy of one rank $(figure one-tests), of four $(figure cpu-tests)"
grep -q '2 ranks, [0-9]* buckets of at most [0-9]* bytes, added by shared memory in the order of ranks, synchronised batch norm$' "$dir/cpu2.err" || fail "the run does not say what is exchanged"
if [ "$devices" = "cpu cuda" ]; then
    grep -q 'added by NCCL [0-9.]* with NCCL_ALGO=Ring, NCCL_PROTO=Simple, NCCL_NVLS_ENABLE=0, synchronised batch norm$' "$dir/cuda2.err" || fail "the settings of NCCL are not told"
    for ranks in 2 4; do
        train captured$ranks --device cuda --ranks $ranks --sync-batch-norm --capture-exchange
        cmp "$dir/cuda$ranks" "$dir/captured$ranks" || fail "$ranks ranks: other bits where exchanges are captured"
    done
    grep -q 'NCCL_NVLS_ENABLE=0, NCCL_GRAPH_REGISTER=0, synchronised batch norm, captured with the step$' "$dir/captured2.err" || fail "it is not told that exchanges are captured"
    train captured-shard --device cuda --ranks 2 --shard-optimiser --capture-exchange
    cmp "$dir/cuda-own" "$dir/captured-shard" || fail "other bits where parameters are gathered in a graph"
    KAS_SIM_FAIL=cuGraphInstantiateWithFlags:1 KAS_SIM_FAIL_ONCE=$dir/not train not-captured --device cuda --ranks 2 --capture-exchange
    cmp "$dir/cuda-own" "$dir/not-captured" || fail "other bits where exchanges could not be captured"
    grep -q 'rank [01] of 2: a step is cut into graphs around its exchanges, because' "$dir/not-captured.err" &&
        [ "$(grep -o 'added by.*' "$dir/not-captured.err" | sed 's/.*, //' | paste -sd' ')" = "captured with the step NCCL_GRAPH_REGISTER=0" ] || fail "it is not told that exchanges could not be captured"
    train cuda-named --device cuda:2,0 --sync-batch-norm
    cmp "$dir/cuda2" "$dir/cuda-named" || fail "other GPUs give other bits"
    KAS_SIM_FAIL=ncclAllReduce:3:300:delay KAS_SIM_FAIL_ONCE=$dir/late train cuda-late --device cuda --ranks 2 --sync-batch-norm
    [ -e "$dir/late" ] || fail "no rank was late"
    cmp "$dir/cuda2" "$dir/cuda-late" || fail "a rank that is late changes the bits"
    half=(--device cuda --ranks 2 --precision fp16 --optimiser adamw --clip 1 --ema 0.9)
    train half "${half[@]}" # skipped steps must be the same on all
    train half-shard "${half[@]}" --shard-optimiser
    cmp "$dir/half" "$dir/half-shard" || fail "--shard-optimiser gives other bits in float16"
    no_rest "ranks"
fi

# Stopped by a signal and continued, with the same number of ranks and with another. A checkpoint of ranks that share the
# optimiser's state is that of ranks of which each has all.
long=(--device cpu --ranks 2 --epochs 40 --optimiser adamw --weight-decay 0.01)
train straight "${long[@]}"
"$kas" train --net "$dir/net.json" --dataset "$dir/s.h5" --batch 16 --threads 1 --lr 0.05 --seed 3 --erase 0.5 "${long[@]}" \
    --checkpoint "$dir/ckpt" --shard-optimiser >"$dir/out" 2>"$dir/err" &
pid=$!
await "a checkpoint" [ -e "$dir/ckpt" ]
mapfile -t pids < <(children $pid)
kill -USR1 "${pids[@]}" $pid 2>/dev/null || true # to all of them, as a batch system does; the command passes SIGTERM on too
rc=0; wait $pid || rc=$?
[ $rc = 75 ] || [ $rc = 0 ] || { cat "$dir/err"; fail "expected exit code 75 after SIGUSR1, got $rc"; }
cp "$dir/ckpt" "$dir/ckpt4"
cp "$dir/ckpt" "$dir/ckpt2"
train resumed "${long[@]}" --checkpoint "$dir/ckpt"
cmp "$dir/straight" "$dir/resumed" || fail "a resumed run has other bits"
train resumed-shard "${long[@]}" --checkpoint "$dir/ckpt2" --shard-optimiser
cmp "$dir/straight" "$dir/resumed-shard" || fail "a resumed run with --shard-optimiser has other bits"
train resumed4 "${long[@]}" --ranks 4 --checkpoint "$dir/ckpt4" --shard-optimiser
no_rest "resumed"

# A GPU's library computes the windows of half of the batch in another way, with the weights in another order, so a checkpoint
# is not taken by another number of ranks then.
if [ "$devices" != cpu ]; then
    printf '%s' '{"format": "kas-gpu network", "version": 1, "name": "windows", "layers": [{"conv": "stem", "channels": 64, "kernel": 1},
        {"batch_norm": "bn0"}, {"relu": "relu0"}, {"conv": "conv1", "channels": 64, "kernel": 3}, {"batch_norm": "bn1"},
        {"relu": "relu1"}, {"global_avg_pool": "pool"}, {"linear": "fc", "channels": "classes"}]}' >"$dir/windows.json"
    "$kas" dataset make shapes -o "$dir/windows.h5" --train 300 --test 20 --size 8 --classes 4 >/dev/null
    windows=("$kas" train --net "$dir/windows.json" --dataset "$dir/windows.h5" --kernel kernels/group_conv.json --batch 256
        --threads 1 --epochs 1 --device cuda --checkpoint "$dir/windows")
    expect 0 'trained after 1 epoch' "${windows[@]}" --ranks 2
    expect 3 'the checkpoint is of a run with another' "${windows[@]}"
    expect 0 'trained after 1 epoch' "${windows[@]}" --ranks 2
fi

# What cannot be.
expect 2 'cannot be shared by 3 ranks' "$kas" train --net "$dir/net.json" --dataset "$dir/s.h5" --device cpu --ranks 3 --batch 16
expect 2 'add --device cpu or --device cuda' "$kas" train --net "$dir/net.json" --dataset "$dir/s.h5" --ranks 2 --batch 16
expect 2 'one rank exchanges nothing' "$kas" train --net "$dir/net.json" --dataset "$dir/s.h5" --device cpu --capture-exchange
expect 2 'one rank has the whole state' "$kas" train --net "$dir/net.json" --dataset "$dir/s.h5" --device cpu --shard-optimiser
expect 2 'as many GPUs as ranks' "$kas" train --net "$dir/net.json" --dataset "$dir/s.h5" --device cuda:0,1 --ranks 4 --batch 16
if [ "$devices" = "cpu cuda" ]; then # ranks that are not started by one command: one captures
    by_hand() { # rank options...
        SLURM_PROCID=$1 SLURM_LOCALID=$1 SLURM_NTASKS=2 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_NNODES=1 train alone$1 --device cuda --nodes "$dir/nodes" "${@:2}"
    }
    by_hand 0 >/dev/null 2>&1 &
    rc=0; by_hand 1 --capture-exchange >/dev/null || rc=$?
    other=0; wait $! || other=$?
    [ $rc = 3 ] && [ $other = 3 ] && [ "$(cat "$dir"/alone?.err | grep -c 'error: rank 1 captures exchanges and rank 0 does not')" = 2 ] ||
        { cat "$dir"/alone?.err; fail "ranks that do not capture alike: $rc and $other"; }
fi

echo "ok: ranks"
