#!/usr/bin/env bash
# A rank is killed (kill -9) or hangs in every phase of a training on several ranks, and calls of NCCL fail: on the CPU device and on
# the stand-in for CUDA. Each time all ranks end, somebody says why, nothing is left, and the next attempt goes on from the
# checkpoint to the figures of an undisturbed training. Each case has a folder of its own, and several run at once.
set -eu
. tests/e2e/expect.bash
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$dir"' EXIT
export KAS_CUDA_PLANS=heuristic KAS_SIM_DEVICES=2 KAS_CUDA_LIBS=${KAS_SIM_LIBRARY:-$PWD/build/tests/libkas_cuda_sim.so}
tiny_network '{"dropout": "drop", "probability": 0.2},' >"$dir/net.json"
"$kas" dataset make shapes -o "$dir/s.h5" --train 60 --test 21 --size 8 --classes 4 >/dev/null
"$kas" dataset make shapes -o "$dir/v.h5" --train 1000 --test 21 --size 8 --classes 4 >/dev/null

# The command of a case; what it says is in CASE/out and CASE/err, its checkpoint in CASE/ckpt. The phases of the CPU device last
# until somebody looks at them, so its trainings are without end (--epochs 100000), and one epoch behind the other.
begin() { # case options...: sets pid
    local at=$dir/$1
    shift
    mkdir -p "$at/tmp"
    TMPDIR=$at/tmp "$kas" train --net "$dir/net.json" --dataset "$dir/s.h5" --batch 12 --threads 1 --lr 0.05 --seed 3 --json \
        --checkpoint "$at/ckpt" "$@" >>"$at/out" 2>"$at/err" &
    pid=$!
}
figures() { sed -n 's/.*"event":"epoch",\(.*\),"seconds".*/\1/p' "$1/out"; }
epochs() { [ "$(figures "$1" | wc -l)" -ge "$2" ]; } # folder at-least
# Waits for the command, which must fail; its ranks must have gone with it. Nothing of theirs is left, but for the temporary
# file that a rank was writing when it was killed.
failed() { # case pid ranks' pids...
    local at=$dir/$1 rc=0 rank
    await "$1: the end" ended "$2"
    wait "$2" || rc=$?
    [ $rc = 1 ] || [ $rc = 5 ] || { cat "$at/err"; fail "$1: exit code $rc"; }
    shift 2
    for rank in "$@"; do ended "$rank" || fail "$at: rank $rank still runs"; done
    grep -q 'error: rank [0-9]' "$at/err" || { cat "$at/err"; fail "$at: nobody says why"; }
    [ -z "$(ls "$at/tmp")" ] || fail "$at: a folder of ranks is left: $(ls "$at/tmp")"
}

# ---- the stand-in: the Nth call of a function of one rank ----

# Two epochs of five steps; the calls of the second epoch where there are such.
sim=(--device cuda --ranks 2 --epochs 2)
phases=(ncclGetUniqueId:1                         # rank 0 draws the id
    ncclCommInitRankConfig:1 ncclCommGetAsyncError:1 # a rank joins; it waits for the others
    ncclAllGather:1                               # the ranks compare what they have
    cuGraphLaunch:30 ncclAllReduce:24             # forward and backward pass; an exchange of gradients
    cuLaunchKernel:46 ncclAllGather:7             # the validation; its figures are gathered
    cuMemcpyDtoHAsync_v2:14                       # the checkpoint is read from the device
    ncclCommDestroy:1)                            # the end
planted() { # case fault seconds
    KAS_SIM_FAIL=$2 KAS_SIM_FAIL_ONCE=$dir/$1.once begin "$1" "${sim[@]}" --rank-timeout "$3"
    failed "$1" $pid
    [ -e "$dir/$1.once" ] || fail "$1: the call was never made"
    [[ $2 != *ncclAll*:once ]] || [ "$(grep 'error:' "$dir/$1/err" | grep -vc 'failed first')" = 2 ] || { cat "$dir/$1/err"; fail "$1: one rank had to be killed"; }
    begin "$1" "${sim[@]}"
    wait $pid || { cat "$dir/$1/err"; fail "$1: the next attempt"; }
    # The epoch whose checkpoint was under way may come twice.
    figures "$dir/$1" | diff "$dir/expected" - >/dev/null || figures "$dir/$1" | diff <(sed '$p' "$dir/expected") - ||
        fail "$1: other figures than undisturbed, or an epoch was trained again"
}

# A rank that leaves the group waits longer than half a minute for one that still writes the weights.
late_leaving() {
    KAS_SIM_FAIL=ncclCommDestroy:1:33000:delay KAS_SIM_FAIL_ONCE=$dir/late.once begin late "${sim[@]}" --rank-timeout 100
    wait $pid || { cat "$dir/late/err"; fail "late: a rank did not wait"; }
    [ -e "$dir/late.once" ] || fail "late: the call was never made"
    figures "$dir/late" | diff "$dir/expected" - || fail "late: other figures"
}
# Under Slurm nobody kills a rank whose GPU never answers: it ends itself half a minute behind the end of the group.
given_up() {
    local rank pids=() rc start=$SECONDS
    for rank in 0 1; do
        SLURM_PROCID=$rank SLURM_LOCALID=$rank SLURM_NTASKS=2 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_NNODES=1 KAS_SIM_FAIL=cuGraphLaunch:30:0:hang \
            KAS_SIM_FAIL_ONCE=$dir/hung begin hung$rank --device cuda --nodes "$dir/nodes" --epochs 2 --rank-timeout 5
        pids+=($pid)
    done
    for rank in 0 1; do
        rc=0
        await "hung: the end of rank $rank" ended ${pids[rank]}
        wait ${pids[rank]} || rc=$?
        [ $rc = 5 ] || { cat "$dir/hung$rank/err"; fail "hung: rank $rank ended with $rc"; }
    done
    [ "$(cat "$dir"/hung?/err | grep -c 'the end of the group did not free this process; it ends')" = 1 ] || fail "hung: no rank has given up"
    grep -q 'error: .*rank [01] of 2: ' "$dir"/hung?/err || fail "hung: the other rank does not say why"
    [ $((SECONDS - start)) -lt 100 ] || fail "hung: $((SECONDS - start)) s"
}

# ---- the CPU device: signals to one of three ranks ----

endless=(--device cpu --ranks 3 --epochs 100000)
three() { mapfile -t pids < <(children "$1") && [ ${#pids[@]} = 3 ]; }
stops() { # files: stops rank 0 while there is such a file
    kill -STOP "${pids[0]}" || fail "rank 0 has ended"
    ! compgen -G "$1" >/dev/null || return 0
    kill -CONT "${pids[0]}"
    return 1
}
signalled() { # case phase signal
    local name=$1 at=$dir/$1 rank=0 pid pids more=()
    [ $2 = validation ] && more=(--dataset "$dir/v.h5" --validation 0.94)
    local patience=600 # only where a rank hangs must the others give up soon: a rank may be late on a busy machine
    [ $3 = STOP ] && patience=20
    begin "$name" "${endless[@]}" "${more[@]}" --rank-timeout $patience
    await "$name: ranks" three $pid
    case $2 in
    start) ;;
    training | validation) await "$name: an epoch" epochs "$at" 1 ;;
    exchange) # the others wait in one for a rank that comes later
        await "$name: an epoch" epochs "$at" 1
        kill -STOP "${pids[2]}"
        sleep 0.5
        rank=1 ;;
    checkpoint) every=0.02 await "$name: a checkpoint being written" stops "$at/ckpt.unfinished-*" ;;
    esac
    kill "-$3" "${pids[rank]}"
    failed "$name" $pid "${pids[@]}"
    local before
    before=$(figures "$at" | wc -l)
    begin "$name" "${endless[@]}" "${more[@]}"
    await "$name: two more epochs" epochs "$at" $((before + 2))
    kill $pid
    wait $pid || true
    ! compgen -G "$at/ckpt.*" || fail "$name: what the killed rank was writing is still there"
    figures "$at" | awk '!seen[$0]++' >"$at/all"
    [ "$(figures "$at" | wc -l)" -le $(($(wc -l <"$at/all") + 1)) ] || fail "$name: more than one epoch was trained again"
}
same() { # undisturbed case...: each has the epochs of the undisturbed training, as far as both went
    local straight=$1 name most=0 here pid
    shift
    for name in "$@"; do here=$(wc -l <"$dir/$name/all") && [ "$here" -le $most ] || most=$here; done
    local more=()
    [ "$straight" = validated ] && more=(--dataset "$dir/v.h5" --validation 0.94)
    begin "$straight" "${endless[@]}" "${more[@]}"
    await "the undisturbed training" epochs "$dir/$straight" $most
    kill $pid
    wait $pid || true
    for name in "$@"; do figures "$dir/$straight" | head -n "$(wc -l <"$dir/$name/all")" | diff - "$dir/$name/all" || fail "$name: other figures than undisturbed"; done
}

names=()
at_once() { # function case...: beside up to eleven others, most of which wait for a rank that hangs
    [ "$(jobs -rp | wc -l)" -lt 12 ] || wait -n || true
    (trap 'kill $(jobs -p) 2>/dev/null || true' EXIT # of a case that fails a training may be left, which has no end
        "$@"; touch "$dir/$2.ok") >"$dir/$2.log" 2>&1 &
    names+=("$2")
}
finish() {
    local name
    wait
    for name in "${names[@]}"; do [ -e "$dir/$name.ok" ] || { cat "$dir/$name.log"; fail "$name"; }; done
}
cases=(start training exchange validation checkpoint)
for signal in STOP KILL; do
    for phase in "${cases[@]}"; do at_once signalled $phase-$signal $phase $signal; done
done
if [ -f "$KAS_CUDA_LIBS" ]; then
    begin undisturbed "${sim[@]}"
    wait $pid || { cat "$dir/undisturbed/err"; fail "undisturbed"; }
    figures "$dir/undisturbed" >"$dir/expected"
    at_once late_leaving late
    at_once given_up hung
    for phase in "${phases[@]}"; do at_once planted "$phase-hang" "$phase:0:hang" 20; done
    for fault in ncclGetUniqueId:1:0 ncclCommInitRankConfig:1:0; do at_once planted "$fault" "$fault:once" 20; done
    at_once planted stuck ncclCommGetAsyncError:12:7:once 20 # an exchange that NCCL is busy with for ever
    for fault in ncclAllReduce:9:0 ncclAllGather:2:0 ncclCommGetAsyncError:12:6; do at_once planted "$fault" "$fault:once" 100; done
    for phase in "${phases[@]}"; do at_once planted "$phase-kill" "$phase:0:kill" 100; done
    # A step is one graph with its exchanges: a rank is killed in one, one never ends, one fails.
    sim+=(--capture-exchange)
    for fault in 9:0:kill 20:6:once; do at_once planted "replayed-$fault" "replayed ncclAllReduce:$fault" 100; done
    at_once planted "replayed-stuck" "replayed ncclAllReduce:4:7:once" 20
fi
finish
same straight {start,training,exchange,checkpoint}-{KILL,STOP}
same validated validation-{KILL,STOP}
echo "ok: a rank on the CPU is killed or hangs in five phases"
[ -f "$KAS_CUDA_LIBS" ] || { skip_part "$KAS_CUDA_LIBS is not built (make test builds it)"; exit 0; }
echo "ok: a rank on the stand-in is killed, hangs or fails in ten phases, and in the replay of a graph with its exchanges"
