#!/usr/bin/env bash
# Damaged kernel files: exit code 3 from every command that reads one, and a message that names file, node and fault.
set -eu
. tests/e2e/expect.bash
trap 'echo "FAILED at line $LINENO"' ERR
head='{"format": "kas-gpu kernel", "version": 1, "nodes": [{"op": "input"}, '

refused() { # name "words of the message"; the file is on standard input
    local code=0
    cat >"$dir/$1.json"
    "$kas" check "$dir/$1.json" --net resnet20 --input 3x8x8 --device cpu >"$dir/out" 2>"$dir/err" || code=$?
    [ $code = 3 ] || { echo "$1: exit code $code"; return 1; }
    grep -qF "$1.json: $2" "$dir/err" || { echo "$1: $(head -c 500 "$dir/err")"; return 1; }
}

refused unknown 'node 1: unknown primitive "blur"' <<<"$head"'{"op": "blur", "in": [0]}]}'
refused cycle 'node 1: field "in": expected numbers of earlier nodes' \
    <<<"$head"'{"op": "relu", "in": [2]}, {"op": "abs", "in": [1]}]}'
refused no-input 'node 1: field "in" is missing' <<<"$head"'{"op": "relu"}]}'
refused shape 'node 1 (fc): the output has shape [K_H, H, W]' <<<"$head"'{"op": "fc", "in": [0], "out": "K_H"}]}'
refused axis 'node 2 (shift)' \
    <<<"$head"'{"op": "fold_avg", "in": [0], "dim": 1}, {"op": "shift", "in": [1], "axes": "h", "offset": 1}]}'
refused huge 'node 1: field "offset": expected an integer' \
    <<<"$head"'{"op": "shift", "in": [0], "axes": "h", "offset": 1e400}]}'
refused huge-size 'node 1: field "out"' <<<"$head"'{"op": "fc", "in": [0], "out": "99999999999999999999*C"}]}'
refused huge-group 'groups: field "G0": expected an integer in [2, 65536]' \
    <<<"$head"'{"op": "group", "in": [0], "dim": 0, "by": "G0"}], "groups": {"G0": 18446744073709551616}}'
refused duplicate 'nodes[1]: duplicate key "in"' <<<"$head"'{"op": "relu", "in": [0], "in": [0]}]}'
{ printf '%s{"op": "relu", "in": ' "$head"; printf '[%.0s' $(seq 100000); } |
    refused deep 'nodes[1].in[0][0][0][0][0]: nested deeper than 8 levels'
{ printf '%s' "$head"; yes '{"op": "relu", "in": [0]},' 2>"$dir/yes" | head -c 100000000; } |
    refused large 'file is larger than the limit of 1048576 bytes'
refused cut 'nodes[1].in[0]: line 1: not valid JSON' <<<"$head"'{"op": "relu", "in": [0'

refused rows 'node 3 (slice): with the stride inside, rows and columns are cut in equal shares' <<'END'
{"format": "kas-gpu kernel", "version": 1, "stride": "inside", "nodes": [{"op": "input"}, {"op": "unfold", "in": [0], "axes": "hw"},
 {"op": "fc", "in": [1], "out": "C"}, {"op": "slice", "in": [2], "dim": 1, "split": "S0", "segment": 0},
 {"op": "slice", "in": [0], "dim": 1, "split": "S0", "segment": 1}, {"op": "concat", "in": [3, 4], "dim": 1, "split": "S0"}],
 "splits": {"S0": {"whole": "H", "first": 2}}, "groups": {}}
END

# The other commands that read a kernel file use the same reader.
for command in "show" "export -o $dir/out.d"; do
    code=0
    "$kas" $command "$dir/unknown.json" >"$dir/out" 2>"$dir/err" || code=$?
    [ $code = 3 ]
    grep -q 'node 1: unknown primitive "blur"' "$dir/err"
done
echo "ok: damaged kernel files"
