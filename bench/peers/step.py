#!/usr/bin/env python3
"""Training steps of a network beside PyTorch's, taking turns on one device.

    /usr/bin/python3 bench/peers/step.py resnet20 resnet18 [--device cpu|cuda] [--batch N] [--threads 2] [--json]

The network is the module that `kas-gpu export` writes, generated from the same description.  Both sides have the images
on the device, crop and mirror them there at random, and run forward pass, cross entropy with label smoothing, backward
pass and SGD with Nesterov momentum and weight decay on weights of more than one dimension.  PyTorch's images are
normalised and padded beforehand, so that cropping is one gather; ours are bytes.  That both compute the same is what
network_step.py shows; here the losses must be finite, and we count every image.

Each side runs some steps of an epoch, then the other; the ratio is that of neighbours, PyTorch's time over ours, and a
figure is the median over rounds.  Everything is warmed up first.  Every variant of PyTorch is listed, and the fastest
one is what we are held against:

  cpu   channels-last       eager
        contiguous          eager
        compile             torch.compile of the network, channels-last, the rest eager (PyTorch 2)
  cuda  graph               eager code, channels-last, the whole step in a CUDA graph
        compile-graph       torch.compile of the network, the whole step in a CUDA graph
        max-autotune-graph  the same with mode max-autotune-no-cudagraphs
        compile             torch.compile of the network, the rest eager
        max-autotune        torch.compile with mode max-autotune, which makes graphs of its own, the rest eager

Each variant is a process of its own (this program with --serve), so that no memory, compiled code or fault of one is
another's.  A variant that is not ready within --variant-seconds is given up and said.

--resume FILE keeps the lines of each variant that was measured, in every phase, and leaves it out when run again with the
same settings; lines of before are printed first.

--precision, of both sides: fp32 (PyTorch without TF32), tf32, bf16 (PyTorch: autocast; both: float32 master weights).
Exit code 1 when a side fails.
"""
import argparse
import contextlib
import json
import math
import os
import select
import statistics
import subprocess
import sys

try:
    import torch
except ImportError:
    print("SKIPPED: this python has no torch (Debian: apt-get install python3-torch, run with /usr/bin/python3)")
    sys.exit(77)
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch_timing  # noqa: E402  (the files beside this one)
from network_step import network_of  # noqa: E402
from tf32 import set_tf32  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, "..", "..", os.environ.get("BUILD", "build"))
PAD, SMOOTHING, LR, MOMENTUM, DECAY = 4, 0.1, 1e-3, 0.9, 5e-4
VARIANTS = {"cpu": ["channels-last", "contiguous", "compile"],
            "cuda": ["graph", "compile-graph", "max-autotune-graph", "compile", "max-autotune"]}
MODES = {"compile": "default", "compile-graph": "default", "max-autotune": "max-autotune",
         "max-autotune-graph": "max-autotune-no-cudagraphs"}
SETTINGS = ("input", "batch", "device", "threads", "precision")  # rows of others are not resumed


def network(args, net):
    """The module that our exporter makes of the network."""
    return network_of(argparse.Namespace(net=net, input=args.input, classes=args.classes, module=None,
                                         dump=os.path.join(BUILD, "bench", "step_dump")))


class Torch:
    """A network in PyTorch with its images, at fixed addresses, so that a CUDA graph can repeat a step.

    All its work is on a stream of its own, as graphs demand of their warm-up.  The loss is kept without its history: the
    nodes of autograd would outlive the step, and a capture would find them bound to what ran before it."""

    def __init__(self, args, net, variant):
        torch.manual_seed(0)
        self.args, self.variant, self.device = args, variant, torch.device(args.device)
        self.cuda = self.device.type == "cuda"
        self.stream = torch.cuda.Stream() if self.cuda else None
        with self.on_stream():
            self.make(args, net, variant)

    def on_stream(self):
        return torch.cuda.stream(self.stream) if self.cuda else contextlib.nullcontext()

    def make(self, args, net, variant):
        self.half = args.precision == "bf16"
        self.format = torch.contiguous_format if variant == "contiguous" else torch.channels_last
        model = network(args, net).to(self.device, memory_format=self.format).train()
        self.optimizer = self.make_optimizer(model)
        self.model = self.compiled(model)
        self.make_images()
        self.order = torch.randperm(args.images, device=self.device)
        self.cursor = torch.zeros((), dtype=torch.int64, device=self.device)
        self.lanes = torch.arange(args.batch, device=self.device)
        self.graph, self.infer_graph = None, None
        for _ in range(3):
            self.step()
            self.infer()
        if variant.endswith("graph"):
            self.capture()

    def compiled(self, model):
        mode = MODES.get(self.variant)
        return torch.compile(model, mode=mode, dynamic=False) if mode else model

    def make_optimizer(self, model):
        groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": DECAY},
                  {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0}]
        options = {"lr": LR, "momentum": MOMENTUM, "nesterov": True}
        if self.cuda:
            try:
                return torch.optim.SGD(groups, fused=True, **options)
            except (TypeError, RuntimeError):  # older than 2.3
                pass
        return torch.optim.SGD(groups, foreach=True, **options)

    def make_images(self):
        """Normalised, padded, channels last: [images][h + 2 PAD][w + 2 PAD][c]."""
        c, h, w = (int(size) for size in self.args.input.split("x"))
        self.h, self.w = h, w
        kind = torch.bfloat16 if self.half and self.cuda else torch.float32
        bytes_ = torch.randint(256, (self.args.images, h, w, c), dtype=torch.uint8, device=self.device)
        images = (bytes_.float() / 255 - 0.5) / 0.29
        self.images = F.pad(images, (0, 0, PAD, PAD, PAD, PAD)).to(kind)
        self.labels = torch.arange(self.args.images, device=self.device) % self.args.classes
        self.given = torch.randn(self.args.batch, c, h, w, device=self.device).to(kind).to(
            memory_format=self.format)

    def batch(self):
        n = self.args.batch
        index = self.order[self.cursor + self.lanes]
        top, left = torch.randint(2 * PAD + 1, (2, n, 1), device=self.device)
        rows = torch.arange(self.h, device=self.device) + top
        columns = torch.arange(self.w, device=self.device)
        flip = torch.rand(n, 1, device=self.device) < 0.5
        columns = torch.where(flip, self.w - 1 - columns, columns) + left
        images = self.images[index[:, None, None], rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
        if self.format is torch.contiguous_format:
            images = images.contiguous()
        return images, self.labels[index]

    def forward(self, images):
        if not self.half:
            return self.model(images)
        with torch.autocast(self.device.type, torch.bfloat16, cache_enabled=not self.variant.endswith("graph")):
            return self.model(images)

    def begin(self):
        """What graphs that torch.compile made itself returned before may be overwritten from here on."""
        if self.variant == "max-autotune":
            torch.compiler.cudagraph_mark_step_begin()

    def step(self):
        self.begin()
        images, labels = self.batch()
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.forward(images).float(), labels, label_smoothing=SMOOTHING)
        loss.backward()
        self.optimizer.step()
        self.cursor += self.args.batch
        self.loss = loss.detach()

    def infer(self):
        """In training mode batch norm would write its statistics."""
        self.begin()
        self.model.eval()
        with torch.no_grad():
            self.logits = self.forward(self.given)
        self.model.train()

    def capture(self):
        self.begin_epoch()
        torch.cuda.synchronize()
        self.graph, self.infer_graph = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.step()
        with torch.cuda.graph(self.infer_graph, stream=self.stream):
            self.infer()

    def begin_epoch(self):
        self.order.copy_(torch.randperm(self.args.images, device=self.device))
        self.cursor.zero_()

    def seconds(self, phase, runs):
        """Of `runs` steps, on the device; the order of the epoch is made before, as on our side."""
        with self.on_stream():
            return self.timed(phase, runs)

    def timed(self, phase, runs):
        if phase == "train":
            self.begin_epoch()
            run = self.graph.replay if self.graph else self.step
        else:
            run = self.infer_graph.replay if self.infer_graph else self.infer
        return torch_timing.seconds(run, runs, self.cuda)


class Side:
    """A process that says "ready" and then runs steps at our command: serve_step.c, or this program with --serve."""

    def __init__(self, name, command, seconds):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            self.close()
            raise RuntimeError(f"not ready within {seconds:.0f} s")
        ready = self.process.stdout.readline().decode().strip()
        if ready != "ready":
            self.close()
            raise RuntimeError(ready or f"{name} failed")

    def ask(self, line):
        self.process.stdin.write((line + "\n").encode())
        self.process.stdin.flush()
        answer = self.process.stdout.readline().decode().strip()
        if not answer:
            raise RuntimeError(f"{self.name} failed at \"{line}\"")
        return answer

    def seconds(self, phase, runs):
        return float(self.ask(f"{phase} {runs}"))

    def check(self):
        if self.ask("check") != "ok":
            raise RuntimeError(f"{self.name}: the steps were not what they claim")

    def close(self):
        self.process.kill()
        self.process.communicate()


def our_side(args, net):
    side = Side("serve_step", [os.path.join(BUILD, "bench", "serve_step"), net, args.input, str(args.classes),
                               str(args.batch), str(args.images), args.device, str(args.threads), args.precision],
                args.variant_seconds)
    for _ in range(3):
        side.seconds("train", 1)
        side.seconds("infer", 1)
    return side


def peer_side(args, net, variant):
    options = {k: v for k, v in vars(args).items() if k not in ("nets", "serve")}
    return Side(variant, [sys.executable, os.path.abspath(__file__), net, "--serve",
                          json.dumps({**options, "variant": variant})], args.variant_seconds)


def serve(net, options):
    """The other side of Side, for PyTorch."""
    args = argparse.Namespace(**options)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what PyTorch prints is no answer
    prepare_torch(args)
    try:
        peer = Torch(args, net, args.variant)
        print("ready", file=answers, flush=True)
    except Exception as error:
        print((str(error).splitlines() or [type(error).__name__])[0], file=answers, flush=True)
        return 1
    for line in sys.stdin:
        word, _, runs = line.strip().partition(" ")
        if word == "check":
            answer = "ok" if math.isfinite(peer.loss.item()) else "the loss is not finite"
        else:
            answer = repr(peer.seconds(word, int(runs)))
        print(answer, file=answers, flush=True)
    return 0


def take_turns(args, phase, peer, ours):
    sides = {"torch": peer, "ours": ours}
    most = args.images // args.batch if phase == "train" else 1000
    runs, times = {}, {"torch": [], "ours": []}
    for name, side in sides.items():
        runs[name] = max(1, min(most, round(args.slice / side.seconds(phase, 1))))
    for _ in range(args.rounds):
        for name, side in sides.items():
            times[name].append(side.seconds(phase, runs[name]) / runs[name])
    ratios = sorted(t / o for t, o in zip(times["torch"], times["ours"]))
    quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratios[0]] * 3
    return {"torch_seconds": statistics.median(times["torch"]), "seconds": statistics.median(times["ours"]),
            "ratio": statistics.median(ratios), "ratio_q1": quartiles[0], "ratio_q3": quartiles[2], "rounds": args.rounds}


def one_variant(args, net, variant, ours):
    peer = peer_side(args, net, variant)
    try:
        rows = [{"phase": phase, **take_turns(args, phase, peer, ours)} for phase in args.phases.split(",")]
        peer.check()
        return rows
    finally:
        peer.close()


def known_rows(args):
    """Of the file of --resume: what was measured with these settings."""
    if not args.resume or not os.path.exists(args.resume):
        return []
    with open(args.resume) as file:
        rows = [json.loads(line) for line in file]
    return [r for r in rows if r["net"] in args.nets and all(r[k] == getattr(args, k) for k in SETTINGS)]


def variants_left(args, net, known):
    wanted = args.variants.split(",") if args.variants else VARIANTS[args.device]
    done = {(r["variant"], r["phase"]) for r in known if r["net"] == net}
    return [v for v in wanted if any((v, phase) not in done for phase in args.phases.split(","))]


def remember(args, rows):
    if args.resume:
        with open(args.resume, "a") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))


def put(args, row):
    if args.json:
        print(json.dumps({"schema_version": 1, "kind": "bench", "suite": "peer_step", **row}), flush=True)
        return
    print(f"{row['net']:16} {row['phase']:5} batch {row['batch']:4}  torch {1e3 * row['torch_seconds']:9.3f} ms "
          f"({row['variant']})  kas-gpu {1e3 * row['seconds']:9.3f} ms  {row['batch'] / row['seconds']:9.0f} images/s  "
          f"{row['ratio']:5.2f}x ({row['ratio_q1']:.2f} to {row['ratio_q3']:.2f})"
          f"{'  slower' if row['ratio'] < 1 else ''}", flush=True)


def one_network(args, net, variants):
    rows, failed = [], []
    ours = our_side(args, net)
    for variant in variants:
        try:
            found = one_variant(args, net, variant, ours)
        except Exception as error:  # a variant that this PyTorch cannot run is said, the others go on
            failed.append(f"{net} {variant}: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
            print(failed[-1], file=sys.stderr)
            continue
        found = [{"net": net, **{k: getattr(args, k) for k in SETTINGS}, "variant": variant, **row} for row in found]
        remember(args, found)
        for row in found:
            put(args, row)
        rows += found
    ours.seconds("train", 1)
    ours.check()
    ours.close()
    return rows, failed


def summary(args, rows, failed):
    """Of each network and phase the variant of PyTorch that was the fastest beside us: the machine's pace may change."""
    best = {}
    for row in rows:
        key = (row["net"], row["phase"])
        if key not in best or row["ratio"] < best[key]["ratio"]:
            best[key] = row
    losses = [f"{n} {p} {r['ratio']:.2f}x ({r['variant']})" for (n, p), r in best.items() if r["ratio"] < 1]
    mean = math.exp(statistics.mean(math.log(r["ratio"]) for r in best.values())) if best else None
    found = {"geometric_mean": mean, "losses": losses, "failed": failed, "torch": torch.__version__}
    if args.json:
        print(json.dumps({"schema_version": 1, "kind": "bench", "suite": "peer_step_summary", **found}))
    else:
        print(f"against the fastest variant of PyTorch {torch.__version__}: geometric mean "
              f"{'-' if mean is None else f'{mean:.2f}x'}; slower than PyTorch: {', '.join(losses) or 'none'}"
              f"{'; not run: ' + '; '.join(failed) if failed else ''}")


def prepare_torch(args):
    torch.set_num_threads(args.threads)
    if args.device == "cpu":
        return
    torch.backends.cudnn.benchmark = True
    set_tf32(args.precision != "fp32")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="+")
    parser.add_argument("--input", default="3x32x32")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--batch", type=int, help="default: 64 on the CPU, 512 on a GPU")
    parser.add_argument("--images", type=int, help="on the device; default: 8 batches on the CPU, 50,000 on a GPU")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "tf32", "bf16"])
    parser.add_argument("--variants", help="some of the variants above, with commas")
    parser.add_argument("--phases", default="train,infer", help="train, infer or both, with a comma")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--slice", type=float, help="seconds of one turn (default 0.5, on a GPU 0.25)")
    parser.add_argument("--variant-seconds", type=float, default=300, help="most time until a variant is ready")
    parser.add_argument("--resume", metavar="FILE")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", metavar="JSON", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve(args.nets[0], json.loads(args.serve))
    cpu = args.device == "cpu"
    args.batch = args.batch or (64 if cpu else 512)
    args.images = args.images or (8 * args.batch if cpu else 50000)
    args.slice = args.slice or (0.5 if cpu else 0.25)
    rows, failed = known_rows(args), []
    for row in rows:
        put(args, row)
    for net in args.nets:
        left = variants_left(args, net, rows)
        found = one_network(args, net, left) if left else ([], [])
        rows += found[0]
        failed += found[1]
    summary(args, rows, failed)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
