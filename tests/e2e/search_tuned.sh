#!/usr/bin/env bash
# search --tune: schedules of finalists are searched and pinned in the study; candidates, trainings and the leaderboard do not wait for
# them or depend on them.
set -eu
. tests/e2e/expect.bash

"$kas" dataset make shapes -o "$dir/s.h5" --train 64 --test 16 --size 8 --classes 4 >/dev/null
search=("$kas" search --strategy random --objective accuracy --dataset "$dir/s.h5" --net tests/e2e/own_network.json --targets 3x3 --candidates 2 --epochs 1 --batch 16
    --device cpu --threads 1 --prune none --latency 0)
tuned() { grep -l 'generated launches have schedules that were tuned' "$1"/logs/*.log | sed 's/.*\///; s/-[0-9].*//; s/[0-9]*\.log/candidate/' | sort -u | tr '\n' ' '; }
pins() { (cd "$1/schedules" && sha256sum */*.schedule); }

expect 0 'best kernel:' "${search[@]}" --study "$dir/none"
[ ! -e "$dir/none/schedules" ] || fail "schedules were pinned without --tune"
results "$dir/none" >"$dir/results"
echo "ok: without --tune"

expect 0 'best kernel:' "${search[@]}" --study "$dir/one" --tune frontier
[ "$(tuned "$dir/one")" = 'final turns ' ] || fail "tuned: $(tuned "$dir/one")"
pins "$dir/one" >"$dir/pins"
[ -s "$dir/pins" ] || fail "nothing is pinned"
results "$dir/one" | diff "$dir/results" - || fail "tuning changed the leaderboard"
expect 0 'best kernel:' "$kas" resume "$dir/one"
pins "$dir/one" | diff "$dir/pins" - || fail "resume changed the pins"
expect 0 '' "${search[@]}" --study "$dir/two" --tune frontier --workers 2
results "$dir/two" | diff "$dir/results" - || fail "two workers give something else"
expect 2 '--tune (the study has "frontier"' "${search[@]}" --study "$dir/one" --tune all
echo "ok: search --tune frontier, resume, two workers"
