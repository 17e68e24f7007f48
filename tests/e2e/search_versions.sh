#!/usr/bin/env bash
# A study knows which code made its numbers: another is refused; studies of before are read as they are, and left as they are.
set -eu
. tests/e2e/expect.bash
command -v sqlite3 >/dev/null || { echo "SKIPPED: no sqlite3 to make a study of an earlier version (apt-get install sqlite3)"; exit 77; }
sql() { sqlite3 "$1/study.db" "$2"; }

"$kas" dataset make shapes -o "$dir/s.h5" --train 90 --test 20 --size 8 --classes 4 >/dev/null
mkdir -p "$dir/old"
sqlite3 "$dir/old/study.db" <tests/store/schema1.sql
for command in status best log; do expect 0 efd3f7b59ab1d60d "$kas" $command "$dir/old"; done
expect 0 '"code_version": null' "$kas" status "$dir/old" --json
sql "$dir/old" "UPDATE study SET dataset_path = '$dir/s.h5'"
expect 0 'kernel and network written' "$kas" export "$dir/old" --candidate 1 -o "$dir/exported"
[ "$(sql "$dir/old" 'PRAGMA user_version')" = 1 ] || fail "reading changed the file"

# Other code made it: it is left to the program that did.
expect 4 'begun with sampler version 2' "$kas" resume "$dir/old"
sql "$dir/old" "UPDATE study SET sampler_version = $(sed -n 's/.*this kas-gpu has version \([0-9]*\) .*/\1/p' "$dir/err")"
expect 4 'begun with code version unknown, this kas-gpu has version' "$kas" resume "$dir/old"
version=$(sed -n 's/.*this kas-gpu has version \([0-9a-f]*\) .*/\1/p' "$dir/err")
[ "$(sql "$dir/old" 'PRAGMA user_version')" = 1 ] || fail "a study that was refused was changed"

# Its latencies are those of one kind of device.
expect 0 'no finalists were asked for' "$kas" search --strategy random --objective accuracy --study "$dir/here" --device cpu --dataset "$dir/s.h5" --net tests/e2e/own_network.json --targets 3x3 \
    --candidates 1 --epochs 1 --batch 15 --threads 1 --finalists 0
device=$(sql "$dir/here" 'SELECT device FROM study')
sql "$dir/here" "UPDATE study SET device = 'Elsewhere'; UPDATE work SET state = 'queued' WHERE kind = 'candidate'"
expect 4 "of \"Elsewhere\", this is \"$device\": they would not be comparable" "$kas" resume "$dir/here"
sql "$dir/here" "UPDATE study SET device = '$device'"
expect 0 'no finalists were asked for' "$kas" resume "$dir/here"
sql "$dir/here" "UPDATE study SET code_version = '0123456789abcdef'"
expect 4 "begun with code version 0123456789abcdef, this kas-gpu has version $version" "$kas" resume "$dir/here"
expect 0 '"code_version": "0123456789abcdef"' "$kas" status "$dir/here" --json
echo "ok: code version $version"
