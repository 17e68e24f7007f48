#!/usr/bin/env python3
"""How accurate are networks that `kas-gpu assemble` makes, beside BlockSwap's, FBNet's, and one kernel for all layers?

    bench/studies/assemble.py WORK --data CIFAR100 [--minutes 55] [--runs bench/results/assemble.jsonl]
    bench/studies/assemble.py --table [--runs FILE...]       what the runs say, as Markdown

CIFAR100 is the folder of the official binary files (train.bin, test.bin), which is read at 16x16; with --dataset F.h5 it is another
data set.  For each seed ResNet-20 is trained first; everything begins with its weights, and this training is not counted.  A run then
has the same CPU seconds (--seconds), compilers included, whatever its method: it chooses, its kernels imitate the trained network,
and what is left of the time goes into epochs of training on all training images.  So a method that chooses for long trains for
fewer epochs.  The methods:

    knapsack    assemble --loss imitation, of the kernels below
    fisher      assemble --loss fisher
    blockswap   assemble --strategy blockswap, 1000 samples, within the same latency
    fbnet       assemble --strategy fbnet, with a third of the seconds for the supernet
    NAME        one of the kernels in all layers that it fits, with the latency that it happens to have
    unmodified  the network itself, trained on

Latencies are predicted, so `kas-gpu doctor --calibrate` comes first; each network is measured too, at the end of its run.
The accuracy is that on the test images after the last epoch; nothing was chosen by them.  A run that is interrupted is done again from its
beginning; those that ended are lines of the file of --runs, and the same command does what is left.  --minutes ends the part: a
run that has begun is finished.  Several parts, on several machines, may write files of their own, and --table merges them.
"""
import argparse
import collections
import glob
import os
import shutil
import statistics
import sys
import tempfile
import time

import study
from study import ROOT

RUNS = os.path.join(ROOT, "bench", "results", "assemble.jsonl")
NET, SIDE = "resnet20", 16
KERNELS = ("group_conv", "depthwise_separable", "spatial_separable", "nas_pte_2", "nas_pte_3", "depthwise")
LATENCIES = (0.5, 0.65, 0.8)
METHODS = {"knapsack": ("--loss", "imitation"), "fisher": ("--loss", "fisher"), "blockswap": ("--strategy", "blockswap"),
           "fbnet": ("--strategy", "fbnet")}
RATE = 0.1  # of what begins with trained weights
VALIDATION = 0.1  # share of the images that the last training has beside those of the others
SUPERNET = 1 / 3  # share of FBNet's seconds


class NoNetwork(Exception):
    """No network is within the latency, or it diverged."""


def timed(*words):
    """JSON lines of a command, and its CPU seconds."""
    code, lines, error, seconds = study.timed(*words)
    study.check(words, code, lines, error)
    if code:
        raise NoNetwork(f"{' '.join(map(str, words))}: {error.strip()[-400:]}")
    return lines, seconds


def dataset(args, images):
    path = os.path.join(args.work, f"images-{images}.h5")
    if args.dataset and images == args.images:
        return args.dataset
    if not os.path.exists(path):
        source = ("import", "cifar100", args.data) if args.data else ("make", "shapes")
        limits = ("--resize", SIDE, "--limit-train", images) if args.data else ("--size", 8, "--classes", 4, "--train", images, "--test", 40)
        timed("dataset", *source, "-o", path, *limits)
    return path


def common(args, seed):
    return ("--net", NET, "--dataset", dataset(args, args.images), "--seed", seed, "--batch", args.batch, "--threads", 1, "--quiet", "--json")


def baseline(args, seed):
    """The trained network of a seed."""
    path = os.path.join(args.work, f"baseline-{seed}.safetensors")
    if not os.path.exists(path):
        timed("train", *common(args, seed), "--epochs", args.epochs, "--checkpoint", path + ".checkpoint", "--weights", path)
    return path


def kernel_path(name):
    return os.path.join(ROOT, "kernels", name + ".json")


def pace(args, seed, kernel, init):
    """CPU seconds of an epoch of all training images, from what more epochs take than one; programs are compiled before."""
    words = ("train", *common(args, seed), *kernel, "--init", init, "--lr", 0)
    timed(*words, "--epochs", 1)
    once = timed(*words, "--epochs", 1)[1]
    for more in (1, 30):
        longer = timed(*words, "--epochs", 1 + more)[1] - once
        if longer > 1:
            break
    return max(longer / more / (1 - VALIDATION), 1e-3)


def choose(args, method, latency, seed, folder):
    """The kernel options of the network that the method chooses, what is known of it, and the CPU seconds."""
    if method == "unmodified":
        return (), {"latency": 1.0}, 0.0
    if method in METHODS:
        words = ["assemble", *map(kernel_path, KERNELS), *common(args, seed), "--init", baseline(args, seed), "--latency", latency,
                 "-o", os.path.join(folder, "assembled"), "--dry-run", *METHODS[method]]
        if method == "fbnet":
            words += ["--epochs", supernet_epochs(args, seed, folder)]
        lines, seconds = timed(*words)
        found = lines[-1]
        return ("--kernel", os.path.join(found["folder"], "layers.json")), found, seconds
    kernel = ("--kernel", kernel_path(method), "--keep-slower")
    lines, _ = timed("predict", kernel_path(method), "--keep-slower", "--net", NET, *shape(args), "--json")
    return kernel, {"latency": lines[-1]["ratio_to_unmodified"]}, 0.0


def shape(args):
    about = timed("dataset", "info", dataset(args, args.images), "--json")[0][0]
    return "--input", f"{about['channels']}x{about['height']}x{about['width']}", "--classes", len(about["classes"])


def supernet_epochs(args, seed, folder):
    """As many as fit into its share, from what one epoch takes; that is not counted."""
    words = ["assemble", *map(kernel_path, KERNELS), *common(args, seed), "--strategy", "fbnet", "--latency", 1, "--dry-run"]
    once = timed(*words, "--epochs", 1, "-o", os.path.join(folder, "once"))[1]
    twice = timed(*words, "--epochs", 2, "-o", os.path.join(folder, "twice"))[1]
    return max(2, int(SUPERNET * args.seconds / max(twice - once, 1e-3)))


def measured(args, kernel):
    """The time of an inference of 32 images, in that of the unmodified network, in turns with it."""
    if not kernel:
        return 1.0
    lines, _ = timed("bench", "step", "--net", NET, *shape(args), *kernel, "--batch", 32, "--threads", 1, "--json")
    return next(line["ratio_to_unmodified"] for line in lines if line.get("phase") == "inference" and line.get("ratio_to_unmodified"))


def run(args, method, latency, seed):
    about = {"method": method, "allowed": latency, "seed": seed, "seconds": args.seconds, "images": args.images}
    folder = tempfile.mkdtemp(prefix="run-", dir=args.work)
    try:
        kernel, found, choosing = choose(args, method, latency, seed, folder)
        init, imitating = baseline(args, seed), 0.0
        if kernel:
            start = os.path.join(folder, "start.safetensors")
            imitating = timed("imitate", *common(args, seed), *kernel, "--weights", init, "--out", start)[1]
            init = start
        epoch = pace(args, seed, kernel, init)
        epochs = max(1, int((args.seconds - choosing - imitating) / epoch))
        lines, training = timed("train", *common(args, seed), *kernel, "--init", init, "--epochs", epochs, "--lr", RATE, "--test")
        return {**about, "latency": found["latency"], "measured": measured(args, kernel), "params": found.get("params"), "replaced": found.get("replaced"), "epochs": epochs,
                "choosing": choosing, "imitating": imitating, "training": training, "accuracy": lines[-1]["test_accuracy"]}
    except NoNetwork as failure:
        return {**about, "error": str(failure)}
    finally:
        shutil.rmtree(folder)


def jobs(args):
    """Every method and latency of a seed before the next seed, so that a part is complete for as many seeds as it can."""
    of_seed = [(method, latency) for latency in LATENCIES for method in METHODS] + [(name, None) for name in ("unmodified", *KERNELS)]
    return [(method, latency, seed) for seed in range(args.seeds) for method, latency in of_seed]


def known_runs(paths):
    return {(line["method"], line["allowed"], line["seed"]): line for line in study.known_runs(*paths)}


def part(args):
    deadline = time.monotonic() + 60 * args.minutes
    os.makedirs(args.work, exist_ok=True)
    for left in glob.glob(os.path.join(args.work, "run-*")):
        shutil.rmtree(left)
    done = known_runs(args.runs)
    todo = [job for job in jobs(args) if job not in done]
    ran = 0
    for seed in sorted({job[2] for job in todo}):
        if time.monotonic() > deadline:
            break
        baseline(args, seed)  # before threads ask for it
        ran += study.run_part([job for job in todo if job[2] == seed], lambda job: [run(args, *job)], args.runs[0], deadline, args.jobs)
    print(f"{ran} runs in this part; {len(todo) - ran} are left")


def spread(values):
    mean = statistics.mean(values)
    return f"{mean:.2%}" + (f" +- {statistics.stdev(values):.2%}" if len(values) > 1 else "")


def dominated(point, points):
    return any(other[0] <= point[0] and other[1] >= point[1] and other != point for other in points)


def table(paths):
    groups = collections.defaultdict(list)
    runs = known_runs(paths)
    for line in runs.values():
        if "accuracy" in line:
            groups[line["method"], line["allowed"]].append(line)
    points = {key: (statistics.mean(l["measured"] for l in lines), statistics.mean(l["accuracy"] for l in lines)) for key, lines in groups.items()}
    print("| method | allowed | predicted latency | measured | top-1 on the test images | seeds | epochs | choosing, imitating, training (CPU s) | frontier |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---|")
    for key in sorted(points, key=lambda key: points[key]):
        lines = groups[key]
        seconds = ", ".join(f"{statistics.mean(l[what] for l in lines):.0f}" for what in ("choosing", "imitating", "training"))
        print(f"| {key[0]} | {key[1] or '-'} | {statistics.mean(l['latency'] for l in lines):.3f}x | {points[key][0]:.3f}x | {spread([l['accuracy'] for l in lines])} | {len(lines)} | "
              f"{statistics.mean(l['epochs'] for l in lines):.0f} | {seconds} | {'' if dominated(points[key], points.values()) else '*'} |")
    for line in runs.values():
        if "error" in line:
            print(f"\nfailed: {line['method']} at {line['allowed']}, seed {line['seed']}: {line['error']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", nargs="?")
    parser.add_argument("--data")
    parser.add_argument("--dataset")
    parser.add_argument("--minutes", type=float, default=55)
    parser.add_argument("--runs", nargs="+", default=[RUNS])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=450, help="CPU seconds of a run")
    parser.add_argument("--images", type=int, default=10000)
    parser.add_argument("--epochs", type=int, default=20, help="of the network with which all runs begin")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        table(args.runs)
    elif not args.work or not (args.data or args.dataset):
        sys.exit("a folder to work in, and --data or --dataset are needed")
    else:
        args.work = os.path.abspath(args.work)
        part(args)


if __name__ == "__main__":
    main()
