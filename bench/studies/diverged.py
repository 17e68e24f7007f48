#!/usr/bin/env python3
"""Is every network that ended with a number that is not finite called diverged, and no other?

    bench/studies/diverged.py WORK [KERNELS [SEED]]       300 kernels of seed 1 unless told otherwise

A training also ends as diverged where its loss or the last evaluation's logits are not finite: those with finite tensors are listed.

Samples kernels for tiny.json, trains each for 3 epochs at --lr 0.1 and at 0.5 on 128 drawn images of 8x8, and compares three
verdicts: that of `kas-gpu train`; that of the bits of the parameters and running statistics in its last checkpoint; and, for 10
networks that diverged and 10 that did not, that of PyTorch on the exported network with the same tensors: whether they are finite,
and which logits of plain images and of images with one NaN are not.

One JSON object a line for each training goes to WORK/runs.jsonl; the same command again goes on behind the last, with 0 for KERNELS
it only judges those that ran. The table at the
end is Markdown; the exit status is 1 where two verdicts differ. Needs numpy and torch (Debian's python3-torch), and
`make programs`.
"""
import collections
import concurrent.futures
import importlib
import json
import os
import struct
import subprocess
import sys

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
KAS = os.environ.get("KAS_GPU", os.path.join(ROOT, "kas-gpu"))
ENDED = os.path.join(ROOT, "build", "bench", "ended_network")
NET = os.path.join(HERE, "tiny.json")
INPUT, CLASSES, BATCH, RATES = "3x8x8", "4", "16", ("0.1", "0.5")
BATCH_NORMS = 2  # of tiny.json, of 16 channels: one piece of 64 floats for each running mean and variance
HEADER = "<8s32s128sQd256sQQ"  # src/host/train/checkpoint.h
EPOCH = 48


def kas(*words, check=True):
    return subprocess.run([KAS, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=check)


def not_finite(raw):
    """How many of the float32 numbers in `raw` have the exponent of infinity and NaN."""
    bits = numpy.frombuffer(raw, dtype="<u4")
    return int(((bits >> 23 & 255) == 255).sum())


def judge(path):
    """Parameters, and running statistics, that are not finite in a checkpoint: parameters | velocity | running statistics."""
    with open(path, "rb") as file:
        data = file.read()
    fields = struct.unpack_from(HEADER, data)
    epochs, size = fields[-2:]
    begin = struct.calcsize(HEADER) + EPOCH * epochs
    kept = data[begin:begin + size]
    statistics = BATCH_NORMS * 2 * 64 * 4
    learned, rest = divmod(size - statistics, 2)
    assert fields[0] == b"KASCKPT2" and len(kept) == size and rest == 0 and learned % 256 == 0, path
    return not_finite(kept[:learned]), not_finite(kept[2 * learned:])


def train(work, kernel, rate):
    name = f"{os.path.basename(kernel)[:-5]}-{rate}"
    checkpoint, weights = os.path.join(work, name + ".checkpoint"), os.path.join(work, name + ".safetensors")
    for path in checkpoint, weights:
        if os.path.exists(path):
            os.remove(path)
    done = kas("train", "--net", NET, "--kernel", kernel, "--dataset", os.path.join(work, "data.h5"), "--epochs", "3", "--batch", BATCH,
               "--lr", rate, "--threads", "1", "--checkpoint", checkpoint, "--weights", weights, "--quiet", "--json", check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    run = {"kernel": kernel, "rate": rate, "checkpoint": checkpoint, "code": done.returncode, "error": done.stderr.strip(),
           "state": lines[-1].get("state") if lines else None}
    if run["state"]:
        run["parameters"], run["statistics"] = judge(checkpoint)
        run["weights"] = os.path.exists(weights)
    return run


def broken(run):
    return run["parameters"] + run["statistics"] > 0


def torch_differs(work, run):
    """What PyTorch sees otherwise, or None."""
    import torch
    folder = os.path.join(work, "exported")
    kas("export", run["kernel"], "-o", folder, "--net", NET, "--input", INPUT, "--classes", CLASSES)
    ended = os.path.join(work, "ended.safetensors")
    subprocess.run([ENDED, NET, INPUT, CLASSES, BATCH, run["kernel"], run["checkpoint"], ended], check=True)
    for module in "network", "kernel":
        sys.modules.pop(module, None)
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    network = importlib.import_module("network")
    sys.path.pop(0)
    tensors = network.read_safetensors(ended)
    images, logits = tensors.pop("images"), tensors.pop("logits")
    model = network.Network().eval()
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected and all(name.endswith("num_batches_tracked") for name in missing), (missing, unexpected)
    whole = all(bool(torch.isfinite(tensor).all()) for tensor in model.state_dict().values())
    if whole == (run["state"] == "diverged"):
        return f"its tensors are {'' if whole else 'not '}finite"
    with torch.no_grad():
        answer = model(images)
    other = int((torch.isfinite(answer) != torch.isfinite(logits)).sum())
    return f"{other} of {logits.numel()} logits finite on one side alone" if other else None


def all_runs(work, kernels, seed):
    os.makedirs(work, exist_ok=True)
    data, drawn, log = (os.path.join(work, name) for name in ("data.h5", "kernels", "runs.jsonl"))
    if not os.path.exists(data):
        kas("dataset", "make", "shapes", "-o", data, "--train", "128", "--test", "16", "--size", "8", "--classes", CLASSES)
    if not os.path.isdir(drawn):
        kas("sample", "--net", NET, "--input", INPUT, "--count", str(kernels), "--seed", str(seed), "-o", drawn)
    runs = []
    if os.path.exists(log):
        with open(log) as file:
            runs = [json.loads(line) for line in file]
    known = {(run["kernel"], run["rate"]) for run in runs}
    todo = [(os.path.join(drawn, name), rate) for name in sorted(os.listdir(drawn))[:kernels] for rate in RATES]
    todo = [pair for pair in todo if pair not in known]
    with open(log, "a") as file, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for run in pool.map(lambda pair: train(work, *pair), todo):
            runs.append(run)
            print(json.dumps(run), file=file, flush=True)
    return runs


def main(work, kernels=300, seed=1):
    runs = all_runs(os.path.abspath(work), int(kernels), seed)
    failed = [run for run in runs if not run["state"]]
    ended = [run for run in runs if run["state"]]
    counts = collections.Counter((run["rate"], run["state"], broken(run)) for run in ended)
    print("| --lr | `train` says | tensors not finite | all finite |\n|---|---|---:|---:|")
    for rate in RATES:
        for state in "diverged", "trained":
            print(f"| {rate} | {state} | {counts[rate, state, True]} | {counts[rate, state, False]} |")
    by_loss = [run for run in ended if run["state"] == "diverged" and not broken(run) and
               ("the loss was" in run["error"] or "a logit or" in run["error"])]
    wrong = [run for run in ended if (run["state"] == "diverged") != broken(run) and run not in by_loss or
             run["weights"] != (run["state"] == "trained") or (run["code"] == 0) != (run["state"] == "trained")]
    reasons = collections.Counter(run["error"].split("kas-gpu: error: ")[-1].split(" was not finite")[0]
                                  for run in ended if run["state"] == "diverged")
    print("\nWhat was not finite first: " + ", ".join(f"{text} {count}" for text, count in reasons.most_common()) + ".")
    chosen = [[run for run in ended if broken(run) == which][:10] for which in (True, False)]
    differs = [(run, torch_differs(os.path.abspath(work), run)) for group in chosen for run in group]
    wrong_torch = [(run, text) for run, text in differs if text]
    print(f"\nEnded by the loss or a logit while every tensor was finite: {len(by_loss)}.")
    for run in by_loss:
        print(f"- {os.path.basename(run['kernel'])} at {run['rate']}: {run['error'].split('error: ')[-1]}")
    print(f"\n{len(runs)} trainings, {len(failed)} of them failed otherwise; {len(wrong)} wrong verdicts; PyTorch agrees about "
          f"{len(differs) - len(wrong_torch)} of {len(differs)} networks.")
    for run in failed + wrong:
        print(f"{run['kernel']} at {run['rate']}: {run}")
    for run, text in wrong_torch:
        print(f"{run['kernel']} at {run['rate']}: {run['state']}; PyTorch: {text}")
    return 1 if failed or wrong or wrong_torch else 0


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
