#!/usr/bin/env bash
# Instructions of the passes that look whether what they write is finite, in two versions of the device code:
#
#   bench/studies/watch_cost.sh BEFORE AFTER     BEFORE, AFTER: folders with the repository at two commits
#
# A line for each version and pass. Built for x86-64-v3, because valgrind knows no AVX-512.
set -eu
[ $# = 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=c17 -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math -Wno-pass-failed -march=x86-64-v3 -DKAS_NUMBER=0 -DKAS_ORDER=0 -DKAS_SUFFIX=_00)
count() { valgrind --tool=callgrind --callgrind-out-file=/dev/null "$work/program" "$1" 2>&1 | sed -n 's/.*Collected : //p'; }
for folder in "$1" "$2"; do
    code=$(realpath "$folder/src/cuda/kernels")
    headers=() watch=()
    if grep -q 'kas_u32 \*watch' "$code/args.h"; then watch=(-DWATCH); fi
    for h in prelude wide row args activation teams; do headers+=(-include "$code/$h.h"); done
    for pass in sgd:update:UPDATE adamw:update:UPDATE average:average:AVERAGE norm_combine:batch_norm:NORM; do
        IFS=: read -r name file kind <<<"$pass"
        clang "${flags[@]}" "${headers[@]}" -x c -c "$code/$file.cu" -o "$work/pass.o"
        clang "${flags[@]}" "${headers[@]}" -DPASS="kas_dev_${name}_00" -D"$kind" "${watch[@]}" -c "$here/watch_cost.c" -o "$work/main.o"
        clang "$work/main.o" "$work/pass.o" -lm -o "$work/program"
        echo "$folder $name $((($(count 11) - $(count 1)) / 10))"
    done
done
