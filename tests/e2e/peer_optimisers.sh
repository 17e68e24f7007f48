#!/usr/bin/env bash
# The optimisers' float64 reference against PyTorch's (bench/peers/update.py), wherever a python with torch is.
set -eu
build=${KAS_BUILD:-build}
make -s BUILD="$build" "$build/bench/update_dump"
for python in /usr/bin/python3 python3; do
    if "$python" -c 'import torch' 2>/dev/null; then
        exec "$python" bench/peers/update.py --dump "$build/bench/update_dump"
    fi
done
echo "SKIPPED: no python with torch (Debian: apt-get install python3-torch)"
exit 77
