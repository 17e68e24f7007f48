#!/usr/bin/env python3
"""Is our training right?  Compares training steps of ResNet-20 with PyTorch's.

  reference  from the same weights, one step of our float64 reference and one of PyTorch in double agree in every
             tensor: loss, logits, every gradient, every parameter, momentum buffer and running statistic after the
             step.  Two steps are compared, so that momentum is not zero, each from PyTorch's own weights; weight
             decay on everything, then on weights only.
  device     at each of the first 20 steps, from PyTorch's weights, the device's (float32) loss and gradients agree.
             Free-running trajectories part quickly and would prove nothing.

  python3 bench/peers/resnet20_step.py --dump build/bench/step_dump [--part reference|device|all] [--device cpu]

Errors: largest |ours - PyTorch's| over a tensor, divided by the tensor's largest value (by 1 for the device's loss);
for the device's gradients, length of the difference divided by the length of PyTorch's gradient, because the ReLU of
a value near 0 may fall to the other side in float32.  Exit code 1 when an error exceeds its tolerance or is not a
number, 77 when torch is missing.
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
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import safetensors  # noqa: E402  (the file beside this one)

CLASSES, LR, MOMENTUM, DECAY, SMOOTHING = 10, 0.1, 0.9, 5e-4, 0.1
REFERENCE_TOLERANCE, LOSS_TOLERANCE, GRADIENT_TOLERANCE = 1e-9, 1e-5, 1e-2


class Block(nn.Module):
    """conv-bn-relu-conv-bn plus shortcut of option A (He et al. 2015): stride and zero channels."""

    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.stride, self.pad = stride, (c_out - c_in) // 2

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        x = F.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, self.pad, self.pad))
        return F.relu(x + y)


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(Block(16, 16, 1), Block(16, 16, 1), Block(16, 16, 1))
        self.layer2 = nn.Sequential(Block(16, 32, 2), Block(32, 32, 1), Block(32, 32, 1))
        self.layer3 = nn.Sequential(Block(32, 64, 2), Block(64, 64, 1), Block(64, 64, 1))
        self.fc = nn.Linear(64, CLASSES)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        return self.fc(x.mean((2, 3)))


class Run:
    """A model, its optimiser and the batches of a run; images have a little structure, labels are random."""

    def __init__(self, args, weights_only, seed=1):
        torch.manual_seed(seed)
        torch.set_default_dtype(torch.float64)
        self.args, self.weights_only = args, weights_only
        self.model = ResNet20()
        assert sum(p.numel() for p in self.model.parameters()) == 269722
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

    def step(self):
        """One step of PyTorch: what went in, and what came out."""
        images = torch.randn(self.args.batch, 3, 32, 32) + torch.randn(self.args.batch, 3, 1, 1)
        labels = torch.randint(CLASSES, (self.args.batch,))
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
            command = [self.args.dump, who, "resnet20", str(CLASSES), "--lr", str(LR), "--momentum", str(MOMENTUM),
                       "--decay", str(DECAY), "--smoothing", str(SMOOTHING), "--device", self.args.device]
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


def relative_maximum(ours, peer):
    difference = (ours.double().flatten() - peer.flatten()).abs().max().item()
    scale = peer.abs().max().item()
    return difference / scale if scale > 0 else difference


def relative_length(ours, peer):
    difference = (ours.double().flatten() - peer.flatten()).norm().item()
    scale = peer.norm().item()
    return difference / scale if scale > 0 else difference


def kind_of(name):
    for prefix, kind in (("grad.", "gradients"), ("velocity.", "momentum buffers"), ("loss", "loss"),
                         ("logits", "logits")):
        if name.startswith(prefix):
            return kind
    return "running statistics" if "running" in name else "parameters after the step"


def compare_reference(args, verdict):
    for weights_only in (False, True):
        run = Run(args, weights_only)
        for _ in range(2):
            given, peer = run.step()
            ours = run.ours("reference", [given])[0]
            if set(ours) != set(peer):
                raise SystemExit(f"tensors differ in name: {sorted(set(ours) ^ set(peer))}")
            for name in peer:
                verdict.add("reference: " + kind_of(name), name, relative_maximum(ours[name], peer[name]),
                            REFERENCE_TOLERANCE)


def compare_device(args, verdict):
    run = Run(args, True)
    steps = [run.step() for _ in range(args.steps)]
    for i, (ours, (_, peer)) in enumerate(zip(run.ours("device", [given for given, _ in steps]), steps)):
        missing = [k for k in peer if k.startswith("grad.") and k not in ours]
        if missing:
            raise SystemExit(f"the device gave no {missing}")
        error = abs(ours["loss"].item() - peer["loss"].item()) / max(1, abs(peer["loss"].item()))
        verdict.add("device: loss", f"step {i}", error, LOSS_TOLERANCE)
        for name in peer:
            if name.startswith("grad."):
                verdict.add("device: gradients", f"step {i} {name}", relative_length(ours[name], peer[name]),
                            GRADIENT_TOLERANCE)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dump", default="build/bench/step_dump")
    parser.add_argument("--part", choices=["reference", "device", "all"], default="all")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    verdict = Verdict()
    if args.part != "device":
        compare_reference(args, verdict)
    if args.part != "reference":
        compare_device(args, verdict)
    sys.exit(verdict.report())


if __name__ == "__main__":
    main()
