#!/usr/bin/env bash
# kas-gpu tune: a line for each generated launch, a file of schedules that changes no value, results that are found again, --tuned.
set -eu
. tests/e2e/expect.bash

export KAS_CACHE_DIR=$dir/cache
net=(--net resnet20 --input 3x8x8 --device cpu --threads 1)
tune() { "$kas" tune kernels/canvas_kernel_b.json "${net[@]}" --batch 2 --trials 12 --layer layer2.0.conv1 --json "$@"; }
values() { sed "s/.*\"$1\": *\([^,}]*\).*/\1/" "$dir/json" | tr '\n' ' '; }
tune -o "$dir/s.txt" >"$dir/json"
[ "$(wc -l <"$dir/json")" = 2 ] || fail "not a line for each generated launch: $(cat "$dir/json")"
[ "$(values known)" = "false false " ] || fail "something is known from the start"
[ "$(grep -c '"kept": *true' "$dir/json")" = "$(grep -c '^kernel ' "$dir/s.txt")" ] || fail "other schedules in the file than were kept"
[ "$(sed -n '1,3p' "$dir/s.txt" | tr '\n' ' ')" = 'layer layer2.0.conv1 device cpu batch 2 ' ] || fail "the file's head"
expect 0 ' ok, bits ' "$kas" check kernels/canvas_kernel_b.json --net resnet20 --input 3x8x8 --device cpu --directions 0 --schedule "$dir/s.txt"
echo "ok: tune, check --schedule"

kept=$(values kept)
tune -o "$dir/again.txt" >"$dir/json"
[ "$(values known)" = "true true " ] && [ "$(values tried)" = "0 0 " ] && [ "$(values kept)" = "$kept" ] || fail "not found again: $(cat "$dir/json")"
cmp "$dir/s.txt" "$dir/again.txt" || fail "what was found again differs"
[ "$(find "$dir/cache/schedules" -name '*.schedule' | wc -l)" = 2 ] || fail "records in the cache"
for batch in 64 256; do
    tune --batch $batch >"$dir/json"
    [ "$(values known)" = "false false " ] || fail "found for another shape"
done
echo "ok: found again"

# All six records get the default's steps as a schedule that was kept. It is used where the launch is met, and only with --tuned.
"$kas" show kernels/canvas_kernel_b.json "${net[@]:0:4}" --layer layer2.0.conv1 --schedule cpu >"$dir/default"
/usr/bin/python3 - "$dir/default" "$dir"/cache/schedules/*/*/*.schedule <<'END'
import hashlib, struct, sys
head, steps = open(sys.argv[1]).read().split("kernel f1\n")
text = (head + "kernel f1\n" + steps.split("kernel")[0]).encode()
for path in sys.argv[2:]:
    open(path, "wb").write(text + b"KASJIT\r\n" + struct.pack("<Q", len(text)) + hashlib.sha256(text).digest())
END
"$kas" dataset make shapes -o "$dir/s.h5" --train 16 --test 8 --size 8 --classes 4 >/dev/null
train() { expect 0 "$1" "$kas" train --net resnet20 --dataset "$dir/s.h5" --kernel kernels/canvas_kernel_b.json --epochs 1 --batch 2 --device cpu --threads 1 "${@:2}"; }
used() { grep -Eqh "$1" "$dir/out" "$dir/err" || { cat "$dir/out" "$dir/err"; fail "expected $1"; }; }
train '' --tuned
used '^2 of [0-9]+ generated launches have schedules that were tuned'
train ''
if grep -q 'that were tuned' "$dir/out" "$dir/err"; then fail "tuned without --tuned"; fi
expect 2 '--tuned is about kernels' "$kas" train --net resnet20 --dataset "$dir/s.h5" --tuned
expect 0 '' "$kas" export kernels/canvas_kernel_b.json --net resnet20 --input 3x8x8 -o "$dir/x" --device cpu --tuned
used '2 of [0-9]+ generated launches have schedules that were tuned'
# 256 images are a piece for two cores and two pieces for one; threads do not matter.
expect 0 '' "$kas" bench layers --kernel kernels/canvas_kernel_b.json --net resnet20 --input 3x8x8 --repeats 1 --device cpu --threads 1 --batch 256 --tuned
used ', [1-9][0-9]* launches with tuned schedules'
echo "ok: train, export, bench layers --tuned"

expect 2 '--layer nowhere: no such replaced convolution' "$kas" tune kernels/canvas_kernel_b.json "${net[@]}" --layer nowhere
expect 2 'say which --layer' "$kas" tune kernels/canvas_kernel_b.json "${net[@]}" -o "$dir/x.txt"
expect 2 'a kernel file and --net are needed' "$kas" tune kernels/canvas_kernel_b.json
echo "ok: tune"
