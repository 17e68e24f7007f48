#!/usr/bin/env python3
"""Sampled kernels beside the same kernels in PyTorch: forward and backward, taking turns on one device.

    build/kas-gpu sample --net resnet20 --count 50 --flops 1 --params 1 -o KERNELS
    python3 bench/peers/kernels.py KERNELS/*.json [--device cpu|cuda] [--threads 2] [--json]

PyTorch runs the module that `kas-gpu export` writes; kas-gpu runs what a search runs.  Both get the same input, weights
and output gradient, and what they return is compared first: y, dx and every weight's gradient, in float32.  Then they
take turns, and the ratio is that of neighbours; a figure is the median over rounds.  On a GPU PyTorch runs as eager code
in a CUDA graph and as torch.compile makes it (default and max-autotune), and the fastest of these counts.
"""
import argparse
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch

from safetensors import read, write

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, "..", "..", os.environ.get("BUILD", "build"))
TOLERANCE = {"y": 1e-4, "dx": 1e-3, "dweight": 1e-3}


def load_module(folder, layer):
    """The exported kernel at one layer of the exported network."""
    modules = {}
    for name in ("kernel", "network"):
        spec = importlib.util.spec_from_file_location(name, os.path.join(folder, name + ".py"))
        modules[name] = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(modules[name])
    return modules["network"].Network().get_submodule(layer)


class Torch:
    """Forward and backward of a module at fixed addresses, so that a CUDA graph can repeat them."""

    def __init__(self, module, x, dy, variant):
        self.module, self.x, self.dy = module, x, dy
        self.cuda = x.is_cuda
        self.call = module if variant in ("eager", "graph") else torch.compile(
            module, mode=None if variant == "compile" else "max-autotune")
        self.graph = None
        for _ in range(3):
            self.step()
        if variant == "graph":
            self.capture()

    def step(self):
        for p in self.module.parameters():
            p.grad = None
        self.x.grad = None
        self.y = self.call(self.x)
        self.y.backward(self.dy)

    def capture(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.step()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step()

    def seconds(self, runs):
        run = self.graph.replay if self.graph else self.step
        if not self.cuda:
            start = time.perf_counter()
            for _ in range(runs):
                run()
            return time.perf_counter() - start
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(runs):
            run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e-3

    def results(self):
        self.step()
        out = {"y": self.y.detach(), "dx": self.x.grad}
        for name, p in self.module.named_parameters():
            out["d" + name] = p.grad
        return out


class Ours:
    def __init__(self, args, kernel, files):
        self.process = subprocess.Popen(
            [os.path.join(BUILD, "bench", "kernel_serve"), kernel, args.net, args.input, args.layer, args.device,
             str(args.threads), *files], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            raise RuntimeError("kernel_serve failed")

    def seconds(self, runs):
        self.process.stdin.write(f"run {runs}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(want, got):
    """The largest difference of each kind of result, relative to the tensor's largest value."""
    worst = {"y": 0.0, "dx": 0.0, "dweight": 0.0}
    for name, tensor in want.items():
        a, b = tensor.detach().float().cpu().reshape(-1), got[name].reshape(-1)
        scale = max(a.abs().max().item(), 1e-3)
        error = (a - b).abs().max().item() / scale
        kind = "dweight" if name.startswith("dweight") else name
        worst[kind] = max(worst[kind], error) if math.isfinite(error) else math.inf
    return worst


def measure(args, torch_side, ours):
    """Runs of about a tenth of a second in turns; ratios of neighbours, PyTorch's time over ours."""
    times = {"torch": [], "ours": []}
    runs = {}
    for name, side in (("torch", torch_side), ("ours", ours)):
        once = side.seconds(2) / 2
        runs[name] = max(1, min(1000, round(args.slice / once)))
    for _ in range(args.rounds):
        times["torch"].append(torch_side.seconds(runs["torch"]) / runs["torch"])
        times["ours"].append(ours.seconds(runs["ours"]) / runs["ours"])
    ratios = sorted(t / o for t, o in zip(times["torch"], times["ours"]))
    return {"torch_seconds": statistics.median(times["torch"]), "seconds": statistics.median(times["ours"]),
            "ratio": statistics.median(ratios), "ratio_least": ratios[0], "ratio_most": ratios[-1]}


def one_kernel(args, path, folder):
    subprocess.run([os.path.join(BUILD, "kas-gpu"), "export", path, "-o", folder, "--net", args.net, "--input",
                    args.input, "--flops", "1", "--params", "1", "--quiet"], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    module = load_module(folder, args.layer)
    device = args.device.split(":")[0]
    h, w = layer_size(args)
    torch.manual_seed(1)
    x = torch.randn(args.batch, module.c * module.parts_in, h, w)
    dy = torch.randn(args.batch, module.c * module.parts_out, h, w)
    files = [os.path.join(folder, name) for name in ("in.safetensors", "out.safetensors")]
    write(files[0], {"x": x, "dy": dy, **dict(module.named_parameters())})
    ours = Ours(args, path, files)
    exact = Torch(module.to(device), x.to(device).requires_grad_(), dy.to(device), "eager")
    errors = compare(exact.results(), read(files[1]))
    best = None
    for variant in ("eager",) if device == "cpu" else ("graph", "compile", "max-autotune"):
        figures = measure(args, Torch(module, exact.x, exact.dy, variant), ours)
        if best is None or figures["torch_seconds"] < best["torch_seconds"]:
            best = {"variant": variant, **figures}
    ours.close()
    return {"kernel": os.path.basename(path), "layer": args.layer, "batch": args.batch, "device": args.device,
            "threads": args.threads, **best, "errors": errors,
            "agree": all(errors[k] <= TOLERANCE[k] for k in TOLERANCE)}


def layer_size(args):
    """Height and width of what the layer makes."""
    text = subprocess.run([os.path.join(BUILD, "kas-gpu"), "net", "show", args.net, "--input", args.input, "--json"],
                          check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        for layer in json.loads(line).get("layers", []):
            if layer["name"] == args.layer:
                return layer["shape"][1:]
    sys.exit(f"{args.net} has no layer {args.layer}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="+")
    parser.add_argument("--net", default="resnet20")
    parser.add_argument("--input", default="3x32x32")
    parser.add_argument("--layer", default="layer2.0.conv2")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slice", type=float, default=0.1, help="seconds of one turn")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rows = []
    for path in args.kernels:
        with tempfile.TemporaryDirectory() as folder:
            row = one_kernel(args, path, folder)
        rows.append(row)
        if args.json:
            print(json.dumps({"schema_version": 1, "kind": "bench", "suite": "peer_kernels", **row}), flush=True)
        else:
            print(f"{row['kernel']:24} torch {1e3 * row['torch_seconds']:8.3f} ms ({row['variant']})  kas-gpu "
                  f"{1e3 * row['seconds']:8.3f} ms  {row['ratio']:6.2f}x ({row['ratio_least']:.2f} to "
                  f"{row['ratio_most']:.2f}){'' if row['agree'] else '  DISAGREES ' + str(row['errors'])}", flush=True)
    mean = math.exp(statistics.mean(math.log(r["ratio"]) for r in rows))
    losses = sorted((r["ratio"], r["kernel"]) for r in rows if r["ratio"] < 1)
    wrong = [r["kernel"] for r in rows if not r["agree"]]
    worst = {k: max(r["errors"][k] for r in rows) for k in TOLERANCE}
    summary = {"kernels": len(rows), "geometric_mean": mean, "losses": losses, "disagree": wrong, "largest_error": worst,
               "torch": torch.__version__}
    if args.json:
        print(json.dumps({"schema_version": 1, "kind": "bench", "suite": "peer_kernels_summary", **summary}))
    else:
        print(f"{len(rows)} kernels: geometric mean {mean:.2f}x PyTorch {torch.__version__}; slower than PyTorch: "
              f"{', '.join(f'{n} {r:.2f}x' for r, n in losses) or 'none'}; largest errors {worst}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
