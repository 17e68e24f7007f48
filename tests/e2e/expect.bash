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

# Until a command succeeds, such as `[ -e FILE ]`: waits for what happens, and not for a time that a busy machine exceeds.
await() { # what command...
    local what=$1 end=$((SECONDS + 120))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || fail "waited 120 s for $what"
        sleep 0.02
    done
}
ended() { # pid: gone, or a zombie that nobody has collected
    [ ! -e "/proc/$1" ] || [ "$(sed 's/^.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null)" = Z ]
}

# The processes that a process has started; without pgrep, which small systems lack.
children() { # pid
    awk -v parent="$1" '{ pid = $1; sub(/^.*\) /, ""); if ($2 == parent) print pid }' /proc/[0-9]*/stat 2>/dev/null || true
}

# Of a study, what must not depend on kills or on the number of workers.
results() { "$kas" best "$1" --json | sed -n 's/.*"kind": "\([^"]*\)", "index": \([0-9]*\), "kernel": \([^,]*\), "state": "\([^"]*\)".*"accuracy": \([^,]*\),.*/\1 \2 \3 \4 \5/p' | sort; }
