#!/usr/bin/env bash
# kas-gpu tune: a line for each generated launch and each pass of a map, a file of schedules that changes no value, results that are found again, --tuned.
set -eu
. tests/e2e/expect.bash

export KAS_CACHE_DIR=$dir/cache
net=(--net resnet20 --input 3x8x8 --device cpu --threads 1)
tune() { "$kas" tune kernels/canvas_kernel_b.json "${net[@]}" --batch 2 --trials 12 --layer layer2.0.conv1 --json "$@"; }
values() { sed "s/.*\"$1\": *\([^,}]*\).*/\1/" "$dir/json" | tr '\n' ' '; }
launches() { grep '"kernel"' "$dir/all" >"$dir/json"; }
# Who computes the passes of the maps depends on the machine: records say so. The records of launches are removed.
records() { find "$dir/cache/schedules" -name '*.schedule' -print0 | xargs -0 grep -al"$1" '^map '; } # l: of maps, L: of launches
maps_by() {
    records l | /usr/bin/python3 -c '
import hashlib, struct, sys
for path in sys.stdin.read().split():
    text = open(path, "rb").read()[:-48].rsplit(b" ", 1)[0] + b" " + sys.argv[1].encode() + b"\n"
    open(path, "wb").write(text + b"KASJIT\r\n" + struct.pack("<Q", len(text)) + hashlib.sha256(text).digest())
' "$1"
}
tune >"$dir/all"
[ "$(grep -c '"map": *"[14] \(forward\|data\|weights\)".*"known": *false' "$dir/all")" = 6 ] || fail "not a line for each pass of a map: $(cat "$dir/all")"
records L | xargs -r rm
maps_by library
tune -o "$dir/s.txt" >"$dir/all"
[ "$(grep -c '"map".*"known": *true.*"kept": *false' "$dir/all")" = 6 ] || fail "maps are not known: $(cat "$dir/all")"
launches
[ "$(wc -l <"$dir/json")" = 2 ] || fail "not a line for each generated launch: $(cat "$dir/json")"
[ "$(values known)" = "false false " ] || fail "something is known from the start"
[ "$(grep -c '"kept": *true' "$dir/json")" = "$(grep -c '^kernel ' "$dir/s.txt")" ] || fail "other schedules in the file than were kept"
[ "$(sed -n '1,6p' "$dir/s.txt" | tr '\n' ' ')" = 'input 3x8x8 layer layer2.0.conv1 device cpu batch 2 phase training precision fp32 ' ] || fail "the file's head"
expect 0 ' ok, bits ' "$kas" check kernels/canvas_kernel_b.json --net resnet20 --input 3x8x8 --device cpu --directions 0 --schedule "$dir/s.txt"
echo "ok: tune, check --schedule"

kept=$(values kept)
tune -o "$dir/again.txt" >"$dir/all"
launches
[ "$(values known)" = "true true " ] && [ "$(values tried)" = "0 0 " ] && [ "$(values kept)" = "$kept" ] || fail "not found again: $(cat "$dir/json")"
cmp "$dir/s.txt" "$dir/again.txt" || fail "what was found again differs"
[ "$(records L | wc -l)" = 2 ] || fail "records in the cache"
# Of a record whose steps are no schedule of its launch a warning says so, and the launch is tuned again; the other one stays.
/usr/bin/python3 - "$(records L | head -n 1)" <<'END'
import hashlib, struct, sys
text = open(sys.argv[1], "rb").read()[:-48].split(b"kernel")[0] + b"kernel f1\nunswitch\nunswitch\n"
open(sys.argv[1], "wb").write(text + b"KASJIT\r\n" + struct.pack("<Q", len(text)) + hashlib.sha256(text).digest())
END
tune >"$dir/all" 2>"$dir/err"
launches
[ "$(values known | tr ' ' '\n' | sort | tr '\n' ' ')" = 'false true ' ] || fail "an illegal record is known: $(cat "$dir/json")"
grep -q 'the tuned schedule .* illegal: .*; the launch is tuned again' "$dir/err" || fail "no warning: $(cat "$dir/err")"
for batch in 64 512; do
    records L >"$dir/before"
    tune --batch $batch >"$dir/all" # makes records of the maps, and of the launches with which they are computed
    if grep -q '"map".*"known": *true' "$dir/all"; then fail "a map is found for another shape: $(cat "$dir/all")"; fi
    maps_by library
    records L | grep -vxFf "$dir/before" | xargs -r rm
    tune --batch $batch >"$dir/all"
    launches
    ! values known | grep -q true || fail "found for another shape: $(cat "$dir/all")" # one core has more launches
done
[[ $(values times | tr ' ' '\n' | sort -u | tr '\n' ' ') =~ ^1\ [24]\ $ ]] || fail "not pieces of the batch, and what adds them up: $(cat "$dir/json")"
echo "ok: found again"

# All six records get the default's steps as a schedule that was kept. It is used where the launch is met, and only with --tuned.
"$kas" show kernels/canvas_kernel_b.json "${net[@]:0:4}" --layer layer2.0.conv1 --schedule cpu >"$dir/default"
/usr/bin/python3 - "$dir/default" $(records L) <<'END'
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
# 512 images are two pieces for two cores and four for one; threads do not matter.
expect 0 '' "$kas" bench layers --kernel kernels/canvas_kernel_b.json --net resnet20 --input 3x8x8 --repeats 1 --device cpu --threads 1 --batch 512 --tuned
used ', [1-9][0-9]* launches with tuned schedules'
maps_by loops
train '' --tuned
used ', and 6 passes of maps are loops'
sed -n 1,6p "$dir/s.txt" >"$dir/loops.txt"
printf 'map %s loops\n' '1 forward' '4 forward' '4 weights' '4 data' '1 weights' '1 data' >>"$dir/loops.txt"
expect 0 ' ok, bits other than (sums have another order) by the default' "$kas" check kernels/canvas_kernel_b.json --net resnet20 --input 3x8x8 --device cpu --directions 0 --schedule "$dir/loops.txt"
sed 's/map 4/map 3/' "$dir/loops.txt" >"$dir/wrong.txt"
expect 3 'found map 3 forward, which is none of this program' "$kas" check kernels/canvas_kernel_b.json --net resnet20 --input 3x8x8 --device cpu --directions 0 --schedule "$dir/wrong.txt"
sed 's/4 data/4 date/' "$dir/loops.txt" >"$dir/wrong.txt"
expect 3 'found "date"; forward, data or weights is expected' "$kas" check kernels/canvas_kernel_b.json --net resnet20 --input 3x8x8 --device cpu --directions 0 --schedule "$dir/wrong.txt"
echo "ok: train, export, bench layers --tuned; maps by loops"

# Shifts and their products by loops: launches with equal texts have one record, and what is printed is what is kept and found again.
twins() { "$kas" tune kernels/shift_conv.json "${net[@]}" --batch 2 --inference --json "$@" >"$dir/all" 2>"$dir/err"; launches; }
figures() { sed 's/.*\("seconds": [^,]*\).*\("choice.*"ratio_high": [^,]*\).*/\1 \2/' "$1" | sort -u | wc -l; } # different ones
rm -rf "$dir/cache/schedules"
twins --trials 1 --layer layer2.0.conv1
grep -q 'below the floor' "$dir/err" || sed 's/.*"seconds": \([^,]*\), "floor": \([^,]*\),.*/\1 \2/' "$dir/json" | awk '$1 < $2 { exit 1 }' ||
    fail "timed below the floor without a warning: $(cat "$dir/json")"
[[ " $(values seconds)" != *' 0 '* ]] || fail "launches that were not timed: $(cat "$dir/json")"
maps_by loops
records L | xargs -r rm
twins --trials 8 --layer layer2.0.conv1
[ "$(figures "$dir/json")" = "$(records L | wc -l)" ] || fail "not one search for each record: $(cat "$dir/json")"
[ "$(records L | wc -l)" -lt "$(wc -l <"$dir/json")" ] || fail "no launches have equal texts"
kept=$(values kept)
twins --trials 8 --layer layer2.0.conv1
[ "$(values kept)" = "$kept" ] || fail "kept was $kept, found again $(values kept)"
if grep -q '"known": *false' "$dir/json"; then fail "not found again: $(cat "$dir/json")"; fi
# More trials are a search of their own, fewer are not.
twins --trials 9 --layer layer2.0.conv1
if grep -q '"known": *true' "$dir/json"; then fail "8 trials stand for 9: $(cat "$dir/json")"; fi
twins --trials 1 --layer layer2.0.conv1
if grep -q '"known": *false' "$dir/json"; then fail "9 trials do not stand for 1: $(cat "$dir/json")"; fi
# Of two kernels that have a product in common, the second finds what the first has made, in spite of --again.
/usr/bin/python3 - "$dir/two.json" <<'END'
import json, sys
def kernel(*more):
    return {"format": "kas-gpu kernel", "version": 1, "nodes": [{"op": "input"}, {"op": "fc", "in": [0], "out": "C"}, *more], "groups": {}}
kernels = [kernel(), kernel({"op": "relu", "in": [1]})]
layers = {f"layer{stage}.{block}.conv{conv}": None for stage in (1, 2, 3) for block in (0, 1, 2) for conv in (1, 2)}
layers.update({"layer2.0.conv2": 0, "layer2.1.conv1": 1})
json.dump({"format": "kas-gpu layers", "version": 1, "kernels": kernels, "layers": layers}, open(sys.argv[1], "w"))
END
"$kas" tune "$dir/two.json" "${net[@]}" --batch 2 --inference --trials 1 --json --again | grep '"map"' >"$dir/json"
[ "$(values known)" = "false true " ] || fail "not tuned once by one command: $(cat "$dir/json")"
echo "ok: one search for each record; more trials"

# Files of other phases and precisions, with all launches that are shown: a check is that of the file's head.
check() { "$kas" check kernels/squeeze_excite.json --net resnet20 --input 3x8x8 --device cpu --directions 0 --schedule "$@"; }
for more in '--inference' '--precision bf16' '--inference --precision fp16' '--precision tf32'; do
    "$kas" show kernels/squeeze_excite.json "${net[@]:0:4}" --layer layer2.0.conv2 --schedule cpu --batch 2 $more >"$dir/shown.txt"
    expect 0 ' ok, bits as by the default schedules' check "$dir/shown.txt"
done
expect 2 '--precision bf16: '"$dir/shown.txt"' is for tf32' check "$dir/shown.txt" --precision bf16
"$kas" tune kernels/squeeze_excite.json "${net[@]}" --layer layer2.0.conv2 --batch 2 --trials 8 --inference -o "$dir/x.txt" >/dev/null
grep -q '^phase inference' "$dir/x.txt" || fail "the file's phase: $(cat "$dir/x.txt")"
expect 0 ' ok, bits ' check "$dir/x.txt"
# The kernels of epilogues, which write Y in the network, with schedules of their own.
{ sed '/^kernel/,$d' "$dir/x.txt" | grep -v '^map'; printf '%s\n' 'kernel e0' 'fuse h w' 'lane c0' 'vectorise 4' 'rows h*w 16' 'block n y' 'kernel e1' 'lane c0' 'serial n' 'serial h' 'block w x'; } >"$dir/e.txt"
expect 0 ' ok, bits as by the default schedules' check "$dir/e.txt"
sed 's/e1/e2/' "$dir/e.txt" >"$dir/bad.txt"
expect 3 'found kernel "e2", which is none of this program' check "$dir/bad.txt"
sed 's/lane c0/lane nowhere/' "$dir/e.txt" >"$dir/bad.txt"
expect 3 'found "nowhere"; the loops here are' check "$dir/bad.txt"
echo "ok: schedules of inference, epilogues and other precisions"

# A schedule, or a default one, that does not compile costs itself alone; a layer that fails does not keep others from being tuned.
cat >"$dir/cc" <<END
#!/bin/bash
[ "\$1" = --version ] && exec $(command -v clang || command -v gcc) --version
cat >"$dir/text"
if [ -e "$dir/refuse" ] && grep -qf "$dir/refuse" "$dir/text"; then
    [ -e "$dir/always" ] || grep -q 'KAS_KERNEL(m1_' "$dir/text" || rm "$dir/refuse"
    echo 'error: refused' >&2
    exit 1
fi
exec $(command -v clang || command -v gcc) "\$@" -O0 <"$dir/text"
END
chmod +x "$dir/cc"
broken() { KAS_CC=$dir/cc KAS_CACHE_DIR=$dir/broken "$kas" tune kernels/involution.json "${net[@]}" --batch 2 --inference --json "$@"; }
touch "$dir/always"
printf 'KAS_KERNEL(t3_f1,\n' >"$dir/refuse"
expect 0 'f1: a schedule does not compile and is left out' broken --trials 6 --layer layer2.0.conv1
grep '"kernel": "f1"' "$dir/out" >"$dir/json"
[ "$(values tried)" -gt 2 ] || fail "f1 was not tuned: $(cat "$dir/out")"
printf 'KAS_KERNEL(t0_f1,\n' >"$dir/refuse"
rm -r "$dir/broken"
expect 0 'f1: the default schedule does not compile and is left out' broken --trials 6 --layer layer2.0.conv1
grep '"kernel": "e0"' "$dir/out" >"$dir/json"
[ "$(values tried)" -gt 2 ] || fail "e0 was not tuned: $(cat "$dir/out")"
printf 'KAS_KERNEL(m1_\n' >"$dir/refuse"
rm -r "$dir/broken"
expect 0 'its loops cannot be timed, and the library stays' broken --trials 6 --layer layer2.0.conv1
grep -q '"kernel": "e0"' "$dir/out" || fail "the layer was not tuned: $(cat "$dir/out")"
grep -q '"map": "[^"]*", "seconds": null, "ratio": null, "ratio_low": null, "ratio_high": null, "tried": 0, "known": false, "kept": false' "$dir/out" ||
    fail "numbers of a map that nobody measured: $(cat "$dir/out")"
printf 'KAS_KERNEL(m0_\n' >"$dir/refuse" # until a text has no loops
rm -r "$dir/always" "$dir/broken"
expect 1 '1 of 5 kernels were not tuned' broken --trials 1
[ "$(grep -o '"layer": "[^"]*"' "$dir/out" | sort -u | wc -l)" -gt 2 ] || fail "other layers were not tuned: $(cat "$dir/out")"
/usr/bin/python3 -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]))' "$kas" tune kernels/involution.json "${net[@]}" --layer layer2.0.conv1 --trials 4 --batch 2 </dev/null >"$dir/out"
grep -q 'layer2.0.conv1: schedule 2 of 4 is ranked' "$dir/out" || fail "no progress on a terminal: $(cat "$dir/out")"
echo "ok: schedules and layers that fail, progress"

# The library computes 16 images in one call, loops image by image: as much work is timed. Loops take from half to three times as long.
expect 0 '' "$kas" tune kernels/group_conv.json --net resnet18 --input 3x32x32 --device cpu --threads 1 --layer layer1.0.conv1 --inference --batch 16 --trials 1 --json
grep '"map"' "$dir/out" >"$dir/json"
[ "$(wc -l <"$dir/json")" = 1 ] || fail "not one map: $(cat "$dir/out")"
awk -v ratio="$(values ratio)" 'BEGIN { exit !(ratio > 0.2) }' || fail "loops of one image were timed beside the library's 16: $(cat "$dir/json")"
echo "ok: pieces of a batch"

expect 2 '--layer nowhere: no such replaced convolution' "$kas" tune kernels/canvas_kernel_b.json "${net[@]}" --layer nowhere
expect 2 'say which --layer' "$kas" tune kernels/canvas_kernel_b.json "${net[@]}" -o "$dir/x.txt"
expect 2 'a kernel file and --net are needed' "$kas" tune kernels/canvas_kernel_b.json
echo "ok: tune"
