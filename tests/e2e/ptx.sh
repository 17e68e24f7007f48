#!/usr/bin/env bash
# The GPU's own code, executed (docs/ptx.md): the PTX that NVRTC makes of sampled kernels, against the float64 reference,
# and of a training of ResNet-20, against the CPU device; with the stand-in's libraries and, they refused, without.
set -eu
. tests/e2e/expect.bash
sim=${KAS_SIM_LIBRARY:-$PWD/build/tests/libkas_cuda_sim.so}
[ -f "$sim" ] || { echo "SKIPPED: $sim is not built (make test builds it)"; exit 77; }
export KAS_CUDA_PLANS=heuristic # the stand-in's time says nothing
kernels=${KAS_PTX_KERNELS:-50}
ptx() { env KAS_CUDA_LIBS="$sim" KAS_CUDA_SIM=ptx "$@"; }

rc=0
ptx "$kas" doctor >"$dir/doctor" 2>&1 || rc=$?
[ $rc != 77 ] || { tail -n 1 "$dir/doctor"; exit 77; }
[ $rc = 0 ] || fail "doctor: exit code $rc: $(cat "$dir/doctor")"

for precision in fp32 bf16; do
    refuse=
    [ $precision = fp32 ] || refuse=cublasLt,cudnn
    ptx KAS_SIM_REFUSE=$refuse "$kas" check --sampled "$kernels" --seed 7 --shapes 1 --net resnet20 --input 3x8x8 --device cuda \
        --directions 0 --precision $precision >"$dir/check" 2>&1 || fail "$precision: $(tail -n 5 "$dir/check")"
    grep '^largest errors' "$dir/check"
    grep -q "^kernels: $kernels; .*failures: 0" "$dir/check" || fail "$precision: $(tail -n 5 "$dir/check")"
    echo "ok: $kernels sampled kernels in $precision${refuse:+, $refuse refused}"
done

# Shared memory: filled in front of a block's rows, and in each turn of a reduction with virtual threads inside the lanes.
printf '%s\n' 'layer layer2.0.conv1' 'device cuda' 'batch 2' 'kernel f5' 'lane h' 'rows c0 16' 'block n x' 'block w y' 'serial q' \
    'stage c0 16' 'kernel b2' 'split r0 8' 'lane n' 'vthread q' 'around r0/8' 'stage r0%8 8' >"$dir/staged"
ptx KAS_PTX_REPORT="$dir/counts" "$kas" check kernels/squeeze_excite.json --net resnet20 --input 3x8x8 --device cuda --directions 0 \
    --schedule "$dir/staged" >"$dir/check" 2>&1 || fail "staged: $(tail -n 5 "$dir/check")"
grep -q 'ok, bits as by the default schedules' "$dir/check" || fail "staged: $(cat "$dir/check")"
for kernel in k0_f5 k0_b2; do
    grep "\"kernel\":\"$kernel\"" "$dir/counts" | grep -q '"shared":[1-9]' || fail "$kernel: $(cat "$dir/counts")"
done
echo "ok: staged in shared memory"

# The same, with what the next turn reads under way during this one.
sed 's/^stage r0%8 8$/&\nprefetch r0%8/' "$dir/staged" >"$dir/ahead"
grep -q '^prefetch' "$dir/ahead" || fail "ahead: nothing was staged as expected"
ptx "$kas" check kernels/squeeze_excite.json --net resnet20 --input 3x8x8 --device cuda --directions 0 --schedule "$dir/ahead" \
    >"$dir/check" 2>&1 || fail "ahead: $(tail -n 5 "$dir/check")"
grep -q 'ok, bits as by the default schedules' "$dir/check" || fail "ahead: $(cat "$dir/check")"
echo "ok: staged one turn ahead"

# Parts of a sum: each row of threads has its own, and they meet in shared memory.
printf '%s\n' 'layer layer2.0.conv1' 'device cuda' 'batch 2' 'kernel f1' 'fuse q c0' 'lane q*c0' 'rfactor r0' 'block n x' 'unroll r1' \
    'kernel b2' 'split r0 4' 'interchange r0/4 r0%4' 'lane n' 'rfactor r0%4' 'serial q' >"$dir/parts"
ptx KAS_PTX_REPORT="$dir/part_counts" "$kas" check kernels/squeeze_excite.json --net resnet20 --input 3x8x8 --device cuda \
    --directions 0 --schedule "$dir/parts" >"$dir/check" 2>&1 || fail "parts: $(tail -n 5 "$dir/check")"
grep -q 'ok, bits other than (sums have another order) by the default' "$dir/check" || fail "parts: $(cat "$dir/check")"
for kernel in k0_f1 k0_b2; do
    grep "\"kernel\":\"$kernel\"" "$dir/part_counts" | grep -q '"shared":[1-9]' || fail "$kernel: $(cat "$dir/part_counts")"
done
echo "ok: parts of sums"

"$kas" dataset make shapes -o "$dir/s.h5" --train 20 --test 8 --size 8 --classes 4 >/dev/null
train() { # out device precision [VARIABLE=value...]
    local out=$dir/$1 device=$2 precision=$3
    shift 3
    env "$@" "$kas" train --net resnet20 --dataset "$dir/s.h5" --device "$device" --precision "$precision" --batch 8 --lr 0.01 \
        --epochs 1 --seed 3 --json >"$out" 2>"$out.err" || fail "$device $*: $(cat "$out.err")"
}
figures() { sed -n 's/.*"event":"epoch".*"train_loss":\([0-9.e-]*\),.*"validation_loss":\([0-9.e-]*\),.*/\1 \2/p' "$dir/$1"; }
agree() { # out other tolerance
    paste <(figures "$1") <(figures "$2") | awk -v most="$3" -v what="$1" '
        { for (i = 1; i <= 2; i++) { d = ($i - $(i + 2)) / $i; d = d < 0 ? -d : d; worst = d > worst ? d : worst }; n += NF }
        END { printf "%s: largest relative difference to the CPU %.3g, tolerance %g\n", what, worst, most; exit !(n == 4 && worst <= most) }' ||
        fail "$1: $(figures "$1"), CPU $(figures "$2")"
}
for precision in fp32 bf16; do
    tolerance=1e-4
    [ $precision = fp32 ] || tolerance=0.02
    train cpu_$precision cpu $precision
    train libraries_$precision cuda $precision KAS_CUDA_LIBS="$sim" KAS_CUDA_SIM=ptx KAS_PTX_REPORT="$dir/report"
    train own_$precision cuda $precision KAS_CUDA_LIBS="$sim" KAS_CUDA_SIM=ptx KAS_SIM_REFUSE=cublasLt,cudnn
    agree libraries_$precision cpu_$precision $tolerance
    agree own_$precision cpu_$precision $tolerance
done
echo "ok: ResNet-20 trains as on the CPU device"
grep -q '"kernel":"kas_dev_norm_gradient' "$dir/report" || fail "no counts of batch norm: $(head -n 3 "$dir/report")"
grep -q '"launches":[1-9][0-9]*,"products_not_covered":[1-9][0-9]*,"convolutions_not_covered":[1-9]' "$dir/report" ||
    fail "the report does not say what was not covered: $(tail -n 1 "$dir/report")"
echo "ok: the report of counts"
