#!/usr/bin/env python3
"""Which cheap verdict ranks kernels as a long training on all images does?

    bench/studies/ranks.py WORK --data CIFAR100 [--minutes 55] [--runs bench/results/ranks.jsonl]
    bench/studies/ranks.py WORK --table [--runs FILE]        what the runs say, as Markdown
    bench/studies/ranks.py WORK --score [--runs FILE]        how the score imitation agrees with them, with drawn and with trained weights

CIFAR100 is the folder of the official binary files (train.bin, test.bin).  The kernels are all files of kernels/ that ResNet-20
takes; kernels that `kas-gpu sample` draws within half of the FLOPs, of each space; and kernels that a search found and trained
(campaign.jsonl).  Drawn and found kernels whose inference is predicted to take more than 1.2 times that of the unmodified network
are left out.  Each kernel is trained in every setting below, and what the network reaches on the validation images is a verdict;
imitation's share of variance that the kernels miss is one too.  The reference is the last epoch of `long`.

One JSON object for each training goes to the file of --runs, with the accuracy after every epoch and the CPU seconds of the
training.  The same command goes on where the last one stopped; kernels come one after the other, each with all its settings, the
known ones first and each kind in a random order.  --minutes ends the part: a training that has begun is finished.
"""
import argparse
import collections
import glob
import json
import os
import random
import statistics
import time

from study import ROOT, check, interval, kas, known_runs, must, run_part, spearman, timed

RUNS = os.path.join(ROOT, "bench", "results", "ranks.jsonl")
FOUND = os.path.join(ROOT, "bench", "results", "campaign.jsonl")
NET, SIDE, BATCH, RATE = "resnet20", 16, 128, 0.2
WARM_RATE = 0.1  # of what begins with trained weights
DRAWN = {"canvas": (1, 400), "nas-pte": (1, 60)}  # space: seed, how many are drawn
RUNGS = (1, 2, 3, 6)  # epochs of `long` that are verdicts too
SLOWEST = 1.2  # most predicted time of inference of a drawn kernel, in that of the unmodified network

# setting: images of the training set (validation included), epochs, what it begins with: nothing, "baseline": the weights of the
# baseline, "imitation": these and kernels that have learned to imitate its convolutions (kas-gpu imitate)
SETTINGS = {
    "long": (50000, 12, None),
    "imitation": (50000, 0, "imitation"),
    "imitation-1": (50000, 1, "imitation"),
    "warm-1": (50000, 1, "baseline"),
    "5000-8": (5000, 8, None),
}


def dataset(args, images):
    path = os.path.join(args.work, f"cifar100-{SIDE}-{images}.h5")
    if not os.path.exists(path):
        must("dataset", "import", "cifar100", args.data, "-o", path, "--resize", SIDE, "--limit-train", images)
    return path


def predicted_ratios(paths):
    """By path: the predicted time of inference with the kernel, in that of the unmodified network. A kernel that the network does not
    take has none."""
    ratios = {}
    for path in paths:
        code, lines, _ = kas("predict", path, "--net", NET, "--input", f"3x{SIDE}x{SIDE}", "--machine", "cpu", "--json")
        if code == 0:
            ratios[path] = lines[-1]["ratio_to_unmodified"]
    return ratios


def draw(args, space):
    seed, count = DRAWN[space]
    folder = os.path.join(args.work, space)
    if not os.path.isdir(folder):
        must("sample", "--net", NET, "--input", f"3x{SIDE}x{SIDE}", "--space", space, "--flops", 0.5, "--params", 1, "--seed", seed,
             "--count", count, "-o", folder)
    return sorted(glob.glob(os.path.join(folder, "*.json")))


def found(args):
    """Files of the kernels that the campaign's first search trained to the end."""
    folder = os.path.join(args.work, "found")
    os.makedirs(folder, exist_ok=True)
    for run in known_runs(FOUND):
        if run["study"] == "explore" and run["state"] == "finished" and run.get("file"):
            with open(os.path.join(folder, run["kernel"] + ".json"), "w") as file:
                json.dump(run["file"], file)
    return sorted(glob.glob(os.path.join(folder, "*.json")))


def choose(args, begun):
    """The kernels in their order, kept in WORK/kernels.json: the unmodified network, the known, the drawn and the found ones. Of each
    kind those of `begun`, the kinds of kernels by name, come first, and count even if their files are gone."""
    kept = os.path.join(args.work, "kernels.json")
    if os.path.exists(kept):
        with open(kept) as file:
            return json.load(file)
    chosen = [{"kernel": None, "kind": "unmodified", "predicted": 1.0}]
    order = random.Random(1)
    for kind, paths, most in (("known", sorted(glob.glob(os.path.join(ROOT, "kernels", "*.json"))), 99),
                              ("canvas", draw(args, "canvas"), args.canvas), ("found", found(args), args.found),
                              ("nas-pte", draw(args, "nas-pte"), args.nas_pte)):
        ratios = predicted_ratios(paths)
        taken = [path for path in paths if path in ratios and (kind == "known" or ratios[path] <= SLOWEST)]
        order.shuffle(taken)
        names = [kernel_name({"kernel": path}) for path in taken]
        taken.sort(key=lambda path: kernel_name({"kernel": path}) not in begun)
        gone = sum(of == kind and name not in names for name, of in begun.items())
        chosen += [{"kernel": path, "kind": kind, "predicted": ratios[path]} for path in taken[:max(0, most - gone)]]
    with open(kept, "w") as file:
        json.dump(chosen, file, indent=1)
    return chosen


def baseline(args, seed=0):
    return os.path.join(args.work, f"baseline{'' if seed == 0 else f'-{seed}'}.safetensors")


def start_of(args, kernel, kind, seed=0):
    name = kernel_name(kernel) + ("" if seed == 0 else f"-{seed}")
    return os.path.join(args.work, "start", name + ".safetensors") if kind == "imitation" else baseline(args, seed)


def imitate(args, kernel, images, seed=0):
    """A share of variance that is missed, and the accuracy without any training of the whole."""
    os.makedirs(os.path.join(args.work, "start"), exist_ok=True)
    words = ("imitate", "--net", NET, "--dataset", dataset(args, images), "--seed", seed, "--threads", 1, "--weights", baseline(args, seed),
             "--kernel", kernel["kernel"], "--json", "--out", start_of(args, kernel, "imitation", seed))
    code, lines, error, seconds = timed(*words)
    check(words, code, lines, error)
    result = lines[-1] if lines and lines[-1].get("event") == "result" else {}
    return {"curve": [result["validation_accuracy"]] if result else [], "missed": result.get("missed"), "state": "trained" if result else None,
            "error": error.strip()[-300:] if code else None, "cpu_seconds": seconds}


def train(args, kernel, images, epochs, start, seed=0, net=NET, weights=None):
    words = ["train", "--net", net, "--dataset", dataset(args, images), "--epochs", epochs, "--batch", BATCH, "--lr",
             WARM_RATE if start else RATE, "--seed", seed, "--threads", 1, "--json", "--quiet"]
    if kernel["kernel"]:
        words += ["--kernel", kernel["kernel"]]
    if weights:
        words += ["--weights", weights]
    if start:
        words += ["--init", start_of(args, kernel, start, seed)]
    code, lines, error, seconds = timed(*words)
    check(words, code, lines, error)
    curve = [line["validation_accuracy"] for line in lines if line.get("validation_accuracy") is not None and "epoch" in line]
    return {"curve": curve, "state": lines[-1].get("state") if lines else None, "error": error.strip()[-300:] if code else None,
            "cpu_seconds": seconds}


def verdict(args, kernel, setting):
    images, epochs, start = SETTINGS[setting]
    about = {"setting": setting, "kernel": kernel_name(kernel), "kind": kernel["kind"], "predicted": kernel["predicted"]}
    weights = baseline(args) if not kernel["kernel"] and setting == "long" else None
    result = train(args, kernel, images, epochs, start, weights=weights) if epochs else imitate(args, kernel, images)
    return {**about, **result}


def kernel_name(kernel):
    return os.path.basename(kernel["kernel"])[:-5] if kernel["kernel"] else "unmodified"


def part(args):
    deadline = time.monotonic() + 60 * args.minutes
    done = {(run["kernel"], run["setting"]) for run in known_runs(args.runs)}
    if not os.path.exists(baseline(args)):
        done.discard(("unmodified", "long"))  # whose weights others begin with
    kernels = choose(args, {run["kernel"]: run["kind"] for run in known_runs(args.runs)})
    todo = [(kernel, setting) for kernel in kernels for setting in SETTINGS
            if (kernel_name(kernel), setting) not in done and (kernel["kernel"] or setting in ("long", "5000-8"))]
    for images in {SETTINGS[setting][0] for _, setting in todo}:
        dataset(args, images)
    first = [job for job in todo if job[0]["kernel"] is None and job[1] == "long"]
    ran = 0
    for jobs in (first, [job for job in todo if job not in first]):
        ran += run_part(jobs, lambda job: [verdict(args, *job)], args.runs, deadline, args.jobs)
    print(f"{ran} trainings in this part; {len(todo) - ran} are left")


def verdicts(runs):
    """By name: for each kernel the accuracy and the CPU seconds of the verdict. An epoch of `long` costs its share of it.
    A training that diverged is worth nothing, as in a search."""
    by_name = collections.defaultdict(dict)
    for run in runs:
        if run["kind"] == "unmodified":
            continue
        curve = run["curve"]
        by_name[run["setting"]][run["kernel"]] = curve[-1] if curve and run["state"] == "trained" else 0.0, run["cpu_seconds"]
        if run.get("missed") is not None:
            by_name["imitation, variance missed"][run["kernel"]] = -run["missed"], run["cpu_seconds"]
        if run["setting"] == "long":
            for epoch in RUNGS:
                share = run["cpu_seconds"] * min(1, epoch / max(len(curve), 1))
                by_name[f"long, epoch {epoch}"][run["kernel"]] = curve[epoch - 1] if epoch <= len(curve) else 0.0, share
    return by_name


def table(runs):
    by_name = verdicts(runs)
    truth = {kernel: accuracy for kernel, (accuracy, _) in by_name.pop("long").items()}
    print(f"{len(truth)} kernels; the reference is the validation accuracy of `long`: {min(truth.values()):.1%} to {max(truth.values()):.1%}.\n")
    print("| verdict | kernels | Spearman (95%) | of the better half | best fifth found | CPU seconds |\n|---|---:|---|---:|---:|---:|")
    for name, of_kernel in by_name.items():
        kernels = [kernel for kernel in of_kernel if kernel in truth]
        if len(kernels) < 5:
            continue
        cheap, dear = [of_kernel[k][0] for k in kernels], [truth[k] for k in kernels]
        best = sorted(range(len(kernels)), key=lambda i: -dear[i])
        half, fifth = best[:len(best) // 2], set(best[:max(1, len(best) // 5)])
        chosen = set(sorted(range(len(kernels)), key=lambda i: -cheap[i])[:len(fifth)])
        low, high = interval(lambda a, b: (spearman(a, b),), (cheap, dear), 1000)[0]
        print(f"| {name} | {len(kernels)} | {spearman(cheap, dear):.2f} ({low:.2f} - {high:.2f}) | "
              f"{spearman([cheap[i] for i in half], [dear[i] for i in half]):.2f} | {len(chosen & fifth)} of {len(fifth)} | "
              f"{statistics.median(of_kernel[k][1] for k in kernels):.0f} |")


def score(args):
    """Compares the score imitation, which trains nothing, with the runs: it imitates drawn weights, then those of the baseline."""
    by_name = verdicts(known_runs(args.runs))
    with open(os.path.join(args.work, "kernels.json")) as file:
        paths = {kernel_name(kernel): kernel["kernel"] for kernel in json.load(file) if kernel["kernel"]}
    names = sorted((name for name in paths if name in by_name["long"]), key=lambda name: -by_name["long"][name][0])
    half = names[:len(names) // 2]
    print(f"{len(names)} kernels\n\n| weights that are imitated | with long, all | of the better half | with imitation-1, of the better half |\n|---|---:|---:|---:|")
    for weights, words in (("drawn", ()), ("trained", ("--init", baseline(args)))):
        lines = must("score", "--net", NET, "--dataset", dataset(args, 50000), "--scores", "imitation", *words, "--json", *(paths[name] for name in names))
        scored = {kernel_name({"kernel": line["file"]}): line["scores"]["imitation"] or 0.0 for line in lines if line.get("file")}
        agree = [spearman([scored[name] for name in of], [by_name[setting][name][0] for name in of])
                 for setting, of in (("long", names), ("long", half), ("imitation-1", half))]
        print(f"| {weights} | " + " | ".join(f"{value:.2f}" for value in agree) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work")
    parser.add_argument("--data")
    parser.add_argument("--minutes", type=float, default=55)
    parser.add_argument("--runs", default=RUNS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--canvas", type=int, default=8)
    parser.add_argument("--found", type=int, default=30)
    parser.add_argument("--nas-pte", type=int, default=8)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--score", action="store_true")
    args = parser.parse_args()
    args.work = os.path.abspath(args.work)
    os.makedirs(args.work, exist_ok=True)
    if args.table:
        table(known_runs(args.runs))
    elif args.score:
        score(args)
    else:
        part(args)


if __name__ == "__main__":
    main()
