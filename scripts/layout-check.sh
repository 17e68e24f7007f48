#!/usr/bin/env bash
# The layout of src (docs/design.md): folders include each other without a cycle, and no folder has more than 30
# files directly in it; links and paths in documents exist.  A cycle is printed with one include line for each of
# its steps.  --edges prints the graph: how many include lines lead from each folder to each other one.
set -u
bad=0
most=30
# folder, folder that it includes, a line that does so
includes=$(git ls-files 'src/*.c' 'src/*.h' 'src/*.cu' | xargs grep -H '^#include "' | awk '{
    file = $1; sub(/:.*/, "", file)
    name = $0; sub(/^[^"]*"/, "", name); sub(/".*/, "", name)
    from = file; sub(/\/[^\/]*$/, "", from)
    to = name ~ /\// ? "src/" name : from "/" name; sub(/\/[^\/]*$/, "", to)
    if (from != to) print from, to, file ":" name
}')
if [ "${1:-}" = --edges ]; then
    awk '{ n[$1 " " $2]++ } END { for (e in n) print n[e], e }' <<<"$includes" | sort -k2,2 -k3,3
    exit 0
fi
# Takes away folders that nothing includes or that include nothing as long as there are any; what is left then
# lies on a cycle or between two.  A walk finds a cycle; its last step is dropped, and so on until none is left.
cycles=$(awk '
function forward(f,   e, p) { for (e in line) { split(e, p, " "); if (p[1] == f) return p[2] } return "" }
function trim(   e, p, out, in_, again) {
    do {
        again = 0
        split("", out); split("", in_)
        for (e in line) { split(e, p, " "); out[p[1]] = 1; in_[p[2]] = 1 }
        for (e in line) { split(e, p, " "); if (!(p[2] in out) || !(p[1] in in_)) { delete line[e]; again = 1 } }
    } while (again)
}
{ line[$1 " " $2] = $3 }
END {
    for (trim(); ; trim()) {
        start = ""
        for (e in line) { split(e, p, " "); start = p[1]; break }
        if (start == "") exit
        split("", at); n = 0
        for (f = start; !(f in at); f = forward(f)) { at[f] = n; path[n++] = f }
        print "include cycle between folders:"
        for (i = at[f]; i < n; i++) {
            to = i + 1 < n ? path[i + 1] : f
            print "    " path[i] " -> " to "   (" line[path[i] " " to] ")"
        }
        delete line[path[n - 1] " " f]
    }
}' <<<"$includes")
if [ -n "$cycles" ]; then
    echo "$cycles"
    bad=1
fi
while read -r count folder; do
    if [ "$count" -gt $most ]; then
        echo "$folder: $count files directly in it (limit $most)"
        bad=1
    fi
done < <(git ls-files 'src/*' | sed 's|/[^/]*$||' | sort | uniq -c)
# Links and paths in documents lead to files.  Measured records keep the paths of their day, not dead links.
paths='`(src/(host|jit|cuda)|tests/(unit|ops|jit|fuzz|e2e|cuda_sim)|docs|scripts|mk)/[a-z0-9_/.-]+`'
while IFS=: read -r file path; do
    if [ ! -e "$path" ]; then
        echo "$file: there is no $path"
        bad=1
    fi
done < <(
    git ls-files '*.md' | xargs grep -oHE '\]\([^):#]+' | grep -v 'http' | sed -E 's#^((.*/)?[^/:]*):\]\(#\1:\2#'
    git ls-files '*.md' | grep -v 'results/20' | xargs grep -oHE "$paths" | tr -d '`'
)
exit $bad
