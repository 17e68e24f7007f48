#!/usr/bin/env python3
"""PyTorch's side of kernels.py: a process that gets sampled kernels ready in PyTorch and in kas-gpu, and times both.

One request a line on standard input, one answer a line, both JSON:

  {"do": "compile", "kernel": FILE, "variants": [...]}   compiles it on both sides, so that their caches have it; seconds
  {"do": "time", "kernel": FILE, "variants": [...]}      compares the results of both sides, then they take turns

A process takes many kernels, because importing PyTorch and opening a GPU cost seconds.  What one kernel leaves behind
(compiled code, graphs, memory) is dropped before the next.
"""
import argparse
import contextlib
import gc
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

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kernel_runtimes  # noqa: E402  (the files beside this one)
import torch_timing  # noqa: E402
from convolutions import as_convolutions  # noqa: E402
from safetensors import read, write  # noqa: E402
from tf32 import set_tf32  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, "..", "..", os.environ.get("BUILD", "build"))
DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16}
# Largest difference by largest value, where both sides are float32.
TOLERANCE = {"y": 1e-4, "dx": 1e-3, "dweight": 1e-3}
# Elsewhere length of the difference by length, from PyTorch in float32: so much, or so many times PyTorch's own.
ROUNDED, TIMES_THEIRS = 0.02, 3
MODES = {"eager": None, "graph": None, "compile": "default", "compile-graph": "default", "max-autotune": "max-autotune",
         "max-autotune-graph": "max-autotune-no-cudagraphs", "onnx": None, "tvm": None}
REST = 0.3  # seconds between turns
DEFAULT = "default schedules"  # our own side beside tuned schedules


def load_layer(folder, layer):
    """The exported kernel at one layer of the exported network, in a Python module of a name that no other kernel has:
    torch.compile remembers modules by their names."""
    name = "kernel_" + os.path.basename(folder)
    for alias, file, unique in (("kernel", "kernel.py", name), ("network", "network.py", name + "_network")):
        spec = importlib.util.spec_from_file_location(unique, os.path.join(folder, file))
        sys.modules[unique] = sys.modules[alias] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[unique])
    sys.path.remove(os.path.abspath(folder))  # network.py put it there
    return sys.modules[name + "_network"].Network().get_submodule(layer)


class Torch:
    """Forward and backward of a module by one variant of PyTorch, or without dy its inference.

    Everything runs on a stream of its own, as graphs demand of their warm-up.  Gradients are asked for by autograd.grad:
    nothing is accumulated, and no node of autograd outlives a step, whose stream a capture would have to wait for.
    """

    def __init__(self, call, module, x, dy, graph):
        self.call, self.x, self.dy, self.cuda, self.graph = call, x, dy, x.is_cuda, None
        self.names = ["dx"] + ["d" + name.split(".")[-1] for name, _ in module.named_parameters()]
        self.inputs = [x] + list(module.parameters())
        self.stream, self.results = torch.cuda.Stream() if self.cuda else None, None
        self.finish()  # x and the weights were made on another stream
        with self.on_stream():
            for _ in range(3):
                self.step()
        self.finish()
        if graph:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.step()
            self.seconds(1)

    def on_stream(self):
        return torch.cuda.stream(self.stream) if self.cuda else contextlib.nullcontext()

    def finish(self):
        if self.cuda:
            torch.cuda.synchronize()

    def step(self):
        self.results = None  # a graph of torch.compile's own overwrites them
        if self.dy is None:
            with torch.no_grad():
                self.results = {"y": self.call(self.x)}
            return
        if hasattr(torch, "compiler") and hasattr(torch.compiler, "cudagraph_mark_step_begin"):
            torch.compiler.cudagraph_mark_step_begin()
        y = self.call(self.x)
        gradients = torch.autograd.grad(y, self.inputs, self.dy, allow_unused=True)
        self.results = {"y": y.detach(), **dict(zip(self.names, gradients))}

    def seconds(self, runs):
        run = self.graph.replay if self.graph else self.step
        with self.on_stream():
            return torch_timing.seconds(run, runs, self.cuda)


class Ours:
    def __init__(self, args, kernel, files, tuned):
        self.process = subprocess.Popen(
            [os.path.join(BUILD, "bench", "kernel_serve"), kernel, args.net, args.input, args.layer, args.device, str(args.threads),
             args.precision, args.phase, "tuned" if tuned else "default", *files], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ready = self.process.stdout.readline().split()
        if ready[:1] != ["ready"]:
            raise RuntimeError("kernel_serve failed")
        self.compile_seconds, self.prepare_seconds, self.tuned_launches = float(ready[1]), float(ready[2]), int(ready[3])

    def seconds(self, runs):
        self.process.stdin.write(f"run {runs}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("kernel_serve failed while it was timed")
        return float(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def tune(args, kernel):
    """Seconds in which kas-gpu finds schedules and keeps them in the cache: a look there where it has them."""
    start = time.perf_counter()
    words = ["tune", kernel, "--net", args.net, "--input", args.input, "--layer", args.layer, "--batch", str(args.batch), "--device", args.device,
             "--threads", str(args.threads), "--precision", args.precision, "--flops", "1", "--params", "1", "--quiet"]
    subprocess.run([os.path.join(BUILD, "kas-gpu"), *words, *(["--inference"] if args.phase == "inference" else [])], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def export(kernel, folder, args):
    """A kernel that was sampled for another network may fit no layer of this one: the message says so."""
    done = subprocess.run([os.path.join(BUILD, "kas-gpu"), "export", kernel, "-o", folder, "--net", args.net, "--input",
                           args.input, "--flops", "1", "--params", "1", "--quiet"], capture_output=True, text=True)
    if done.returncode:
        why = done.stderr.strip().removeprefix("kas-gpu: error: ") or f"exit code {done.returncode}"
        raise RuntimeError(f"export to {args.net} at {args.input}: {why}")


class Problem:
    """A kernel exported, its module, input and output gradient, rounded as both sides round them, and the files that
    kernel_serve reads and writes."""

    def __init__(self, args, request, folder):
        path = request["kernel"]
        self.args, self.path, self.variants = args, path, request["variants"]
        export(path, folder, args)
        torch.manual_seed(1)
        self.exported = load_layer(folder, args.layer)
        self.module = as_convolutions(path, self.exported)
        h, w = args.size
        x = torch.randn(args.batch, self.exported.c * self.exported.parts_in, h, w)
        dy = torch.randn(args.batch, self.exported.c * self.exported.parts_out, h, w)
        self.dtype, self.device = DTYPES[args.precision], args.device.split(":")[0]
        with torch.no_grad():
            for tensor in (x, dy, *self.module.parameters()):
                tensor.copy_(tensor.to(self.dtype).float())
        self.files = [os.path.join(folder, name) for name in ("in.safetensors", "out.safetensors")]
        write(self.files[0], {"x": x, "dy": dy, **dict(self.exported.named_parameters())})
        self.x, self.dy = (t.to(args.device, memory_format=torch.channels_last) for t in (x, dy))
        if args.phase == "inference":
            self.dy = None
            self.module.eval()
        self.module.to(args.device)
        self.compiled = {}

    def exact(self):
        """Results of PyTorch's eager code in float32, by the exported module."""
        set_tf32(False)
        results = Torch(self.exported, self.exported, self.x.detach().requires_grad_(), self.dy, False).results
        set_tf32(self.args.precision == "tf32")
        return results

    def round(self):
        """From here on PyTorch's side has the precision that is timed."""
        self.module.to(self.dtype)
        self.x = self.x.to(self.dtype)
        if self.dy is not None:
            self.x, self.dy = self.x.requires_grad_(), self.dy.to(self.dtype)

    def peer(self, variant):
        if variant == "onnx":
            return kernel_runtimes.Onnx(self.module, self.x, self.args.threads)
        if variant == "tvm":
            return kernel_runtimes.Tvm(self.module, self.x, self.args.threads)
        mode = MODES[variant]
        if mode and mode not in self.compiled:
            self.compiled[mode] = torch.compile(self.module, mode=mode, dynamic=False)
        return Torch(self.compiled[mode] if mode else self.module, self.module, self.x, self.dy,
                     variant.endswith("graph"))


def kind_of(name):
    return "dweight" if name.startswith("dweight") else name


def errors_of(want, got, by_length):
    """The largest error of each kind of result."""
    worst = {"y": 0.0, "dx": 0.0, "dweight": 0.0}
    for name, tensor in want.items():
        if tensor is None:  # nothing depends on it
            continue
        a, b = tensor.detach().float().cpu().reshape(-1), got[name].detach().float().cpu().reshape(-1)
        if by_length:
            error = (a - b).norm().item() / max(a.norm().item(), 1e-3)
        else:
            error = (a - b).abs().max().item() / max(a.abs().max().item(), 1e-3)
        worst[kind_of(name)] = max(worst[kind_of(name)], error) if math.isfinite(error) else math.inf
    return worst


def compare(problem):
    """Our results and PyTorch's at this precision, both against PyTorch's in float32; and what is exact."""
    exact = problem.exact()
    problem.round()
    rounded = problem.args.precision != "fp32"
    ours = errors_of(exact, read(problem.files[1]), rounded)
    if not rounded:
        return exact, {"errors": ours, "agree": all(ours[k] <= TOLERANCE[k] for k in TOLERANCE)}
    theirs = errors_of(exact, problem.peer("eager").results, rounded)
    agree = all(ours[k] <= max(ROUNDED, TIMES_THEIRS * theirs[k]) for k in TOLERANCE)
    return exact, {"errors": ours, "torch_errors": theirs, "agree": agree}


def take_turns(args, sides):
    """Each side's seconds in each round, in turns; the first side is ours.  A side's threads go on waiting for work at full speed when
    its turn is over, those of ONNX Runtime for longest; the next turn begins when they sleep, with a run that does not count."""
    runs, times = {}, {name: [] for name in sides}
    for name, side in sides.items():
        side.seconds(3)  # our plan captures its graph in its second run
        runs[name] = max(1, min(1000, round(args.slice / (side.seconds(2) / 2))))
    for _ in range(args.rounds):
        for name, side in sides.items():
            time.sleep(REST)
            side.seconds(1)
            times[name].append(side.seconds(runs[name]) / runs[name])
    return times


def ratios(times):
    """Of every other side: its time over ours in the same round."""
    found = {}
    for name in list(times)[1:]:
        each = sorted(t / o for t, o in zip(times[name], times["kas-gpu"]))
        found[name] = {"torch_seconds": statistics.median(times[name]), "ratio": statistics.median(each),
                       "ratio_least": each[0], "ratio_most": each[-1]}
    return found


def peers(problem, exact, rounding):
    """The variants that run, each of which must compute the same but for rounding; and why the others do not."""
    sides, failed, most = {}, {}, max(ROUNDED, TIMES_THEIRS * rounding)
    for variant in problem.variants:
        try:
            side = problem.peer(variant)
            worst = max(errors_of({"y": exact["y"]}, side.results, True).values())
            if worst > most:
                raise RuntimeError(f"wrong by {worst:.2g}")
            sides[variant] = side
        except Exception as error:  # a variant that cannot run is said, the others count
            failed[variant] = (str(error).splitlines() or [type(error).__name__])[0]
    return sides, failed


def time_kernel(problem):
    args = problem.args
    ours = Ours(args, problem.path, problem.files, args.tuned)
    exact, result = compare(problem)
    default = Ours(args, problem.path, problem.files, False) if args.tuned and ours.tuned_launches else None
    others, failed = peers(problem, exact, result.get("torch_errors", {"y": 0})["y"])
    times = take_turns(args, {"kas-gpu": ours, **({DEFAULT: default} if default else {}), **others})
    for side in (ours, default):
        if side:
            side.close()
    found = ratios(times)
    own = found.pop(DEFAULT, None)
    if not found:
        raise RuntimeError(f"PyTorch runs none of its variants: {failed}")
    best = min(found, key=lambda name: found[name]["torch_seconds"])
    return {"variant": best, "seconds": statistics.median(times["kas-gpu"]), **found[best], **result, "variants": found, "variants_failed": failed,
            "tuned_launches": ours.tuned_launches, "default_schedules": own}


def compile_kernel(problem):
    """Seconds until forward and backward have run, on both sides."""
    problem.round()
    found = {}
    for mode in dict.fromkeys(MODES[variant] for variant in problem.variants if MODES[variant]):
        variant = next(v for v in problem.variants if MODES[v] == mode)
        start = time.perf_counter()
        call = torch.compile(problem.module, mode=mode, dynamic=False)
        try:
            Torch(call, problem.module, problem.x, problem.dy, False)
            found[variant] = time.perf_counter() - start
        except Exception as error:
            print(f"{problem.path} {variant}: {error}", file=sys.stderr)
    ours = Ours(problem.args, problem.path, problem.files, False)
    ours.close()
    return {"torch_compile_seconds": found, "compile_seconds": ours.compile_seconds, "prepare_seconds": ours.prepare_seconds,
            "tune_seconds": tune(problem.args, problem.path) if problem.args.tuned else None}


def forget():
    """Nothing of a kernel stays for the next one."""
    if hasattr(torch, "_dynamo"):
        torch._dynamo.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def warm_up(args):
    """What the first use of the compiler costs once and for all."""
    if any(MODES[v] for v in args.variants):
        x = torch.ones(64, device=args.device, requires_grad=True)
        torch.compile(lambda x: torch.sin(x) * 2)(x).sum().backward()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("options", help="JSON: the options of kernels.py")
    args = argparse.Namespace(**json.loads(parser.parse_args().options))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what PyTorch prints is no answer
    torch.set_num_threads(args.threads)
    set_tf32(args.precision == "tf32")
    torch.backends.cudnn.benchmark = True
    warm_up(args)
    print(json.dumps({"torch": torch.__version__}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            with tempfile.TemporaryDirectory() as folder:
                problem = Problem(args, request, folder)
                answer = {"compile": compile_kernel, "time": time_kernel}[request["do"]](problem)
        except Exception as error:
            answer = {"failed": (str(error).splitlines() or [type(error).__name__])[0]}
        problem = None
        forget()
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
