# Shared by the scripts that compare networks with PyTorch; sourced. Sets dir, kas, python (with PyTorch, or the script
# is skipped).
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
kas=$(readlink -f "${KAS_GPU:-./kas-gpu}")
export PYTHONDONTWRITEBYTECODE=1
fail() { echo "FAILED: $*"; exit 1; }

for python in /usr/bin/python3 python3; do "$python" -c 'import torch.fx' 2>/dev/null && break || python=; done
[ -n "$python" ] || { echo "SKIPPED: no python with torch (Debian: apt-get install python3-torch)"; exit 77; }

# Does --net NETWORK compute what the model computes?
same_logits() { # network model arguments shape
    "$kas" export kernels/depthwise_separable.json --net "$1" --input "$4" --classes 10 --flops 1e6 --params 1e6 \
        -o "$dir/export" >/dev/null 2>"$dir/err" || { cat "$dir/err"; fail "$1 was not exported"; }
    "$python" tests/e2e/from_pytorch_logits.py "$2" "$3" "$4" "$dir/export" || fail "$1 gives other logits than $2"
    rm -r "$dir/export"
}

# The same by way of a file that from_pytorch.py makes.
convert() { # model arguments shape
    "$python" networks/from_pytorch.py "$1" --arguments "$2" --input "$3" -o "$dir/net.json" --check "$kas" >"$dir/out" 2>&1 ||
        { cat "$dir/out"; fail "$1 was not converted"; }
    cat "$dir/out"
    same_logits "$dir/net.json" "$1" "$2" "$3"
}
