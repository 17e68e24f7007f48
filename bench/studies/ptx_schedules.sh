#!/usr/bin/env bash
# Study: schedules drawn at random for GPU programs of sampled kernels, through the executor of PTX (docs/ptx.md), against the
# float64 reference.
#
#   ptx_schedules.sh [KERNELS]        default 70: three schedules for each launch of each, forward and gradients
#
# Half of the kernels run with the stand-in's libraries, half without, so that our own kernels for them run. Prints for each half
# the comparisons, the steps that the schedules have, and the largest errors; a finding of the executor ends its half, and the
# exit code is 1. Needs a build with the tests, and NVRTC.
set -u
build=${BUILD:-build}
kernels=${1:-70}
rc=0
for refuse in '' cublasLt,cudnn; do
    echo "libraries refused: ${refuse:-none}"
    env DEVICE=cuda KAS_CUDA_LIBS="$build/tests/libkas_cuda_sim.so" KAS_CUDA_SIM=ptx KAS_CUDA_PLANS=heuristic KAS_SIM_REFUSE=$refuse \
        KAS_TEST_KERNELS=$((kernels / 2)) KAS_TEST_SEED=$((31 + ${#refuse})) "$build/tests/jit/test_schedules" || rc=1
done
exit $rc
