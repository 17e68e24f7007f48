#!/usr/bin/env python3
"""Is our training right?  Compares training steps of a network with PyTorch's.

  reference  from the same weights, one step of our float64 reference and one of PyTorch in double agree in every
             tensor: loss, logits, every gradient, every parameter, momentum buffer and running statistic after the
             step.  Two steps are compared, so that momentum is not zero, each from PyTorch's own weights; weight
             decay on everything, then (unless --runs 1) on weights only.
  device     at each of the first steps, from PyTorch's weights, the device's (float32) loss and gradients agree.
             Free-running trajectories part quickly and would prove nothing.

  python3 bench/peers/network_step.py --net resnet20 [--input 3x32x32] [--part reference|device|all] [--device cpu]

The PyTorch module is the one that `kas-gpu export` writes, generated from the network's description, or the class
Network of --module FILE.  Dropout drops nothing on either side: other numbers would drop other values.

             Weights and images are numbers that float32 holds, and no value lies near the kink of a ReLU (kinks.py);
             how near the nearest lies is printed.

Errors: largest |ours - PyTorch's| over a tensor, divided by the tensor's largest value (by 1 for the device's loss);
for the device's gradients, length of the difference divided by the length of PyTorch's gradient.

Some gradients are zero but for rounding (a bias before a batch norm): the divisor is at least 1e-5 of the largest
value among tensors of the kind, for the device 1e-4 of the length of all gradients.  Exit code 1 when an error exceeds
its tolerance or is not a number, 77 when torch is missing.
"""
import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time

try:
    import torch
except ImportError:
    print("SKIPPED: this python has no torch (Debian: apt-get install python3-torch, run with /usr/bin/python3)")
    sys.exit(77)
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import safetensors  # noqa: E402  (the files beside this one)
from kinks import Kinks  # noqa: E402

LR, MOMENTUM, DECAY, SMOOTHING = 0.1, 0.9, 5e-4, 0.1
REFERENCE_TOLERANCE, LOSS_TOLERANCE, GRADIENT_TOLERANCE = 1e-9, 1e-5, 1e-2
REFERENCE_FLOOR, GRADIENT_FLOOR = 1e-5, 1e-4


def network_of(args):
    """Class Network of --module, or of the module that our exporter makes of the network."""
    with tempfile.TemporaryDirectory() as folder:
        path = args.module
        if not path:
            path = os.path.join(folder, "network.py")
            shape = args.input.split("x")
            subprocess.run([args.dump, "python", args.net, str(args.classes), *shape, path], check=True)
        spec = importlib.util.spec_from_file_location("network", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module.Network()


class Run:
    """A model, its optimiser and the batches of a run; images have a little structure, labels are random."""

    def __init__(self, args, weights_only, for_float32=False, seed=1):
        torch.manual_seed(seed)
        torch.set_default_dtype(torch.float64)
        self.args, self.weights_only = args, weights_only
        self.model = network_of(args).train()
        self.kinks = Kinks(self.model) if for_float32 else None
        decayed = [p for p in self.model.parameters() if p.dim() > 1]
        plain = [p for p in self.model.parameters() if p.dim() == 1]
        groups = [{"params": decayed, "weight_decay": DECAY},
                  {"params": plain, "weight_decay": 0 if weights_only else DECAY}]
        self.optimizer = torch.optim.SGD(groups, lr=LR, momentum=MOMENTUM, nesterov=True)

    def state(self):
        return {k: v.clone() for k, v in self.model.state_dict().items() if not k.endswith("num_batches_tracked")}

    def velocity(self):
        found = {}
        for name, p in self.model.named_parameters():
            buffer = self.optimizer.state.get(p, {}).get("momentum_buffer")
            if buffer is not None:
                found["velocity." + name] = buffer.clone()
        return found

    def prepare(self, images):
        """Weights that float32 holds, and no value near a kink with them."""
        with torch.no_grad():
            for tensor in self.model.state_dict().values():
                tensor.copy_(tensor.float())
        self.kinks.clear(self.model, images)
        with torch.no_grad():
            for tensor in self.model.state_dict().values():
                tensor.copy_(tensor.float())

    def step(self):
        """One step of PyTorch: what went in, and what came out."""
        c, h, w = (int(size) for size in self.args.input.split("x"))
        images = torch.randn(self.args.batch, c, h, w) + torch.randn(self.args.batch, c, 1, 1)
        labels = torch.randint(self.args.classes, (self.args.batch,))
        if self.kinks:
            images = images.float().double()
            self.prepare(images)
        given = {"images": images, "labels": labels, **self.state(), **self.velocity()}
        self.optimizer.zero_grad()
        logits = self.model(images)
        loss = F.cross_entropy(logits, labels, label_smoothing=SMOOTHING)
        loss.backward()
        result = {"loss": loss.detach().reshape(1), "logits": logits.detach()}
        for name, p in self.model.named_parameters():
            result["grad." + name] = p.grad.clone()
        self.optimizer.step()
        return given, {**result, **self.state(), **self.velocity()}

    def ours(self, who, given):
        """The same steps by step_dump; `given` is a list of inputs."""
        with tempfile.TemporaryDirectory() as folder:
            command = [self.args.dump, who, self.args.net, str(self.args.classes), "--no-dropout", "--lr", str(LR),
                       "--momentum", str(MOMENTUM), "--decay", str(DECAY), "--smoothing", str(SMOOTHING),
                       "--device", self.args.device]
            command += ["--weights-only"] if self.weights_only else []
            outputs = []
            for i, tensors in enumerate(given):
                source = os.path.join(folder, f"in{i}.safetensors")
                outputs.append(os.path.join(folder, f"out{i}.safetensors"))
                safetensors.write(source, tensors)
                command += [source, outputs[-1]]
            subprocess.run(command, check=True)
            return [safetensors.read(path) for path in outputs]


class Verdict:
    """Collects the worst error of each kind of tensor; anything but error <= tolerance fails."""

    def __init__(self):
        self.worst, self.failed = {}, 0

    def add(self, kind, name, error, tolerance):
        good = error <= tolerance
        if not good:
            self.failed += 1
            print(f"FAILED  {kind}: {name}: error {error:.3g}, tolerance {tolerance:.3g}")
        if kind not in self.worst or not error <= self.worst[kind][0]:
            self.worst[kind] = (error, name, tolerance)

    def report(self):
        for kind, (error, name, tolerance) in self.worst.items():
            print(f"{kind:34} largest error {error:.3g} ({name}), tolerance {tolerance:.3g}")
        return 1 if self.failed or not self.worst else 0


def largest(tensor):
    return tensor.abs().max().item()


def relative(difference, scale):
    return difference / scale if scale > 0 else difference


def kind_of(name):
    for prefix, kind in (("grad.", "gradients"), ("velocity.", "momentum buffers"), ("loss", "loss"),
                         ("logits", "logits")):
        if name.startswith(prefix):
            return kind
    return "running statistics" if "running" in name else "parameters after the step"


def compare_reference(args, verdict):
    for weights_only in (False, True)[:args.runs]:
        run = Run(args, weights_only)
        for _ in range(2):
            given, peer = run.step()
            ours = run.ours("reference", [given])[0]
            if set(ours) != set(peer):
                raise SystemExit(f"tensors differ in name: {sorted(set(ours) ^ set(peer))}")
            floor = {}
            for name in peer:
                floor[kind_of(name)] = max(floor.get(kind_of(name), 0), REFERENCE_FLOOR * largest(peer[name]))
            for name in peer:
                difference = largest(ours[name].flatten() - peer[name].flatten())
                verdict.add("reference: " + kind_of(name), name,
                            relative(difference, max(largest(peer[name]), floor[kind_of(name)])), REFERENCE_TOLERANCE)


def compare_device(args, verdict):
    run = Run(args, True, for_float32=True)
    steps = [run.step() for _ in range(args.steps)]
    print(f"nearest value to the kink of a ReLU: {run.kinks.nearest:.1e}")
    for i, (ours, (_, peer)) in enumerate(zip(run.ours("device", [given for given, _ in steps]), steps)):
        gradients = [name for name in peer if name.startswith("grad.")]
        missing = [name for name in gradients if name not in ours]
        if missing:
            raise SystemExit(f"the device gave no {missing}")
        error = abs(ours["loss"].item() - peer["loss"].item()) / max(1, abs(peer["loss"].item()))
        verdict.add("device: loss", f"step {i}", error, LOSS_TOLERANCE)
        floor = GRADIENT_FLOOR * sum(peer[name].norm().item() ** 2 for name in gradients) ** 0.5
        for name in gradients:
            difference = (ours[name].double().flatten() - peer[name].flatten()).norm().item()
            error = relative(difference, max(peer[name].norm().item(), floor))
            verdict.add("device: gradients", f"step {i} {name}", error, GRADIENT_TOLERANCE)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", default="resnet20", help="name, file, or name with arguments: densenet161:small=0")
    parser.add_argument("--input", default="3x32x32", help="CxHxW")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--module", help="Python file with a class Network, in place of the generated one")
    parser.add_argument("--dump", default="build/bench/step_dump")
    parser.add_argument("--part", choices=["reference", "device", "all"], default="all")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20, help="of the device")
    parser.add_argument("--runs", type=int, choices=[1, 2], default=2, help="of the reference")
    args = parser.parse_args()
    F.dropout = lambda x, p, training: x
    F.hardsigmoid = lambda x: F.relu6(x + 3) / 6  # PyTorch 1.13's gradient holds 1/6 as a float, in double too
    verdict, begin = Verdict(), time.time()
    if args.part != "device":
        compare_reference(args, verdict)
    if args.part != "reference":
        compare_device(args, verdict)
    code = verdict.report()
    print(f"{args.net} {args.input}, {args.batch} images: {time.time() - begin:.1f} s")
    sys.exit(code)


if __name__ == "__main__":
    main()
