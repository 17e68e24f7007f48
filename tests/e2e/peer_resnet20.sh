#!/usr/bin/env bash
# One training step of ResNet-20 in our float64 reference against PyTorch in double (bench/peers/network_step.py), the
# PyTorch module written by hand, wherever a python with torch is. The device's steps: peer_resnet20_device.sh.
# Other networks: peer_networks.sh.
set -eu
build=${KAS_BUILD:-build}
part=${1:-reference}
make -s BUILD="$build" "$build/bench/step_dump"
for python in /usr/bin/python3 python3; do
    if "$python" -c 'import torch' 2>/dev/null; then
        exec "$python" bench/peers/network_step.py --dump "$build/bench/step_dump" --module bench/peers/resnet20.py \
            --part "$part" --batch 4
    fi
done
echo "SKIPPED: no python with torch (Debian: apt-get install python3-torch)"
exit 77
