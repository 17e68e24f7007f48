#!/usr/bin/env bash
# What compiling ahead of need saves: the same search with --compile-ahead 0 and N, in turns, each with an empty cache.
#
#   bench/compile_ahead.sh DATASET.h5 [N [TURNS [search option...]]]
#   bench/compile_ahead.sh cifar10.h5 4 3 --device cuda                       on a GPU
#   bench/compile_ahead.sh shapes.h5 2 5 --device cpu --threads 1 --epochs 3  on the CPU, with a core to spare
#
# One JSON object a line for each search: its seconds, those that its items waited for compilers (the first candidate's apart:
# only the baseline's training is there to hide it), and whether its losses are those of the first.
set -eu
if [ $# = 0 ]; then
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
dataset=$1 ahead=${2:-4} turns=${3:-3}
shift $(($# < 3 ? $# : 3))
kas=$(realpath "${KAS_GPU:-./kas-gpu}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for turn in $(seq "$turns"); do
    for n in 0 "$ahead"; do
        study=$work/$turn.$n
        start=$(date +%s.%N)
        KAS_CACHE_DIR=$study.cache "$kas" search --strategy random --objective accuracy --net resnet20 --dataset "$dataset" --study "$study" --candidates 6 --epochs 3 \
            --batch 128 --prune none --quiet --compile-ahead "$n" "$@" >/dev/null 2>"$work/err" || { cat "$work/err" >&2; exit 1; }
        seconds=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { printf "%.3f", b - a }')
        "$kas" log "$study" --json | sed -n 's/.*"kind": "candidate", "index": \([0-9]*\),.*"compile_seconds": \([0-9.e-]*\).*/\1 \2/p' >"$work/waited"
        for item in baseline 0 1 2 3 4 5; do
            "$kas" log "$study" "$item" --json 2>/dev/null | sed 's/, "seconds": [^}]*//'
        done >"$study.losses"
        cmp -s "$work/1.0.losses" "$study.losses" && same=true || same=false
        awk -v version="$("$kas" --version | head -n 1)" -v turn="$turn" -v n="$n" -v s="$seconds" -v same=$same \
            '{ if ($1 == 0) first += $2; else rest += $2 }
             END { printf "{\"schema_version\": 1, \"bench\": \"compile_ahead\", \"version\": \"%s\", \"turn\": %d, \"compile_ahead\": %d, \"seconds\": %s, \"waited_first\": %.3f, \"waited_rest\": %.3f, \"same_losses\": %s}\n", version, turn, n, s, first, rest, same }' "$work/waited"
        rm -rf "$study.cache"
    done
done
