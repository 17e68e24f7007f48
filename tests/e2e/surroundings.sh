#!/usr/bin/env bash
# What the machine and strangers' files may do to a command: full disks, limits of the shell, outputs that are no plain
# files, caches of other users, and texts that a terminal would obey.
set -eu
. tests/e2e/expect.bash

kernel=$PWD/kernels/involution.json
"$kas" dataset make shapes -o "$dir/d.h5" --train 120 --test 40 --size 8 --classes 4 --quiet >"$dir/out"
train=("$kas" train --net resnet20:n=1 --dataset "$dir/d.h5" --epochs 1 --batch 32 --device cpu --threads 1)
for seed in 5 6 7 8 9; do # until a kernel comes that can be trained
    search=("$kas" search --strategy random --objective accuracy --dataset "$dir/d.h5" --net resnet20:n=1 --candidates 1 --epochs 1 --batch 32 --device cpu --threads 1 --seed $seed
        --study "$dir/study")
    rm -rf "$dir/study"
    "${search[@]}" --quiet >"$dir/out" 2>"$dir/err" && break
done
[ -s "$dir/study/best/kernel.json" ] || fail "search: $(cat "$dir/out" "$dir/err")"

# ---- standard output -------------------------------------------------------------------------------------------------

to() { local place=$1; shift; "$@" >"$place"; }
full() { expect 1 'standard output: No space left on device' to /dev/full "$@"; }
if [ -c /dev/full ]; then
    for json in '' --json; do
        for words in 'best S' 'log S' 'log S baseline' 'status S' 'resume S' 'net show resnet20' \
            'recipe list' 'recipe show search' 'sample --net resnet20 --count 3' 'sample --net resnet20 --count 300' "show $kernel" \
            'dataset info D' 'doctor' 'train --net resnet20:n=1 --dataset D --epochs 1 --batch 32' 'train --net resnet20 --dataset D --dry-run' \
            'search --dataset D --net resnet20 --study S2 --candidates 2 --epochs 1 --dry-run' 'bench known --help' '--help' '--version'; do
            words=${words//S2/$dir/study2} words=${words// S/ $dir/study} words=${words// D/ $dir/d.h5}
            case "$words $json" in "--help --json" | "--version --json") continue ;; esac
            full "$kas" $words $json # shellcheck disable=SC2086
        done
    done
    full "$kas" show "$kernel" --net resnet20 --input 3x32x32 --source cpu
    full "$kas" show "$kernel" --dot
    full "$kas" check "$kernel" --net resnet20 --input 3x8x8
    full "$kas" net check networks/resnet20.json
    full "$kas" export "$dir/study" -o "$dir/exported"
    full "$kas" dataset make shapes -o "$dir/e.h5" --train 40 --test 10 --size 8 --classes 4
    full "${search[@]}" # which is finished
    full "$kas" bench sampler --net resnet20 --input 3x8x8 --seconds 0.2
else
    skip_part "this machine has no /dev/full"
fi
# A reader that has seen enough is no fault to speak of, whether SIGPIPE is ignored or not.
(trap '' PIPE; "$kas" sample --net resnet20 --count 2000 2>"$dir/err" || echo $? >"$dir/rc") | head -n 1 >"$dir/out"
[ -s "$dir/out" ] && [ ! -s "$dir/err" ] && [ "$(cat "$dir/rc")" = 1 ] || fail "a closed pipe: $(cat "$dir/err")"

echo "ok: a full disk is told by every command"

# ---- limits of the shell ---------------------------------------------------------------------------------------------

limited() { local limit=$1; shift; (ulimit $limit; exec "$@"); } # shellcheck disable=SC2086
for kib in 0 8; do # through a pipe: this script's own files are small too
    for words in 'dataset info D' 'train --net resnet20 --dataset D' 'dataset make shapes -o F --train 900 --test 90 --size 8 --classes 4'; do
        words=${words// D/ $dir/d.h5} words=${words// F/ $dir/f.h5}
        rc=0 # shellcheck disable=SC2086
        said=$( (ulimit -f $kib; exec "$kas" $words) 2>&1 | cat; exit "${PIPESTATUS[0]}") || rc=$?
        case $rc,$said in 1,*".h5: "*"File too large (the limit on the size of files, \`ulimit -f\`, is $((kib * 1024)) bytes)"*) ;; *) fail "ulimit -f $kib: exit code $rc: $said" ;; esac
        case $said in *memory*) fail "ulimit -f $kib speaks of memory: $said" ;; esac
    done
done
[ -z "$(ls "$dir"/f.h5* 2>/dev/null)" ] || fail "a file that was refused was left: $(ls "$dir"/f.h5*)"
for words in doctor 'sample --net resnet20 --count 3' "check $kernel"; do # shellcheck disable=SC2086
    expect 1 'the limit on the stack is 64 KiB; at least 1024 are needed: ulimit -s 8192' limited '-s 64' "$kas" $words
done
expect 0 '' limited '-S -s 64' "$kas" sample --net resnet20 --count 3 # may be raised
expect 1 'Too many open files (the limit on open files, `ulimit -n`, is 10)' limited '-n 10' "${search[@]}" --study "$dir/few"

echo "ok: limits of the shell are named"

# ---- outputs ---------------------------------------------------------------------------------------------------------

same() { cmp -s "$1" "$2" || fail "$1 was changed: ${*:3}"; }
cp "$dir/d.h5" "$dir/kept.h5"
cp "$kernel" "$dir/k.json"
cp networks/resnet20.json "$dir/net.json"
"$kas" recipe show search >"$dir/r.json"
"${train[@]}" --quiet --weights "$dir/w.safetensors" >"$dir/out"
cp "$dir/w.safetensors" "$dir/w.kept"
mine=("$kas" train --net "$dir/net.json" --dataset "$dir/d.h5" --recipe "$dir/r.json" --init "$dir/w.safetensors" --kernel "$dir/k.json")
ln "$dir/d.h5" "$dir/hard"
ln -s d.h5 "$dir/soft"
for input in d.h5 hard soft w.safetensors net.json r.json k.json; do
    for option in --weights --checkpoint; do
        expect 1 'would replace an input of the same command' "${mine[@]}" $option "$dir/$input"
    done
done
same "$dir/d.h5" "$dir/kept.h5" && same "$dir/w.safetensors" "$dir/w.kept" && same "$dir/k.json" "$kernel"
mkfifo "$dir/fifo"
for option in --weights --checkpoint; do
    expect 1 'is a FIFO, not a regular file' "${train[@]}" $option "$dir/fifo"
    expect 1 'is a folder' "${train[@]}" $option "$dir"
done
expect 1 'is a FIFO, not a regular file' timeout 300 "$kas" dataset make shapes -o "$dir/fifo" --train 20 --test 10
ln -s /dev/null "$dir/null"
expect 1 'is a device, not a regular file' "$kas" dataset make shapes -o "$dir/null" --train 20 --test 10
expect 1 'is a device, not a regular file' "${train[@]}" --weights "$dir/null"
[ -c /dev/null ] && [ -p "$dir/fifo" ] || fail "a special file was replaced"
mkdir "$dir/far"
ln -s far/w "$dir/link.w"
ln -s far/d.h5 "$dir/link.h5"
expect 0 '' "${train[@]}" --weights "$dir/link.w" --checkpoint "$dir/link.c"
expect 0 '' "$kas" dataset make shapes -o "$dir/link.h5" --train 40 --test 10 --size 8 --classes 4
[ -L "$dir/link.w" ] && [ -L "$dir/link.h5" ] && [ -s "$dir/far/w" ] && [ -s "$dir/far/d.h5" ] || fail "a link was replaced"
[ "$(ls "$dir/far")" = "$(printf 'd.h5\nw')" ] || fail "left beside: $(ls "$dir/far")"
mkdir "$dir/own"
cp "$kernel" "$dir/own/kernel.json"
expect 1 'would replace an input of the same command' "$kas" export "$dir/own/kernel.json" -o "$dir/own"
cp "$dir/w.safetensors" "$dir/own/weights.safetensors"
expect 1 'would replace an input' "$kas" export "$kernel" -o "$dir/own" --weights "$dir/own/weights.safetensors"
same "$dir/own/kernel.json" "$kernel" && same "$dir/own/weights.safetensors" "$dir/w.kept"
spare() { expect 1 'would replace an input of the same command' "$kas" "$@"; }
around=(--net "$dir/net.json")
spare sensitivity "$kernel" "${around[@]}" --dataset "$dir/d.h5" --picture "$dir/d.h5"
spare sensitivity "$kernel" "${around[@]}" --dataset "$dir/d.h5" --picture "$dir/net.json"
spare predict "$kernel" "${around[@]}" --machine h100 -o "$dir/net.json"
spare interpolate "$kernel" "$dir/k.json" "${around[@]}" --picture "$dir/net.json"
spare tune "$kernel" "${around[@]}" --layer layer1.0.conv1 -o "$dir/net.json"
same "$dir/d.h5" "$dir/kept.h5" && same "$dir/net.json" networks/resnet20.json

echo "ok: outputs follow links and spare inputs and devices"

# ---- the cache -------------------------------------------------------------------------------------------------------

compile() { KAS_CACHE_DIR=$cache "$kas" check "$kernel" --net resnet20 --input 3x32x32 "$@"; }
cache=$dir/open
mkdir -m 777 "$cache"
chmod 777 "$cache"
expect 1 'group or others may write it (mode 0777)' compile
grep -q 'KAS_CACHE_TRUSTED=1' "$dir/err" || fail "the message does not say what to do: $(cat "$dir/err")"
expect 2 'expected 0 or 1' env KAS_CACHE_TRUSTED=yes KAS_CACHE_DIR="$cache" "$kas" check "$kernel"
ln -s "$dir/far" "$dir/cachelink"
cache=$dir/cachelink
expect 1 'is a symbolic link' compile
[ -z "$(ls -A "$dir/open")" ] && [ ! -e "$dir/far/jit" ] || fail "a cache that was refused was written to"

echo "ok: a cache that others may write is refused"

# ---- texts -----------------------------------------------------------------------------------------------------------
command -v python3 >/dev/null || { echo "SKIPPED: texts that a terminal would obey: no python3 to make them"; exit 0; }

escape=$(printf '\033')
plain() { # command...: it works, and nothing that it says is for the terminal; with --json it says JSON
    local rc=0
    "$@" >"$dir/out" 2>"$dir/err" || rc=$?
    ! grep -q "$escape" "$dir/out" "$dir/err" || fail "an escape sequence reaches the terminal: $*"
    iconv -f utf-8 -t utf-8 "$dir/out" >/dev/null || fail "not UTF-8: $*"
    case "$*" in *--json*) python3 -c 'import json, sys; [json.loads(l) for l in open(sys.argv[1], encoding="utf-8")]' "$dir/out" || fail "no JSON: $*" ;; esac
    return $rc
}
png=iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC
for class in "$(printf 'caf\351')" "$(printf 'red\033[31m')"; do
    mkdir -p "$dir/images/$class"
    for i in 1 2 3 4 5 6; do echo $png | base64 -d >"$dir/images/$class/$i.png"; done
done
if "$kas" dataset import folder "$dir/images" -o "$dir/images.h5" >"$dir/out" 2>&1; then
    plain "$kas" dataset info "$dir/images.h5"
    grep -q 'caf' "$dir/out" || fail "the class is not named: $(cat "$dir/out")"
    plain "$kas" dataset info "$dir/images.h5" --json
else
    grep -q 'libpng' "$dir/out" || fail "import: $(cat "$dir/out")"
    skip_part "this build reads no PNG"
fi
python3 - "$dir" <<'PYTHON'
import json, sqlite3, struct, sys
folder, odd = sys.argv[1], "x\x1b]0;owned\x07\x9b31m"
kernel = json.load(open(folder + "/k.json"))
kernel[odd] = odd # unknown: the message quotes it
json.dump(kernel, open(folder + "/odd.json", "w"))
net = json.load(open(folder + "/net.json"))
net["name"] = net["about"] = odd
json.dump(net, open(folder + "/oddnet.json", "w"))
header = json.dumps({odd: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
open(folder + "/odd.st", "wb").write(struct.pack("<Q", len(header)) + header + bytes(4))
store = sqlite3.connect(folder + "/study/study.db")
for (table,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
    for column in store.execute(f"PRAGMA table_info({table})").fetchall():
        if column[1] in ("reason", "device"):
            store.execute(f"UPDATE {table} SET {column[1]} = ?", (odd,))
store.commit()
PYTHON
for json in '' --json; do # shellcheck disable=SC2086
    for words in "show $dir/odd.json" "show $dir/odd.json --net resnet20" "net show $dir/oddnet.json" "status $dir/study" "best $dir/study" "log $dir/study"; do
        plain "$kas" $words $json || true # some are refused: then with a message, which is plain
    done
    ! plain "$kas" train --net resnet20:n=1 --dataset "$dir/d.h5" --init "$dir/odd.st" $json || fail "a tensor of nothing was taken"
done
echo "ok: no text from a file reaches the terminal as it is"
