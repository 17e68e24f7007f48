#!/usr/bin/env bash
# Builds, tests, measures and compares on a machine with a GPU, and puts everything into one folder.
#
#   bench/gpu.sh [OPTION...] PART...
#     build      kas-gpu, every test, the programs of bench/
#     tests      every test program that takes a device, each by itself
#     make-test  make test DEVICE=cuda: every test there is
#     sanitize   compute-sanitizer (memcheck, racecheck, initcheck, synccheck) over tests/ops and tests/jit
#     check      sampled kernels against the float64 reference
#     bench      kas-gpu bench step, models, layers, jit
#     peers      beside PyTorch: network_step.py (is it right?), step.py, kernels.py
#     train      a short training (--dataset, else drawn images)
#     all        all of these but make-test, in this order
#
#   -o FOLDER        results (default: build/gpu-results); made if missing
#   -t SECONDS       of the whole call (default 570): what does not fit is left for the next call
#   -s SECONDS       of each step at most (default: its own limit)
#   --again          run again what is marked ok in FOLDER; else only the rest is run
#   --device D       cuda (default), cuda:N, cpu
#   --dataset F.h5   of train
#   --epochs N       of train (default 3)
#   --small          tiny sizes everywhere: to try this script, not to measure
#
# A part that fails does not stop the others. FOLDER/summary.txt says what became of every step and where its output
# is; FOLDER/*.json has the lines of each measurement. Exit code 0 when every step that ran is ok and none is left.
#
# The machine needs a C compiler and GNU make. Where it has no network and lacks the development files of HDF5, cJSON,
# SQLite, cmocka (env.sh lists them), make them on one that has them, a Debian or Ubuntu of no newer release, and take
# them along:
#   there: ./env.sh scripts/bundle.sh bundle         here: KAS_BUNDLE=bundle bench/gpu.sh all
# NVIDIA's libraries are found in a toolkit or inside Python packages (env.sh). KAS_CUDA_LIBS, as everywhere, names other
# files, such as the stand-in: --small --device cuda tests train then runs on a machine without a GPU.
set -u
cd "$(dirname "$0")/.." || exit 1

out='' limit=570 most_of_step=100000 again='' device=cuda dataset='' epochs=3 small='' parts=()
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 2; }
while [ $# != 0 ]; do
    case $1 in
    -o) out=${2:-} && shift ;;
    -t) limit=${2:-} && shift ;;
    -s) most_of_step=${2:-} && shift ;;
    --again) again=1 ;;
    --device) device=${2:-} && shift ;;
    --dataset) dataset=${2:-} && shift ;;
    --epochs) epochs=${2:-} && shift ;;
    --small) small=1 ;;
    build | tests | make-test | sanitize | check | bench | peers | train) parts+=("$1") ;;
    all) parts+=(build tests sanitize check bench peers train) ;;
    -h | --help) usage ;;
    *) echo "gpu.sh: unknown part or option \"$1\"; bench/gpu.sh --help" >&2 && exit 2 ;;
    esac
    shift || { echo "gpu.sh: an option lacks its value" >&2; exit 2; }
done
[ ${#parts[@]} != 0 ] || usage
[[ $limit$most_of_step$epochs =~ ^[0-9]+$ && $limit && $most_of_step && $epochs ]] ||
    { echo "gpu.sh: -t, -s and --epochs take a number" >&2; exit 2; }
[ -z "$dataset" ] || [ -f "$dataset" ] || { echo "gpu.sh: there is no data set $dataset" >&2; exit 2; }

export BUILD=${BUILD:-build}
out=${out:-$BUILD/gpu-results}
mkdir -p "$out/log" || exit 1
out=$(realpath "$out")
deadline=$((SECONDS + limit))
kas=$BUILD/kas-gpu
python=/usr/bin/python3 # Debian's has torch where python3 in PATH has not
has_torch() { "$python" -c 'import importlib.util as u; raise SystemExit(not u.find_spec("torch"))' 2>/dev/null; }
has_torch || python=python3
export DEVICE=$device KAS_CACHE_DIR=${KAS_CACHE_DIR:-$out/cache}

# ---- steps: one line each in summary.tsv, the last one of a name counts ---------------------------------------------

note() { # name state seconds
    printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$out/summary.tsv"
    [ "$2" = "no time" ] || printf '%-40s %-12s %5ss\n' "$1" "$2" "$3"
}

state_of() { # name
    [ -f "$out/summary.tsv" ] && awk -F'\t' -v name="$1" '$1 == name { state = $2 } END { print state }' "$out/summary.tsv"
}

skip() { # name reason...
    note "$1" skipped 0
    shift
    echo "    $*"
}

# step NAME SECONDS COMMAND...   output of a name that ends in .json goes to that file, all else to the log
step() {
    local name=$1 most=$2 left=$((deadline - SECONDS)) log to begin=$SECONDS rc
    shift 2
    [ -n "$again" ] || [ "$(state_of "$name")" != ok ] || { printf '%-40s ok before\n' "$name"; return; }
    [ "$left" -ge 3 ] || { note "$name" "no time" 0; return; }
    [ "$most" -le "$left" ] || most=$left
    [ "$most" -le "$most_of_step" ] || most=$most_of_step
    log=$out/log/$name.log to=$out/log/$name.log
    [[ $name == *.json ]] && to=$out/$name && log=$out/log/${name%.json}.log
    mkdir -p "$(dirname "$log")"
    : >"$log"
    timeout -k 10 "$most" ./env.sh "$@" >>"$to.new" 2>>"$log.err"
    rc=$?
    cat "$to.new" >"$to" && cat "$log.err" >>"$log" && rm -f "$to.new" "$log.err"
    case $rc in
    0) note "$name" ok $((SECONDS - begin)) ;;
    77) note "$name" skipped $((SECONDS - begin)) ;;
    124 | 137) note "$name" "timed out" $((SECONDS - begin)) ;;
    *) note "$name" "failed ($rc)" $((SECONDS - begin)) ;;
    esac
    [ $rc = 0 ] || tail -n 5 "$log" | sed 's/^/    /'
}

# ---- parts ----------------------------------------------------------------------------------------------------------

describe_machine() {
    {
        date -u
        git log -1 --format='commit %H' 2>/dev/null
        git status --porcelain --untracked-files=no 2>/dev/null | sed 's/^/changed: /'
        uname -a
        command -v nvidia-smi >/dev/null && nvidia-smi
        [ -n "$small" ] || "$python" -c 'import torch; print("torch", torch.__version__, torch.version.cuda)' 2>/dev/null
    } >"$out/machine.txt"
    [ ! -x "$kas" ] || ./env.sh "$kas" doctor --json >"$out/doctor.json" 2>/dev/null
}

part_build() {
    step build 540 make -j"$(nproc)" programs
}

# Programs that open the device of the variable DEVICE, themselves or by a fixture.
device_tests() { # file...
    grep -lE 'DEVICE"|op_case.h|model_fixture.h|agree_fixture.h' "$@" | sed -n 's|\(.*/test_[^/]*\)\.c$|\1|p' | sort
}

part_tests() {
    local test
    for test in $(device_tests tests/ops/*.c tests/jit/*.c tests/unit/*.c); do
        step "$test" 120 "$BUILD/$test"
    done
}

part_make_test() { step make-test 600 make test DEVICE="$device"; }

# Only what shows races, stray accesses and unset memory: calls that tests make fail on purpose are no errors here.
part_sanitize() {
    local tool test
    command -v compute-sanitizer >/dev/null || ./env.sh bash -c 'command -v compute-sanitizer' >/dev/null || {
        skip sanitize "compute-sanitizer is not on this machine (it comes with the CUDA toolkit)"
        return
    }
    for tool in memcheck racecheck initcheck synccheck; do
        for test in $(device_tests tests/ops/*.c tests/jit/*.c); do
            step "$tool/${test#tests/}" 180 compute-sanitizer --tool "$tool" --error-exitcode 9 \
                --report-api-errors no "$BUILD/$test"
        done
    done
}

part_check() {
    local count=300
    [ -z "$small" ] || count=4
    step check.json 300 "$kas" check --sampled "$count" --device "$device" --json
}

part_bench() {
    local options=(--device "$device" --json) step=() layers=() jit=()
    if [ -n "$small" ]; then
        step=(--net resnet20 --input 3x8x8 --batch 2 --repeats 2)
        layers=(--net resnet20 --input 3x8x8 --batch 2 --repeats 1 --kernel kernels/depthwise_separable.json)
        jit=(--net resnet20 --repeats 1 --batch 2)
    fi
    step bench-step.json 120 "$kas" bench step "${options[@]}" ${step[@]:+"${step[@]}"}
    for precision in tf32 bf16; do
        step bench-step-$precision.json 120 "$kas" bench step "${options[@]}" --batch 512 --passes ${step[@]:+"${step[@]}"} \
            --precision $precision
        step bench-models-$precision.json 300 "$kas" bench models "${options[@]}" ${step[@]:+"${step[@]}"} \
            --precision $precision
    done
    step bench-layers.json 300 "$kas" bench layers "${options[@]}" ${layers[@]:+"${layers[@]}"}
    step bench-jit.json 120 "$kas" bench jit "${options[@]}" ${jit[@]:+"${jit[@]}"}
}

part_peers() {
    local nets=(resnet18 resnet20 mobilenet_v2) sizes=() count=20 batch=8 torch_device=${device%%:*}
    if ! has_torch; then
        skip peers "no python3 with torch"
        return
    fi
    [ -z "$small" ] || nets=(resnet20) sizes=(--input 3x8x8 --batch 4 --rounds 2 --slice 0.05) count=1 batch=4
    step peers/network-step 200 "$python" bench/peers/network_step.py --dump "$BUILD/bench/step_dump" --net resnet20 \
        --part device --device "$device" --batch "$batch" --steps 2
    for precision in fp32 tf32 bf16; do
        [ "$torch_device" = cuda ] || [ $precision = fp32 ] || continue
        step "peers-step-$precision.json" 300 "$python" bench/peers/step.py "${nets[@]}" --device "$torch_device" \
            --precision $precision --json ${sizes[@]:+"${sizes[@]}"}
    done
    step peers/sample 60 "$kas" sample --net resnet20 --count "$count" --flops 1 --params 1 -o "$out/kernels"
    compgen -G "$out/kernels/*.json" >/dev/null || return
    step peers-kernels.json 400 "$python" bench/peers/kernels.py "$out"/kernels/*.json --device "$device" --json
}

part_train() {
    local made=$out/shapes.h5 net=resnet18 shapes=(--train 10000 --test 1000 --size 32 --classes 10) batch=128
    [ -z "$small" ] || net=resnet20 shapes=(--train 64 --test 16 --size 8 --classes 4) batch=16
    if [ -z "$dataset" ]; then
        step train/shapes 120 "$kas" dataset make shapes -o "$made" "${shapes[@]}"
        dataset=$made
    fi
    step train.json 400 "$kas" train --net $net --dataset "$dataset" --device "$device" --batch $batch \
        --epochs "$epochs" --test --json
}

describe_machine
for part in "${parts[@]}"; do
    echo "== $part"
    "part_${part//-/_}"
    [ "$part" != build ] || describe_machine
done

# ---- summing up -----------------------------------------------------------------------------------------------------

awk -F'\t' '{ if (!($1 in state)) name[n++] = $1; state[$1] = $2; time[$1] = $3 }
    END { for (i = 0; i < n; i++) { s = state[name[i]]; count[s == "ok" || s == "skipped" || s == "no time" ? s : "failed"]++
              printf "%-40s %-12s %5ss\n", name[i], s, time[name[i]] }
          printf "\n%d ok, %d failed, %d skipped, %d left for want of time\n", count["ok"], count["failed"], count["skipped"],
              count["no time"] }' "$out/summary.tsv" >"$out/summary.txt"
echo
tail -n 1 "$out/summary.txt"
echo "results: $out (summary.txt, *.json, log/)"
grep -q ' 0 failed, .* 0 left' "$out/summary.txt"
