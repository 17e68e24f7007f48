#!/usr/bin/env python3
"""Kernels beside the same kernels in PyTorch, ONNX Runtime and TVM, taking turns on one device.

    build/kas-gpu sample --net resnet20 --count 50 --flops 1 --params 1 -o KERNELS
    python3 bench/peers/kernels.py KERNELS/*.json [--device cpu|cuda] [--precision P] [--threads 2] [--json]
    python3 bench/peers/kernels.py KERNELS/*.json --phase inference --variants eager,compile,max-autotune,onnx --tuned
    python3 bench/peers/kernels.py KERNELS/*.json --device cuda --resume ROWS.jsonl --limit-seconds 300 --json

The phase is training, a forward and a backward pass, or inference.  The peers run the module that `kas-gpu export` writes,
or for some of kernels/ a faster one (convolutions.py), PyTorch channels-last; kas-gpu runs what a search runs, with --tuned
by schedules that `kas-gpu tune` finds, beside the default ones.  All get the same
input, weights and output gradient, and what they return is compared first: y, dx and every weight's gradient, in fp32
with each other, in bf16 and tf32 each with PyTorch in fp32, from which we may be as far as PyTorch is (kernel_torch.py).
Then they take turns, and the ratio is that of neighbours; a figure is the median over rounds.  The variants:

  eager               the module as it is (default on the CPU)
  graph               the same in a CUDA graph
  compile             torch.compile
  compile-graph       the same in a CUDA graph, so that the host's time does not count
  max-autotune        torch.compile with mode max-autotune, which makes graphs of its own
  max-autotune-graph  the same code (max-autotune-no-cudagraphs) in one CUDA graph of forward and backward
  onnx                inference by ONNX Runtime on the CPU, in fp32
  tvm                 inference by TVM on the CPU, in fp32, with its default schedules

On a GPU all but eager and max-autotune run by default, and the fastest counts.

First, for --alone kernels and a quarter of the time at most, both sides compile from empty caches, one kernel at a time
with nothing else on the machine (lines of suite peer_compile).  Then kernels are compiled ahead, --jobs at a time, so that the caches have them, and are
timed one at a time.  What max-autotune chooses while others compile beside it may differ from what it chooses alone.

--resume FILE keeps a line for each kernel that is done, and leaves these out.  After --limit-seconds nothing is begun.
Exit code 0: all compared; 1: results disagree or a side failed; 75: kernels are left for the next call.
"""
import argparse
import concurrent.futures
import contextlib
import json
import math
import os
import queue
import select
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, "..", "..", os.environ.get("BUILD", "build"))
SETTINGS = ("net", "input", "layer", "batch", "device", "precision", "phase", "threads", "tuned")  # rows of others are not resumed


class Worker:
    """A process of kernel_torch.py, begun again when it died or did not answer in time."""

    def __init__(self, args, environment):
        self.options = json.dumps({k: v for k, v in vars(args).items() if k != "kernels"})
        self.environment, self.process, self.torch = {**os.environ, **environment}, None, None

    def begin(self, seconds):
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "kernel_torch.py"), self.options],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environment)
        ready = self.answer(seconds)
        self.torch = ready.get("torch")
        return ready

    def answer(self, seconds):
        if select.select([self.process.stdout], [], [], max(seconds, 0))[0]:
            line = self.process.stdout.readline()  # a line is written at once
            if line:
                return json.loads(line)
            why = "its process died"
        else:
            why = "no answer in time"
        self.kill()
        return {"failed": why}

    def ask(self, do, kernel, variants, seconds):
        until = time.monotonic() + seconds
        if not self.process:
            ready = self.begin(seconds)
            if "failed" in ready:
                return ready
        try:
            self.process.stdin.write((json.dumps({"do": do, "kernel": kernel, "variants": variants}) + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            self.kill()
            return {"failed": "its process had died"}
        return self.answer(until - time.monotonic())

    def kill(self):
        if self.process:
            self.process.kill()
            with contextlib.suppress(BrokenPipeError):
                self.process.communicate()
            self.process = None


class Run:
    """What is known of each kernel, on the file of --resume too, and how much time is left."""

    def __init__(self, args):
        self.args, self.end, self.rows, self.compiled, self.torch = args, time.monotonic() + args.limit_seconds, {}, {}, None
        if args.resume and os.path.exists(args.resume):
            with open(args.resume) as file:
                for line in file:
                    row = json.loads(line)
                    if all(row.get(k) == getattr(args, k) for k in SETTINGS):
                        self.take(row)

    def take(self, row):
        {"peer_kernels": self.rows, "peer_compile": self.compiled}[row["suite"]][row["kernel"]] = row

    def put(self, suite, kernel, found):
        row = {"schema_version": 1, "kind": "bench", "suite": suite, "kernel": os.path.basename(kernel),
               **{k: getattr(self.args, k) for k in SETTINGS}, **found}
        self.take(row)
        if self.args.resume:
            with open(self.args.resume, "a") as file:
                file.write(json.dumps(row) + "\n")
        if not self.args.json:
            print(in_words(row), flush=True)

    def left(self):
        return self.end - time.monotonic()


def in_words(row):
    if "failed" in row:
        return f"{row['kernel']:24} FAILED: {row['failed']}"
    if row["suite"] == "peer_compile":
        theirs = ", ".join(f"{v} {s:.2f} s" for v, s in row["torch_compile_seconds"].items())
        return f"{row['kernel']:24} from empty caches: {theirs}; kas-gpu {row['prepare_seconds']:.2f} s"
    tuned = f"  tuned {row['default_schedules']['ratio']:.2f}x" if row["default_schedules"] else ""
    return (f"{row['kernel']:24} peer {1e3 * row['torch_seconds']:8.3f} ms ({row['variant']})  kas-gpu "
            f"{1e3 * row['seconds']:8.3f} ms  {row['ratio']:6.2f}x ({row['ratio_least']:.2f} to "
            f"{row['ratio_most']:.2f}){tuned}{'' if row['agree'] else '  DISAGREES ' + str(row['errors'])}")


def caches(folder, jobs=0):
    """Where PyTorch keeps what it compiles, and in how many processes it does so (0: its own choice)."""
    found = {"TORCHINDUCTOR_CACHE_DIR": folder, "TRITON_CACHE_DIR": os.path.join(folder, "triton")}
    return {**found, **({"TORCHINDUCTOR_COMPILE_THREADS": str(jobs)} if jobs else {})}


def compiles_ahead(args):
    return args.tuned or any(is_compiled(v) for v in args.variants)


def is_compiled(variant):
    return "compile" in variant or "autotune" in variant


def compile_alone(run):
    """Of the first kernels: seconds to compile from empty caches, other ones for each variant."""
    variants = [v for v in run.args.variants if is_compiled(v) and not v.startswith("compile-")]
    for kernel in run.args.kernels[:run.args.alone]:
        if run.left() < 0.75 * run.args.limit_seconds:
            return
        found = {"torch_compile_seconds": {}}
        for variant in variants if os.path.basename(kernel) not in run.compiled else []:
            with tempfile.TemporaryDirectory() as folder:
                worker = Worker(run.args, {**caches(folder), "KAS_CACHE_DIR": os.path.join(folder, "kas")})
                answer = worker.ask("compile", kernel, [variant], min(run.args.kernel_seconds, run.left()))
                worker.kill()
            if run.left() < 1:
                return
            seconds = {**found["torch_compile_seconds"], **answer.get("torch_compile_seconds", {})}
            found = {**found, **answer, "torch_compile_seconds": seconds}
        if found["torch_compile_seconds"]:
            run.put("peer_compile", kernel, found)


def compile_ahead(run, workers, kernels, seconds):
    """Fills the caches of both sides, several kernels at a time, for so many seconds; those that they have then."""
    end, free, ready = time.monotonic() + seconds, queue.Queue(), []
    for worker in workers:
        free.put(worker)

    def one(kernel):
        worker = free.get()
        allowed = min(end - time.monotonic(), run.args.kernel_seconds)
        if allowed > 1:
            answer = worker.ask("compile", kernel, run.args.variants, allowed)
            if "failed" not in answer:
                ready.append(kernel)
            elif time.monotonic() < end:
                run.put("peer_kernels", kernel, {"failed": "compiling: " + answer["failed"]})
        free.put(worker)

    with concurrent.futures.ThreadPoolExecutor(len(workers)) as pool:
        list(pool.map(one, kernels))
    return ready


def time_chunk(run, worker, kernels):
    """Until the time is over; a kernel that was cut by it is left for the next call."""
    args, longest = run.args, 0
    for kernel in kernels:
        if run.left() < 3 + 1.5 * longest:
            return
        start, allowed = time.monotonic(), min(args.kernel_seconds, run.left())
        found = worker.ask("time", kernel, args.variants, allowed)
        longest = max(longest, time.monotonic() - start)
        run.torch = worker.torch or run.torch
        if "failed" in found and allowed < args.kernel_seconds and run.left() < 1:
            return
        run.put("peer_kernels", kernel, found)


def time_all(run):
    args = run.args
    left = [k for k in args.kernels if os.path.basename(k) not in run.rows]
    ahead = compiles_ahead(args)
    with tempfile.TemporaryDirectory() as folder:
        environment = caches(args.cache or folder, 1)
        compilers = [Worker(args, environment) for _ in range(args.jobs)]
        while left and run.left() >= 5:
            part = left[:2 * args.jobs] if ahead else left
            if ahead:
                part = compile_ahead(run, compilers, part, 0.5 * run.left())
            timer = Worker(args, environment)
            time_chunk(run, timer, part)
            timer.kill()
            before, left = len(left), [k for k in left if os.path.basename(k) not in run.rows]
            if len(left) == before:
                break
        for worker in compilers:
            worker.kill()


def geometric_mean(numbers):
    return math.exp(statistics.mean(math.log(n) for n in numbers)) if numbers else None


def summary(run):
    rows = [r for r in run.rows.values() if "failed" not in r]
    failed = {r["kernel"]: r["failed"] for r in [*run.rows.values(), *run.compiled.values()] if "failed" in r}
    each = {v: [r["variants"][v]["ratio"] for r in rows if v in r["variants"]] for v in run.args.variants}
    compiled = [r for r in run.compiled.values() if "failed" not in r]
    theirs = {v: [r["torch_compile_seconds"][v] for r in compiled if v in r["torch_compile_seconds"]] for v in each}
    return {"schema_version": 1, "kind": "bench", "suite": "peer_kernels_summary",
            **{k: getattr(run.args, k) for k in SETTINGS}, "asked": len(run.args.kernels), "kernels": len(rows),
            "geometric_mean": geometric_mean([r["ratio"] for r in rows]),
            "geometric_means": {v: geometric_mean(ratios) for v, ratios in each.items()},
            "tuned_by_default": geometric_mean([r["default_schedules"]["ratio"] for r in rows if r["default_schedules"]]),
            "losses": sorted((r["ratio"], r["kernel"], r["variant"]) for r in rows if r["ratio"] < 1),
            "variants_failed": [(r["kernel"], v, why) for r in rows for v, why in r["variants_failed"].items()],
            "disagree": [r["kernel"] for r in rows if not r["agree"]], "failed": failed,
            "largest_error": {k: max((r["errors"][k] for r in rows), default=None) for k in ("y", "dx", "dweight")},
            "compiled_alone": len(compiled),
            "torch_compile_seconds": {v: statistics.median(s) for v, s in theirs.items() if s},
            "compile_seconds": statistics.median(r["prepare_seconds"] for r in compiled) if compiled else None,
            "torch": run.torch}


def put_summary(run, found):
    if run.args.json:
        for row in [*run.compiled.values(), *run.rows.values(), found]:
            print(json.dumps(row))
        return
    means = ", ".join(f"{v} {m:.2f}x" for v, m in found["geometric_means"].items() if m)
    print(f"{found['kernels']} of {found['asked']} kernels: geometric mean "
          f"{found['geometric_mean'] or math.nan:.2f}x the fastest peer (PyTorch {found['torch']}) ({means}); slower than "
          f"a peer: {', '.join(f'{n} {r:.2f}x' for r, n, _ in found['losses']) or 'none'}; disagree: "
          f"{', '.join(found['disagree']) or 'none'}; failed: {found['failed'] or 'none'}; largest errors "
          f"{found['largest_error']}")


def layer_size(args):
    """Height and width of what the layer makes."""
    text = subprocess.run([os.path.join(BUILD, "kas-gpu"), "net", "show", args.net, "--input", args.input, "--json"],
                          check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        for layer in json.loads(line).get("layers", []):
            if layer["name"] == args.layer:
                return layer["shape"][1:]
    sys.exit(f"{args.net} has no layer {args.layer}")


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="+")
    parser.add_argument("--net", default="resnet20")
    parser.add_argument("--input", default="3x32x32")
    parser.add_argument("--layer", default="layer2.0.conv2")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"], help="default: fp32, on a GPU bf16")
    parser.add_argument("--phase", choices=["training", "inference"], default="training")
    parser.add_argument("--variants", help="of the peers, with commas")
    parser.add_argument("--tuned", action="store_true", help="tune our schedules first, and run both")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slice", type=float, help="seconds of one turn (default 0.1, on a GPU 0.02)")
    parser.add_argument("--alone", type=int, help="kernels compiled from empty caches (default 0, on a GPU 5)")
    parser.add_argument("--jobs", type=int, help="kernels compiled at a time (default: all cores, with --tuned 1: tuning takes times)")
    parser.add_argument("--cache", help="folder in which PyTorch's compiled code is kept (default: one that goes)")
    parser.add_argument("--kernel-seconds", type=float, default=240, help="most time of one kernel")
    parser.add_argument("--limit-seconds", type=float, default=1e9)
    parser.add_argument("--resume", metavar="FILE")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    cpu = args.device == "cpu"
    args.precision = args.precision or ("fp32" if cpu else "bf16")
    args.variants = (args.variants or ("eager" if cpu else "graph,compile,compile-graph,max-autotune-graph")).split(",")
    if {"onnx", "tvm"} & {*args.variants} and (args.phase, args.device, args.precision) != ("inference", "cpu", "fp32"):
        parser.error("the variants onnx and tvm need --phase inference, --device cpu and --precision fp32")
    args.jobs = args.jobs or (1 if args.tuned else os.cpu_count())
    args.slice = args.slice or (0.1 if cpu else 0.02)
    args.alone = (0 if cpu else 5) if args.alone is None else args.alone
    args.size = layer_size(args)
    return args


def main():
    run = Run(options())
    compile_alone(run)
    time_all(run)
    found = summary(run)
    put_summary(run, found)
    if found["disagree"] or found["failed"]:
        return 1
    return 0 if found["kernels"] == found["asked"] else 75


if __name__ == "__main__":
    sys.exit(main())
