#!/usr/bin/env bash
# Is the memory of a streamed epoch constant?  A file that is larger than the address space which the process may have
# is trained on from its first to its last image; without --stream the same command ends with a message that says what
# to do.  The images are a sparse IDX file of zeros, so that making them costs little.
set -eu
. tests/e2e/expect.bash

limit=$((240 * 1024)) # KiB of address space; a process that trains the network below takes about 100 MiB
images=2000 side=224

# With one thread in all pools and one arena for them, the address space is that of the memory in use.
export OMP_NUM_THREADS=1 MALLOC_ARENA_MAX=1
limited() { (ulimit -S -s 8192 || true; ulimit -v $limit && exec "$@"); } # a stack of 8 MiB a thread
if ! limited "$kas" --version >/dev/null 2>&1 && "$kas" --version >/dev/null; then
    echo "SKIPPED: this build does not even start in $limit KiB of address space (a sanitizer?)"
    exit 77
fi

word() { printf "$(printf '\\x%02x' $(($1 >> 24 & 255)) $(($1 >> 16 & 255)) $(($1 >> 8 & 255)) $(($1 & 255)))"; }
idx() { # part count: colour images of zeros, and labels 0, 1, 1, 1, ...
    { printf '\0\0\x08\x04'; word "$2"; word $side; word $side; word 3; } >"$dir/idx/$1-images"
    truncate -s $((20 + $2 * side * side * 3)) "$dir/idx/$1-images"
    { printf '\0\0\x08\x01'; word "$2"; printf '\0'; head -c $(($2 - 1)) /dev/zero | tr '\0' '\1'; } >"$dir/idx/$1-labels"
}
mkdir "$dir/idx"
idx train $images
idx t10k 8
"$kas" dataset import idx "$dir/idx" -o "$dir/large.h5" --quiet
bytes=$(stat -c %s "$dir/large.h5")
[ "$bytes" -gt $((limit * 1024)) ] || fail "a file of $bytes bytes is not larger than the limit"
cat >"$dir/mean.json" <<'NET'
{"format": "kas-gpu network", "version": 1, "name": "mean",
 "layers": [{"global_avg_pool": "pool"}, {"linear": "fc", "channels": "classes"}]}
NET

train=("$kas" train --net "$dir/mean.json" --dataset "$dir/large.h5" --test --epochs 1 --batch 8 --lr 0.01
    --device cpu --threads 1)
expect 0 'images are streamed' limited "${train[@]}" --stream --read-threads 2
grep -q 'trained after 1 epoch' "$dir/out" || fail "the epoch did not end"
expect 0 '' "${train[@]}" --dry-run # the images do fit into memory where there is enough
expect 1 'MiB of its images: Cannot allocate memory; they stay in the file with --stream' limited "${train[@]}"
echo "ok: an epoch of $((bytes >> 20)) MiB within $((limit >> 10)) MiB of address space"
