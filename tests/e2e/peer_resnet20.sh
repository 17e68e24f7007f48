#!/usr/bin/env bash
# Training steps of ResNet-20 against PyTorch in double (bench/peers/resnet20_step.py), wherever a python with torch is.
set -eu
build=${KAS_BUILD:-build}
part=${1:-all}
make -s BUILD="$build" "$build/bench/step_dump"
for python in /usr/bin/python3 python3; do
    if "$python" -c 'import torch' 2>/dev/null; then
        exec "$python" bench/peers/resnet20_step.py --dump "$build/bench/step_dump" --part "$part" --batch 4
    fi
done
echo "SKIPPED: no python with torch (Debian: apt-get install python3-torch)"
exit 77
