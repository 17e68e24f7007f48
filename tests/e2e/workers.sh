#!/usr/bin/env bash
# Workers on any machine: two searches and two workers on one study in PostgreSQL. The search that proposes is killed, the other
# takes over; the server is killed and comes back; workers and searches with other data or of another version are refused; a
# worker that is told to stop, or loses the database, saves a checkpoint; accuracy and latency come from different supervisors.
set -eu
. tests/e2e/expect.bash
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null ||
    { echo "SKIPPED: PostgreSQL is not installed"; exit 77; }
make_server_folder
trap 'kill -9 $(jobs -p) 2>/dev/null || true; drop_server' EXIT
store=@$server/url
export KAS_CACHE_DIR=${KAS_CACHE_DIR:-$dir/cache}
expect 0 'runs on' "$kas" store start "$server"
for seed in 1 2; do "$kas" dataset make shapes -o "$dir/$seed.h5" --seed $seed --train 120 --test 24 --size 8 --classes 4 >/dev/null; done
search=("$kas" search --strategy random --objective accuracy --dataset "$dir/1.h5" --net tests/e2e/own_network.json --targets 3x3 --batch 16 --lr 0.005 --seed 1 --threads 1 --prune none --device cpu --compile-ahead 0)
short=(--candidates 4 --epochs 5)
worker=("$kas" worker --store "$store" --threads 1)
log() { cat "$1"/logs/*.log 2>/dev/null; }

expect 4 'this database has 0 studies' "${worker[@]}"
"${search[@]}" "${short[@]}" --study "$dir/plain" >/dev/null 2>"$dir/err" || { cat "$dir/err"; fail "the undisturbed search"; }
results "$dir/plain" >"$dir/results"
[ "$(grep -c '^candidate' "$dir/results")" = 4 ] || { cat "$dir/results"; fail "too few candidates"; }

# ---- the search that proposes is killed, and the server
study=$dir/first
"${search[@]}" "${short[@]}" --study "$study" --store "$store" >/dev/null 2>"$dir/err1" & first=$!
await "the first search" sh -c "grep -qs 'epoch 1' '$study/logs/baseline.log'"
kill -STOP $(children $first) # its worker keeps an item, so that the study cannot end before the kill
"${search[@]}" "${short[@]}" --study "$study" >"$dir/out2" 2>"$dir/err2" & second=$!
await "the second search" grep -qs 'another search proposes' "$dir/err2"
"${worker[@]}" --study first >/dev/null 2>"$dir/err3" & third=$!
"${worker[@]}" --study "$study" --workers 2 >/dev/null 2>"$dir/err4" & fourth=$!
for i in 3 4; do await "worker $i" grep -qs 'taking part in' "$dir/err$i"; done
kill -9 $first
wait $first 2>/dev/null || true
kill -9 "$(head -n 1 "$server/data/postmaster.pid")" # all that it has started follows
expect 0 'runs on' "$kas" store start "$server"
await "the other search, which takes over" grep -q 'this one does it now' "$dir/err2"
for pid in $second $third $fourth; do wait "$pid" || { rc=$?; cat "$dir"/err[234]; fail "exit code $rc"; }; done
grep -q 'the study has ended' "$dir/err3" || { cat "$dir/err3"; fail "the worker did not see the end"; }
results "$study" | diff "$dir/results" - || { cat "$dir"/err[1234]; fail "another leaderboard"; }
[ -z "$(ls "$study/checkpoints")" ] || fail "a checkpoint was left"
echo "ok: a search and the server were killed: nothing changed"

# ---- who may take part
expect 0 'the study has ended' "${worker[@]}"
expect 4 'begun with other data' "${worker[@]}" --dataset "$dir/2.h5"
expect 3 'No such file' "${worker[@]}" --dataset "$dir/3.h5"
expect 4 'no such study' "${worker[@]}" --study second
expect 2 'give its folder as --study' "$kas" worker
sed 's|kas:[0-9a-f]*@|kas:wrong@|' "$server/url" >"$dir/wrong"
expect 4 'password authentication failed' "$kas" worker --store "@$dir/wrong" --study first
echo 'postgresql://kas:x@127.0.0.1:1/postgres' >"$dir/nowhere"
expect 4 'no connection' "$kas" worker --store "@$dir/nowhere"
expect 4 'begun with other data' "${search[@]}" "${short[@]}" --dataset "$dir/2.h5" --study "$study" --store "$store"
mv "$study" "$dir/away"
expect 4 'the folder of the study is not on this machine' "${worker[@]}"
expect 0 'the study has ended' "${worker[@]}" --role measure
mv "$dir/away" "$study"
psql=$(ls /usr/lib/postgresql/*/bin/psql 2>/dev/null | tail -n 1 || true)
sql() { "$psql" -q "$(cat "$server/url")" -c "$1" >"$dir/sql" 2>&1 || { cat "$dir/sql"; fail "$1"; }; }
if [ -n "$psql" ]; then
    sql "UPDATE kas_first.study SET code_version = '0123456789abcdef'"
    expect 4 'begun with code version 0123456789abcdef' "${worker[@]}"
    expect 4 'begun with code version 0123456789abcdef' "${search[@]}" "${short[@]}" --study "$study"
    version=$(sed -n 's/.*this kas-gpu has version \([0-9a-f]*\) .*/\1/p' "$dir/err")
    sql "UPDATE kas_first.kas_gpu SET schema = schema + 1000"
    expect 4 'schema version 10' "${worker[@]}"
    expect 4 'schema version 10' "${search[@]}" "${short[@]}" --study "$study"
    sql "UPDATE kas_first.kas_gpu SET schema = schema - 1000"
    sql "UPDATE kas_first.study SET device = 'an edge device', code_version = '$version'; UPDATE kas_first.kas_gpu SET ended = 0;
         UPDATE kas_first.work SET state = 'queued' WHERE kind = 1 AND k = 3"
    expect 4 'leaves measuring to others' "${worker[@]}"
else
    skip_part "no psql to make a study of another version or device"
fi
echo "ok: others are refused"

# ---- told to stop: a checkpoint, the candidate back in the queue, code 75
study=$dir/long
"${search[@]}" --candidates 2 --epochs 100000 --study "$study" --store "$store" >/dev/null 2>"$dir/err1" & first=$!
await "the search" sh -c "grep -qs 'epoch 1' '$study/logs/baseline.log'"
"${worker[@]}" --study long >/dev/null 2>"$dir/err3" & third=$!
await "a candidate" sh -c "grep -qs 'epoch 1' '$study/logs/0000.log'"
kill -USR1 $third
kill -TERM $third # a batch system may send both
rc=0; wait $third || rc=$?
[ $rc = 75 ] || { cat "$dir/err3"; fail "exit code $rc of a worker that was told to stop"; }
[ -s "$study/checkpoints/0000.ckpt" ] || fail "no checkpoint was saved"
"$kas" best "$study" --json | grep '"index": 0, ' | grep candidate | grep -q '"state": "queued"' || fail "the candidate is not in the queue"
KAS_STORE_PATIENCE=1 "${worker[@]}" --study long >/dev/null 2>"$dir/err3" & third=$!
await "the candidate, from its checkpoint" grep -qs 'going on after' "$study/logs/0000.log"
"$kas" store stop "$server" # as in a job that is stopped as a whole
rc=0; wait $third || rc=$?
[ $rc = 4 ] && grep -q 'did not come back' "$dir/err3" || { cat "$dir/err3"; fail "exit code $rc of a worker without its database"; }
await "the loss of the server" grep -qs 'trying again for' "$dir/err1"
kill -USR2 $first
rc=0; wait $first || rc=$?
[ $rc = 75 ] || { cat "$dir/err1"; fail "exit code $rc of a search that was told to stop"; }
[ -s "$study/checkpoints/baseline.ckpt" ] || fail "no checkpoint of the baseline was saved"
expect 0 'runs on' "$kas" store start "$server"
echo "ok: a worker and a search that were told to stop"

# ---- one supervisor trains, another measures
study=$dir/roles
"${search[@]}" --candidates 2 --epochs 2 --study "$study" --store "$store" --role train >/dev/null 2>"$dir/err1" & first=$!
await "the study" sh -c "'$kas' status '$study' >/dev/null 2>&1"
"${worker[@]}" --study roles --role measure >/dev/null 2>"$dir/err3" & third=$!
for pid in $first $third; do wait "$pid" || { rc=$?; cat "$dir"/err[13]; fail "exit code $rc with roles"; }; done
"$kas" best "$study" --json >"$dir/out"
grep '"kind": "candidate"' "$dir/out" | grep -c '"accuracy": [0-9.]*,.*"latency_seconds": [0-9.]' | grep -q '^2$' || { cat "$dir/out"; fail "a figure is missing"; }
expect 0 '"role": "measure", "seen_seconds"' "$kas" status "$study" --json
expect 0 'role train, seen' "$kas" status "$study"
echo "ok: accuracy and latency from different supervisors"
