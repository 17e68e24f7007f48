# What the end-to-end tests share; sourced from the repository's root. Sets dir, a folder that goes when the test ends, and
# kas, the program.
dir=$(mktemp -d)
trap "rm -rf '$dir'" EXIT
kas=$(realpath "${KAS_GPU:-./kas-gpu}")
skip_part() { echo "SKIPPED: $*"; } # the rest of the script goes on; tests/run.sh counts these lines
fail() { echo "FAILED: $*"; exit 1; }

# Runs a command, whose output goes to $dir/out and $dir/err: this exit code, and these words (none: '') in either?
expect() { # exit-code words command...
    local code=$1 words=$2 rc=0
    shift 2
    "$@" >"$dir/out" 2>"$dir/err" || rc=$?
    [ "$rc" = "$code" ] || { cat "$dir/out" "$dir/err"; fail "expected exit code $code, got $rc: $*"; }
    [ -z "$words" ] || grep -qF -- "$words" "$dir/out" "$dir/err" ||
        { cat "$dir/out" "$dir/err"; fail "expected \"$words\": $*"; }
}

# A network of one convolution, as a file; what is given stands before its linear layer.
tiny_network() { # layer,
    cat <<JSON
{"format": "kas-gpu network", "version": 1, "name": "tiny", "layers": [
    {"conv": "stem", "channels": 8, "kernel": 3}, {"batch_norm": "bn0"}, {"relu": "relu0"},
    {"global_avg_pool": "pool"}, ${1:-} {"linear": "fc", "channels": "classes"}]}
JSON
}

# From now on generated kernels are compiled without optimising, in a fifth of the time: for tests of what is around them.
quick_compiler() {
    printf '#!/bin/sh\nexec %s "$@" -O0\n' "$(command -v clang || command -v gcc)" >"$dir/cc"
    chmod +x "$dir/cc"
    export KAS_CC=$dir/cc
}

# Until a command succeeds, such as `[ -e FILE ]`: waits for what happens, and not for a time that a busy machine exceeds. It
# looks every 20 ms, behind the first second every 100 ms, or every $every seconds: each look starts processes.
await() { # what command...
    local what=$1 end=$((SECONDS + 300)) looks=0
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || fail "waited 300 s for $what"
        if [ $((looks += 1)) -le 50 ]; then sleep "${every:-0.02}"; else sleep "${every:-0.1}"; fi
    done
}
ended() { # pid: gone, or a zombie that nobody has collected
    local stat
    read -r stat 2>/dev/null <"/proc/$1/stat" || return 0
    stat=${stat##*) }
    [ "${stat%% *}" = Z ]
}

# A folder for a database server; it goes when the test ends. In memory where there is room: the files of a server, a thousand, are
# flushed when they are made and again after it was killed. The server runs as another user where this one is root.
make_server_folder() { # sets server
    local shm=/dev/shm
    [ -w $shm ] && [ "$(df --output=avail $shm | tail -n 1)" -gt 500000 ] || shm=$dir
    server=$(mktemp -d $shm/kas-server-XXXXXX)
    chmod 755 "$dir" "$server"
    server=$server/pg
    trap drop_server EXIT
}
drop_server() {
    "$kas" store stop "$server" >/dev/null 2>&1 || true
    rm -rf "$dir" "${server%/pg}"
}

# The processes that a process has started; without pgrep, which small systems lack. cat, because awk ends at the first process that
# has gone meanwhile.
children() { # pid
    cat /proc/[0-9]*/stat 2>/dev/null | awk -v parent="$1" '{ pid = $1; sub(/^.*\) /, ""); if ($2 == parent) print pid }'
}

# Of a study, what must not depend on kills or on the number of workers.
results() { "$kas" best "$1" --json | sed -n 's/.*"kind": "\([^"]*\)", "index": \([0-9]*\), "kernel": \([^,]*\), "state": "\([^"]*\)".*"accuracy": \([^,]*\),.*/\1 \2 \3 \4 \5/p' | sort; }

# A search that may be disturbed: with the results that are in $dir/results already, it has the same with two workers ($dir/two), and
# after kill -9 ($dir/killed) of a worker and twice of the supervisor, each when so many more lines are in the logs.
same_when_disturbed() { # command...
    local kill pid wanted
    "$@" --study "$dir/two" --workers 2 >/dev/null 2>"$dir/err" || { cat "$dir/err"; fail "two workers"; }
    results "$dir/two" | diff "$dir/results" - || fail "two workers give something else"
    for kill in 1 2 3; do
        wanted=$(($(log_lines "$dir/killed") + 10 + RANDOM % 40))
        "$@" --study "$dir/killed" --workers 2 >/dev/null 2>"$dir/err" &
        pid=$!
        while kill -0 $pid 2>/dev/null && [ "$(log_lines "$dir/killed")" -lt $wanted ]; do sleep 0.005; done
        if [ $kill = 1 ]; then kill -9 "$(children $pid | head -n 1)" 2>/dev/null || true; sleep 0.2; fi
        kill -9 $pid 2>/dev/null || true
        wait $pid 2>/dev/null || true
    done
    expect 0 'best kernel:' "$kas" resume "$dir/killed"
    results "$dir/killed" | diff "$dir/results" - || fail "kills changed the leaderboard"
}
log_lines() { cat "$1"/logs/*.log 2>/dev/null | wc -l; } # study
