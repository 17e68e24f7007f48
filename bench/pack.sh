#!/usr/bin/env bash
# Several candidates at once against one after the other: the same search with --pack 1 and --pack N, in turns.
#
#   bench/pack.sh DATASET.h5 [PACK [TURNS [search option...]]]
#   bench/pack.sh cifar10.h5 8 3 --device cuda                          8 ResNet-20 candidates at batch 128, on a GPU
#   bench/pack.sh shapes.h5 2 1 --device cpu --batch 16 --epochs 1      small sizes, on the CPU
#
# One JSON object a line for each search: its seconds (`seconds` of the whole search, `candidate_seconds` from the start of
# the first candidate to the end of the last, without baseline and final trainings), how many candidates were trained to
# the end, and whether its losses are those of the first. Kernels are compiled by a search of its own beforehand, so that
# compiling is in no figure.
set -eu
if [ $# = 0 ]; then
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
dataset=$1 pack=${2:-8} turns=${3:-3}
shift $(($# < 3 ? $# : 3))
kas=$(realpath "${KAS_GPU:-./kas-gpu}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
search() { # study pack option...
    local study=$1 n=$2
    shift 2
    "$kas" search --strategy random --objective accuracy --net resnet20 --dataset "$dataset" --study "$work/$study" --candidates 8 --epochs 3 --batch 128 \
        --prune none --pack "$n" --quiet "$@" >/dev/null 2>"$work/err" || { cat "$work/err" >&2; exit 1; }
    for item in baseline 0 1 2 3 4 5 6 7 final final-baseline; do
        "$kas" log "$work/$study" "$item" --json 2>/dev/null | sed 's/, "seconds": [^}]*//'
    done >"$work/$study.losses"
}
# Of the candidates of a study: seconds from the first start to the last end, and how many finished.
candidates() { # study
    "$kas" log "$work/$1" --json | sed -n '/"kind": "candidate"/s/.*"state": "\([^"]*\)".*"started": \([0-9.]*\), "ended": \([0-9.]*\).*/\1 \2 \3/p' |
        awk '{ if (n++ == 0 || $2 < first) first = $2; if ($3 > last) last = $3; finished += $1 == "finished" }
            END { printf "\"candidate_seconds\": %.3f, \"candidates\": %d, \"finished\": %d", last - first, n, finished }'
}
search warm 1 "$@"
for turn in $(seq "$turns"); do
    for n in 1 "$pack"; do
        start=$(date +%s.%N)
        search "$turn.$n" "$n" "$@"
        seconds=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { printf "%.3f", b - a }')
        same=$(cmp -s "$work/warm.losses" "$work/$turn.$n.losses" && echo true || echo false)
        echo "{\"schema_version\": 1, \"bench\": \"pack\", \"version\": \"$("$kas" --version | head -n 1)\", \"turn\": $turn, \"pack\": $n, \"seconds\": $seconds, $(candidates "$turn.$n"), \"same_losses\": $same}"
    done
done
