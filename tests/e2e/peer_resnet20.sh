#!/usr/bin/env bash
# One training step of ResNet-20 in our float64 reference against PyTorch in double (bench/peers/network_step.py), the
# PyTorch module written by hand, wherever a python with torch is. The device's steps: peer_resnet20_device.sh.
# Other networks: peer_networks.sh.
set -eu
. tests/e2e/torch.bash
need_torch
build=${KAS_BUILD:-build}
part=${1:-reference}
need_program "$build/bench/step_dump"
"$python" bench/peers/network_step.py --dump "$build/bench/step_dump" --module bench/peers/resnet20.py --part "$part" --batch 4
echo "ok: ResNet-20, $part"
