"""Kernels of kernels/ as somebody would write them for PyTorch, by its own convolutions.

`kas-gpu export` writes any kernel, by views and matrix products; a peer that is to be beaten has the faster form where there is one.
The weights are those of the exported module, so both compute the same.
"""
import os

import torch
import torch.nn.functional as F


def convolution(x, weight, window):
    """weight: [1, groups, outputs of a group, inputs of a group times the window], as exported."""
    _, groups, outputs, inputs = weight.shape
    shaped = weight.reshape(groups * outputs, inputs // (window[0] * window[1]), *window)
    return F.conv2d(x, shaped, padding=(window[0] // 2, window[1] // 2), groups=groups)


def whole(m, x):
    return convolution(x, m.weight0, m.kernel)


def bands(m, x):
    half = x.shape[2] // 2
    return torch.cat([convolution(x[:, :, :half], m.weight0, m.kernel), convolution(x[:, :, half:], m.weight1, m.kernel)], 2)


def first_and_rest(m, x):
    first = m.weight0.shape[2]
    return torch.cat([convolution(x, m.weight0, m.kernel), convolution(x[:, first:], m.weight1, m.kernel)], 1)


def halves(m, x):
    return torch.cat([convolution(x, m.weight0, m.kernel), convolution(x, m.weight1, m.kernel)], 1)


FORMS = {"conv": whole, "group_conv": whole, "nas_pte_1": bands, "nas_pte_2": first_and_rest, "nas_pte_3": halves}


class Convolutions(torch.nn.Module):
    def __init__(self, exported, form):
        super().__init__()
        self.exported, self.form = exported, form

    def forward(self, x):
        return self.form(self.exported, x)


def as_convolutions(path, exported):
    """The faster form of an exported kernel's module, or the module itself where there is none."""
    form = FORMS.get(os.path.basename(path).removesuffix(".json"))
    usual = exported.stride == 1 and exported.parts_in == exported.parts_out == 1 and exported.gain is None
    return Convolutions(exported, form) if form and usual else exported
