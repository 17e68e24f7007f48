#!/usr/bin/env python3
"""Which cheap verdict ranks kernels as a long training on all images does?

    bench/studies/ranks.py WORK --data CIFAR100 [--minutes 55] [--runs bench/results/ranks.jsonl]
    bench/studies/ranks.py WORK --table

CIFAR100 is the folder of the official binary files (train.bin, test.bin).  The kernels are all files of kernels/ that ResNet-20
takes, and kernels that `kas-gpu sample` draws within half of the FLOPs, of each space; drawn kernels whose training step takes more
than twice that of the unmodified network are left out.  Each kernel is trained in every setting below, and what the network reaches
on the validation images is a verdict.  The reference is the last epoch of `long`.

One JSON object for each training goes to the file of --runs, with the accuracy after every epoch and the CPU seconds of the
training.  The same command goes on where the last one stopped; kernels come in one random order, each with all its settings, so
that any prefix is a sample.  --minutes ends the part: a training that has begun is finished.
"""
import argparse
import concurrent.futures
import glob
import json
import os
import random
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
KAS = os.environ.get("KAS_GPU", os.path.join(ROOT, "kas-gpu"))
RUNS = os.path.join(ROOT, "bench", "results", "ranks.jsonl")
NET, SIDE, BATCH, RATE = "resnet20", 16, 128, 0.2
DRAWN = {"canvas": (1, 400), "nas-pte": (1, 60)}  # space: seed, how many are drawn
TIMED = 2.0  # most time of a training step, in steps of the unmodified network

# setting: images of the training set (validation included), epochs, whether it begins with the baseline's weights
SETTINGS = {
    "long": (50000, 12, False),
    "all-1": (50000, 1, False),
    "all-3": (50000, 3, False),
    "10000-12": (10000, 12, False),
    "5000-8": (5000, 8, False),
    "warm-1": (50000, 1, True),
    "warm-5000-4": (5000, 4, True),
}


def kas(*words):
    done = subprocess.run([KAS, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], done.stderr


def must(*words):
    code, lines, error = kas(*words)
    if code:
        sys.exit(f"{' '.join(map(str, words))}: {error}")
    return lines


def dataset(args, images):
    path = os.path.join(args.work, f"cifar100-{SIDE}-{images}.h5")
    if not os.path.exists(path):
        must("dataset", "import", "cifar100", args.data, "-o", path, "--resize", SIDE, "--limit-train", images)
    return path


def step_ratio(path):
    """The time of a training step with the kernel, in those of the unmodified network; None where the network does not take it."""
    code, lines, _ = kas("bench", "step", "--net", NET, "--input", f"3x{SIDE}x{SIDE}", "--classes", 100, "--batch", BATCH, "--repeats", 3,
                         "--threads", 1, "--kernel", path, "--json")
    ratios = [line["ratio_to_unmodified"] for line in lines if line.get("kernel") and line.get("phase") == "training"]
    return ratios[0] if code == 0 and ratios else None


def choose(args):
    """The kernels in their order, kept in WORK/kernels.json: path from the project's root or from WORK."""
    kept = os.path.join(args.work, "kernels.json")
    if os.path.exists(kept):
        with open(kept) as file:
            return json.load(file)
    paths = sorted(glob.glob(os.path.join(ROOT, "kernels", "*.json")))
    for space, (seed, count) in DRAWN.items():
        folder = os.path.join(args.work, space)
        if not os.path.isdir(folder):
            must("sample", "--net", NET, "--input", f"3x{SIDE}x{SIDE}", "--space", space, "--flops", 0.5, "--params", 1, "--seed", seed,
                 "--count", count, "-o", folder)
        paths += sorted(glob.glob(os.path.join(folder, "*.json")))
    chosen = {"known": [], "canvas": [], "nas-pte": []}
    wanted = {"known": 99, "canvas": args.canvas, "nas-pte": args.nas_pte}
    for path in paths:
        kind = os.path.basename(os.path.dirname(path)).replace("kernels", "known")
        if len(chosen[kind]) == wanted[kind]:
            continue
        ratio = step_ratio(path)
        if ratio is not None and (kind == "known" or ratio <= TIMED):
            chosen[kind].append({"kernel": path, "kind": kind, "step_ratio": ratio})
            print(json.dumps(chosen[kind][-1]), file=sys.stderr, flush=True)
    everything = sum(chosen.values(), [])
    random.Random(1).shuffle(everything)
    everything.insert(0, {"kernel": None, "kind": "unmodified", "step_ratio": 1.0})
    with open(kept, "w") as file:
        json.dump(everything, file, indent=1)
    return everything


def baseline(args):
    return os.path.join(args.work, "baseline.safetensors")


def timed(words):
    """Exit code, JSON lines, messages, and CPU seconds of a command with those of the compilers that it started."""
    with tempfile.TemporaryFile("w+") as messages:
        process = subprocess.Popen([KAS, *map(str, words)], stdout=subprocess.PIPE, stderr=messages, text=True)
        lines = [json.loads(line) for line in process.stdout if line.startswith("{")]
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        messages.seek(0)
        return process.returncode, lines, messages.read(), usage.ru_utime + usage.ru_stime


def train(args, kernel, setting):
    images, epochs, warm = SETTINGS[setting]
    words = ["train", "--net", NET, "--dataset", dataset(args, images), "--epochs", epochs, "--batch", BATCH, "--lr", RATE, "--seed", 0,
             "--threads", 1, "--json", "--quiet"]
    if kernel["kernel"]:
        words += ["--kernel", kernel["kernel"]]
    elif setting == "long":
        words += ["--weights", baseline(args)]
    if warm:
        words += ["--init", baseline(args), "--init-partial"]
    code, lines, error, seconds = timed(words)
    curve = [line["validation_accuracy"] for line in lines if line.get("validation_accuracy") is not None and "epoch" in line]
    return {"setting": setting, "kernel": kernel_name(kernel), "kind": kernel["kind"], "step_ratio": kernel["step_ratio"], "curve": curve,
            "state": lines[-1].get("state") if lines else None, "error": error.strip()[-300:] if code else None,
            "cpu_seconds": seconds}


def kernel_name(kernel):
    return os.path.basename(kernel["kernel"])[:-5] if kernel["kernel"] else "unmodified"


def known_runs(path):
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file]


def part(args):
    deadline = time.monotonic() + 60 * args.minutes
    kernels = choose(args)
    done = {(run["kernel"], run["setting"]) for run in known_runs(args.runs)}
    todo = [(kernel, setting) for kernel in kernels for setting in SETTINGS if (kernel_name(kernel), setting) not in done]
    for images in {SETTINGS[setting][0] for _, setting in todo}:
        dataset(args, images)
    first = [job for job in todo if job[0]["kernel"] is None and job[1] == "long"]  # others begin with its weights
    with open(args.runs, "a") as file, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        def run(job):
            if time.monotonic() > deadline:
                return False
            line = train(args, *job)
            print(json.dumps(line), file=file, flush=True)
            return True
        for job in first:
            run(job)
        ran = sum(pool.map(run, [job for job in todo if job not in first]))
    print(f"{ran + len(first)} trainings in this part; {len(todo) - ran - len(first)} are left")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work")
    parser.add_argument("--data")
    parser.add_argument("--minutes", type=float, default=55)
    parser.add_argument("--runs", default=RUNS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--canvas", type=int, default=38)
    parser.add_argument("--nas-pte", type=int, default=8)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    args.work = os.path.abspath(args.work)
    os.makedirs(args.work, exist_ok=True)
    part(args)


if __name__ == "__main__":
    main()
