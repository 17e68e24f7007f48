#!/usr/bin/env bash
# Network files made from PyTorch models: layers, shapes, weights and logits are the model's.
set -eu
. tests/e2e/pytorch.bash

# A model of every function and module that is converted, and not of torchvision.
cat >"$dir/mine.py" <<'PYTHON'
import torch
import torch.nn.functional as F
from torch import nn


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding="same"), nn.BatchNorm2d(8, eps=1e-3), nn.SiLU())
        self.left = nn.Conv2d(8, 4, (1, 5), 2, (0, 2), bias=False)
        self.right = nn.Conv2d(8, 12, 3, 2, 1, groups=4)
        self.act, self.gelu = nn.ReLU(), nn.GELU()
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.gate, self.norm = nn.Conv2d(16, 16, 1), LayerNorm2d(16, eps=1e-4)
        self.drop, self.fc = nn.Dropout(0.1), nn.Linear(16 * 2 * 2, 12)
        self.normed, self.head = nn.LayerNorm(12), nn.Linear(12, classes)

    def forward(self, x):
        x = self.act(self.stem(x))
        x = torch.cat([self.left(x), self.act(self.right(x))], dim=1)
        x = self.pool(x)
        x = F.avg_pool2d(x, 2, 1, padding=1, count_include_pad=False) + F.avg_pool2d(x, 2, 1, 1)
        x = torch.sigmoid(self.gate(x.mean([2, 3], keepdim=True))) * self.norm(x).contiguous() + F.hardswish(x)
        x = F.adaptive_avg_pool2d(self.gelu(x), 2)
        x = x.view(x.size(0), -1)
        return self.head(F.dropout(F.relu6(self.normed(self.fc(self.drop(x)))), 0.2, self.training))


def make(num_classes):
    return Net(num_classes)


class Rolled(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 10, 3)

    def forward(self, x):
        return torch.roll(self.conv(x), 1, 2).mean((2, 3))


def rows():
    return nn.Sequential(nn.Conv2d(3, 10, 3), nn.LayerNorm(6))


def dilated():
    return nn.Sequential(nn.Conv2d(3, 10, 3, dilation=2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
PYTHON
convert "$dir/mine.py:make" '{"num_classes": 10}' 3x17x21
"$python" - "$dir" 2>"$dir/err" <<'PYTHON' || { cat "$dir/err"; fail "the messages"; }
import sys
sys.path.insert(0, "networks")
import from_pytorch
folder = sys.argv[1]
for function, words in (("Rolled", "roll: a network file cannot describe this: a function roll"),
                        ("rows", "1: a network file cannot describe this: a LayerNorm that is not over the channels"),
                        ("dilated", "0: a network file cannot describe this: dilation (2, 2)")):
    sys.argv[1:] = [f"{folder}/mine.py:{function}", "-o", "/dev/null", "--input", "3x8x8"]
    try:
        from_pytorch.main()
    except SystemExit as problem:
        assert words in str(problem), problem
    else:
        raise AssertionError(f"{function} was converted")
PYTHON

echo "ok: networks by way of from_pytorch.py"
