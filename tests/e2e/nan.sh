#!/usr/bin/env bash
# A network with NaN among its weights is refused by export, and the rules for NaN that the reference follows are PyTorch's.
set -eu
. tests/e2e/expect.bash
. tests/e2e/torch.bash
kas=${KAS_BUILD:-build}/kas-gpu

"$kas" export kernels/involution.json --input 3x9x9 -o "$dir/whole" --quiet >/dev/null
# The last 4 bytes of the file are a float32 of the last tensor.
head -c -4 "$dir/whole/weights.safetensors" >"$dir/nan.safetensors"
printf '\000\000\300\177' >>"$dir/nan.safetensors"
if "$kas" export kernels/involution.json --input 3x9x9 --weights "$dir/nan.safetensors" -o "$dir/broken" --verify --quiet \
    >"$dir/out" 2>&1; then
    fail "weights with NaN were exported"
fi
grep -q 'nan.safetensors: tensor ".*" holds nan at element .*expected finite numbers' "$dir/out" ||
    { cat "$dir/out"; fail "the message does not name the tensor"; }
echo "ok: weights with NaN are refused"

need_torch
"$python" - <<'END'
import torch
import torch.nn.functional as F
nan = float("nan")
x = torch.tensor([nan, 1.0] * 16, requires_grad=True)
for f in (torch.relu, F.relu6, torch.sigmoid, F.hardsigmoid, F.silu, F.hardswish, F.gelu, torch.abs, torch.exp, torch.tanh,
          lambda v: v.clamp(max=8), lambda v: torch.softmax(v.reshape(16, 2), 0).flatten()):
    assert f(x)[0::2].isnan().all() and not f(x)[1::2].isnan().any()
assert torch.autograd.grad(torch.relu(x).sum(), x)[0][0::2].eq(1).all()
a, b = torch.tensor([nan, 1, nan, 2], requires_grad=True), torch.tensor([1, nan, nan, 3.0], requires_grad=True)
for f in (torch.maximum, torch.minimum):
    y = f(a, b)
    assert y[:3].isnan().all() and not y[3].isnan()
    assert all(g[:3].eq(1).all() for g in torch.autograd.grad(y.sum(), (a, b)))
p = torch.tensor([[[[1, nan, 2, nan]]]], requires_grad=True)
y = F.max_pool2d(p, (1, 4))
assert y.isnan().all() and torch.autograd.grad(y.sum(), p)[0].flatten().tolist() == [0, 0, 0, 1]  # the last NaN
y = p.max(3).values
assert y.isnan().all() and torch.autograd.grad(y.sum(), p)[0].flatten().tolist() == [0, 1, 0, 0]  # the first
assert F.dropout(torch.full((64,), nan)).isnan().all()
END
echo "ok: NaN in PyTorch $("$python" -c 'import torch; print(torch.__version__)')"
