#!/usr/bin/env bash
# bench/gpu.sh with stand-ins for the programs that it runs: a failure, a hang and a lack of time are told apart, none of
# them stops what comes after, a second call runs only what is left and goes on where it was, what compute-sanitizer finds
# is a failure, and the figures in the summary are those of the lines.
set -eu
command -v python3 >/dev/null || { echo "SKIPPED: no python3 to sum the figures up"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; cat "$work/said"; [ ! -f "$work/out/summary.txt" ] || cat "$work/out/summary.txt"; exit 1; }

mkdir -p "$work/build" "$work/bin"
cat >"$work/build/kas-gpu" <<'END'
#!/bin/sh
here=${0%/*}
case "$*" in
*"dataset make"*) : >"$5" ;;
*"bench layers"*) echo "no layers today" >&2; [ -f "$here/mended" ] || exit 5 ;;
*"bench jit"*) [ -f "$here/mended" ] || sleep 600
    echo '{"suite": "jit", "net": "resnet18", "threads": 16, "nvrtc_cold_seconds": 0.25, "nvrtc_cold_seconds_q1": 0.2, "nvrtc_cold_seconds_q3": 0.3}' ;;
*"bench step"*bf16*) echo '{"suite": "step", "phase": "training", "kernel": null, "net": "resnet18", "batch": 512, "images_per_second": 100000.4, "share_of_floor": 0.55, "host_seconds": 4e-6}' ;;
*"check --sampled"*) echo '{"kind": "summary", "kernels": 2, "comparisons": 20, "failures": 0}' ;;
*"bench models"*) echo '{"suite": "models", "share_of_floor": 0.5}'; printf '{"suite": "mod' ;;
train*) echo "{\"event\": \"epoch\", \"was\": \"$(cat "$here/trained" 2>/dev/null)\"}"
    [ -f "$here/trained" ] || { echo half >"$here/trained"; sleep 600; }
    echo '{"event": "result", "test_accuracy": 0.7612}' ;;
*) echo "{\"ran\": \"$*\"}" ;;
esac
END
mkdir -p "$work/build/tests/ops"
printf '#!/bin/sh\necho "${0##*/} $KAS_CUDA_PLANS $KAS_CACHE_DIR" >>"%s"\n' "$work/plans" >"$work/build/tests/ops/test_conv"
cp "$work/build/tests/ops/test_conv" "$work/build/tests/ops/test_conv_epilogue"
chmod +x "$work"/build/tests/ops/*
cat >"$work/bin/compute-sanitizer" <<'END'
#!/bin/sh
[ "$1" != --help ] || { echo "  --kernel-regex arg"; exit; }
echo "$*" >>"${0%/*}/calls"
mkdir -p "$KAS_CACHE_DIR/jit" "$KAS_CACHE_DIR/plans" && : >"$KAS_CACHE_DIR/jit/image" && : >"$KAS_CACHE_DIR/plans/plan"
case "$*" in
*racecheck*ops/test_pool*) echo "========= ERROR: Race reported"; exit 9 ;;
*refused*) echo "Device not supported"; exit 1 ;;
esac
END
printf '#!/bin/sh\necho "$*" >>"${0%%/*}/made"\n' >"$work/bin/make"
cat >"$work/bin/ncu" <<'END'
#!/bin/sh
while [ "$1" != --log-file ]; do shift; done
[ ! -f "${0%/*}/refused" ] || { echo "==ERROR== ERR_NVGPUCTRPERM - no permission" >"$2"; exit 1; }
cat >"$2" <<'CSV'
==PROF== Connected to process 7 (kas-gpu)
"ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum"
"","","byte","byte","ns"
"0","short","1,000,000","0","1,000"
"1","long","3000000","1000000","2000"
"2","long","3000000","1000000","6000"
CSV
END
chmod +x "$work/build/kas-gpu" "$work/bin/compute-sanitizer" "$work/bin/make" "$work/bin/ncu"
run() {
    PATH=$work/bin:$PATH BUILD=$work/build KAS_NO_INSTALL=1 KAS_CACHE_DIR= bench/gpu.sh -o "$work/out" --small --device cpu "$@" >"$work/said" 2>&1
}
state() { grep -q "^$1 *$2" "$work/out/summary.txt" || fail "$1 is not $2"; }
says() { grep -qE "$1" "$work/out/summary.txt" || fail "the summary lacks \"$1\""; }

run -s 3 layers jit step models && fail "a call with failures ended well"
run -t 1 search && fail "a call without time ended well"
state bench-step.json ok
state bench-layers.json "failed (5)"
state bench-jit.json "timed out"
state images "no time"
grep -q '"ran": "bench step --net resnet20 --input 3x8x8 --batch 2 --device cpu --json' "$work/out/bench-step.json" ||
    fail "the lines are not in the file"
grep -q 'no layers today' "$work/out/log/bench-layers.log" || fail "the message is not in the log"
says '2 failed, 0 skipped, 1 left'
says 'resnet18, batch 512, bf16: images/s +100,000 +aim: 93,000'
says "host's time for a step +4.0 us +aim: below 10 us"
says 'models beside their floor +median 50%, 2 of 2 below 60%'
says 'compiled cold +not measured +aim: 0.3 s'

# What a call cuts goes on in the next; what took its own time, and what failed, is run again.
touch "$work/build/mended"
run -t 6 train && fail "a training that was cut ended well"
state train.json "to go on"
run layers jit step models train || fail "nothing fails any more, and the call did"
grep -q 'bench-step.json *ok before' "$work/said" || fail "what was ok has run again"
for step in bench-layers.json bench-jit.json train.json; do state $step ok; done
[ "$(grep -c '"event": "epoch"' "$work/out/train.json")" = 2 ] || fail "the training's lines are not those of both calls"
grep -q '"was": "half"' "$work/out/train.json" || fail "the training did not go on"
says ' 0 failed, 0 skipped, 0 left'
says 'compiled cold, 16 threads +0.25 s \(0.20 to 0.30\) +aim: 0.3 s'
says 'accuracy on the test images +76.12%'

# What the counters say of each kernel: the one with the longest time first.
run profile || fail "a profile failed"
table=$work/out/log/profile/table.log
grep -qE '^ +2 +4\.0 +4\.00 +1000 +88\.9%  long$' "$table" && grep -qE '^ +1 +1\.0 +1\.00 +1000 +11\.1%  short$' "$table" ||
    { cat "$table"; fail "the profile is not that of the counters"; }
touch "$work/bin/refused"
run --again profile || fail "counters that may not be read are a failure"
says '^profile +skipped'
grep -q 'ERR_NVGPUCTRPERM' "$work/said" || fail "why there is no profile is not said"

# Sampled kernels in portions, each from a seed of its own.
run check || fail "a check failed"
state check/2.json ok
says 'against the reference +4 kernels, 40 comparisons, 0 failed'

# The folder of results may come from another machine: what is not there is made again.
run search build || fail "a search and a build failed"
rm "$work/out/shapes.h5"
run search build || fail "a search and a build failed the second time"
[ -f "$work/out/shapes.h5" ] || fail "images that are gone were not made again"
[ "$(grep -c programs "$work/bin/made")" = 2 ] || fail "make was not asked in each call: $(cat "$work/bin/made")"
mv "$work/build/kas-gpu" "$work/kas-gpu"
run step && fail "a call without a program ended well"
grep -q '^== step: there is no ' "$work/said" || fail "that there is no program is not said"
mv "$work/kas-gpu" "$work/build/kas-gpu"
run --prebuilt build || fail "a program that runs was not taken"
[ "$(grep -c programs "$work/bin/made")" = 2 ] || fail "what was built elsewhere was built again"

# PyTorch: that both sides compute the same comes first, then the variants that are compiled in little time; and the clocks.
if ! /usr/bin/python3 -c 'import torch' 2>"$work/said"; then
    cat >"$work/bin/python3" <<'END'
#!/bin/sh
case "$*" in
*bench/peers/*) echo "$*" >>"${0%/*}/peers" ;;
*find_spec*) ;;
*) exec /usr/bin/python3 "$@" ;;
esac
END
    printf '#!/bin/sh\necho 1980 MHz\n' >"$work/bin/nvidia-smi"
    chmod +x "$work/bin/python3" "$work/bin/nvidia-smi"
    run --device cuda peer-steps || fail "a comparison failed"
    rm "$work/bin/python3" "$work/bin/nvidia-smi"
    printf '%s\n' network_step bf16-some tf32-some bf16 tf32 fp32 |
        diff - <(sed -E 's/.*network_step.*/network_step/; s/.*--precision ([a-z0-9]*).*--variants graph,compile-graph.*/\1-some/
            s/.*--variants graph,compile-graph.*--precision ([a-z0-9]*).*/\1-some/; s/.*--precision ([a-z0-9]*).*/\1/' "$work/bin/peers") >"$work/said" ||
        fail "the comparisons are in another order"
    grep -q '1980 MHz' "$work/out/clocks.txt" || fail "there are no clocks"
fi

# Tests take the first plans, but for those that are run to see the fastest; what the smoke test has run is not run again.
run -j 1 smoke tests && fail "programs that are not there were run"
run tests-timed || true # of what failed before
printf '%s\n' "test_conv heuristic" "test_conv_epilogue heuristic" "test_conv timed" "test_conv_epilogue timed" |
    diff - <(cut -d ' ' -f 1,2 "$work/plans") >"$work/said" || fail "tests were run otherwise"
! grep -v -- "$work/out/cache-tests$" "$work/plans" || fail "plans of tests lie where measurements look for them"
says 'the same by timed plans +2 of 2 ok'

# Every device test under memcheck before the next tools, which look at five programs; a finding is a failure and stops nothing.
run -j 1 sanitize && fail "what the sanitizer found is no failure"
state racecheck/ops/test_pool "failed (9)"
grep -q 'Race reported' "$work/out/log/racecheck/ops/test_pool.log" || fail "what was found is not in the log"
says 'compute-sanitizer: racecheck +[0-9]+ of [0-9]+ ok, 1 failed'
says 'compute-sanitizer: memcheck +([0-9]+) of \1 ok, 0 failed'
tests=$(grep -c '^memcheck/' "$work/out/summary.txt")
[ "$tests" -ge 20 ] || fail "$tests programs under memcheck"
[ "$(wc -l <"$work/bin/calls")" = $((tests + 3 * 5)) ] || fail "$(wc -l <"$work/bin/calls") calls of the sanitizer for $tests programs"
grep -q -- "--tool memcheck --error-exitcode 9 --report-api-errors no --kernel-regex kns=kas_dev_ .*/tests/ops/test_conv$" "$work/bin/calls" ||
    fail "the sanitizer was called otherwise: $(head -n 3 "$work/bin/calls")"
awk '/memcheck/ { if (other) exit 1 } !/memcheck/ { other = 1 }' <(head -n "$tests" "$work/bin/calls") || fail "memcheck is not first"

# Images of the tests serve the measurements, plans do not.
[ -f "$work/out/cache/jit/image" ] || fail "an image is compiled once more"
[ ! -e "$work/out/cache/plans" ] || fail "a plan that tests chose side by side is used"

# A machine that compute-sanitizer cannot watch is told, and one program was enough to find that out.
sed -i 's/\*refused\*/*/' "$work/bin/compute-sanitizer"
rm -r "$work/out"
run sanitize || fail "a sanitizer that cannot work is a failure"
says '^sanitize +skipped'
[ "$(grep -cE '^(memcheck|racecheck)/' "$work/out/summary.txt")" = 1 ] || fail "more than one program was tried"

# All parts in one call, in the order of worth, each with its own time; what is left afterwards goes to those that lack it.
rm -r "$work/out"
run -t 100 -s 3 all && fail "half of the parts have nothing to run, and the call ended well"
order=$(grep '^== ' "$work/said" | head -n 19 | cut -c 4- | tr '\n' ' ')
[ "$order" = "build smoke step tests sanitize predict peer-steps search check jit pack peer-kernels layers tune data models tests-timed profile train " ] || fail "order: $order"
state bench-models-bf16.json ok
state smoke/sampled ok

for wrong in "" "no-such-part" "-t soon bench" "--dataset $work/none.h5 train" "bench -o" "--epochs 0 train"; do
    # shellcheck disable=SC2086 # words
    bench/gpu.sh $wrong >"$work/said" 2>&1 && fail "\"$wrong\" was taken"
done
echo "ok: bench/gpu.sh with stand-ins for what it runs"
