#!/usr/bin/env python3
"""Does an exported network compute what the PyTorch model computes that its file was converted from?

    python3 from_pytorch_logits.py MODULE:FUNCTION ARGUMENTS CxHxW FOLDER

FOLDER is what `kas-gpu export KERNEL --net FILE` wrote: the network as kas-gpu has read it. The model's convolutions go
back in the place of the kernels, the model's weights into everything else; then the logits must be the model's.
"""
import json
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "networks"))
from from_pytorch import load  # noqa: E402

spec, arguments, shape, folder = sys.argv[1:]
sys.path.insert(0, folder)
from network import Kernel, Network  # noqa: E402

torch.manual_seed(0)
model = load(spec, json.loads(arguments)).double().eval()
for module in model.modules():  # statistics that a mistake would not survive
    if isinstance(module, torch.nn.BatchNorm2d):
        module.running_mean.normal_(0, 0.1)
        module.running_var.uniform_(0.5, 1.5)
ours = Network().double().eval()
replaced = [name for name, module in ours.named_modules() if isinstance(module, Kernel)]
for name in replaced:
    parent, _, last = name.rpartition(".")
    ours.get_submodule(parent).add_module(last, model.get_submodule(name))
ours.load_state_dict(model.state_dict())
images = torch.randn(2, *map(int, shape.split("x")), dtype=torch.float64)
with torch.no_grad():
    expected, found = model(images), ours(images)
error = ((found - expected).abs().max() / expected.abs().max()).item()
verdict = "ok" if error <= 1e-12 and expected.std() > 0 else "FAILED"
print(f"{verdict}: {spec}: {len(replaced)} convolutions put back, largest error {error:.3g} of the largest logit")
sys.exit(verdict != "ok")
