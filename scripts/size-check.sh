#!/usr/bin/env bash
# Soft limits on size: files of 600 lines, functions of 80.  What is over stands in scripts/size-excused.txt with
# its size, and may only shrink.
set -u
excused=scripts/size-excused.txt
bad=0
check() { # key size limit
    [ "$2" -le "$3" ] && return
    local allowed
    allowed=$(awk -v k="$1" '$1 == k { print $2 }' "$excused")
    if [ -z "$allowed" ] || [ "$2" -gt "$allowed" ]; then
        echo "$1: $2 lines (limit $3${allowed:+, excused up to $allowed})"
        bad=1
    fi
}
while read -r lines file; do check "$file" "$lines" 600; done < <(
    git ls-files '*.c' '*.h' '*.cu' | while read -r f; do echo "$(wc -l <"$f") $f"; done)
# A function body begins at a line that is just "{" and ends at a line that is just "}".
while read -r key size; do check "$key" "$size" 80; done < <(
    git ls-files '*.c' '*.cu' | xargs awk 'FNR == 1 { open = 0 }
        /^\{$/ { open = FNR } /^\}$/ && open { print FILENAME ":" open, FNR - open - 1; open = 0 }')
exit $bad
