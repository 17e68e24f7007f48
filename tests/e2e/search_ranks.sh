#!/usr/bin/env bash
# A search whose final trainings have two ranks (docs/parallel.md), on the CPU and on the stand-in for CUDA: the same weights as
# `train` with two ranks, though a rank is killed, and a call of NCCL fails.
set -eu
. tests/e2e/expect.bash
export KAS_CUDA_PLANS=heuristic KAS_SIM_DEVICES=3
export KAS_CUDA_LIBS=${KAS_SIM_LIBRARY:-$PWD/build/tests/libkas_cuda_sim.so}
cat >"$dir/net.json" <<'JSON'
{"format": "kas-gpu network", "version": 1, "name": "tiny", "layers": [
    {"conv": "stem", "channels": 8, "kernel": 3}, {"batch_norm": "bn0"}, {"relu": "relu0"},
    {"conv": "conv1", "channels": 8, "kernel": 3}, {"batch_norm": "bn1"}, {"relu": "relu1"},
    {"global_avg_pool": "pool"}, {"linear": "fc", "channels": "classes"}]}
JSON
"$kas" dataset make shapes -o "$dir/s.h5" --train 144 --test 21 --size 8 --classes 4 >/dev/null
shared=(--dataset "$dir/s.h5" --net "$dir/net.json" --batch 16 --lr 0.005 --seed 1 --threads 2 --ranks 2)
search=("$kas" search --strategy random "${shared[@]}" --targets 3x3 --objective accuracy --candidates 1 --prune none --compile-ahead 0)
same() { # study device epochs: the weights of both final trainings are those of `train`
    local study=$1 options=("${shared[@]}" --device "$2" --epochs "$3" --threads 1 --test --quiet)
    "$kas" train "${options[@]}" --weights "$dir/unmodified" >/dev/null
    "$kas" train "${options[@]}" --targets 3x3 --kernel "$study/best/kernel.json" --weights "$dir/answer" >/dev/null
    cmp "$dir/unmodified" "$study/baseline/weights.safetensors" || fail "$2: the unmodified network"
    cmp "$dir/answer" "$study/best/weights.safetensors" || fail "$2: the answer"
    [ ! -e "$study/ranks" ] && [ -z "$(ls "$study/checkpoints")" ] || fail "$2: a file of the ranks was left"
}

log=$dir/cpu/logs/final-0000.log
"${search[@]}" --device cpu --epochs 200 --study "$dir/cpu" >"$dir/out" 2>"$dir/err" &
pid=$!
await "two ranks that train" grep -qs 'epoch 2:' "$log"
kill -KILL "$(sed -n 's/.*begins (process \([0-9]*\), rank 1 of 2).*/\1/p' "$log")"
await "the reason" grep -q 'try 1 of 3: rank 0 of 2: rank 1 has ended' "$dir/err"
await "the next attempt" grep -q 'going on after' "$log"
kill -TERM $pid 2>/dev/null || true # the ranks agree on where they stop
rc=0; wait $pid || rc=$?
[ $rc = 75 ] || [ $rc = 0 ] || { cat "$dir/err"; fail "exit code $rc after SIGTERM"; }
# The study knows how the ranks exchange. An item that went on in another way would have both, and the search says so.
cpu_ranks='2 ranks, [0-9]* buckets of at most 65536 bytes, added by shared memory in the order of ranks'
grep -q "$cpu_ranks\$" "$log" || { cat "$log"; fail "the log does not have the exchange"; }
going_on="state = 'queued' AND kind IN (2, 3) AND EXISTS (SELECT 1 FROM epoch WHERE work = work.id)"
[ "$(sqlite3 "$dir/cpu/study.db" "SELECT count(*) > 0 AND min(exchange GLOB '2 ranks, *') FROM work WHERE $going_on")" = 1 ] ||
    [ $rc = 0 ] || fail "the study does not have the exchange"
sqlite3 "$dir/cpu/study.db" "UPDATE work SET exchange = '2 ranks, long ago' WHERE $going_on"
expect 0 'best kernel:' "$kas" resume "$dir/cpu"
[ $rc = 0 ] || grep -q "goes on from its checkpoint with another exchange between its ranks ($cpu_ranks)" "$dir/err" ||
    fail "nobody said that the exchange is another one"
"$kas" best "$dir/cpu" >"$dir/out"
[ $rc = 0 ] || grep -q "^trained by 2 ranks, long ago; then $cpu_ranks: .* seed 0\.$" "$dir/out" || { cat "$dir/out"; fail "best does not have both"; }
same "$dir/cpu" cpu 200

# What cannot be.
expect 2 'cannot be shared by 3 ranks' "${search[@]}" --device cpu --study "$dir/no" --ranks 3
expect 2 '--workers is 1' "${search[@]}" --device cpu --study "$dir/no" --workers 1
expect 2 '--sync-batch-norm needs --ranks' "${search[@]}" --device cpu --study "$dir/no" --ranks 1 --sync-batch-norm
expect 2 '--capture-exchange needs --ranks' "${search[@]}" --device cpu --study "$dir/no" --ranks 1 --capture-exchange
expect 2 '--ranks (the study has 2, this command 4)' "${search[@]}" --device cpu --epochs 200 --study "$dir/cpu" --ranks 4

[ -f "$KAS_CUDA_LIBS" ] || { skip_part "$KAS_CUDA_LIBS is not built (make test builds it)"; echo "ok: search_ranks"; exit 0; }
expect 2 'each rank needs a GPU of its own, and there is 1' "${search[@]}" --device cuda:1 --study "$dir/no"
# Three GPUs: the third worker has no part in the final trainings.
KAS_SIM_FAIL=ncclAllReduce:9:0:once KAS_SIM_FAIL_ONCE=$dir/once expect 0 'try 1 of 3: ' \
    "${search[@]}" --device cuda --epochs 1 --study "$dir/cuda" --sync-batch-norm --capture-exchange
nccl='added by NCCL [0-9.]* with NCCL_ALGO=Ring, NCCL_PROTO=Simple, NCCL_NVLS_ENABLE=0, NCCL_GRAPH_REGISTER=0, synchronised batch norm, captured with the step'
"$kas" best "$dir/cuda" >"$dir/out"
grep -q "^trained by 2 ranks, [0-9]* buckets of at most 65536 bytes, $nccl\.$" "$dir/out" || { cat "$dir/out"; fail "best has no exchange"; }
"$kas" best --json "$dir/cuda" | grep -q "\"finalist\".*\"exchange\": *\"2 ranks, .*$nccl\"" || fail "best --json has no exchange"
"$kas" report "$dir/cuda" -o "$dir/report.html" >/dev/null
grep -q "Trained by 2 ranks, .*$nccl\." "$dir/report.html" || fail "the report has no exchange"
[ -e "$dir/once" ] || fail "no call of NCCL failed"
shared+=(--sync-batch-norm)
same "$dir/cuda" cuda 1
echo "ok: search_ranks"
