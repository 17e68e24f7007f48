#!/usr/bin/env bash
# Compiling ahead of need, with the real compilers, on the CPU device and on the stand-in for a GPU (tests/cuda_sim): what the
# helper has made, a worker finds; every loss is the same with it, without it and when it is killed; nothing is left behind.
set -eu
. tests/e2e/expect.bash
sim=${KAS_SIM_LIBRARY:-$PWD/build/tests/libkas_cuda_sim.so}
"$kas" dataset make shapes -o "$dir/s.h5" --train 36 --test 8 --size 8 --classes 4 >/dev/null
cp tests/e2e/own_network.json "$dir/net.json"
quick_compiler # everything is compiled seven times
options=(--objective accuracy --net "$dir/net.json" --dataset "$dir/s.h5" --targets 3x3 --candidates 2 --epochs 1 --batch 8 --lr 0.005 --seed 1 --threads 1 --prune none)
search() { # study option...
    local study=$1
    shift
    "$kas" search --strategy random "${options[@]}" --study "$dir/$study" "$@" >"$dir/$study.out" 2>"$dir/$study.err" || fail "$study: $(cat "$dir/$study.err")"
    for item in baseline 0 1 final final-baseline; do
        echo "$item"
        "$kas" log "$dir/$study" "$item" --json | sed 's/, "seconds": [^}]*//'
    done >"$dir/$study.losses"
}
same() { cmp "$dir/$1.losses" "$dir/$2.losses" || { diff "$dir/$1.losses" "$dir/$2.losses" | head -n 6; fail "$2 has other losses than $1"; }; }
compile_seconds() { "$kas" log "$dir/$1" --json | sed -n 's/.*"kind": "candidate".*"state": "finished".*"compile_seconds": \([0-9.e-]*\).*/\1/p'; }
helpers() { # pid of the supervisor
    for process in $(children "$1"); do
        if tr '\0' ' ' 2>/dev/null <"/proc/$process/cmdline" | grep -q 'compile-ahead $'; then echo "$process"; fi
    done
}

# What a study's candidates need, made by the helper alone, as a supervisor would ask for it.
make_all() { # study arch cache
    local options_json
    options_json=$("$kas" status "$dir/$1" --json | sed 's/.*"options": \({.*}\)}$/\1/')
    {
        printf '{"type":"hello","options":%s,"arch":"%s","h":8,"w":8,"c":3,"classes":4,"threads":2}\n' \
            "$(printf %s "$options_json" | sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&"/')" "$2"
        for k in "$dir/$1"/kernels/*.json; do
            printf '{"type":"kernel","index":0,"name":"k","kernel":"%s"}\n' "$(tr -d '\n' <"$k" | sed 's/"/\\"/g')"
        done
    } >"$dir/orders"
    KAS_CACHE_DIR=$3 "$kas" compile-ahead <"$dir/orders" 3>"$dir/answers" 2>"$dir/helper.err" || fail "the helper: $(cat "$dir/answers" "$dir/helper.err")"
    [ "$(grep -c '"made":1' "$dir/answers")" = "$(ls "$dir/$1"/kernels | wc -l)" ] || fail "not all were made: $(cat "$dir/answers" "$dir/helper.err")"
}

# What it has made is exactly what workers want: they compile nothing.
nothing_left_to_compile() { # device arch ahead option...
    local device=$1 arch=$2 ahead=$3
    shift 3
    KAS_CACHE_DIR=$dir/cache.$device search "first.$device" --device "$device" --compile-ahead 0 "$@"
    [ -n "$(compile_seconds "first.$device")" ] || fail "no candidate finished"
    ! compile_seconds "first.$device" | grep -qx 0 || fail "a cold cache compiled nothing: $(compile_seconds "first.$device")"
    make_all "first.$device" "$arch" "$dir/made.$device"
    KAS_CACHE_DIR=$dir/made.$device search "second.$device" --device "$device" --compile-ahead "$ahead" "$@"
    ! compile_seconds "second.$device" | grep -qvx 0 || fail "$device: compiled although it was made ahead: $(compile_seconds "second.$device")"
    same "first.$device" "second.$device"
}
nothing_left_to_compile cpu cpu 0

# Beside the search, killed again and again: the same losses, and no process is left.
KAS_CACHE_DIR=$dir/cache.killed "$kas" search --strategy random "${options[@]}" --study "$dir/killed" --device cpu --compile-ahead 3 >/dev/null 2>"$dir/killed.err" &
pid=$!
while kill -0 $pid 2>/dev/null; do
    for h in $(helpers $pid); do kill -9 "$h" 2>/dev/null || true; done
    sleep 0.05
done
wait $pid || fail "killed helpers end the search: $(cat "$dir/killed.err")"
KAS_CACHE_DIR=$dir/cache.killed search killed --device cpu --compile-ahead 2 # nothing is left to do but to read it
same first.cpu killed
KAS_CACHE_DIR=$dir/cache.orphan "$kas" search --strategy random "${options[@]}" --study "$dir/orphan" --device cpu --compile-ahead 3 >/dev/null 2>&1 &
pid=$!
helper_started() { h=$(helpers $pid); [ -n "$h" ]; }
await "a helper" helper_started
kill -9 $pid 2>/dev/null || true
wait $pid 2>/dev/null || true
for p in $h; do await "the end of the helper, whose supervisor was killed" ended "$p"; done

# A cache that was damaged after it was filled is found out, by the helper or by a worker; a folder that cannot be is said.
find "$dir/made.cpu" -name '*.so' -exec truncate -s 100 {} +
KAS_CACHE_DIR=$dir/made.cpu search damaged --device cpu --compile-ahead 2
same first.cpu damaged
grep -q 'compiled ahead.*workers waited' "$dir/damaged.err" || fail "no summary: $(cat "$dir/damaged.err")"
[ -e "$dir/damaged/logs/compile-ahead.log" ] || fail "no log"
touch "$dir/file"
rc=0
KAS_CACHE_DIR=$dir/file "$kas" compile-ahead <"$dir/orders" 3>"$dir/answers" 2>"$dir/helper.err" || rc=$?
[ $rc != 0 ] && grep -q '"type":"error".*'"$dir/file" "$dir/answers" || fail "a bad cache folder: $rc $(cat "$dir/answers")"
expect 2 'do not start it by hand' "$kas" compile-ahead 3>&-
expect 2 '--compile-ahead' "$kas" search "${options[@]}" --compile-ahead 65

echo "ok: compiling ahead on the CPU device"

[ -f "$sim" ] || { skip_part "$sim is not built (make test builds it)"; exit; }
export KAS_CUDA_LIBS=$sim KAS_CUDA_PLANS=heuristic
# The hand-written kernels, which take a compiler longest, are in both caches from the beginning: what is made ahead are the
# kernels of candidates.
"$kas" train --net "$dir/net.json" --dataset "$dir/s.h5" --device cuda --precision bf16 --epochs 1 --batch 8 --quiet >/dev/null
for image in $(grep -lrs --include='*.cubin' kas_dev_cross_entropy_total "${KAS_CACHE_DIR:-$HOME/.cache/kas-gpu}"); do
    for cache in "$dir/cache.cuda" "$dir/made.cuda"; do install -D "$image" "$cache/jit/${image##*/jit/}"; done
done
nothing_left_to_compile cuda sm_90 auto --precision bf16
grep -q 'compiled ahead' "$dir/second.cuda.err" || fail "not the default on a GPU: $(cat "$dir/second.cuda.err")"
echo "ok: the stand-in finds what was compiled ahead"
