# Shared by the scripts that compare networks with PyTorch; sourced. What expect.bash and torch.bash set, or the script is
# skipped.
. tests/e2e/expect.bash
. tests/e2e/torch.bash
need_torch
export PYTHONDONTWRITEBYTECODE=1

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
