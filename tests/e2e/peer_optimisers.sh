#!/usr/bin/env bash
# The optimisers' float64 reference against PyTorch's (bench/peers/update.py), wherever a python with torch is.
set -eu
. tests/e2e/torch.bash
need_torch
build=${KAS_BUILD:-build}
make -s BUILD="$build" "$build/bench/update_dump"
exec "$python" bench/peers/update.py --dump "$build/bench/update_dump"
