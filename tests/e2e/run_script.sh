#!/usr/bin/env bash
# tests/run.sh with programs that only pretend: what passes, what fails and why, what is counted, and that nothing is left
# of a program that hangs.
set -eu
. tests/e2e/expect.bash
unset JOBS MAKEFLAGS
run=$PWD/tests/run.sh
mkdir -p "$dir/tests/e2e"
cd "$dir"
program() { # name line...: a shell script of these lines
    printf '%s\n' '#!/bin/sh' "${@:2}" >"$1"
    chmod +x "$1"
}
program good 'echo "[       OK ] one"' 'echo "[       OK ] two"'
program bad 'echo "[       OK ] one"' 'echo "[  FAILED  ] 2 test(s), listed below:"' 'exit 2'
program part 'echo "[       OK ] one"' 'echo "SKIPPED: no GPU"' 'echo "[  SKIPPED ] 1 test(s), listed below:"'
program silent 'echo "nothing to see"'
program crash 'kill -SEGV $$'
program code 'exit 3'
program hang 'echo "[       OK ] one"' 'sleep 600 & echo $! >child' 'sleep 600'
echo 'echo "ok: this"; echo "ok: that"; echo "SKIPPED: no dot"' >tests/e2e/script.sh
echo 'echo "SKIPPED: no torch"; exit 77' >tests/e2e/absent.sh
: >tests/e2e/empty.sh

run() { # words; then programs
    KAS_TEST_LIMIT=${limit:-60} "$run" "${@:2}" >out 2>&1 && rc=0 || rc=$?
    [ "$(tail -n 1 out)" = "$1" ] || { cat out; fail "the last line is not \"$1\""; }
}
says() { grep -A 1 "^$1 " out | grep -qE "$2" || { cat out; fail "of $1 is not said: $2"; }; }

limit=2 run '7 passed, 7 failed, 3 skipped' b ./good ./bad ./part ./silent ./crash ./code ./hang
[ $rc != 0 ] || fail "failures end well"
says 'ok      good' ' s CPU$'
says 'FAILED  bad' '2 failed'
says 'ok      part' '1 SKIPPED: no GPU'
says 'FAILED  silent' 'ran no test'
says 'FAILED  crash' 'signal SEGV'
says 'FAILED  code' 'exit code 3'
says 'FAILED  hang' 'still running after 2 s, and killed'
says 'ok      e2e/script' '1 SKIPPED: no dot'
says 'SKIPPED e2e/absent' 'no torch'
says 'FAILED  e2e/empty' 'ran no test'
grep -q 'nothing to see' <(sed -n '/^silent failed/,$p' out) || fail "a failed program's output is not shown"
await "the end of what a program that hung had started" ended "$(cat child)"
echo "ok: what passes, fails, is skipped and hangs"

run '2 passed, 0 failed, 0 skipped' --no-e2e b ./good
[ $rc = 0 ] || fail "a good program fails"
program leaks 'echo "ERROR: LeakSanitizer has encountered a fatal error."; [ -e ran ] && echo "[       OK ] one" && exit; : >ran; exit 1'
run '1 passed, 0 failed, 0 skipped' --no-e2e b ./leaks # once more where the leak checker crashes, and only then
rm tests/e2e/script.sh tests/e2e/empty.sh
run '0 passed, 0 failed, 1 skipped' b
[ $rc != 0 ] || fail "a run in which nothing passed ends well"
echo "ok: exit codes"

# Side by side, as JOBS or make asks: each waits for the other, and both have one file name. One at a time, the one that took longest
# comes first.
mkdir left right
for name in left right; do
    other=$([ $name = left ] && echo right || echo left)
    program $name/meet ": >here.$name" "while [ ! -e here.$other ]; do sleep 0.02; done" 'echo "ok: met"'
done
JOBS=2 run '2 passed, 0 failed, 0 skipped' --no-e2e b ./left/meet ./right/meet
[ -s b/log/left/meet.log ] && [ -s b/log/right/meet.log ] || fail "programs of one name share a log"
rm here.*
MAKEFLAGS=' -j2 --jobserver-auth=3,4' run '2 passed, 0 failed, 0 skipped' --no-e2e b ./left/meet ./right/meet
program quick 'echo "ok: quick"'
echo '1 0 0 7.5 0' >b/log/left/meet.result
JOBS=1 run '2 passed, 0 failed, 0 skipped' --no-e2e b ./quick ./left/meet
head -n 1 out | grep -q '^ok      left/meet' || { cat out; fail "not the longest first"; }
echo "ok: side by side, and the longest first"
