#!/usr/bin/env bash
# Every call of NCCL in a whole training of two ranks fails once, each in a training of its own: on the stand-in for CUDA, with
# exchanges between graphs and in them. Each time both ranks end at once and say why, nothing is left, and the next attempt goes on
# to the figures of an undisturbed training. rank_faults.sh has the polls of NCCL, whose number depends on the time.
set -eu
. tests/e2e/expect.bash
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$dir"' EXIT
export KAS_CUDA_PLANS=heuristic KAS_SIM_DEVICES=2 KAS_CUDA_LIBS=${KAS_SIM_LIBRARY:-$PWD/build/tests/libkas_cuda_sim.so}
[ -f "$KAS_CUDA_LIBS" ] || { echo "SKIPPED: $KAS_CUDA_LIBS is not built (make test builds it)"; exit 77; }
tiny_network >"$dir/net.json"
"$kas" dataset make shapes -o "$dir/s.h5" --train 30 --test 21 --size 8 --classes 4 >/dev/null

train() { # folder options...: two epochs of two steps
    mkdir -p "$1/tmp"
    TMPDIR=$1/tmp timeout 60 "$kas" train --net "$dir/net.json" --dataset "$dir/s.h5" --batch 12 --threads 1 --lr 0.05 --seed 3 --epochs 2 \
        --device cuda --ranks 2 --shard-optimiser --rank-timeout 300 --json --checkpoint "$1/ckpt" --weights "$1/weights" "${@:2}" >>"$1/out" 2>"$1/err"
}
figures() { sed -n 's/.*"event":"epoch",\(.*\),"seconds".*/\1/p' "$1/out"; }
wrong() { # folder what
    cat "$1/err"
    fail "${1#"$dir/"}: $2"
}

# Lets the Nth call fail, of the rank that comes to it first. Where there is none, the file "beyond" says so.
call_fails() { # N options...
    local at=$dir/$1${2:-} rc=0
    KAS_SIM_FAIL="nccl*:$1:0:once" KAS_SIM_FAIL_ONCE=$at.once train "$at" "${@:2}" || rc=$?
    [ -z "$(ls "$at/tmp")" ] || wrong "$at" "a folder of ranks is left"
    if [ ! -e "$at.once" ]; then
        [ $rc = 0 ] || wrong "$at" "exit code $rc, and no call failed"
        touch "$dir/beyond${2:-}"
        return
    fi
    if grep -q 'warning: rank [01] of 2 leaves the group: ncclCommDestroy' "$at/err"; then # everything has been done
        [ $rc = 0 ] || wrong "$at" "exit code $rc, because a rank could not leave"
        echo ncclCommDestroy >>"$dir/failed${2:-}"
    else
        [ $rc = 5 ] || wrong "$at" "exit code $rc"
        grep -q 'error: .*nccl[A-Z]' "$at/err" && grep -q 'error: rank [01] of 2' "$at/err" || wrong "$at" "nobody says why"
        grep -o 'error: .*' "$at/err" | grep -om1 'nccl[A-Z][A-Za-z]*' >>"$dir/failed${2:-}"
        # Before both have joined, neither can tell the other, which waits.
        ! grep -q 'is killed' "$at/err" || grep -qE 'ncclGetUniqueId|ncclCommInit' "$at/err" || wrong "$at" "one rank had to be killed"
        [ ! -e "$at/weights" ] || cmp -s "$dir/expected/weights" "$at/weights" || wrong "$at" "other weights"
        train "$at" "${@:2}" || wrong "$at" "the next attempt"
    fi
    # The epoch whose checkpoint was under way may come twice.
    figures "$at" | diff "$dir/figures" - >/dev/null || figures "$at" | diff <(sed '$p' "$dir/figures") - >/dev/null ||
        figures "$at" | diff <(sed 1p "$dir/figures") - || wrong "$at" "other figures than undisturbed"
    cmp "$dir/expected/weights" "$at/weights" || wrong "$at" "other weights than undisturbed"
    [ "$(ls "$at" | paste -sd' ')" = "ckpt err out tmp weights" ] || wrong "$at" "left: $(ls "$at")"
    rm -r "$at"
}

train "$dir/expected"
figures "$dir/expected" >"$dir/figures"
for option in '' --capture-exchange; do
    for ((n = 1; n <= 200; n++)); do
        [ ! -e "$dir/beyond$option" ] || break
        [ "$(jobs -rp | wc -l)" -lt 4 ] || wait -n || true
        (call_fails $n $option; touch "$dir/$n$option.ok") >"$dir/$n$option.log" 2>&1 &
    done
    wait
    for ((i = 1; i < n; i++)); do [ -e "$dir/$i$option.ok" ] || { cat "$dir/$i$option.log"; fail "call $i $option"; }; done
    [ -e "$dir/beyond$option" ] || fail "more than $n calls of NCCL"
    [ "$(sort -u "$dir/failed$option" | wc -l)" = 5 ] || { sort "$dir/failed$option" | uniq -c; fail "a function of NCCL did not fail"; }
    echo "ok: each of $(wc -l <"$dir/failed$option") calls of NCCL failed once${option:+, with $option}"
done
