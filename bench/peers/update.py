#!/usr/bin/env python3
"""Are our optimisers PyTorch's?  Random parameters and gradients, ten steps in double, of torch.optim and of our
float64 reference (which the device is compared with in tests/ops/test_update.c).

  python3 bench/peers/update.py --dump build/bench/update_dump

Error: largest |ours - PyTorch's| of a parameter after any step, divided by the largest parameter.  Exit code 1 when
one exceeds 1e-12, 77 when torch is missing.
"""
import argparse
import os
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    print("SKIPPED: this python has no torch (Debian: apt-get install python3-torch, run with /usr/bin/python3)")
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import safetensors  # noqa: E402  (the file beside this one)

STEPS, COUNT, TOLERANCE = 10, 500, 1e-12
LR, MOMENTUM, BETA1, BETA2, EPSILON = 0.1, 0.9, 0.8, 0.99, 1e-6
OPTIMISERS = ["nesterov", "sgd", "adamw"]


def theirs(name, param, grad, decay, clip):
    p = torch.nn.Parameter(param.clone())
    if name == "adamw":
        optimiser = torch.optim.AdamW([p], lr=LR, betas=(BETA1, BETA2), eps=EPSILON, weight_decay=decay)
    else:
        optimiser = torch.optim.SGD([p], lr=LR, momentum=MOMENTUM, nesterov=name == "nesterov", weight_decay=decay)
    history = []
    for g in grad:
        p.grad = g.clone()
        if clip:
            torch.nn.utils.clip_grad_norm_([p], clip)
        optimiser.step()
        history.append(p.detach().clone())
    return torch.stack(history)


def ours(dump, folder, name, param, grad, decay, clip):
    options = [OPTIMISERS.index(name), LR, MOMENTUM, BETA1, BETA2, EPSILON, decay, clip, STEPS]
    into, out = os.path.join(folder, "in"), os.path.join(folder, "out")
    safetensors.write(into, {"param": param, "grad": grad, "options": torch.tensor(options, dtype=torch.float64)})
    subprocess.run([dump, into, out], check=True)
    return safetensors.read(out)["param"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", required=True)
    dump = parser.parse_args().dump
    torch.manual_seed(1)
    param = torch.randn(COUNT, dtype=torch.float64)
    grad = torch.randn(STEPS, COUNT, dtype=torch.float64)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name in OPTIMISERS:
            for decay, clip in ((0.0, 0.0), (0.05, 0.0), (0.05, 3.0)):
                want = theirs(name, param, grad, decay, clip)
                got = ours(dump, folder, name, param, grad, decay, clip)
                error = ((got - want).abs().max() / want.abs().max()).item()
                print(f"{name:9} decay {decay:<4} clip {clip}: error {error:.1e}, tolerance {TOLERANCE:.0e}")
                failed |= not error <= TOLERANCE
    sys.exit(1 if failed else 0)


main()
