#!/usr/bin/env python3
"""Writes a network file of kas-gpu (docs/network-file.md) from a PyTorch model.

    python3 from_pytorch.py torchvision.models:resnet50 --input 3x224x224 -o resnet50.json
    python3 from_pytorch.py ./mine.py:make_network --arguments '{"width": 32}' -o mine.json
    kas-gpu net check mine.json --input 3x32x32

MODEL is MODULE:FUNCTION, a Python module or file and what in it makes the model. The model is traced by torch.fx:
each operation becomes one layer, under the name of its module, so that the model's weights fit. What a network file
cannot describe ends the conversion with its name. --check KAS_GPU compares layer by layer with what kas-gpu makes of
the file. Needs PyTorch 1.13 or later, and nothing else.
"""
import argparse
import importlib
import importlib.util
import json
import math
import operator
import os
import subprocess
import sys

import torch
import torch.fx
import torch.nn.functional as F
from torch import nn
from torch.fx.passes.shape_prop import ShapeProp

ACTIVATIONS = {
    nn.ReLU: "relu", nn.ReLU6: "relu6", nn.SiLU: "silu", nn.Hardswish: "hard_swish", nn.Hardsigmoid: "hard_sigmoid",
    nn.GELU: "gelu", nn.Sigmoid: "sigmoid",
    F.relu: "relu", F.relu6: "relu6", F.silu: "silu", F.hardswish: "hard_swish", F.hardsigmoid: "hard_sigmoid",
    F.gelu: "gelu", F.sigmoid: "sigmoid", torch.relu: "relu", torch.relu_: "relu", torch.sigmoid: "sigmoid",
    "relu": "relu", "relu_": "relu", "sigmoid": "sigmoid", "sigmoid_": "sigmoid",
}
ADD = {operator.add, operator.iadd, torch.add, "add", "add_"}
MULTIPLY = {operator.mul, operator.imul, torch.mul, torch.multiply, "mul", "mul_"}
NAME = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


class Unsupported(Exception):
    pass


class Tracer(torch.fx.Tracer):
    """Takes layer norms as they are, also those whose forward permutes the image around them (LayerNorm2d)."""

    def is_leaf_module(self, module, name):
        return isinstance(module, nn.LayerNorm) or super().is_leaf_module(module, name)


def pair(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value, value)


def sides(value):
    """One number where both sides are equal, as the file wants it."""
    h, w = pair(value)
    return h if h == w else [h, w]


def one(value, what):
    h, w = pair(value)
    if h != w:
        raise Unsupported(f"{what} {value}: expected the same for height and width")
    return h


def need(condition, what):
    if not condition:
        raise Unsupported(what)


def image(node):
    """Shape of a node's value as kas-gpu sees it: [c, h, w]."""
    shape = list(node.meta["tensor_meta"].shape)
    if len(shape) == 2:
        return [shape[1], 1, 1]
    need(len(shape) == 4, f"a tensor of {len(shape)} dimensions")
    return shape[1:]


def has_shape(node):
    return hasattr(node.meta.get("tensor_meta"), "shape")


class Converter:
    def __init__(self, model, shape):
        self.graph = torch.fx.GraphModule(model, Tracer().trace(model.eval()))
        ShapeProp(self.graph).propagate(torch.zeros(1, *shape))
        self.layers = []    # as in the file
        self.shapes = {}    # name of a layer -> [c, h, w]
        self.weights = {}   # name of a layer -> number of its weights
        self.value = {}     # node -> name of the layer that computes it
        self.modules = dict(self.graph.named_modules())

    # ---- layers

    def unique(self, name):
        """Names of modules are kept; a module without weights that is called again gets a number."""
        name = "".join(c if c in NAME else "_" for c in name)
        count, result = 0, name
        while result in self.shapes or result == "in":
            count += 1
            result = f"{name}_{count}"
        return result

    def add(self, node, kind, inputs, **fields):
        module = self.modules.get(node.target) if node.op == "call_module" else None
        weights = sum(p.numel() for p in module.parameters()) if module else 0
        name = self.unique(node.target if module else node.name)
        if weights and name != node.target:
            raise Unsupported("its weights are used twice")
        need(len(name) < 64, "its name is longer than 63 characters")
        layer = {kind: name}
        sources = [self.value[i] for i in inputs]
        if len(sources) > 1:
            layer["from"] = sources
        elif sources[0] != (self.layers[-1]["name"] if self.layers else "in"):
            layer["from"] = sources[0]
        layer.update(fields)
        self.layers.append({"name": name, "inputs": sources, "line": layer})
        self.shapes[name] = image(node)
        self.weights[name] = weights
        self.value[node] = name

    def same(self, node, source):
        """A node that changes nothing that kas-gpu sees."""
        self.value[node] = self.value[source]

    # ---- modules

    def module(self, node):
        m, x = self.modules[node.target], node.args[0]
        if type(m) in ACTIVATIONS:
            need(not isinstance(m, nn.GELU) or getattr(m, "approximate", "none") == "none", "approximate GELU")
            self.add(node, ACTIVATIONS[type(m)], [x])
        elif type(m) is nn.Conv2d:
            self.conv(node, m, x)
        elif type(m) is nn.BatchNorm2d:
            need(m.affine and m.track_running_stats and m.momentum is not None,
                 "a batch norm without weights, running statistics or momentum")
            self.add(node, "batch_norm", [x], **other({"eps": (m.eps, 1e-5), "momentum": (m.momentum, 0.1)}))
        elif isinstance(m, nn.LayerNorm):
            self.layer_norm(node, m, x)
        elif type(m) is nn.Linear:
            need(image(x)[1:] == [1, 1], "a linear layer on an image")
            self.add(node, "linear", [x], channels=m.out_features, **other({"bias": (m.bias is not None, True)}))
        elif type(m) is nn.MaxPool2d:
            self.pool(node, "max_pool", x, m.kernel_size, m.stride, m.padding, m.ceil_mode, m.dilation)
        elif type(m) is nn.AvgPool2d:
            need(m.divisor_override is None, "divisor_override")
            self.pool(node, "avg_pool", x, m.kernel_size, m.stride, m.padding, m.ceil_mode,
                      count_include_pad=m.count_include_pad)
        elif type(m) is nn.AdaptiveAvgPool2d:
            self.adaptive(node, x, m.output_size)
        elif type(m) is nn.Dropout:
            self.dropout(node, x, m.p)
        elif type(m) is nn.Flatten:
            self.flatten(node, x, m.start_dim, m.end_dim)
        elif type(m) is nn.Identity:
            self.same(node, x)
        else:
            raise Unsupported(f"a module {type(m).__name__}")

    def conv(self, node, m, x):
        need(pair(m.dilation) == (1, 1), f"dilation {m.dilation}")
        need(m.padding_mode == "zeros", f"padding_mode {m.padding_mode}")
        kernel, padding = pair(m.kernel_size), m.padding
        if isinstance(padding, str):
            need(padding == "valid" or all(k % 2 for k in kernel), f"padding \"{padding}\" of an even kernel")
            padding = (0, 0) if padding == "valid" else tuple(k // 2 for k in kernel)
        self.add(node, "conv", [x], channels=m.out_channels, kernel=sides(kernel), **other({
            "stride": (one(m.stride, "stride"), 1),
            "padding": (sides(padding), sides(tuple(k // 2 for k in kernel))),
            "groups": (m.groups, 1), "bias": (m.bias is not None, False)}))

    def layer_norm(self, node, m, x):
        """Over the channels: of features, or of every pixel, as torchvision's LayerNorm2d does."""
        of_pixels = type(m).__name__ == "LayerNorm2d"
        need(of_pixels or (type(m) is nn.LayerNorm and len(x.meta["tensor_meta"].shape) == 2),
             f"a {type(m).__name__} that is not over the channels alone")
        need(m.elementwise_affine and m.bias is not None, "a layer norm without weight or bias")
        self.add(node, "layer_norm", [x], **other({"eps": (m.eps, 1e-5)}))

    def pool(self, node, kind, x, kernel, stride, padding, ceil_mode, dilation=1, count_include_pad=True):
        need(pair(dilation) == (1, 1), f"dilation {dilation}")
        stride = one(kernel if stride is None else stride, "stride")
        self.add(node, kind, [x], kernel=sides(kernel), **other({
            "stride": (stride, sides(kernel)), "padding": (sides(padding), 0), "ceil_mode": (bool(ceil_mode), False),
            "count_include_pad": (bool(count_include_pad), True)}))

    def adaptive(self, node, x, size):
        h, w = (have if want is None else want for want, have in zip(pair(size), image(x)[1:]))
        if (h, w) == (1, 1):
            self.add(node, "global_avg_pool", [x])
        else:
            self.add(node, "adaptive_avg_pool", [x], size=sides((h, w)))

    def dropout(self, node, x, probability):
        self.add(node, "dropout", [x], probability=probability)

    def flatten(self, node, x, start, end):
        need((start, end) in ((1, -1), (1, 3)) or len(x.meta["tensor_meta"].shape) == 2,
             f"flatten from {start} to {end}: expected all but the batch")
        if image(x)[1:] == [1, 1]:
            self.same(node, x)
        else:
            self.add(node, "flatten", [x])

    # ---- functions and methods

    def function(self, node):
        f, args, kwargs = node.target, node.args, dict(node.kwargs)
        name = f if isinstance(f, str) else getattr(f, "__name__", str(f))
        x = args[0] if args else kwargs.pop("input", None)
        if f in ACTIVATIONS:
            need(kwargs.get("approximate", "none") == "none", "approximate GELU")
            self.add(node, ACTIVATIONS[f], [x])
        elif f in ADD or f in MULTIPLY:
            self.binary(node, "add" if f in ADD else "multiply", args, kwargs)
        elif f in (torch.cat, torch.concat):
            need((args[1] if len(args) > 1 else kwargs.get("dim", 0)) in (1, -3), "torch.cat along another dimension")
            if len(x) == 1:
                self.same(node, x[0])
            else:
                self.add(node, "concat", list(x))
        elif f in (torch.flatten, "flatten"):
            start = args[1] if len(args) > 1 else kwargs.get("start_dim", 0)
            self.flatten(node, x, start, args[2] if len(args) > 2 else kwargs.get("end_dim", -1))
        elif f in ("view", "reshape", torch.reshape):
            self.reshape(node, x)
        elif f in (torch.mean, "mean"):
            dims = args[1] if len(args) > 1 else kwargs.get("dim")
            need(dims is not None and sorted(d % 4 for d in pair(dims)) == [2, 3], "a mean over other than the pixels")
            self.add(node, "global_avg_pool", [x])
        elif f is F.adaptive_avg_pool2d:
            self.adaptive(node, x, args[1] if len(args) > 1 else kwargs["output_size"])
        elif f is F.dropout:
            self.dropout(node, x, args[1] if len(args) > 1 else kwargs.get("p", 0.5))
        elif name in ("max_pool2d", "boolean_dispatch", "avg_pool2d"):
            self.pool_function(node, name, x, args, kwargs)
        elif name == "stochastic_depth":
            print(f"note: {node.name}: stochastic depth is left out", file=sys.stderr)
            self.same(node, x)
        elif name in ("contiguous", "clone", "detach"):
            self.same(node, x)
        elif not has_shape(node):
            pass  # sizes of tensors, for a view
        else:
            raise Unsupported(f"a function {name}")

    def binary(self, node, kind, args, kwargs):
        need(len(args) == 2 and all(isinstance(a, torch.fx.Node) and has_shape(a) for a in args) and not kwargs,
             f"{kind} of something that is no layer")
        a, b = args
        if kind == "multiply" and math.prod(image(a)) < math.prod(image(b)):
            a, b = b, a  # the one that holds for every pixel comes second
        self.add(node, kind, [a, b])

    def reshape(self, node, x):
        shape = node.meta["tensor_meta"].shape
        need(len(shape) == 2 and image(node)[0] == math.prod(image(x)), f"a view as {list(shape)}")
        self.flatten(node, x, 1, -1)

    def pool_function(self, node, name, x, args, kwargs):
        names = ["kernel_size", "stride", "padding"]
        given = dict(zip(names, args[1:4]), **kwargs)
        average = name == "avg_pool2d"
        need(len(args) <= 4 and given.get("divisor_override") is None and not given.get("return_indices"),
             f"these arguments of {name}")
        self.pool(node, "avg_pool" if average else "max_pool", x, given["kernel_size"], given.get("stride"),
                  given.get("padding", 0), given.get("ceil_mode", False), given.get("dilation", 1),
                  given.get("count_include_pad", True))

    # ---- the whole

    def convert(self):
        for node in self.graph.graph.nodes:
            try:
                if node.op == "placeholder":
                    need(not self.value, "a second input")
                    self.value[node] = "in"
                elif node.op == "call_module":
                    self.module(node)
                elif node.op in ("call_function", "call_method"):
                    self.function(node)
                elif node.op == "output":
                    return self.classes(node.args[0])
                else:
                    raise Unsupported(f"a node \"{node.op}\"")
            except (Unsupported, KeyError, IndexError) as problem:
                where = node.target if node.op == "call_module" else node.name
                raise SystemExit(f"{where}: a network file cannot describe this: {problem}")

    def classes(self, output):
        """The layer whose channels are the classes: the file holds for any number of them."""
        need(isinstance(output, torch.fx.Node) and output in self.value, "an output that is not one tensor")
        by_name = {layer["name"]: layer for layer in self.layers}
        layer = by_name.get(self.value[output])
        while layer and "channels" not in layer["line"]:
            need(len(layer["inputs"]) == 1, "logits that are no layer's")
            layer = by_name.get(layer["inputs"][0])
        need(layer and image(output)[1:] == [1, 1], "an output that is not one value a class")
        layer["line"]["channels"] = "classes"
        return image(output)[0]


def other(fields):
    """The fields whose value is not the default."""
    return {name: value for name, (value, default) in fields.items() if value != default}


def write(path, name, source, layers):
    lines = ",\n".join("        " + json.dumps(layer["line"]) for layer in layers)
    head = {"format": "kas-gpu network", "version": 1, "name": name, "source": source}
    with open(path, "w", encoding="utf-8") as file:
        for key, value in head.items():
            file.write(("{\n" if key == "format" else "") + f"    {json.dumps(key)}: {json.dumps(value)},\n")
        file.write(f"    \"layers\": [\n{lines}\n    ]\n}}\n")


def check(kas, path, shape, classes, converter):
    """Shapes and weights of every layer, as kas-gpu reads the file."""
    command = [kas, "net", "show", path, "--json", "--input", "x".join(map(str, shape)), "--classes", str(classes)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(run.stderr.strip())
    shown = json.loads(run.stdout)
    theirs = {layer["name"]: layer for layer in shown["layers"]}
    for name, expected in converter.shapes.items():
        if theirs[name]["shape"] != expected or theirs[name]["parameters"] != converter.weights[name]:
            raise SystemExit(f"{name}: kas-gpu has shape {theirs[name]['shape']} and {theirs[name]['parameters']} "
                             f"parameters, PyTorch {expected} and {converter.weights[name]}")
    total = sum(p.numel() for p in converter.graph.parameters())
    if shown["parameters"] != total:
        raise SystemExit(f"kas-gpu has {shown['parameters']} parameters, PyTorch {total}")
    print(f"checked: {len(theirs) - 1} layers, {total} parameters as in PyTorch")


def load(spec, arguments):
    place, _, function = spec.rpartition(":")
    if not place:
        raise SystemExit(f"{spec}: expected MODULE:FUNCTION")
    if place.endswith(".py"):
        found = importlib.util.spec_from_file_location("given", place)
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    return getattr(module, function)(**arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODULE:FUNCTION")
    parser.add_argument("-o", "--output", required=True, metavar="FILE")
    parser.add_argument("--input", default="3x224x224", metavar="CxHxW", help="shape of an image (3x224x224)")
    parser.add_argument("--arguments", default="{}", metavar="JSON", help="of the function, by name")
    parser.add_argument("--name", help="of the network (the function's)")
    parser.add_argument("--check", metavar="KAS_GPU", help="compare with what this program makes of the file")
    options = parser.parse_args()
    shape = [int(part) for part in options.input.split("x")]
    model = load(options.model, json.loads(options.arguments))
    try:
        converter = Converter(model, shape)
        classes = converter.convert()
    except (torch.fx.proxy.TraceError, Unsupported) as problem:
        raise SystemExit(f"{options.model}: the model cannot be traced into a list of layers: {problem}")
    name = options.name or options.model.rpartition(":")[2][:31]
    write(options.output, name, f"{os.path.basename(options.model)}, by from_pytorch.py", converter.layers)
    print(f"{options.output}: {len(converter.layers)} layers, {classes} classes")
    if options.check:
        check(options.check, options.output, shape, classes, converter)


if __name__ == "__main__":
    main()
