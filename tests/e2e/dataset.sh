#!/usr/bin/env bash
# kas-gpu dataset on the command line: make, import, info, exit codes, and files of other writers.
# With KAS_CIFAR100_DIR set (the folder of the binary version) the real data set is imported too.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
kas=${KAS_GPU:-./kas-gpu}

fail() { echo "FAILED: $*"; exit 1; }
expect() { # exit-code words command...
    local code=$1 words=$2 rc=0
    shift 2
    "$@" >"$dir/out" 2>"$dir/err" || rc=$?
    [ "$rc" = "$code" ] || { cat "$dir/out" "$dir/err"; fail "expected exit code $code, got $rc: $*"; }
    [ -z "$words" ] || grep -qF -- "$words" "$dir/out" "$dir/err" ||
        { cat "$dir/out" "$dir/err"; fail "expected \"$words\": $*"; }
}

expect 0 'make shapes -o shapes.h5' "$kas" dataset --help
expect 0 '40 images, 8 of each class' "$kas" dataset make shapes -o "$dir/s.h5" --train 40 --test 10 --size 16 --classes 5
expect 0 '"schema_version": 1' "$kas" dataset info --json "$dir/s.h5"
digest=$(sed 's/.*"digest": "\([0-9a-f]*\)".*/\1/' "$dir/out")
[ ${#digest} = 64 ] || fail "digest: $digest"
expect 0 "$digest" "$kas" dataset make shapes -o "$dir/again.h5" --train 40 --test 10 --size 16 --classes 5
cmp "$dir/s.h5" "$dir/again.h5" || fail "the same data gave two different files"
[ "$(ls "$dir" | grep -c tmp)" = 0 ] || fail "a temporary file was left"

expect 2 'expected import, make or info' "$kas" dataset
expect 2 'expected -o FILE' "$kas" dataset make shapes
expect 2 'expected an integer in [8, 256]' "$kas" dataset make shapes -o "$dir/x.h5" --size 3
expect 2 'import cifar10|cifar100 SRC' "$kas" dataset import mnist "$dir" -o "$dir/x.h5"
expect 3 'train.bin is missing' "$kas" dataset import cifar100 "$dir" -o "$dir/x.h5"
expect 3 'No such file' "$kas" dataset info "$dir/none.h5"
head -c 3000 "$dir/s.h5" >"$dir/cut.h5"
expect 3 'truncated' "$kas" dataset info "$dir/cut.h5"
echo text >"$dir/text.h5"
expect 3 'not an HDF5 file' "$kas" dataset info "$dir/text.h5"
expect 1 'cannot write into its folder' "$kas" dataset make shapes -o "$dir/no/where.h5" --train 10 --test 10
[ ! -e "$dir/x.h5" ] || fail "a refused command wrote its output"

# datasets/fetch.sh: checksums, without a network.
expect 2 'usage' datasets/fetch.sh
echo wrong >"$dir/cifar-10-binary.tar.gz"
expect 1 'checksum' env KAS_FETCH_OFFLINE=1 datasets/fetch.sh cifar10 "$dir"

# Another writer: the example of datasets/FORMAT.md, where h5py is installed.
if /usr/bin/python3 -c 'import h5py' 2>/dev/null; then
    (cd "$dir" && { echo 'import numpy as np
train_x = np.random.default_rng(0).integers(0, 256, (20, 6, 7, 3), "u1"); train_y = np.arange(20) % 2
test_x, test_y = train_x[:4], train_y[:4]'
        sed -n '/^```python/,/^```/p' "$OLDPWD/datasets/FORMAT.md" | grep -v '^```'; } >w.py && /usr/bin/python3 w.py)
    expect 0 'cat, dog' "$kas" dataset info "$dir/mine.h5"
else
    echo "h5py is not installed: its files were not tried"
fi

if [ -n "${KAS_CIFAR100_DIR:-}" ]; then
    expect 0 '5000 images, 50 of each class' "$kas" dataset import cifar100 "$KAS_CIFAR100_DIR" -o "$dir/c.h5" --limit-train 5000 --limit-test 1000
    expect 0 '50000 images, 500 of each class' "$kas" dataset import cifar100 "$KAS_CIFAR100_DIR" -o "$dir/c.h5"
    expect 0 'apple, aquarium_fish' "$kas" dataset info "$dir/c.h5"
    # The figures that everybody's training recipes quote for CIFAR-100.
    expect 0 '0.5071 0.4865 0.4409' "$kas" dataset info "$dir/c.h5"
fi
echo "all as expected"
