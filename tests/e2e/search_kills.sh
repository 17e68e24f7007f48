#!/usr/bin/env bash
# A search whose supervisor and workers are killed (-9) again and again, and whose compile cache is damaged meanwhile, gives
# what an undisturbed one gives: every kernel, state, accuracy and loss, and the trained weights to the bit.
#     KAS_FUZZ_TIMES=10 KAS_FUZZ_SEED=3 bash tests/e2e/search_kills.sh     60 kills in place of 6, at other moments
# A kill comes after so many more lines of the study's logs, and then a random part of the time that a line takes; both, what
# is killed and what is damaged follow from the seed, which a failure prints.
set -eu
. tests/e2e/expect.bash
kills=$((6 * ${KAS_FUZZ_TIMES:-1})) seed=${KAS_FUZZ_SEED:-1}
RANDOM=$seed
trap 'rc=$?; [ $rc = 0 ] || echo "seed $seed, kill $done_kills of $kills"; rm -rf "$dir"' EXIT
export KAS_CACHE_DIR=$dir/cache
done_kills=0 damaged=0 studies=0 resumed=0
"$kas" dataset make shapes -o "$dir/s.h5" --train 300 --test 24 --size 8 --classes 4 >/dev/null
search=("$kas" search --strategy random --objective accuracy --dataset "$dir/s.h5" --net tests/e2e/own_network.json --targets 3x3 --candidates 3 --epochs 20 --batch 16 --lr 0.005 --seed 1 --threads 1 --prune none --device cpu --compile-ahead 0)

"${search[@]}" --study "$dir/plain" >/dev/null 2>"$dir/err" || { cat "$dir/err"; fail "the undisturbed search"; }
results "$dir/plain" >"$dir/results"
losses() { for item in baseline 0 1 2 final final-baseline; do echo "$item"; "$kas" log "$1" "$item" --json | sed 's/, "seconds": [^}]*//'; done; }
losses "$dir/plain" >"$dir/losses"
[ "$(grep -c '^candidate.* finished' "$dir/results")" -ge 2 ] || { cat "$dir/results"; fail "too few candidates finish"; }

compare() { # study
    results "$1" | diff "$dir/results" - || fail "kills changed the leaderboard"
    losses "$1" | diff "$dir/losses" - || fail "kills changed a loss"
    for f in best/weights.safetensors best/kernel.json baseline/weights.safetensors; do
        cmp "$dir/plain/$f" "$1/$f" || fail "kills changed $f"
    done
    [ -z "$(ls "$1/checkpoints")" ] || fail "a checkpoint was left"
    resumed=$((resumed + $(cat "$1"/logs/*.log | grep -c 'going on after')))
}
lines() { cat "$1"/logs/*.log 2>/dev/null | wc -l; }
damage_cache() { # one entry, in a way of its own
    local entries entry
    mapfile -t entries < <(find "$dir/cache" -type f -size +0c \( -name '*.so' -o -name '*.err' \) | sort)
    entry=${entries[RANDOM % ${#entries[@]}]}
    case $((damaged % 5)) in
    0) truncate -s $(($(stat -c %s "$entry") / 2)) "$entry" ;;
    1) printf '\377' | dd of="$entry" bs=1 seek=$((RANDOM % $(stat -c %s "$entry"))) conv=notrunc 2>/dev/null ;;
    2) rm "$entry" && mkdir "$entry" ;;
    3) : >"$entry" ;;
    4) rm "$entry" && ln -s /nonexistent/entry "$entry" ;;
    esac
    damaged=$((damaged + 1))
}

# Runs the study until its supervisor is killed, or to its end, which is success. Of a study one worker is killed, before its
# supervisor: three dead workers would be the end of an item.
run_and_kill() { # study
    local study=$1 pid wanted worker=$((RANDOM % 2)) w rc=0
    "${search[@]}" --study "$study" --workers $((1 + RANDOM % 2)) >"$dir/out" 2>"$dir/err" &
    pid=$!
    wanted=$(($(lines "$study") + 2 + RANDOM % 30))
    while kill -0 $pid 2>/dev/null && [ "$(lines "$study")" -lt $wanted ]; do sleep 0.005; done
    sleep "0.0$((RANDOM % 100))"
    w=$(children $pid | head -n 1)
    if [ $worker = 1 ] && [ -n "$w" ] && [ ! -e "$study.worker" ]; then
        kill -9 "$w" 2>/dev/null && done_kills=$((done_kills + 1))
        touch "$study.worker"
        sleep "0.$((RANDOM % 10))"
    fi
    kill -9 $pid 2>/dev/null || true
    wait $pid 2>/dev/null || rc=$?
    [ $rc = 0 ] || [ $rc = 137 ] || { cat "$dir/err"; fail "exit code $rc"; }
    [ $rc = 0 ] || done_kills=$((done_kills + 1))
    return $rc
}

study=
while [ $done_kills -lt $kills ]; do
    if [ -z "$study" ]; then studies=$((studies + 1)) study=$dir/s$studies; fi
    if run_and_kill "$study"; then
        compare "$study"
        study=
    elif [ $((done_kills % 2)) = 0 ]; then
        damage_cache
    fi
done
if [ -n "$study" ]; then
    expect 0 'best kernel:' "$kas" resume "$study"
    compare "$study"
fi
[ $damaged -gt 0 ] || fail "no cache entry was damaged"
[ $resumed -gt 0 ] || fail "no training went on from a checkpoint"
echo "ok: $done_kills kills in $studies studies, $resumed trainings resumed, $damaged cache entries damaged, seed $seed: nothing changed"
