#!/usr/bin/env bash
# A program that proposes kernels: what it is asked and where it runs, that its kernels are found, that whatever it does wrong
# ends nothing, and that kills, workers and resumes without it keep the list.
set -eu
. tests/e2e/expect.bash
export KAS_CACHE_DIR=${KAS_CACHE_DIR:-$dir/cache} out=$dir/asked dir kas
mkdir "$out"
"$kas" dataset make shapes -o "$dir/s.h5" --train 200 --test 24 --size 8 --classes 4 >/dev/null
base=("$kas" search --strategy random --objective accuracy --dataset "$dir/s.h5" --net tests/e2e/own_network.json --targets 3x3 --batch 16 --lr 0.005 --epochs 1 --seed 1 --threads 1 --device cpu --compile-ahead 0)
name_of() { "$kas" show "$1" --json | sed 's/.*"name": *"\([0-9a-f]*\)".*/\1/'; }
item() { "$kas" best "$1" --json | grep "\"kind\": \"candidate\", \"index\": $2,"; }
origins() { for k in $(seq 0 $(($2 - 1))); do item "$1" "$k" | sed 's/.*"origin": "\([^"]*\)".*/\1/'; done | tr '\n' ' '; }

# Answers a good kernel file a generation, and notes question, descriptors, signals and how often it was asked.
cat >"$dir/good" <<'END'
generation=$(tee "$out/question" | sed -n '1s/.*"generation": \([0-9]*\).*/\1/p')
mv "$out/question" "$out/question-$generation"
(cd /proc/self/fd && echo *) >"$out/descriptors"
grep SigIgn /proc/self/status >"$out/ignored"
echo "$generation" >>"$out/generations"
wait=${1:-}
[ "$generation" = 0 ] && kernel=depthwise || kernel=depthwise_separable
tr '\n' ' ' <kernels/$kernel.json
[ "$wait" != "$generation" ] || { sleep 1000 & echo $! >"$out/pid"; wait; }
END
good="sh $dir/good # private-word"
search=("${base[@]}" --strategy random --generation 3 --candidates 6)
expect 0 'generation 1: 1 of 1 proposals taken' "${search[@]}" --study "$dir/a" --propose "$good"
grep -qF '2 of 2 proposals taken; no kernel file: 0; not legal: 0; over budget: 0; in the study already: 0; more than asked for: 0; answers: 2, of these with a fault: 0' "$dir/err" || { cat "$dir/err"; fail "nothing is summed up"; }
[ "$(origins "$dir/a" 6)" = "proposed sampled sampled proposed sampled sampled " ] || fail "origins: $(origins "$dir/a" 6)"
item "$dir/a" 0 | grep -qF "$(name_of kernels/depthwise.json)" || fail "the first proposal is another kernel"
item "$dir/a" 3 | grep -qF "$(name_of kernels/depthwise_separable.json)" || fail "the second proposal is another kernel"
expect 0 'line 1: taken: kernel' cat "$dir/a/logs/propose.log"
expect 0 '' "$kas" report "$dir/a" -o "$dir/report.html"
grep -qF 'proposed by a program' "$dir/report.html" || fail "the report does not say what was proposed"
! grep -rqF private-word "$dir/a" || fail "the study keeps the command"
[ "$(cat "$out/descriptors")" = '0 1 2 3' ] || fail "descriptors: $(cat "$out/descriptors")" # 3: the folder that is listed
[ $((0x$(sed 's/.*\t//' "$out/ignored") & 0x1000)) = 0 ] || fail "SIGPIPE is ignored"
[ "$(wc -l <"$out/question-0")" = 1 ] || fail "there is history before the beginning"
head -n 1 "$out/question-1" | grep -q '"kind": "question", "generation": 1, "wanted": 2, "options": {.*"seed":"1".*"targets": \[{"name": .*"flops": ' || fail "question: $(head -n 1 "$out/question-1")"
[ "$(sed 1d "$out/question-1" | cut -d, -f 2,3 | tr '\n' ';')" = ' "kind": "baseline", "index": 0; "kind": "candidate", "index": 0; "kind": "candidate", "index": 1; "kind": "candidate", "index": 2;' ] ||
    fail "history: $(sed 1d "$out/question-1" | cut -c 1-100)"
grep -q '"index": 0, .*"accuracy": 0\.[0-9].*"origin": "proposed".*"file": {.*"op": *"group_all"' "$out/question-1" || fail "the history has no kernel"
results "$dir/a" >"$dir/results"

expect 0 '' "${search[@]}" --study "$dir/two" --workers 2 --propose "$good"
results "$dir/two" | diff "$dir/results" - || fail "two workers give another list"

# No rung ends while the rest of its generation is awaited: known kernels reach it before the program answers.
rungs=("${base[@]}" --known yes --generation 13 --candidates 13 --epochs 2 --rungs 1 --prune none)
cat >"$dir/late" <<'END'
until "$kas" status "$dir/slow" --json | grep -q '"queued":0,"running":0,'; do sleep 0.2; done
sleep 1
sh "$dir/good"
END
expect 0 'candidates of generation 0 went on' "${rungs[@]}" --study "$dir/slow" --propose "sh $dir/late" --workers 2
[ "$(grep -c 'went on' "$dir/err")" = 1 ] || { cat "$dir/err"; fail "a rung ended before the program had answered"; }
[ "$(origins "$dir/slow" 13 | tr ' ' '\n' | grep -c known)" -ge 8 ] || fail "too few known kernels: $(origins "$dir/slow" 13)"

# Killed while the program is at work in generation 1: it ends with the supervisor. Then again, with an answer that is recorded.
killed() { # command
    : >"$out/generations"
    "${search[@]}" --study "$dir/killed" --propose "$1" >/dev/null 2>"$dir/err" &
    pid=$!
    await "generation 1" grep -qs 1 "$out/generations"
}
killed "sh $dir/good 1"
await "its child" test -s "$out/pid"
program=$(cat "$out/pid")
kill -9 $pid; wait $pid 2>/dev/null || true
await "the end of the program" ended "$program"
killed "$good"
await "candidate 3" test -e "$dir/killed/logs/0003.log"
kill -9 $pid; wait $pid 2>/dev/null || true
: >"$out/generations"
expect 0 'goes on without new proposals' "$kas" resume "$dir/killed"
results "$dir/killed" | diff "$dir/results" - || fail "kills changed the list"
[ ! -s "$out/generations" ] || fail "it was asked again"

# Ctrl-C while it is at work.
: >"$out/generations" >"$out/pid"
"${base[@]}" --generation 3 --candidates 3 --study "$dir/stopped" --propose "sh $dir/good 0" >/dev/null 2>"$dir/err" &
pid=$!
await "generation 0" grep -qs 0 "$out/generations"
await "its child" test -s "$out/pid"
kill -INT $pid
rc=0; wait $pid || rc=$?
[ $rc = 130 ] || { cat "$dir/err"; fail "exit code $rc after Ctrl-C"; }
await "the end of the program" ended "$(cat "$out/pid")"
[ -z "$(children $$ | xargs -r ps -o stat= -p 2>/dev/null | grep Z)" ] || fail "a zombie is left"

# What goes wrong is counted, in this order; one of these studies has it all.
one() { tr '\n' ' ' <"$1"; echo; }
{ echo 'I propose:'; echo '{}'; for k in conv nas_pte_1 group_conv depthwise_separable depthwise canvas_figure8; do one kernels/$k.json; done; } >"$dir/rubbish"
cat >"$dir/bad" <<'END'
case $(sed -n '1s/.*"generation": \([0-9]*\).*/\1/p') in
0) tr '\n' ' ' <kernels/depthwise_separable.json; echo; echo '{"format": '; echo oh no >&2; exit 3 ;;
1) cat "$1" ;;
2) yes ;;
3) sleep 1000 & echo $! >"$out/pid"; sleep 1000 ;;
4) kill -SEGV $$ ;;
*) exit 4 ;;
esac
END
bad=("${base[@]}" --generation 2 --study "$dir/bad-study" --propose "sh $dir/bad $dir/rubbish" --candidates)
expect 0 'the program of --propose ended with exit code 3; see' "${bad[@]}" 4
grep -qF 'generation 1: 1 of 8 proposals taken; no kernel file: 2; not legal: 2; over budget: 1; in the study already: 1; more than asked for: 1' "$dir/err" || { cat "$dir/err"; fail "not counted"; }
expect 0 'oh no' cat "$dir/bad-study/logs/propose.log"
expect 0 'is in the study already' cat "$dir/bad-study/logs/propose.log"
[ "$(origins "$dir/bad-study" 4)" = "proposed sampled proposed sampled " ] || fail "origins: $(origins "$dir/bad-study" 4)"
expect 0 'did not end within 20 s and was stopped' "${bad[@]}" 8 --hang-timeout 20
expect 0 'answered more than 1048576 bytes and was stopped' cat "$dir/bad-study/logs/propose.log"
[ "$(wc -l <"$dir/bad-study/logs/propose.log")" -lt 200 ] || fail "a flood is in the log"
await "the end of its child" ended "$(cat "$out/pid")"
expect 0 'it is not asked any more in this run' "${bad[@]}" 16
grep -qF 'ended with exit code 139' "$dir/bad-study/logs/propose.log" || fail "a signal is not noted"
asked=$(grep -c 'asked for . proposals' "$dir/bad-study/logs/propose.log")
[ "$asked" = 7 ] || fail "asked $asked times"
[ "$(results "$dir/bad-study" | grep -c '^candidate')" = 16 ] || fail "a generation was not filled"

# The program of the documents.
if command -v python3 >/dev/null; then
    sed -n '/^```python/,/^```/p' docs/proposals.md | sed '1d;$d' >"$dir/propose.py"
    expect 0 'groups' python3 "$dir/propose.py" <"$out/question-1"
    head -n 1 "$dir/out" >"$dir/kernel.json"
    expect 0 'group dim' "$kas" show "$dir/kernel.json"
else
    skip_part "there is no python3 to run the program of docs/proposals.md"
fi

expect 2 '--propose: expected a command' "${base[@]}" --study "$dir/x" --propose ' '
expect 2 '--space canvas' "${base[@]}" --study "$dir/x" --propose true --space nas-pte
expect 2 'leave out one of them' "${base[@]}" --study "$dir/x" --propose true --rungs 1 --asynchronous
expect 2 '--asynchronous needs --rungs' "${base[@]}" --study "$dir/x" --asynchronous
expect 2 'whole generations' "${base[@]}" --study "$dir/x" --asynchronous --rungs 1 --strategy evolution
[ ! -e "$dir/x" ] || fail "a refused command left a study"
expect 0 '' "${base[@]}" --study "$dir/plain" --candidates 1
expect 2 'this study has none' "${base[@]}" --study "$dir/plain" --candidates 2 --propose true
expect 0 '"candidates_wanted": 1,' "$kas" status "$dir/plain" --json
expect 0 'sampled' "${base[@]}" --study "$dir/x" --propose false --dry-run
echo "ok: proposals of a program"
