#!/usr/bin/env bash
# What a training step pays for the look at every number that it writes (KAS_WATCH_VALUE in src/cuda/kernels/wide.h), in
# instructions:
#
#   bench/studies/watch_cost.sh WORK     builds the present commit twice in the new folder WORK, once without the look
#
# valgrind counts a training of ResNet-20 at 3x8x8, batch 32, one thread, with one epoch and with two; their difference is an epoch.
# Larger images make the step larger and not the look. Both are built for x86-64-v3 and oneDNN is told so, because valgrind knows
# no AVX-512.
set -eu
[ $# = 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
root=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
mkdir "$1" && cd "$1"
export KAS_CACHE_DIR=$PWD/cache OMP_WAIT_POLICY=passive
for build in with without; do
    git clone -q "$root" $build
    [ $build = with ] || sed -i 's/^#define KAS_WATCH_VALUE(found, name) .*/#define KAS_WATCH_VALUE(found, name)/' without/src/cuda/kernels/wide.h
    make -C $build MARCH=x86-64-v3 all >$build.log 2>&1
done
with/kas-gpu dataset make shapes -o d.h5 --train 352 --test 32 --size 8 --classes 10 >/dev/null
for build in with without; do
    for epochs in 1 2; do
        count=$(DNNL_MAX_CPU_ISA=AVX2 valgrind --tool=callgrind --callgrind-out-file=/dev/null $build/kas-gpu train --net resnet20 \
            --dataset d.h5 --epochs $epochs --batch 32 --seed 1 --validation 0.1 -T 1 --device cpu 2>&1 | sed -n 's/.*Collected : //p')
        echo "$build, epochs $epochs: $count instructions"
    done
done
