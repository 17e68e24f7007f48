#!/usr/bin/env bash
# A network with a layer of every kind, and MobileNet-V2, in our float64 reference and on the device against PyTorch in
# double, the PyTorch module generated from the network (bench/peers/network_step.py). All networks:
# bench/peers/networks.sh.
set -eu
. tests/e2e/torch.bash
need_torch
build=${KAS_BUILD:-build}
need_program "$build/bench/step_dump"
compare() {
    "$python" bench/peers/network_step.py --dump "$build/bench/step_dump" "$@"
}
compare --net ./tests/networks/zoo.json --input 3x13x10 --batch 6 --steps 3
compare --net mobilenet_v2:small=0 --input 3x32x32 --batch 8 --runs 1 --steps 1
echo "ok: a layer of every kind, and MobileNet-V2"
