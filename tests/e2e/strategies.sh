#!/usr/bin/env bash
# What bench/studies/strategies.py makes of runs whose figures were worked out by hand.
set -eu
. tests/e2e/expect.bash
command -v python3 >/dev/null || { echo "SKIPPED: no python3 to run the study's script"; exit 77; }
study() { python3 -B bench/studies/strategies.py "$dir/work" --runs "$dir/runs.jsonl" "$@"; }
run() { # strategy[:seconds before the first candidate] seed candidate...: accuracy, latency, seconds
    local strategy=${1%%:*} before=0 seed=$2 list=
    [ "$strategy" = "$1" ] || before=${1#*:}
    for candidate in "${@:3}"; do
        read -r accuracy ratio seconds <<<"$candidate"
        state=finished
        [ "$accuracy" != null ] || state=pruned
        list+="${list:+, }{\"state\": \"$state\", \"accuracy\": $accuracy, \"ratio\": $ratio, \"seconds\": $seconds}"
    done
    echo "{\"strategy\": \"$strategy\", \"setting\": \"known\", \"seed\": $seed, \"images\": 1, \"epochs\": 1, \"seconds\": 10, \"before\": $before," \
        "\"unmodified\": {\"accuracy\": 0.5, \"seconds\": 2}, \"candidates\": [$list]}" >>"$dir/runs.jsonl"
}

# A pruned kernel, one that is slower than the unmodified network and one that comes too late do not count. The areas of seed 0:
# 0.3 * 0.4 + 0.2 * 0.6 = 0.24, and 0.65 * 0.6 + 0.1 * 0.7 = 0.46.
run random 0 '0.4 0.5 2' 'null 0.2 1' '0.9 1.2 1' '0.6 0.8 4' '0.99 0.1 5'
run evolution 0 '0.4 0.5 2' '0.6 0.25 1' '0.7 0.9 1'
run random 1 '0.5 0.5 5'
run evolution:1 1 '0.5 0.6 3' '0.55 0.5 2'
row='| random | 2 | 3, 2.5 | 0.5500 (0.5000 - 0.6000) | 0.65 (0.50 - 0.80) | 0.2450 (0.2400 - 0.2500) | 0.65 (0.50 - 0.80) |'
expect 0 "$row" study --table --svg "$dir/curves.svg"
row='| evolution | 2 | 2.5, 2.5 | 0.6250 (0.5500 - 0.7000) | 0.35 (0.30 - 0.40) | 0.3675 (0.2750 - 0.4600) | 0.45 (0.30 - 0.60) |'
expect 0 "$row" study --table
[ "$(grep -c '<polyline' "$dir/curves.svg")" = 4 ] || fail "curves of two strategies by two measures: $(cat "$dir/curves.svg")"
run evolution 2 '0.1 0.1 1' # without random sampling by that seed there is nothing to compare with
expect 0 "$row" study --table
run random 2 '0.2 0.1 1'
expect 0 '(0.30 - not reached)' study --table
expect 0 '50 searches of 10 s' study --plan --seconds 10 --jobs 2
expect 0 '44 searches are left, 0.1 core-hours, 1 parts' study --plan --seconds 10 --jobs 2
sed -i '1s/"images": 1/"images": 2/' "$dir/runs.jsonl"
expect 1 'the runs differ' study --table
echo "ok: tables and curves of made runs"
