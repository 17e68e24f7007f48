#!/usr/bin/env bash
# Runs test programs (cmocka) and end-to-end scripts, one line each, and sums up.
#   tests/run.sh [--no-e2e] BUILD PROGRAM...
# A program's output is kept in BUILD/log/NAME.log.  Skipped tests are counted: cmocka's own SKIPPED lines; exit code 77
# of a script, whose last line says why; and a script's lines "SKIPPED: why", each a part of it that was left out.
set -u
# Between two launches a test computes what it expects, with one thread: the others must not spin meanwhile.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
e2e=1
[ "${1:-}" = --no-e2e ] && { e2e=0; shift; }
build=$1
shift
mkdir -p "$build/log/e2e"
passed=0 failed=0 skipped=0

report() { # status name seconds log
    printf '%-7s %-34s %4ss\n' "$1" "$2" "$3"
    if [ "$1" = FAILED ]; then tail -n 40 "$4" | sed 's/^/    /'; fi
}

# cmocka names a test that failed or was skipped twice, and sums up in one line: "[  SKIPPED ] 2 test(s), listed
# below:", from 1.1.6 on with "tests: " in front.
summed_up() { # word log
    sed -n "s/^\[ *$1 *\] .*\b\([0-9][0-9]*\) test(s), listed below.*/\1/p" "$2" | awk '{ n += $1 } END { print n + 0 }'
}

reasons() { # log: the lines "SKIPPED: why", else the names of the tests
    if grep -q '^SKIPPED:' "$1"; then
        grep -h '^SKIPPED:' "$1" | sed 's/^SKIPPED: *//'
    else
        sed -n 's/^\[  SKIPPED \] \([a-z_0-9]*\)$/\1/p' "$1"
    fi | sort -u | head -n 3 | paste -sd'|' | sed 's/|/; /g'
}

run_one() { # name command...
    local name=$1 log=$build/log/$1.log start=$SECONDS rc ok bad skip
    shift
    "$@" >"$log" 2>&1
    rc=$?
    ok=$(grep -c '^\[       OK \]' "$log")
    bad=$(summed_up FAILED "$log")
    skip=$(summed_up SKIPPED "$log")
    if [ "$rc" = 77 ]; then
        skipped=$((skipped + 1))
        report SKIPPED "$name" $((SECONDS - start)) "$log"
        tail -n 1 "$log" | sed 's/^\(SKIPPED: *\)*/    /'
        return
    fi
    if [ "$rc" = 0 ]; then
        [ $((ok + skip)) = 0 ] && ok=1 skip=$(grep -c '^SKIPPED:' "$log")
        passed=$((passed + ok)) skipped=$((skipped + skip))
        report ok "$name" $((SECONDS - start)) "$log"
        [ "$skip" -gt 0 ] && printf '    %d SKIPPED: %s\n' "$skip" "$(reasons "$log")"
    else
        passed=$((passed + ok)) failed=$((failed + (bad > 0 ? bad : 1)))
        report FAILED "$name" $((SECONDS - start)) "$log"
    fi
}

export KAS_CACHE_DIR=${KAS_TEST_CACHE:-$PWD/$build/test-cache}
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-1000} # waiting threads give way, see src/host/main.c
for program in "$@"; do run_one "$(basename "$program")" "$program"; done
# The tests of the devices once more on the CUDA device, with the stand-in of tests/cuda_sim for NVIDIA's libraries; it would
# take its time over plans, whose choice tests/unit/test_cuda_tuning.c looks at.
sim=$PWD/$build/tests/libkas_cuda_sim.so
if [ -z "${DEVICE:-}" ] && [ -f "$sim" ]; then
    mkdir -p "$build/log/cuda-sim"
    for program in "$@"; do
        case $program in
        */ops/* | */jit/test_program | */unit/test_train_model | */unit/test_train_stream | */unit/test_replaced_edges | */unit/test_fold)
            run_one "cuda-sim/$(basename "$program")" env DEVICE=cuda KAS_CUDA_LIBS="$sim" KAS_CUDA_PLANS=heuristic "$program" ;;
        esac
    done
fi
if [ $e2e = 1 ]; then
    for script in tests/e2e/*.sh; do [ -f "$script" ] && run_one "e2e/$(basename "$script" .sh)" bash "$script"; done
fi
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && [ $passed -gt 0 ]
