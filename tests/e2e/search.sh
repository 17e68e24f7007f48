#!/usr/bin/env bash
# The whole way on the command line: a search on tiny images, killed and interrupted on the way, gives what an
# undisturbed one gives; the commands that read a study; exit codes and messages.
set -eu
. tests/e2e/expect.bash

"$kas" dataset make shapes -o "$dir/s.h5" --train 300 --test 60 --size 16 --classes 4 >/dev/null
search=("$kas" search --strategy random --objective accuracy --dataset "$dir/s.h5" --net resnet20:n=1 --candidates 3 --epochs 1 --batch 30 --lr 0.02 --seed 5 --device cpu --threads 1 --prune none)

expect 2 '--dataset is needed' "$kas" search
expect 2 'give one of them' "${search[@]}" --time 1h
expect 3 'No such file' "$kas" search --dataset "$dir/none.h5"
expect 3 'resnet20' "${search[@]}" --net lenet
expect 4 'no such study' "$kas" status "$dir/none"
expect 0 'not created' "${search[@]}" --study "$dir/dry" --dry-run
grep -q 'The search begins with these:' "$dir/out" || fail "the dry run does not say what it lists"
expect 0 'Without ancestors the search would begin with these.' "${search[@]}" --strategy evolution --study "$dir/dry" --dry-run
grep -q 'would not be trained: low-score: score imitation' "$dir/out" || fail "no kernel in a dry run is rejected: $(tail -n 6 "$dir/out")"
expect 0 '"state": "low-score", "reason": "score imitation' "${search[@]}" --strategy evolution --study "$dir/dry" --dry-run --json
[ ! -e "$dir/dry" ] || fail "a dry run made a study"

expect 0 'test set, after training on the whole training set' "${search[@]}" --study "$dir/a"
for f in study.db best/kernel.json best/model.json best/weights.safetensors baseline/weights.safetensors logs/0000.log logs/baseline.log; do
    [ -s "$dir/a/$f" ] || fail "$f is missing"
done
# Once for the screen and the latency, once for the plan of memory and the training.
[ "$(grep -c 'programs lowered for inference' "$dir/a/logs/0000.log")" = 1 ] &&
    [ "$(grep -c 'programs lowered for training' "$dir/a/logs/0000.log")" = 1 ] ||
    fail "a candidate is not lowered once for inference and once for training: $(grep lowered "$dir/a/logs/0000.log")"
[ -z "$(ls "$dir/a/checkpoints")" ] || fail "a checkpoint was left"
best=$("$kas" status "$dir/a" --json | sed -n 's/.*"best": "\([0-9a-f]*\)".*/\1/p') # it may lie behind the unmodified network
kept=$({ echo "$best.safetensors"; "$kas" best "$dir/a" --json | sed -n 's/.*"kernel": "\([0-9a-f]*\)".*"frontier": true.*/\1.safetensors/p'; } | sort -u)
[ -n "$best" ] && [ "$(ls "$dir/a/weights" | sort)" = "$kept" ] || fail "not the weights of the frontier and of the best are kept"
k=$("$kas" best "$dir/a" --json | sed -n "s/.*\"kind\": \"candidate\", \"index\": \([0-9]*\), \"kernel\": \"$best\".*/\1/p")
expect 0 '' "$kas" export "$dir/a" --candidate "$k" -o "$dir/exported"
grep -q 'the weights of its training in the search' "$dir/exported/README.md" || fail "a candidate is exported without its weights"
grep -q 'pixels / 255, then per channel mean' "$dir/exported/README.md" || fail "a candidate is exported without what its images were"
expect 0 'study is complete' "$kas" status "$dir/a"
expect 0 "study: $dir/a (exists; the search would go on with it)" "${search[@]}" --study "$dir/a" --dry-run
expect 0 '"done": true' "$kas" status "$dir/a" --json
expect 0 'unmodified network' "$kas" best "$dir/a"
expect 0 'candidate' "$kas" log "$dir/a"
expect 0 'ends: ' "$kas" log "$dir/a" 0
expect 0 '"validation_accuracy"' "$kas" log "$dir/a" baseline --json
expect 3 'no item "77"' "$kas" log "$dir/a" 77
results "$dir/a" >"$dir/results.a"
[ "$(grep -c '^candidate' "$dir/results.a")" = 3 ] || { cat "$dir/results.a"; fail "not three candidates"; }
expect 0 '' "${search[@]}" --study "$dir/a" # again: nothing to do
expect 2 '--lr (the study has 0.02, this command 0.06)' "${search[@]}" --study "$dir/a" --lr 0.06
expect 2 '--warmup (the study has 0.5, this command 2)' "${search[@]}" --study "$dir/a" --recipe cifar70
"$kas" recipe show search >"$dir/same.json" # the same numbers under another name: the same study
expect 0 'best kernel:' "${search[@]}" --study "$dir/a" --recipe "$dir/same.json"
expect 2 '--candidates (the study has 3, this command 2)' "${search[@]}" --study "$dir/a" --candidates 2
cp -r "$dir/a" "$dir/grown"
printf 'half a checkpoint' >"$dir/grown/checkpoints/0003.ckpt" # of the candidate that comes next
expect 0 'best kernel:' "${search[@]}" --study "$dir/grown" --candidates 4
results "$dir/grown" >"$dir/results.grown"
[ "$(grep -c '^candidate' "$dir/results.grown")" = 4 ] || fail "the study did not grow"
grep -q 'not a checkpoint.*begins again' "$dir/grown/logs/0003.log" || fail "a useless checkpoint is not told"
diff <(grep '^candidate' "$dir/results.a" | sort) <(grep '^candidate' "$dir/results.grown" | sort) | grep '^<' &&
    fail "growing changed what was finished"
# Where no answer is published, as while another one is trained, the candidate that leads is exported from the store.
rm "$dir/grown/best/kernel.json" "$dir/grown/best/model.json"
expect 0 '' "$kas" export "$dir/grown" -o "$dir/leads"
grep -q 'candidate [0-3] of study' "$dir/leads/README.md" && grep -q 'the weights of its training in the search' "$dir/leads/README.md" ||
    fail "the candidate that leads is exported as: $(cat "$dir/leads/README.md")"
expect 0 'best kernel:' "$kas" resume "$dir/grown"
cmp "$dir/leads/kernel.json" "$dir/grown/best/kernel.json" || fail "another kernel is exported where none is published"
# A study that has ended is read where nothing may be written, by its owner (root needs another user for that) and by others.
others=()
[ "$(id -u)" != 0 ] || others=(setpriv --reuid=65534 --regid=65534 --clear-groups)
"${others[@]}" "$kas" --version >/dev/null 2>&1 || others=() # that user may not reach the program
chmod 755 "$dir"
chmod -R a+rX,a-w "$dir/grown"
for words in status best log; do expect 0 '' "${others[@]}" "$kas" $words "$dir/grown"; done
chmod -R u+w "$dir/grown"
"$kas" dataset make shapes -o "$dir/t.h5" --train 300 --test 60 --size 16 --classes 4 --seed 9 >/dev/null
expect 4 'begun with other data' "${search[@]}" --dataset "$dir/t.h5" --study "$dir/a"

# Images left in the file: every loss is the same, and the study remembers.
losses() { "$kas" log "$1" "$2" --json | sed 's/, "seconds": [^,}]*//'; }
expect 2 'read-threads' "${search[@]}" --study "$dir/s" --read-threads 0
expect 0 'best kernel:' "${search[@]}" --candidates 1 --study "$dir/s" --stream --read-threads 2
for item in baseline 0 final-baseline; do
    diff <(losses "$dir/a" $item) <(losses "$dir/s" $item) || fail "$item: streaming changes a loss"
done
for item in baseline 0000 final-0000 final-baseline; do
    grep -q 'images are streamed' "$dir/s/logs/$item.log" || fail "$item was not streamed"
done
grep -q 'images are streamed' "$dir/a/logs/baseline.log" && fail "streamed unasked"
rm -r "$dir/s/logs"
expect 2 'the study keeps the number' "$kas" resume "$dir/s" --threads 2
expect 0 'best kernel:' "$kas" resume "$dir/s" --read-threads 1 # nothing to do but to remember
expect 0 '"stream":true,"read_threads":1' "$kas" status "$dir/s" --json
expect 0 'best kernel:' "${search[@]}" --candidates 2 --study "$dir/s" # says nothing of it
grep -q 'images are streamed' "$dir/s/logs/0001.log" || fail "the study forgot that it streams"

# The same with two workers, one of which is killed, then the supervisor, then Ctrl-C, then resume.
logged() { cat "$dir"/b/logs/*.log 2>/dev/null | wc -c; }
at_work() { [ "$(logged)" -gt "$before" ] || ended $pid; } # a worker has begun an item since then
another_worker() { [ -n "$(children $pid | grep -vxF "$workers")" ] || ended $pid; }
before=0
"${search[@]}" --study "$dir/b" --threads 2 --workers 2 2>"$dir/err" & pid=$!
await "a worker at work" at_work
workers=$(children $pid)
kill -9 "$(head -n 1 <<<"$workers")" 2>/dev/null || true
await "a worker in place of the one that was killed" another_worker
workers=$(children $pid)
kill -9 $pid 2>/dev/null || true
wait $pid 2>/dev/null || true
for w in $workers; do await "the end of worker $w, whose supervisor was killed" ended "$w"; done
before=$(logged)
"${search[@]}" --study "$dir/b" --threads 2 --workers 2 2>"$dir/err" >"$dir/out" & pid=$!
await "a worker at work" at_work
rc=0
kill -INT $pid 2>/dev/null || true
wait $pid || rc=$?
case $rc in
0) ;; # it was that quick
130) grep -q 'kas-gpu resume' "$dir/err" || fail "no word of how to go on" ;;
*) cat "$dir/err"; fail "exit code $rc after Ctrl-C" ;;
esac
expect 0 'best kernel:' "$kas" resume "$dir/b" --workers 2
results "$dir/b" >"$dir/results.b"
diff "$dir/results.a" "$dir/results.b" || fail "kills or workers changed the results"
[ "$("$kas" log "$dir/b" --json | grep -c '"kind": "candidate"')" = 3 ] || fail "candidates were lost or doubled"

# Damage is found and told.
printf 'garbage, not a data base' >"$dir/b/study.db"
rm -f "$dir/b/study.db-wal" "$dir/b/study.db-shm"
expect 4 'not an SQLite data base' "$kas" resume "$dir/b"
expect 4 'not an SQLite data base' "$kas" best "$dir/b"
echo "ok: 3 candidates, the same with 1 worker and with 2 that were killed"
