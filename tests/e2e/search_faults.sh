#!/usr/bin/env bash
# Faults of the machine end no candidate: with a compiler that is killed or missing, a cache that cannot be made, and a full
# cache disk the search stops and says so, and the same command on a healthy machine gives what an undisturbed one gives.
# A finished study whose files were deleted says what is gone.
set -eu
. tests/e2e/expect.bash

# What must not depend on faults: the latency does.
results() { "$kas" best "$1" --json | sed -n 's/.*"kind": "\([^"]*\)", "index": \([0-9]*\), "kernel": \([^,]*\), "state": "\([^"]*\)".*"accuracy": \([^,]*\),.*/\1 \2 \3 \4 \5/p' | sort; }
states() { "$kas" status "$1" --json | sed 's/.*"states": {\([^}]*\)}.*/\1/'; }

"$kas" dataset make shapes -o "$dir/s.h5" --train 90 --test 20 --size 8 --classes 4 >/dev/null
search=("$kas" search --strategy random --objective accuracy --dataset "$dir/s.h5" --net resnet20:n=1 --candidates 3 --epochs 1 --batch 30 --lr 0.01 --seed 4
    --device cpu --threads 1 --prune none)
expect 0 'best kernel:' "${search[@]}" --study "$dir/a"
results "$dir/a" >"$dir/results.a"

printf '#!/bin/sh\n[ "$1" = --version ] && { echo "fake (test) 1.0"; exit 0; }\nkill -9 $$\n' >"$dir/killed"
chmod +x "$dir/killed"
fault() { # environment: one after the other on the same study
    expect 1 'could not evaluate 3 candidates in a row' env "$@" "${search[@]}" --study "$dir/b"
    grep -q 'run the same command' "$dir/err" || fail "no word of how to go on"
    case $(states "$dir/b") in
    '"queued":3,"running":0,'*'"finished":0,'*) ;;
    *) fail "$*: candidates are not all in the queue: $(states "$dir/b")" ;;
    esac
}
fault KAS_CC="$dir/killed"
fault KAS_CC="$dir/no-such-compiler"
fault KAS_CACHE_DIR=/dev/null/cache
mkdir "$dir/small"
if mount -t tmpfs -o size=64k tmpfs "$dir/small" 2>/dev/null; then
    trap "umount '$dir/small'; rm -rf '$dir'" EXIT
    fault KAS_CACHE_DIR="$dir/small"
else
    skip_part "a full cache disk: no small file system can be mounted here"
fi
expect 0 'best kernel:' "${search[@]}" --study "$dir/b"
results "$dir/b" | diff "$dir/results.a" - || fail "the faults changed the results"

# A data set that is cut off while it is streamed: the search ends and names the file, and goes on when the file is whole again.
stream=("${search[@]}" --candidates 1 --epochs 120 --stream --study "$dir/c")
cp "$dir/s.h5" "$dir/whole.h5"
"${stream[@]}" >"$dir/out" 2>"$dir/err" & pid=$!
await "an epoch" grep -qs 'epoch 1:' "$dir/c/logs/baseline.log"
worker=$(children $pid | head -n 1)
kill -STOP "$worker"
truncate -s 4096 "$dir/s.h5"
kill -CONT "$worker"
rc=0; wait $pid || rc=$?
[ $rc = 3 ] && grep -qF "$dir/s.h5" "$dir/err" || { cat "$dir/err"; fail "exit code $rc where the data set cannot be read"; }
case $("$kas" status "$dir/c" --json) in *'"failed":0,"machine-fault":0'*) ;; *) fail "an item ended for good" ;; esac
cat "$dir/whole.h5" >"$dir/s.h5"
"${stream[@]}" >"$dir/out" 2>"$dir/err" || true # of so few images a final training may diverge
grep -qE '^candidate 0 .* finished' "$dir/err" || { cat "$dir/err"; fail "the study did not go on"; }

# What can be rebuilt is; weights that are gone are said to be gone, and trained again where the command says so.
cp -r "$dir/a" "$dir/gone"
rm -r "$dir/gone/best" "$dir/gone/kernels" "$dir/gone/baseline"
expect 0 'trained weights: gone' "$kas" resume "$dir/gone"
grep -q 'kas-gpu export' "$dir/out" && fail "an export of weights that do not exist"
cmp "$dir/a/best/kernel.json" "$dir/gone/best/kernel.json" && cmp "$dir/a/best/model.json" "$dir/gone/best/model.json" ||
    fail "best/ was not published again"
diff -r "$dir/a/kernels" "$dir/gone/kernels" || fail "kernels/ was not published again"
expect 3 'best/weights.safetensors' "$kas" export "$dir/gone" -o "$dir/exported"
expect 0 "trained weights: $dir/gone/best/weights.safetensors" "$kas" resume "$dir/gone" --retrain
cmp "$dir/a/best/weights.safetensors" "$dir/gone/best/weights.safetensors" || fail "other weights"
cmp "$dir/a/baseline/weights.safetensors" "$dir/gone/baseline/weights.safetensors" || fail "other weights of the baseline"
results "$dir/gone" | diff "$dir/results.a" - || fail "another result"
echo "ok: faults of the machine cost candidates nothing; what is gone is said to be gone"
