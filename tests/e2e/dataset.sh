#!/usr/bin/env bash
# kas-gpu dataset on the command line: make, import, info, exit codes, and files of other writers.
# With KAS_CIFAR100_DIR set (the folder of the binary version) the real data set is imported too.
set -eu
. tests/e2e/expect.bash

expect 0 'make shapes -o shapes.h5' "$kas" dataset --help
expect 0 '40 images, 8 of each class' "$kas" dataset make shapes -o "$dir/s.h5" --train 40 --test 10 --size 16 --classes 5
expect 0 '"schema_version": 1' "$kas" dataset info --json "$dir/s.h5"
digest=$(sed 's/.*"digest": "\([0-9a-f]*\)".*/\1/' "$dir/out")
[ ${#digest} = 64 ] || fail "digest: $digest"
expect 0 "$digest" "$kas" dataset make shapes -o "$dir/again.h5" --train 40 --test 10 --size 16 --classes 5
cmp "$dir/s.h5" "$dir/again.h5" || fail "the same data gave two different files"
[ -z "$(ls "$dir"/*.h5.* 2>/dev/null)" ] || fail "a temporary file was left"

expect 2 'expected import, make or info' "$kas" dataset
expect 2 'expected -o FILE' "$kas" dataset make shapes
expect 2 'expected an integer in [8, 256]' "$kas" dataset make shapes -o "$dir/x.h5" --size 3
expect 2 'import cifar10|cifar100|idx|folder SRC' "$kas" dataset import mnist "$dir" -o "$dir/x.h5"
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
        sed -n '/^```python/,/^```/p;/^```$/q' "$OLDPWD/datasets/FORMAT.md" | grep -v '^```'; } >w.py && /usr/bin/python3 w.py)
    expect 0 'cat, dog' "$kas" dataset info "$dir/mine.h5"
    # Encoded images, as the other example writes them; and the same out of a folder.
    if /usr/bin/python3 -c 'import PIL' 2>/dev/null && "$kas" doctor --json | grep -q '"found":true,"name":"libjpeg-turbo".*"found":true,"name":"libpng"'; then
        (cd "$dir" && { echo 'import io, os, numpy as np
from PIL import Image
def encoded(i):
    out = io.BytesIO()
    Image.fromarray((np.arange(30 * (20 + i) * 3) % 251).astype("u1").reshape(30, 20 + i, 3)).save(out, "JPEG" if i % 3 else "PNG")
    return out.getvalue()
train_files, train_y = [encoded(i) for i in range(20)], np.arange(20) % 2
test_files, test_y = train_files[:4], train_y[:4]
for part, n in (("train", 20), ("val", 4)):
    for i in range(n):
        os.makedirs("src/%s/%s" % (part, ("cat", "dog")[i % 2]), exist_ok=True)
        open("src/%s/%s/%02d.%s" % (part, ("cat", "dog")[i % 2], i, "jpg" if i % 3 else "png"), "wb").write(train_files[i])'
            sed -n '/^import h5py, zlib/,/^```/p' "$OLDPWD/datasets/FORMAT.md" | grep -v '^```'; } >e.py && /usr/bin/python3 e.py)
        expect 0 'JPEG or PNG images of any size' "$kas" dataset info "$dir/encoded.h5"
        expect 0 '20 images, 10 of each class' "$kas" dataset import folder "$dir/src" -o "$dir/folder.h5" --input 16
        expect 0 'trained after 1 epoch' "$kas" train --net resnet20 --dataset "$dir/folder.h5" --epochs 1 --batch 4 --test --device cpu
        expect 0 'trained after 1 epoch' "$kas" train --net resnet20 --dataset "$dir/s.h5" --stream --shuffle window --read-threads 2 --epochs 1 --batch 8 --test --device cpu
        printf 'no image' >"$dir/src/train/dog/09.png"
        expect 3 'dog/09.png: expected a JPEG or PNG image' "$kas" dataset import folder "$dir/src" -o "$dir/x.h5" --input 16
        expect 0 '19 images' "$kas" dataset import folder "$dir/src" -o "$dir/y.h5" --input 16 --skip-damaged
    else
        skip_part "PIL, libpng or libjpeg-turbo is missing: encoded images were not tried"
    fi
else
    skip_part "h5py is not installed: its files were not tried"
fi

if [ -n "${KAS_CIFAR100_DIR:-}" ]; then
    expect 0 '5000 images, 50 of each class' "$kas" dataset import cifar100 "$KAS_CIFAR100_DIR" -o "$dir/c.h5" --limit-train 5000 --limit-test 1000
    expect 0 '50000 images, 500 of each class' "$kas" dataset import cifar100 "$KAS_CIFAR100_DIR" -o "$dir/c.h5"
    expect 0 'apple, aquarium_fish' "$kas" dataset info "$dir/c.h5"
    # The figures that everybody's training recipes quote for CIFAR-100.
    expect 0 '0.5071 0.4865 0.4409' "$kas" dataset info "$dir/c.h5"
else
    skip_part "KAS_CIFAR100_DIR is not set: the real CIFAR-100 was not imported"
fi
# Folders that are not used are named, and no set has images that no network takes.
for part in train val test; do
    mkdir -p "$dir/three/$part/cat"
    printf 'no image' >"$dir/three/$part/cat/a.png"
done
expect 3 'three: the test set is val; test is left out' "$kas" dataset import folder "$dir/three" -o "$dir/x.h5" --input 16
expect 2 '--input: expected an integer in [8, 1024]' "$kas" dataset import folder "$dir/three" -o "$dir/x.h5" --input 1025
# What does nothing is refused.
expect 2 'make shapes takes no --grey' "$kas" dataset make shapes -o "$dir/x.h5" --grey
expect 2 'import cifar100 takes no --input' "$kas" dataset import cifar100 "$dir" -o "$dir/x.h5" --input 16
expect 2 'import folder takes no --resize' "$kas" dataset import folder "$dir" -o "$dir/x.h5" --resize 16
expect 2 'info writes no file' "$kas" dataset info "$dir/x.h5" -o "$dir/y.h5"
echo "ok: dataset make, import and info"
