#!/usr/bin/env bash
# Several candidates at once in a worker give every loss of a search that trains one after the other, bit for bit,
# on the CPU device and on the CUDA device (tests/cuda_sim); a GPU that dies under four costs nobody a result.
set -eu
kas=$(realpath "${KAS_GPU:-./kas-gpu}")
sim=${KAS_SIM_LIBRARY:-$PWD/build/tests/libkas_cuda_sim.so}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

"$kas" dataset make shapes -o "$work/s.h5" --train 48 --test 8 --size 8 --classes 4 >/dev/null
search() { # study option...
    local study=$1
    shift
    "$kas" search --strategy random --objective accuracy --net tests/e2e/own_network.json --targets 3x3 --dataset "$work/s.h5" --study "$work/$study" --candidates 4 --epochs 2 --batch 8 --lr 0.005 \
        --seed 4 --threads 1 --prune none "$@" >"$work/$study.out" 2>"$work/$study.err" || fail "$study: $(cat "$work/$study.err")"
    for item in baseline 0 1 2 3 final final-baseline; do
        echo "$item"
        "$kas" log "$work/$study" "$item" --json | sed 's/, "seconds": [^}]*//'
    done >"$work/$study.losses"
}
same() { # study study
    cmp "$work/$1.losses" "$work/$2.losses" || { diff "$work/$1.losses" "$work/$2.losses" | head -n 6; fail "$2 has other losses than $1"; }
}

for pack in 1 2 4; do
    search "cpu$pack" --device cpu --pack $pack
    same cpu1 "cpu$pack"
done
[ "$(grep -c train_loss "$work/cpu1.losses")" -ge 10 ] || fail "few items were trained: $(cat "$work/cpu1.losses")"
grep -q 'up to 4 candidates at once' "$work/cpu4.err" || fail "the number of candidates at once is not told"
rc=0
"$kas" search --dataset "$work/s.h5" --pack 0 2>"$work/err" || rc=$?
[ $rc = 2 ] || fail "--pack 0: exit code $rc"

echo "ok: several at once on the CPU device give the same losses"

[ -f "$sim" ] || { echo "SKIPPED: $sim is not built (make test builds it)"; exit; }
export KAS_CUDA_LIBS=$sim KAS_CUDA_PLANS=heuristic
search cuda1 --device cuda --pack 1
search cuda4 --device cuda --pack 4
same cuda1 cuda4
grep -q 'up to 4 candidates' "$work/cuda4.err" || fail "not packed: $(cat "$work/cuda4.err")"

# Without --pack: as many as fill the GPU, of those that fit. The stand-in runs 16 blocks at once.
plan() { # VARIABLE=value...
    env "$@" "$kas" search --strategy random --objective accuracy --net resnet20 --dataset "$work/s.h5" --batch 8 --study "$work/none" --device cuda --dry-run >"$work/plan" ||
        fail "dry run: $(cat "$work/plan")"
    sed -n 's/^\([0-9]*\) trainings at once in a worker: one fills [0-9]*% of the GPU, so \([0-9]*\) fill it; its memory holds \([0-9]*\)$/\1 \2 \3/p' "$work/plan"
}
read -r chosen fill fit <<<"$(plan KAS_SIM_MEMORY=$((64 << 30)))"
[ "$chosen" -gt 1 ] && [ "$chosen" = $((fill < 16 ? fill : 16)) ] && [ "$fit" -gt 16 ] || fail "auto: $(cat "$work/plan")"
read -r chosen fill fit <<<"$(plan KAS_SIM_MEMORY=$((1 << 30)))"
[ "$chosen" = "$fit" ] && [ "$fit" -lt "$fill" ] || fail "auto with little memory: $(cat "$work/plan")"

# The baseline captures three graphs in two epochs, so the GPU dies at the second of the candidates: under several, in the one worker
# that makes the file. Another begins with the one that reported, alone, and all end with the same losses.
KAS_SIM_FAIL=cuStreamBeginCapture_v2:5:700:sticky KAS_SIM_FAIL_ONCE=$work/died search dying --device cuda --pack 4
[ -e "$work/died" ] || fail "no GPU died: $(cat "$work/dying.err")"
"$kas" log "$work/dying" --json | grep -qE '"leases": [2-9]' || fail "nothing was begun again: $("$kas" log "$work/dying" --json)"
same cuda1 dying
echo "ok: several at once on the stand-in give the same losses, and lose none to a GPU that dies"
