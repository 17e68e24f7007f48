#!/usr/bin/env bash
# One study in PostgreSQL with two supervisors and several workers, of which any is killed (-9), the server too: every item ends
# exactly once, and the leaderboard is that of an undisturbed study in a file. And what goes wrong: each with a message, exit
# code 4, and nothing lost.
#     KAS_STORE_KILLS=50 KAS_STORE_EPOCHS=100 KAS_FUZZ_SEED=3 bash tests/e2e/search_store.sh     50 kills in place of 5, at other moments, and 8 workers in
#     place of 6
set -eu
. tests/e2e/expect.bash
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null ||
    { echo "SKIPPED: PostgreSQL is not installed"; exit 77; }
kills=${KAS_STORE_KILLS:-5} seed=${KAS_FUZZ_SEED:-1}
RANDOM=$seed
each=3 candidates=4 window=1 # workers of a supervisor; candidates, and how many of them are under way at once, less one
[ "$kills" -le 5 ] || each=4 candidates=12 window=7
make_server_folder
trap 'rc=$?; [ $rc = 0 ] || echo "seed $seed, kill $done_kills of $kills"; drop_server' EXIT
export KAS_CACHE_DIR=${KAS_CACHE_DIR:-$dir/cache}
done_kills=0 servers=0 supervisors=0 workers=0
start() { expect 0 'runs on' "$kas" store start "$server"; }
start
[ "$(stat -c %a "$server/url")" = 600 ] || fail "others can read the password"
"$kas" dataset make shapes -o "$dir/s.h5" --train 300 --test 24 --size 8 --classes 4 >/dev/null
search=("$kas" search --strategy random --objective accuracy --dataset "$dir/s.h5" --net tests/e2e/own_network.json --targets 3x3 --candidates $candidates --epochs ${KAS_STORE_EPOCHS:-10} --batch 16 --lr 0.005 --seed 1 --threads 1 --prune deterministic --prune-window $window --device cpu --compile-ahead 0)

"${search[@]}" --study "$dir/plain" >/dev/null 2>"$dir/err" || { cat "$dir/err"; fail "the undisturbed search"; }
results "$dir/plain" >"$dir/results"
[ "$(grep -c '^candidate' "$dir/results")" = $candidates ] || { cat "$dir/results"; fail "too few candidates"; }

# ---- wrong use
store=@$server/url
fails() { # words command...
    expect 4 "$@"
}
fails 'No such file' "${search[@]}" --study "$dir/bad" --store "@$dir/none"
# Ancestors, which would take hours, evolve only when the store is there.
fails 'No such file' timeout 60 "${search[@]}" --strategy evolution --ancestors 100000 --study "$dir/bad" --store "@$dir/none"
sed 's|kas:[0-9a-f]*@|kas:wrong@|' "$server/url" >"$dir/wrong"
fails 'password authentication failed' "${search[@]}" --study "$dir/bad" --store "@$dir/wrong"
echo 'postgresql://kas:x@127.0.0.1:1/postgres' >"$dir/nowhere"
fails 'no connection' "${search[@]}" --study "$dir/bad" --store "@$dir/nowhere"
echo 'mysql://x' >"$dir/other"
fails 'not the URL of a store' "${search[@]}" --study "$dir/bad" --store "@$dir/other"
expect 2 'everybody on this machine can read a password' "${search[@]}" --study "$dir/bad" --store "$(cat "$server/url")"
[ ! -e "$dir/bad/store.json" ] || fail "a store that was never reached is remembered"

# ---- supervisors, workers and the server are killed
study=$dir/study
begin() { # number: a supervisor with its workers, again and again until the study is complete
    local rc away=0
    while :; do
        rc=0
        "${search[@]}" --study "$study" --store "$store" --workers $each >"$dir/out$1" 2>>"$dir/err$1" || rc=$?
        [ $rc = 0 ] && return 0
        # A supervisor that begins while there is no server says so and ends: the same command again goes on.
        if [ $rc = 4 ] && [ $((away += 1)) -lt 60 ]; then sleep 2; continue; fi
        [ $rc = 137 ] || { echo "supervisor $1: exit code $rc" >"$dir/failed"; return 1; }
    done
}
: >"$dir/killed"
begin 1 & loops=$!
begin 2 & loops="$loops $!"
supervisor() { # of a loop, which may wait instead
    local pid
    for pid in $(children "$1"); do
        if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q ' search '; then echo "$pid"; fi
    done
}
victim() { # one of the supervisors that run now, or of their workers
    local all=() loop s
    for loop in $loops; do
        s=$(supervisor "$loop")
        [ -z "$s" ] || { [ "$1" = supervisor ] && all+=("$s"); [ "$1" = worker ] && all+=($(children "$s")); } || true
    done
    [ ${#all[@]} = 0 ] || echo "${all[RANDOM % ${#all[@]}]}"
}
item_of() { # worker: the name of the log of the item that it evaluates; nothing when it has none
    local file
    for file in /proc/"$1"/fd/*; do readlink "$file" || true; done 2>/dev/null | sed -n 's|.*/logs/||p' | grep -v '^worker-' | head -n 1
}
over() { for loop in $loops; do ended "$loop" || return 1; done; }
while [ $done_kills -lt "$kills" ] && ! over; do
    wanted=$(($(log_lines "$study") + 2 + RANDOM % 8)) end=$((SECONDS + 60))
    while ! over && [ "$(log_lines "$study")" -lt $wanted ] && [ $SECONDS -lt $end ]; do sleep 0.02; done
    over && break
    kind=$((done_kills % 5)) v=
    case $kind in
    1) # the server and, soon, all that it has started
        kill -9 "$(head -n 1 "$server/data/postmaster.pid")" && servers=$((servers + 1)) done_kills=$((done_kills + 1))
        start
        continue
        ;;
    3 | 4) # of one item two workers at most: three would be its end
        for try in 1 2 3 4 5 6 7 8; do # not one that waits
            v=$(victim worker) item=
            [ -z "$v" ] || item=$(item_of "$v")
            [ -z "$item" ] || break
        done
        if [ -n "$item" ] && [ "$(grep -cx "$item" "$dir/killed")" -lt 2 ] && kill -9 "$v" 2>/dev/null; then
            echo "$item" >>"$dir/killed"
            workers=$((workers + 1)) done_kills=$((done_kills + 1))
            continue
        fi
        ;;
    esac
    v=$(victim supervisor)
    [ -n "$v" ] && kill -9 "$v" 2>/dev/null && supervisors=$((supervisors + 1)) done_kills=$((done_kills + 1)) || true
done
for loop in $loops; do wait "$loop" || { cat "$dir"/err1 "$dir"/err2 "$dir/failed"; fail "a supervisor failed"; }; done
results "$study" | diff "$dir/results" - || { cat "$dir/err1" "$dir/err2"; fail "kills changed the leaderboard"; }
[ -z "$(ls "$study/checkpoints")" ] || fail "a checkpoint was left"
[ $servers -gt 0 ] && [ $supervisors -gt 0 ] || fail "server or supervisors were never killed"
echo "ok: $workers workers, $supervisors supervisors and $servers servers were killed, seed $seed: nothing changed"

# ---- one name, two folders; another schema; a study that moves
mkdir "$dir/elsewhere"
fails 'another study has this name' "${search[@]}" --study "$dir/elsewhere/study" --store "$store"
expect 0 '' "$kas" store export "$study"
[ -e "$study/study.db" ] && [ ! -e "$study/store.json" ] || fail "the study did not move"
results "$study" | diff "$dir/results" - || fail "export changed the leaderboard"
expect 0 '' "$kas" store import "$study" --store "$store"
results "$study" | diff "$dir/results" - || fail "import changed the leaderboard"
fails 'the study has moved into a database' sh -c "mkdir '$dir/elsewhere/study' && cp '$study/study.db.moved' '$dir/elsewhere/study/study.db' && '$kas' status '$dir/elsewhere/study'"
expect 0 '' "${search[@]}" --study "$study" # goes on where it is, without --store

# ---- a server that goes away, and does not come back: what is running is saved
"${search[@]}" --epochs 2000 --study "$dir/lost" --store "$store" >/dev/null 2>"$dir/errlost" & pid=$!
await "a training" sh -c "cat '$dir'/lost/logs/baseline.log 2>/dev/null | grep -q 'epoch 3'"
kill -9 $pid; wait $pid 2>/dev/null || true
KAS_STORE_PATIENCE=1 "${search[@]}" --epochs 2000 --study "$dir/lost" >/dev/null 2>"$dir/errlost" & pid=$!
await "the training goes on" sh -c "grep -q 'going on after' '$dir/lost/logs/baseline.log'"
"$kas" store stop "$server"
rc=0; wait $pid || rc=$?
[ $rc = 4 ] && grep -q 'did not come back' "$dir/errlost" || { cat "$dir/errlost"; fail "exit code $rc without the database"; }
[ -n "$(ls "$dir/lost/checkpoints")" ] || fail "no checkpoint was saved"
fails 'no connection' "$kas" status "$dir/lost"
fails 'no server runs' "$kas" store status "$server"
start
expect 0 'running' "$kas" status "$dir/lost"
# A server whose keeper was killed goes on where it listens, with another keeper.
kept="$dir/kept"
expect 0 'runs on' "$kas" store start "$kept" --listen 127.0.0.1
url=$(cat "$kept/url")
pkill -9 -f "store start $kept " || fail "no keeper"
expect 0 'runs on' "$kas" store start "$kept" --listen 127.0.0.1
[ "$url" = "$(cat "$kept/url")" ] || fail "another url of a server that went on"
expect 0 'runs on' "$kas" store start "$kept"
expect 4 'runs already, and without --listen 127.0.0.2' "$kas" store start "$kept" --listen 127.0.0.2
expect 0 'runs' "$kas" store status "$kept"
expect 0 '' "$kas" store stop "$kept"
expect 2 'that of --listen' "$kas" store start "$kept" --port 5000

# A benchmark that is killed stops its server and removes its folder.
TMPDIR=${server%/pg} "$kas" bench store --seconds 0.1 >/dev/null 2>&1 & pid=$!
await "the benchmark's server" sh -c "ls ${server%/pg}/kas-bench-store-*/pg/data/postmaster.pid 2>/dev/null"
kill -9 $pid
await "the benchmark's folder goes" sh -c "! ls -d ${server%/pg}/kas-bench-store-* 2>/dev/null"

echo "ok: wrong use, moves, and a server that goes away"
