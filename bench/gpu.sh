#!/usr/bin/env bash
# Builds, tests, measures and compares on a machine with a GPU, and puts everything into one folder.
#
#   bench/gpu.sh [OPTION...] PART...
#
#   part          in `all`  what it shows
#   build           80 s    kas-gpu, every test, the programs of bench/
#   smoke           30 s    convolutions, batch norm and a few sampled kernels are right on the GPU
#   step            40 s    images a second of ResNet-18 at batch 512 (bf16, TF32), its floor, the host's time for a step,
#                           the time of each pass over memory
#   tests           50 s    every test program that takes a device is right on the GPU, by the first plans of the libraries
#   sanitize        50 s    compute-sanitizer over every test program that launches kernels, and sampled ones: memcheck of
#                           all, then racecheck, initcheck, synccheck of sums, norms and sampled kernels
#   predict         90 s    the machine model, calibrated, and predicted latencies beside measured ones (studies/predict.sh)
#   peer-steps     110 s    that both sides compute the same (peers/network_step.py), and training steps beside PyTorch
#                           (peers/step.py): CUDA graphs of eager and compiled code; in what time is left also max-autotune,
#                           float32 and other networks
#   search          30 s    a search: 12 candidates, 3 epochs
#   check           30 s    300 sampled kernels against the float64 reference
#   jit             20 s    how long a candidate in ResNet-18 compiles, cold, on all cores
#   pack            20 s    8 ResNet-20 candidates at batch 128 at once against one after the other (pack.sh)
#   peer-kernels     0 s    200 sampled kernels beside PyTorch, and the time to compile them (peers/kernels.py)
#   layers          10 s    every layer of ResNet-34 and the known kernels in its place beside the floor
#   tune             0 s    schedules of the known kernels in ResNet-18, searched and timed beside the default ones
#   data            10 s    reading, decoding and copying images beside the bound
#   models           0 s    every network beside the floor (bf16, TF32)
#   tests-timed      0 s    the tests of convolutions once more, by the plans that are the fastest
#   profile          0 s    time and bytes of memory of every kernel of a step, by the GPU's own counters (ncu)
#   train            0 s    a training of the network as it is
#   make-test               all that `make test DEVICE=cuda` runs, several at a time (not in `all`)
#
#   bench: step jit layers tune data models  peers: peer-steps peer-kernels       all: all of them, in this order
#
#   -o FOLDER        results (default: build/gpu-results); made if missing
#   -t SECONDS       of the whole call (default 570): what does not fit is left for the next call
#   -s SECONDS       of each step at most (default: its own limit)
#   -j N             test programs at a time (default: half the cores, at most 8); `check` uses all cores
#   --again          run again what is marked ok in FOLDER; else only the rest is run
#   --prebuilt       take the programs that lie in $BUILD (build) if they run here, and build them only if they do not
#   --device D       cuda (default), cuda:N, cpu
#   --dataset F.h5   of train, search, pack (default: drawn images)
#   --net N          of train, search (default resnet18)
#   --epochs N       of train (default 3, or the recipe's)
#   --recipe R       of train, such as cifar200
#   --small          tiny sizes everywhere: to try this script, not to measure
#
# A call of `all` gives each part the seconds above, in order of worth, and then what is left to those that have not
# ended; a part that is named gets all the time there is. What a call left, the same call goes on with: the tests one by
# one, the kernels one by one, search and train where they were. A part that fails does not stop the others.
# FOLDER/summary.txt says what became of every step, and the figures that matter beside what is aimed at (headline.py);
# FOLDER/*.json has the lines of each measurement, FOLDER/log/ the rest. Exit code 0 when every step that ran is ok and
# none is left.
#
# The machine needs a C compiler and GNU make. Where it has no network and lacks the development files of HDF5, cJSON,
# SQLite, cmocka (env.sh lists them), make them on one that has them, a Debian or Ubuntu of no newer release, and take
# them along:
#   there: ./env.sh scripts/bundle.sh bundle         here: KAS_BUNDLE=bundle bench/gpu.sh all
# NVIDIA's libraries are found in a toolkit or inside Python packages (env.sh). KAS_CUDA_LIBS, as everywhere, names other
# files, such as the stand-in: with it, KAS_CUDA_PLANS=heuristic and KAS_SIM_MEMORY=268435456, --small runs all parts but
# the peers and `tune`, which sweeps a GPU's caches in front of every launch, on a machine without a GPU.
set -u
cd "$(dirname "$0")/.." || exit 1

# ---- the call -------------------------------------------------------------------------------------------------------

every_part=(build smoke step tests sanitize predict peer-steps search check jit pack peer-kernels layers tune data models
    tests-timed profile train)
declare -A planned=([build]=80 [smoke]=30 [step]=40 [tests]=50 [sanitize]=50 [predict]=90 [peer-steps]=110 [search]=30
    [check]=30 [jit]=20 [pack]=20 [peer-kernels]=0 [layers]=10 [tune]=0 [data]=10 [models]=0 [tests-timed]=0 [profile]=0
    [train]=0)
out='' limit=570 most_of_step=100000 jobs=$((($(nproc) + 1) / 2)) again='' device=cuda dataset='' net='' epochs='' recipe=''
small='' prebuilt='' parts=() all=''
given=("$@")
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 2; }
while [ $# != 0 ]; do
    case $1 in
    -o) out=${2:-} && shift ;;
    -t) limit=${2:-} && shift ;;
    -s) most_of_step=${2:-} && shift ;;
    -j) jobs=${2:-} && shift ;;
    --again) again=1 ;;
    --device) device=${2:-} && shift ;;
    --dataset) dataset=${2:-} && shift ;;
    --net) net=${2:-} && shift ;;
    --epochs) epochs=${2:-} && shift ;;
    --recipe) recipe=${2:-} && shift ;;
    --small) small=1 ;;
    --prebuilt) prebuilt=1 ;;
    bench) parts+=(step jit layers tune data models) ;;
    peers) parts+=(peer-steps peer-kernels) ;;
    all) all=1 ;;
    make-test) parts+=(make-test) ;;
    -h | --help) usage ;;
    *) if [[ $1 == [a-z]* && " ${every_part[*]} " == *" $1 "* ]]; then parts+=("$1"); else
           echo "gpu.sh: unknown part or option \"$1\"; bench/gpu.sh --help" >&2
           exit 2
       fi ;;
    esac
    shift || { echo "gpu.sh: an option lacks its value" >&2; exit 2; }
done
[ -n "$all" ] || [ ${#parts[@]} != 0 ] || usage
for number in "$limit" "$most_of_step" "$jobs" "${epochs:-1}"; do
    [[ $number =~ ^[1-9][0-9]*$ ]] || { echo "gpu.sh: -t, -s, -j and --epochs take a number" >&2; exit 2; }
done
[ "$jobs" -le 8 ] || jobs=8
[ -z "$dataset" ] || [ -f "$dataset" ] || { echo "gpu.sh: there is no data set $dataset" >&2; exit 2; }

# What env.sh finds holds for all that follows.
[ -n "${KAS_GPU_SCRIPT:-}" ] || KAS_GPU_SCRIPT=1 exec ./env.sh bash bench/gpu.sh "${given[@]}"

export BUILD=${BUILD:-build}
export WARN=${WARN--Wall -Wextra} # without -Werror: what a newer compiler warns of is no reason to measure nothing
out=${out:-$BUILD/gpu-results}
mkdir -p "$out/log" || exit 1
out=$(realpath "$out")
call=$$.$(date +%s) # in summary.tsv, of the steps of this call
deadline=$((SECONDS + limit))
until=$deadline # of the part that runs
kas=$BUILD/kas-gpu
python=/usr/bin/python3 # Debian's has torch where python3 in PATH has not
has_torch() { "$python" -c 'import importlib.util as u; raise SystemExit(not u.find_spec("torch"))' 2>/dev/null; }
has_torch || python=python3
export DEVICE=$device KAS_CACHE_DIR=${KAS_CACHE_DIR:-$out/cache}

# ---- steps: one line each in summary.tsv, the last one of a name counts ---------------------------------------------
#
# States: ok, skipped, failed (CODE), timed out (its own limit); and left for the next call: no time (not begun), cut (by
# the end of the part or of the call), to go on (cut, and goes on where it was).
#
# Two steps run again although they were ok: the build (make knows what is left to do), and what made a file that is gone.
# FOLDER may come from another machine, or without its large files.

note() { # name state seconds allowed
    printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$call" "${4:-0}" >>"$out/summary.tsv"
    [ "$2" = "no time" ] || printf '%-40s %-12s %5ss\n' "$1" "$2" "$3"
}

last_of() { # name: state, call and allowed seconds of its last line
    [ -f "$out/summary.tsv" ] && awk -F'\t' -v name="$1" '$1 == name { line = $2 "\t" $4 "\t" $5 } END { print line }' "$out/summary.tsv"
}

skip() { # name reason...
    [[ $(last_of "$1") != skipped*$call* ]] || return
    note "$1" skipped 0
    shift
    echo "    $*"
}

# Is there nothing to do for a step: ok before, or tried in this call, and not cut by a time that was much shorter?
settled() { # name seconds
    local state in_call allowed
    IFS=$'\t' read -r state in_call allowed <<<"$(last_of "$1")"
    if [ "$in_call" = "$call" ]; then
        case $state in
        "no time" | "to go on") return 1 ;;
        cut) [ $((2 * $2)) -le $((3 * allowed)) ] ;;
        *) return 0 ;;
        esac
        return
    fi
    [ -z "$again" ] && [ "$state" = ok ] && printf '%-40s ok before\n' "$1"
}

# step NAME SECONDS COMMAND...   output of a name that ends in .json goes to that file, all else to the log. With goes_on=1
# a step that was cut goes on in the next call, and its output is added to what there is; with goes_on=whole the command
# says what it knows from before itself.
step() {
    local name=$1 most=$2 left=$((until - SECONDS)) cut='' log to begin=$SECONDS rc state
    shift 2
    [ "$most" -le "$most_of_step" ] || most=$most_of_step
    [ "$most" -le "$left" ] || { most=$left && cut=1; }
    settled "$name" "$most" && return
    [ "$left" -ge 3 ] || { note "$name" "no time" 0; return; }
    log=$out/log/$name.log to=$out/log/$name.log
    [[ $name == *.json ]] && to=$out/$name && log=$out/log/${name%.json}.log
    mkdir -p "$(dirname "$log")" "$(dirname "$to")"
    : >"$log"
    allowed=$most timeout -k 10 "$most" "$@" >"$log.new" 2>"$log.err"
    rc=$?
    case ${goes_on:-} in
    '') cat "$log.new" >"$to" ;;
    whole) [ ! -s "$log.new" ] || cat "$log.new" >"$to" ;; # cut before it said anything: what was known stays
    *) cat "$log.new" >>"$to" ;;
    esac
    cat "$log.err" >>"$log" && rm -f "$log.new" "$log.err"
    case $rc in
    0) state=ok ;;
    77) state=skipped ;;
    75 | 124 | 130 | 137 | 143)
        if [ -n "${goes_on:-}" ]; then state="to go on"; elif [ $rc != 75 ] && [ -n "$cut" ]; then state=cut; else state="timed out"; fi ;;
    *) state="failed ($rc)" ;;
    esac
    note "$name" "$state" $((SECONDS - begin)) "$most"
    [ $rc = 0 ] || tail -n 5 "$log" | sed 's/^/    /'
}

# The same for what makes a file or folder, once more when that is gone.
step_for() { # path name seconds command...
    local path=$1
    shift
    if [ -e "$path" ]; then step "$@"; else again=1 step "$@"; fi
}

# The same, several at a time; `wait` for the last ones.
beside() { # name seconds command...
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
    step "$@" &
}

# ---- build and tests ------------------------------------------------------------------------------------------------

describe_machine() {
    {
        date -u
        git log -1 --format='commit %H' 2>/dev/null
        git status --porcelain --untracked-files=no 2>/dev/null | sed 's/^/changed: /'
        uname -a
        command -v nvidia-smi >/dev/null && nvidia-smi
        "$python" -c 'import importlib.metadata as m; print("torch", m.version("torch"))' 2>/dev/null
    } >"$out/machine.txt"
}

# A GPU that is hot, or shared with others, is slower: the clocks right behind a measurement.
note_clocks() { # part
    command -v nvidia-smi >/dev/null || return
    { echo "behind $1, $(date -u)"
      nvidia-smi --query-gpu=clocks.sm,clocks.mem,power.draw,clocks_event_reasons.active --format=csv; } >>"$out/clocks.txt" 2>&1
}

# -k: a test that cannot be built here is no reason to measure nothing. What was brought along is not given to make, to which
# all of it may look old.
part_build() {
    [ -n "$prebuilt" ] && "$kas" doctor --json >"$out/doctor.json" 2>/dev/null && return
    again=1 step build 540 make -k -j"$(nproc)" programs
    [ ! -x "$kas" ] || "$kas" doctor --json >"$out/doctor.json" 2>/dev/null
}

# Programs that open the device of the variable DEVICE, themselves or by a fixture.
device_tests() {
    grep -lE 'DEVICE"|op_case.h|model_fixture.h|agree_fixture.h' tests/ops/*.c tests/jit/*.c tests/unit/*/*.c |
        sed -n 's|\(.*/test_[^/]*\)\.c$|\1|p' | sort
}

# Many programs at once: threads that wait give way to those that work. Plans are not timed: one process times at a time,
# test_conv alone has 558 problems, and which plan was the fastest meanwhile is not what measurements shall use.
patient=(env "OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}" "GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-1000}"
    "KAS_CACHE_DIR=$KAS_CACHE_DIR-tests" KAS_CUDA_PLANS=heuristic)

# What is compiled is the same for both caches, and the built-in kernels alone take half a minute of a core.
share_images() {
    local cache=$KAS_CACHE_DIR/jit
    mkdir -p "$cache" "$KAS_CACHE_DIR-tests/jit"
    cp -au "$cache/." "$KAS_CACHE_DIR-tests/jit/"
    cp -au "$KAS_CACHE_DIR-tests/jit/." "$cache/"
}

run_tests() { # program...
    local test
    share_images
    for test; do beside "$test" 300 "${patient[@]}" "$BUILD/$test"; done
    wait
    share_images
}

# What would make every figure worthless is known before the first one.
part_smoke() {
    beside smoke/sampled 60 "$kas" check --sampled 4 --device "$device" --directions 0
    run_tests tests/ops/test_batch_norm tests/ops/test_conv
}

part_tests() {
    # shellcheck disable=SC2046 # words
    run_tests $(device_tests)
}

part_tests_timed() {
    local test
    for test in test_conv test_conv_epilogue; do
        step "tests-timed/$test" 400 "${patient[@]}" KAS_CUDA_PLANS=timed "$BUILD/tests/ops/$test"
    done
}

part_make_test() {
    local test
    for test in tests/*/test_*.c tests/unit/*/test_*.c; do beside "${test%.c}" 300 "${patient[@]}" "$BUILD/${test%.c}"; done
    for test in tests/e2e/*.sh; do
        KAS_GPU=$kas KAS_BUILD=$BUILD beside "e2e/$(basename "$test" .sh)" 400 "${patient[@]}" bash "$test"
    done
    wait
}

# Only what shows races, stray accesses and unset memory: calls that tests make fail on purpose are no errors here.
sanitize() { # tool name command...
    local tool=$1 name=$2
    shift 2
    [[ $name != ops/* ]] || set -- "${ours[@]}" "$@"
    beside "$tool/$name" 400 "${patient[@]}" compute-sanitizer --tool "$tool" --error-exitcode 9 \
        --report-api-errors no "$@"
}

# A machine's GPU may be of a kind, or behind a virtual machine, that compute-sanitizer cannot watch.
sanitizer_works() {
    command -v compute-sanitizer >/dev/null || {
        skip sanitize "compute-sanitizer is not on this machine (it comes with the CUDA toolkit)"
        return 1
    }
    # Of the operations' tests only our kernels are watched: what NVIDIA's do takes most of the time, and is not our fault.
    ours=()
    ! compute-sanitizer --help 2>&1 | grep -q -- --kernel-regex || ours=(--kernel-regex kns=kas_dev_)
    sanitize memcheck sampled "$kas" check --sampled 4 --device "$device" --directions 0
    wait
    ! grep -q 'Device not supported' "$out/log/memcheck/sampled.log" || {
        skip sanitize "compute-sanitizer: \"Device not supported\""
        note memcheck/sampled skipped 0
        return 1
    }
}

part_sanitize() {
    local tool test ours
    share_images
    sanitizer_works || return
    for test in $(device_tests | grep -vE '/test_(dtype|device|group)$'); do # these launch no kernel
        sanitize memcheck "${test#tests/}" "$BUILD/$test"
    done
    # Shared memory, barriers and scratch memory that nobody clears: in sums, and in what is generated.
    for tool in racecheck initcheck synccheck; do
        sanitize "$tool" sampled "$kas" check --sampled 4 --device "$device" --directions 0
        for test in batch_norm layer_norm loss pool; do sanitize "$tool" ops/test_$test "$BUILD/tests/ops/test_$test"; done
    done
    wait
    share_images
}

# In the portions that a short time has room for: a kernel costs some seconds of one core, compiling and the reference.
# What the reference itself computes is held against finite differences on machines without a GPU.
part_check() {
    local portions=50 kernels=6 portion jobs
    [ -z "$small" ] || portions=2 kernels=2
    jobs=$(nproc)
    for portion in $(seq "$portions"); do
        beside "check/$portion.json" 200 "$kas" check --sampled "$kernels" --seed "$portion" --directions 0 --threads 1 \
            --device "$device" --json
    done
    wait
}

# ---- our own figures ------------------------------------------------------------------------------------------------

tiny=()
[ -z "$small" ] || tiny=(--net resnet20 --input 3x8x8 --batch 2)
bench() { # name seconds suite option...
    local name=$1 seconds=$2
    shift 2
    step "$name" "$seconds" "$kas" bench "$@" --device "$device" --json
}

part_step() {
    local options=(--net resnet18 --batch 512)
    [ -z "$small" ] || options=("${tiny[@]}" --repeats 2)
    for precision in bf16 tf32; do
        bench bench-step-$precision.json 120 step "${options[@]}" --passes --precision $precision
    done
    bench bench-step-times.json 120 step "${options[@]}" --times --precision bf16
    bench bench-step.json 120 step ${tiny[@]:+"${tiny[@]}"}
    note_clocks step
}

part_models() {
    local options=()
    [ -z "$small" ] || options=("${tiny[@]}" --repeats 2)
    for precision in bf16 tf32; do
        bench bench-models-$precision.json 400 models ${options[@]:+"${options[@]}"} --precision $precision
    done
}

part_layers() {
    local options=()
    [ -z "$small" ] || options=("${tiny[@]}" --repeats 1 --kernel kernels/depthwise_separable.json)
    bench bench-layers.json 400 layers ${options[@]:+"${options[@]}"} --precision bf16
}

# What a call has tuned is in the cache, so a kernel that was cut goes on with the next of its launches.
part_tune() {
    local kernel kernels=(kernels/*.json) options=(--net resnet18 --batch 64)
    [ -z "$small" ] || kernels=(kernels/squeeze_excite.json) options=("${tiny[@]}" --layer layer1.0.conv1 --trials 8)
    for kernel in "${kernels[@]}"; do
        goes_on=whole step "tune/$(basename "$kernel")" 400 "$kas" tune "$kernel" "${options[@]}" --device "$device" --json
    done
}

is_profiled() {
    settled profile/ncu 400 && { [ -e "$out/profile.csv" ] || [ "$(last_of profile/ncu | cut -f 1)" != ok ]; }
}

profile() { # option of `kas-gpu bench step`...
    local metrics=gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum
    # Plans are timed and kept beforehand: under ncu they would be timed wrongly.
    again=1 step profile/plans 120 "$kas" bench step "$@"
    [ "$(last_of profile/plans | cut -f 1)" = ok ] || return
    rm -f "$out/profile.csv"
    again=1 step profile/ncu 400 ncu --clock-control none --cache-control none --csv --page raw --print-units base \
        --log-file "$out/profile.csv" --metrics "$metrics" "$kas" bench step "$@"
    grep -qsE 'ERR_NVGPUCTRPERM|Failed to initialize the profiler' "$out/profile.csv" || return
    note profile/ncu skipped 0
    skip profile "ncu may not read this GPU's counters: $(grep -m 1 '^==ERROR==' "$out/profile.csv")"
}

part_profile() {
    local options=(--net resnet18 --batch 512 --precision bf16)
    [ -z "$small" ] || options=("${tiny[@]}")
    command -v ncu >/dev/null || { skip profile "ncu (Nsight Compute) is not on this machine"; return; }
    is_profiled || profile "${options[@]}" --repeats 1 --device "$device"
    [ "$(last_of profile/ncu | cut -f 1)" != ok ] ||
        again=1 step profile/table 20 "$python" bench/profile_table.py "$out/profile.csv"
}

part_predict() {
    local sizes=(-n resnet18)
    [ -z "$small" ] || sizes=(-k 2 -c 8 -i 3x8x8)
    [ -z "$again" ] || rm -rf "$out/predict"
    goes_on=whole step predict 100000 bash -c 'exec "$@" -t $((allowed > 60 ? allowed - 30 : allowed))' - \
        bench/studies/predict.sh -o "$out/predict" -D "$device" "${sizes[@]}"
}

part_jit() {
    local options=(--net resnet18)
    [ -z "$small" ] || options=(--net resnet20 --batch 2 --repeats 1)
    step bench-jit.json 200 "$kas" bench jit "${options[@]}" --json # it compiles, and no device runs that
}

part_data() {
    local options=()
    [ -z "$small" ] || options=(--repeats 1)
    bench bench-data.json 200 data ${options[@]:+"${options[@]}"}
}

# ---- what needs images ----------------------------------------------------------------------------------------------

# Sets `images` to the data set; fails when there is none.
need_images() {
    local sizes=(--train 10000 --test 1000 --size 32 --classes 10)
    [ -z "$small" ] || sizes=(--train 64 --test 16 --size 8 --classes 4)
    images=$dataset
    [ -z "$images" ] || return 0
    images=$out/shapes.h5
    [ "$(last_of images | cut -f 1)" = ok ] || rm -f "$images"
    step_for "$images" images 120 "$kas" dataset make shapes -o "$images" "${sizes[@]}"
    [ "$(last_of images | cut -f 1)" = ok ]
}

part_pack() {
    local turn n=8 options=()
    [ -z "$small" ] || n=2 options=(--batch 16 --epochs 1 --candidates 2)
    need_images || return
    for turn in 1 2 3; do
        KAS_GPU=$kas step pack-$turn.json 300 bench/pack.sh "$images" $n 1 --device "$device" ${options[@]:+"${options[@]}"}
    done
}

part_search() {
    local sizes=(--net "${net:-resnet18}" --candidates 12 --epochs 3 --batch 128 --precision bf16 --latency 0)
    [ -z "$small" ] || sizes=(--net resnet20 --candidates 2 --epochs 1 --batch 16 --latency 0)
    [ -z "$again" ] || rm -rf "$out/study"
    need_images || return
    goes_on=1 step search.json 100000 "$kas" search --dataset "$images" --study "$out/study" "${sizes[@]}" --device "$device" --json
}

part_train() {
    local sizes=(--net "${net:-resnet18}" --precision bf16) how=()
    [ -z "$small" ] || sizes=(--net resnet20 --batch 16)
    if [ -n "$recipe" ]; then how=(--recipe "$recipe"); elif [ -z "$small" ]; then how=(--batch 128); fi
    if [ -n "$epochs" ]; then how+=(--epochs "$epochs"); elif [ -z "$recipe" ]; then how+=(--epochs 3); fi
    [ -z "$again" ] || rm -f "$out/train.checkpoint" "$out/train.json"
    need_images || return
    goes_on=1 step train.json 100000 "$kas" train --dataset "$images" --device "$device" "${sizes[@]}" \
        ${how[@]:+"${how[@]}"} --checkpoint "$out/train.checkpoint" --test --json
}

# ---- beside PyTorch -------------------------------------------------------------------------------------------------

need_torch() { # part
    has_torch || { skip "$1" "no python3 with torch"; return 1; }
}

# A variant of PyTorch that was measured is not measured again.
peer_step() { # name precision net-or-option...
    local name=$1 precision=$2
    shift 2
    goes_on=whole step "peer-step-$name.json" 400 "$python" bench/peers/step.py "$@" --device "${device%%:*}" \
        --precision "$precision" --json --resume "$out/peer-step.rows"
}

part_peer_steps() {
    local nets=(resnet20 mobilenet_v2) sizes=() batch=8 torch_device=${device%%:*} precisions=(bf16 tf32 fp32)
    need_torch peer-steps || return
    export TORCHINDUCTOR_CACHE_DIR=$out/cache/inductor
    [ -z "$small" ] || nets=() sizes=(--input 3x8x8 --batch 4 --rounds 2 --slice 0.05) batch=4
    [ "$torch_device" = cuda ] || precisions=(fp32)
    [ -z "$again" ] || rm -f "$out/peer-step.rows"
    step peers/network-step 200 "$python" bench/peers/network_step.py --dump "$BUILD/bench/step_dump" --net resnet20 \
        --part device --device "$device" --batch "$batch" --steps 2
    [ "$torch_device" != cuda ] || for precision in bf16 tf32; do
        peer_step "$precision-graphs" "$precision" resnet18 ${sizes[@]:+"${sizes[@]}"} --variants graph,compile-graph
    done
    note_clocks peer-steps
    [ "$round" = unplanned ] || return # max-autotune takes minutes, and these are figures already
    for precision in "${precisions[@]}"; do
        peer_step "$precision" "$precision" resnet18 ${sizes[@]:+"${sizes[@]}"}
    done
    [ ${#nets[@]} = 0 ] || peer_step more "${precisions[0]}" "${nets[@]}"
}

part_peer_kernels() {
    local sizes=(--net resnet18 --layer layer2.0.conv2 --batch 128) count=200 kernels
    need_torch peer-kernels || return
    [ -z "$small" ] || sizes=(--net resnet20 --batch 4 --rounds 2 --slice 0.01) count=2
    [ -z "$again" ] || rm -f "$out/peer-kernels.rows"
    step_for "$out/kernels" peers/sample 60 "$kas" sample --net "${sizes[1]}" --count "$count" --flops 1 --params 1 -o "$out/kernels"
    mapfile -t kernels < <(compgen -G "$out/kernels/*.json" | head -n $count)
    [ ${#kernels[@]} != 0 ] || return
    # What it has found by then it writes itself, a little before it would be cut; its lines are of all calls.
    goes_on=whole step peer-kernels.json 100000 bash -c 'exec "$@" --limit-seconds $((allowed > 30 ? allowed - 8 : allowed))' - \
        "$python" bench/peers/kernels.py "${kernels[@]}" --device "$device" "${sizes[@]}" --json \
        --cache "$out/cache/inductor" --resume "$out/peer-kernels.rows"
}

# ---- the parts in turn ----------------------------------------------------------------------------------------------

run_parts() { # planned or not
    local part round=$1
    for part in "${parts[@]}"; do
        [ "$part" = build ] || [ -x "$kas" ] || { unbuilt=1 && echo "== $part: there is no $kas; the part build makes it" && continue; }
        until=$deadline
        [ "$round" != planned ] || [ "$part" = build ] || until=$((SECONDS + planned[$part])) # without it there is nothing
        [ $until -le $deadline ] || until=$deadline
        echo "== $part"
        "part_${part//-/_}"
    done
}

unbuilt=''
describe_machine
[ ${#parts[@]} = 0 ] || run_parts unplanned
if [ -n "$all" ]; then
    parts=("${every_part[@]}")
    run_parts planned
    [ $((deadline - SECONDS)) -lt 10 ] || run_parts unplanned
fi

# ---- summing up -----------------------------------------------------------------------------------------------------

awk -F'\t' '{ if (!($1 in state)) name[n++] = $1; state[$1] = $2; time[$1] = $3 }
    function kind(s) { return s == "ok" || s == "skipped" ? s : s == "no time" || s == "cut" || s == "to go on" ? "left" : "failed" }
    END { for (i = 0; i < n; i++) { s = state[name[i]]; count[kind(s)]++; printf "%-40s %-12s %5ss\n", name[i], s, time[name[i]] }
          printf "\n%d ok, %d failed, %d skipped, %d left for want of time\n", count["ok"], count["failed"], count["skipped"],
              count["left"] }' "$out/summary.tsv" >"$out/summary.txt"
sum=$(tail -n 1 "$out/summary.txt")
echo
if command -v "$python" >/dev/null; then
    "$python" bench/headline.py "$out" 2>&1 | tee -a "$out/summary.txt"
else
    echo "no python3: the figures beside their aims are left out" | tee -a "$out/summary.txt"
fi
echo
echo "$sum"
echo "results: $out (summary.txt, *.json, log/)"
[[ -z $unbuilt && $sum == *" 0 failed, "*" 0 left "* ]]
