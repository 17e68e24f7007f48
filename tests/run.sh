#!/usr/bin/env bash
# Runs test programs (cmocka) and end-to-end scripts, several at a time, prints a line when one ends, and sums up.
#   tests/run.sh [--no-e2e|--ptx] BUILD PROGRAM...
# JOBS=N runs N at a time; without it, make's -jN does, and without that there is one for each core. A program that runs
# longer than KAS_TEST_LIMIT seconds (default 1800) is killed with all that it has started, and has failed.
#
# What is counted: cmocka's tests, and lines "ok: what was checked" of scripts and of programs without cmocka. Who ends well
# and has counted nothing has failed. Skipped are cmocka's skipped tests, lines "SKIPPED: why", and a script that ends with
# code 77, whose last line says why.
#
# BUILD/log/NAME.log keeps the output of each, and NAME.result "passed failed skipped seconds CPU-seconds": the next run
# begins with those that took longest, so that none of them is left alone at the end.
set -u
here=$(realpath "${BASH_SOURCE[0]}")
slow=' ptx test_builtin search_ahead test_rows peer_resnet20_device search search_pack search_cuda_sim search_store test_program known_kernels test_primitives test_sampled test_precision command_line gpu_script slurm slurm_train rank_faults rank_calls '

# A program's name, and the command that runs it: an item is a program, cuda-sim:PROGRAM (on the stand-in for NVIDIA's
# libraries), ptx:PROGRAM (the same, and PTX is executed), ptx-own:PROGRAM (without the libraries), or a script.
name_of() { # item
    local path=${1#*:}
    path=${path#./}
    path=${path#*tests/} # programs of different folders may have the same file name
    case $1 in
    *:*) echo "${1%%:*}/$path" ;;
    *) echo "${path%.sh}" ;;
    esac
}
# The stand-in of tests/cuda_sim would take its time over plans, whose choice test_cuda_tuning looks at.
simulator() { realpath -m "$build/tests/libkas_cuda_sim.so"; } # of a link, such as that of `make asan`, the file
set_command() { # item
    case $1 in
    *:*)
        command=(env DEVICE=cuda KAS_CUDA_LIBS="$(simulator)" KAS_CUDA_PLANS=heuristic)
        case $1 in
        ptx:*) command+=(KAS_CUDA_SIM=ptx) ;;
        ptx-own:*) command+=(KAS_CUDA_SIM=ptx KAS_SIM_REFUSE=cublasLt,cudnn) ;;
        esac
        command+=("${1#*:}")
        ;;
    *.sh) command=(bash "$1") ;;
    *) command=("$1") ;;
    esac
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

# Counts what a log says: sets state, passed, failed, skipped and why.
judge() { # exit-code seconds log
    passed=$(grep -cE '^(\[       OK \]|ok: )' "$3") failed=0 skipped=$(summed_up SKIPPED "$3") why=''
    [ "$skipped" -gt 0 ] || skipped=$(grep -c '^SKIPPED:' "$3")
    state=ok
    if [ "$1" = 77 ]; then
        state=SKIPPED passed=0 skipped=1 why=$(tail -n 1 "$3" | sed 's/^\(SKIPPED: *\)*//')
    elif [ "$1" != 0 ]; then
        failed=$(summed_up FAILED "$3") why="$failed failed"
        [ "$failed" -gt 0 ] || { failed=1 why=$(grep -m 1 '^FAILED: ' "$3" | sed 's/^FAILED: //'); }
        [ -n "$why" ] || why="exit code $1"
        [ "$1" -le 128 ] || why="ended by signal $(kill -l "$1" 2>/dev/null || echo "$1")"
        [ "${2%.*}" -lt "$limit" ] || why="still running after $limit s, and killed"
    elif [ $((passed + skipped)) = 0 ]; then
        failed=1 why='ended well, but ran no test'
    elif [ "$skipped" -gt 0 ]; then
        why="$skipped SKIPPED: $(reasons "$3")"
    fi
    [ "$failed" = 0 ] || state=FAILED
}

# The program has a process group of its own, so that what it has started ends with it.
run_one() { # item
    local name log pid rc TIMEFORMAT='%R %U %S' seconds user system
    name=$(name_of "$1")
    log=$build/log/$name.log
    mkdir -p "${log%/*}"
    set_command "$1"
    set -m
    for _ in 1 2; do
        { time timeout --foreground -k 5 "$limit" "${command[@]}" >"$log" 2>&1 </dev/null; } 2>"$log.time" &
        pid=$!
        trap 'kill -- -$pid; exit 1' INT TERM
        wait $pid
        rc=$?
        kill -KILL -- -$pid 2>/dev/null
        # The leak checker itself may crash where a thread of a library is just ending; that says nothing of the program.
        grep -qs 'LeakSanitizer has encountered a fatal error' "$log" || break
    done
    read -r seconds user system < <(tail -n 1 "$log.time")
    rm "$log.time"
    judge $rc "$seconds" "$log"
    echo "$passed $failed $skipped $seconds $(awk "BEGIN { print $user + $system }")" >"$build/log/$name.result"
    printf '%-7s %-34s %6.1f s %6.1f s CPU%s\n' $state "$name" "$seconds" "$(awk "BEGIN { print $user + $system }")" "${why:+
    $why}"
}

limit=${KAS_TEST_LIMIT:-1800}
if [ "${1:-}" = --one ]; then # from xargs, below
    build=$2
    run_one "$3"
    exit 0
fi
e2e=1 ptx=0
[ "${1:-}" = --no-e2e ] && { e2e=0; shift; }
[ "${1:-}" = --ptx ] && { ptx=1; shift; }
build=$1
shift
items=("$@")
# The tests of the devices once more on the CUDA device, with the stand-in for NVIDIA's libraries.
if [ -z "${DEVICE:-}" ] && [ -f "$(simulator)" ]; then
    for program in "$@"; do
        case $program in
        */tests/ops/* | */test_program | */test_train_model | */test_train_stream | */test_replaced_epilogues | */test_fold | */test_turns | */test_group) items+=("cuda-sim:$program") ;;
        esac
    done
fi
# And some with the GPU's own code; --ptx runs more of these, and nothing else.
if [ $ptx = 1 ]; then
    items=(tests/e2e/ptx.sh)
    e2e=0
    for program in "$@"; do
        case $program in
        */test_primitives | */test_every_primitive | */test_epilogues | */test_agree | */test_gain | */test_program | */test_pool | */test_segments | \
            */test_train_model | */test_train_stream | */test_replaced_epilogues | */test_fold | */test_turns) items+=("ptx:$program" "ptx-own:$program") ;;
        esac
    done
fi
if [ -z "${DEVICE:-}" ] && [ $((e2e + ptx)) = 1 ]; then
    for program in "$@"; do
        case $program in
        */tests/ops/test_conv) items+=("ptx:$program" "ptx-own:$program") ;;
        */tests/ops/test_conv_epilogue) items+=("ptx:$program" "ptx-own:$program") ;;
        */tests/ops/* | */test_rows) items+=("ptx:$program") ;;
        esac
    done
fi
if [ $e2e = 1 ]; then
    for script in tests/e2e/*.sh; do [ -f "$script" ] && items+=("$script"); done
fi

cores=$(nproc)
jobs=$cores
[[ " ${MAKEFLAGS:-}" =~ \ -j([0-9]+) ]] && jobs=${BASH_REMATCH[1]}
jobs=${JOBS:-$jobs}
# Programs side by side share the cores: threads that wait must not spin, and none takes all cores.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-1000} # see src/host/main.c
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores / jobs > 2 ? cores / jobs : 2))}
export KAS_CACHE_DIR=${KAS_TEST_CACHE:-$PWD/$build/test-cache}

# Longest first: as long as last time, or known to be slow.
expected() { # item
    local name file
    name=$(name_of "$1") file=$build/log/$(name_of "$1").result
    if [ -f "$file" ]; then awk '{ print $4 }' "$file"; elif [[ $slow == *" ${name##*/} "* ]]; then echo 30; else echo 1; fi
}
mapfile -t items < <(for item in "${items[@]}"; do echo "$(expected "$item") $item"; done | sort -k 1,1rn -s | cut -d ' ' -f 2-)
for item in "${items[@]}"; do rm -f "$build/log/$(name_of "$item").result"; done
printf '%s\0' "${items[@]}" | xargs -0 -n 1 -P "$jobs" bash "$here" --one "$build"

passed=0 failed=0 skipped=0 cpu=0
for item in "${items[@]}"; do
    name=$(name_of "$item")
    p=0 f=1 s=0 c=0
    [ ! -f "$build/log/$name.result" ] || read -r p f s _ c <"$build/log/$name.result"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s)) cpu=$(awk "BEGIN { print $cpu + $c }")
    [ "$f" = 0 ] || { echo; echo "$name failed; the end of $build/log/$name.log:"; tail -n 40 "$build/log/$name.log" | sed 's/^/    /'; }
done
echo
echo "${#items[@]} programs, $jobs at a time: $SECONDS s, $cpu s CPU"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && [ $passed -gt 0 ]
