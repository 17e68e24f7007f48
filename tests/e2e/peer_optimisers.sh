#!/usr/bin/env bash
# The optimisers' float64 reference against PyTorch's (bench/peers/update.py), wherever a python with torch is.
set -eu
. tests/e2e/torch.bash
need_torch
build=${KAS_BUILD:-build}
need_program "$build/bench/update_dump"
"$python" bench/peers/update.py --dump "$build/bench/update_dump"
echo "ok: the optimisers"
