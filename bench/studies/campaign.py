#!/usr/bin/env python3
"""A search on CIFAR-100 in three commands: one explores with a cheap verdict, one trains the best of what it found, and one the best two of these longer.

    bench/studies/campaign.py WORK explore --data CIFAR100 [--minutes 55] [--jobs N] [--runs bench/results/campaign.jsonl]
    bench/studies/campaign.py WORK answer --data CIFAR100 ...
    bench/studies/campaign.py WORK longer --data CIFAR100 ...
    bench/studies/campaign.py WORK twice --data CIFAR100 ...     the unmodified network for twice the epochs of `longer`
    bench/studies/campaign.py WORK alike --data CIFAR100 ...     fast kernels trained like the finalists of `longer`
    bench/studies/campaign.py WORK table [--runs FILE]           what the runs say, as Markdown

CIFAR100 is the folder of the official binary files.  All 50,000 images, at 16x16; ResNet-20.

explore is evolution of 80 candidates, behind 2,000 ancestors, with a predicted latency of at most 0.69 of the unmodified network's (--latency 0.55 and the margin of
a machine that `kas-gpu doctor --calibrate --threads 1` has measured, which comes first).  The unmodified network is trained first, without the validation images of the search; ancestors
are scored by how well they imitate its convolutions.  The verdict on a candidate is one epoch behind a longer imitation, which
ranks like six epochs at a sixth of their cost (results/*ranks.md); a candidate that misses 70% of the variance is not trained.

answer begins with the --best candidates of explore that the file of --runs has, so it needs no folder of explore: of those within
5 points of the best the frontier of accuracy and latency, then the frontier of the others, and so on; of those that the verdict does not
tell apart one.  They are trained from random weights like the unmodified network, for 30 epochs.  Two finalists and the unmodified network then see
all images, with three seeds, and the test set once.

longer does the same for 60 epochs with the two that were most accurate after answer's 30; the unmodified network gains less than
half a point by 60 more.

A part ends after --minutes, and the same command goes on.  Each worker has one thread.  At the end of a part the lines of that study in
the file of --runs are replaced: one for each candidate, and one for each training of the end.  What a study has is kept beside that
file, as campaign-answer.tar.xz or campaign-longer.tar.xz, until it has ended, so that another machine can go on with it; trainings that were under way begin again there.
"""
import argparse
import contextlib
import json
import os
import sqlite3
import statistics
import sys
import tarfile
import tempfile
import time

from ranks import BATCH, NET, RATE, SIDE, WARM_RATE, dataset
from study import NOTHING_VALID, ROOT, kas, known_runs, must

RUNS = os.path.join(ROOT, "bench", "results", "campaign.jsonl")
STOPPED = 75  # exit code: the part is over
EPOCHS = {"answer": 30, "longer": 60}
LATENCY = {"answer": 0.667, "longer": 1}  # as predicted; those of longer have been measured
TWICE = 2 * EPOCHS["longer"]
ALIKE = ("depthwise_separable", "986ab2c8925edc0a")  # the best of kernels/ below 0.3 of the latency, and a new one that explore found there
SEEDS = 3
WITHIN = 0.05  # of the best accuracy of explore: what answer trains
TRAIN = ["--net", NET, "--seed", 1, "--batch", BATCH, "--device", "cpu", "--threads", 1]
SEARCH = TRAIN + ["--keep-slower", "--flops", 1]
EXPLORE = ["--strategy", "evolution", "--ancestors", 2000, "--candidates", 80, "--population", 40, "--generation", 10, "--rungs", "none", "--imitate", 1, "--most-missed", 0.7,
           "--objective", "frontier", "--latency", 0.55, "--epochs", 1, "--lr", WARM_RATE, "--finalists", 0]
ANSWER = ["--lr", RATE, "--rungs", "none", "--max-loss", 1.0, "--objective", "frontier", "--finalists", 2, "--seeds", SEEDS, "--ancestors", 0, "--known", "no"]


# ---- searching ----------------------------------------------------------------------------------

def files_of(study):
    """The kernel files of a study's candidates, by name."""
    with contextlib.closing(sqlite3.connect(f"file:{study}/study.db?mode=ro", uri=True)) as store:
        return {name: json.loads(text) for name, text in store.execute("SELECT name, kernel FROM work WHERE kernel IS NOT NULL")}


def lines_of(args, name):
    """What a study has: its candidates with their files, and the trainings of the end."""
    study = os.path.join(args.work, name)
    lines, files = must("best", study, "--json"), files_of(study)
    plain = next(line for line in lines if line["kind"] == "baseline")
    found = []
    for line in lines:
        if line["kind"] not in ("baseline", "candidate"):
            found.append({"study": name, **line})
            continue
        found.append({"study": name, "index": line["index"] if line["kernel"] else None, "kernel": line["kernel"], "origin": line["origin"],
                      "parents": line["parents"], "generation": line["generation"], "state": line["state"], "epochs": line["epochs"],
                      "accuracy": line["accuracy"], "lost": line["lost"], "lost_error": line["lost_error"], "missed": line["missed"],
                      "latency_ratio": line["latency_seconds"] and plain["latency_seconds"] and
                      round(line["latency_seconds"] / plain["latency_seconds"], 3),
                      "predicted_ratio": line["predicted_seconds"] and round(line["predicted_seconds"] / plain["predicted_seconds"], 3),
                      "flops_ratio": line["flops_ratio"], "cpu_seconds": line["processor_seconds"] and round(line["processor_seconds"], 1),
                      "file": files.get(line["kernel"])})
    return found


def replace(args, name, lines):
    """Puts the lines of a study in the place of those that the file of --runs has."""
    kept = [run for run in known_runs(args.runs) if run["study"] != name]
    with open(args.runs + ".new", "w") as file:
        file.write("".join(json.dumps(line) + "\n" for line in kept + lines))
    os.replace(args.runs + ".new", args.runs)


def teacher(args):
    """The weights of the unmodified network, trained on the images that explore trains on: the seed splits them."""
    path = os.path.join(args.work, "teacher.safetensors")
    if not os.path.exists(path):
        must("train", "--dataset", dataset(args, 50000), *TRAIN, "--epochs", 12, "--lr", RATE, "--quiet", "--weights", path,
             "--checkpoint", path + ".checkpoint")
    return path


def dominates(a, b):
    return (a["accuracy"] >= b["accuracy"] and a["latency_ratio"] <= b["latency_ratio"] and
            (a["accuracy"] > b["accuracy"] or a["latency_ratio"] < b["latency_ratio"]))


def are_alike(a, b):
    """The verdict does not tell them apart: a standard error of accuracy, and what a latency differs by when measured again."""
    return abs(a["accuracy"] - b["accuracy"]) < 0.01 and abs(a["latency_ratio"] / b["latency_ratio"] - 1) < 0.02


def chosen(ended, most):
    """Those that may be accurate enough, by fronts, the most accurate of a front first; of those that are alike one."""
    best = max(run["accuracy"] for run in ended)
    left, taken = sorted((run for run in ended if run["accuracy"] > best - WITHIN), key=lambda run: -run["accuracy"]), []
    while left and len(taken) < most:
        front = [run for run in left if not any(dominates(other, run) for other in left)]
        for run in front:
            if not any(are_alike(run, other) for other in taken):
                taken.append(run)
        left = [run for run in left if run not in front]
    return taken[:most]


def best_of(args):
    """The best candidates of explore, or of answer, as a folder of kernel files, whose order is that of their names."""
    before, count = ("explore", args.best) if args.what == "answer" else ("answer", 2)
    folder = os.path.join(args.work, f"best-of-{before}")
    ended = [run for run in known_runs(args.runs) if run["study"] == before and run.get("file") and run["state"] == "finished"]
    if not ended:
        sys.exit(f"{args.runs}: no candidate of {before} has finished; run {before} first")
    best = chosen(ended, count) if before == "explore" else sorted(ended, key=lambda run: -run["accuracy"])[:count]
    os.makedirs(folder, exist_ok=True)
    for place, run in enumerate(best):
        with open(os.path.join(folder, f"{place:02}-{run['kernel']}.json"), "w") as file:
            json.dump(run["file"], file)
    return folder


def kept(args):
    return os.path.join(os.path.dirname(os.path.abspath(args.runs)), f"campaign-{args.what}.tar.xz")


def keep(args, study):
    """Keeps the store of a study and the files on which its list depends, without checkpoints."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(kept(args) + ".new", "w:xz") as archive:
        copy = os.path.join(folder, "study.db")
        with contextlib.closing(sqlite3.connect(os.path.join(study, "study.db"))) as store:
            store.execute("VACUUM INTO ?", (copy,))
        archive.add(copy, "study.db")
        for name in sorted(os.listdir(study)):
            if name.endswith((".json", ".scores")):
                archive.add(os.path.join(study, name), name)
    os.replace(kept(args) + ".new", kept(args))


def take_up(args, study):
    """Makes the folder of a study that was kept, where there is none."""
    if os.path.exists(kept(args)) and not os.path.exists(study):
        with tarfile.open(kept(args)) as archive:
            archive.extractall(study + ".new")
        os.replace(study + ".new", study)


def search(args):
    study = os.path.join(args.work, args.what)
    take_up(args, study)
    if args.what == "explore":
        words = EXPLORE + ["--init", teacher(args)]
    else:
        folder = best_of(args)
        words = ANSWER + ["--from", folder, "--candidates", len(os.listdir(folder)), "--epochs", EPOCHS[args.what], "--latency", LATENCY[args.what]]
    code, _, error = kas("search", "--study", study, "--dataset", dataset(args, 50000), *SEARCH, *words,
                         "--workers", args.jobs, "--until", int(time.time() + 60 * args.minutes), "--quiet")
    if code not in (0, STOPPED, NOTHING_VALID):
        sys.exit(f"exit code {code}: {error.strip()}")
    replace(args, args.what, lines_of(args, args.what))
    if code == STOPPED:
        keep(args, study)
    elif os.path.exists(kept(args)):
        os.remove(kept(args))
    print("goes on with the same command" if code == STOPPED else "ended")


def twice(args):
    """Whether the unmodified network gains by more epochs."""
    result = must("train", "--net", NET, "--dataset", dataset(args, 50000), "--epochs", TWICE, "--batch", BATCH, "--lr", RATE, "--seed", 1,
                  "--device", "cpu", "--threads", 1, "--test", "--checkpoint", os.path.join(args.work, "twice.checkpoint"), "--json", "--quiet")[-1]
    others = [run for run in known_runs(args.runs) if run["study"] == "twice" and run["epochs"] != TWICE]
    replace(args, "twice", others + [{"study": "twice", "epochs": TWICE, "test_accuracy": result["test_accuracy"]}])


def kernel_file(args, name):
    """The file of a kernel of kernels/, or of a candidate of explore."""
    path = os.path.join(ROOT, "kernels", name + ".json")
    if os.path.exists(path):
        return path
    path = os.path.join(args.work, name + ".json")
    with open(path, "w") as file:
        json.dump(next(run["file"] for run in known_runs(args.runs) if run["study"] == "explore" and run["kernel"] == name), file)
    return path


def alike(args):
    """Fast kernels, a file of kernels/ or a candidate of explore, trained like the finalists; the same command goes on."""
    deadline = time.monotonic() + 60 * args.minutes
    epochs = EPOCHS["longer"]
    done = {(run["kernel"], run["seed"]) for run in known_runs(args.runs) if run["study"] == "alike" and run["epochs"] == epochs}
    for seed in range(SEEDS):
        for name in ALIKE:
            if (name, seed) in done or time.monotonic() > deadline:
                continue
            result = must("train", "--net", NET, "--dataset", dataset(args, 50000), "--kernel", kernel_file(args, name),
                          "--epochs", epochs, "--batch", BATCH, "--lr", RATE, "--seed", seed, "--device", "cpu", "--threads", 1, "--test",
                          "--checkpoint", os.path.join(args.work, f"{name}-{seed}-{epochs}.checkpoint"), "--json", "--quiet")[-1]
            lines = [run for run in known_runs(args.runs) if run["study"] == "alike"]
            replace(args, "alike", lines + [{"study": "alike", "kernel": name, "seed": seed, "epochs": epochs, "test_accuracy": result["test_accuracy"]}])


# ---- what the runs say --------------------------------------------------------------------------

def percent(value):
    return "" if value is None else f"{100 * value:.1f}%"


def table_of_explore(runs):
    by_origin = {}
    for run in runs:
        if run.get("kernel") and run["state"] != "predicted-slow":
            by_origin.setdefault(run["origin"].split(":")[0], []).append(run)
    print("| origin | evaluated | trained | best | its latency |\n|---|---:|---:|---:|---:|")
    for origin, of in sorted(by_origin.items(), key=lambda item: item[0] != "known"):
        trained = [run for run in of if run["state"] == "finished"]
        best = max(trained, key=lambda run: run["accuracy"], default=None)
        print(f"| {origin} | {len(of)} | {len(trained)} | " +
              (f"{percent(best['accuracy'])} ({best['kernel']}) | {best['latency_ratio']} |" if best else "| |"))


def table_of_answer(runs):
    print("\n| kernel | origin | state | epochs | top-1 | lost | latency | FLOPs |\n|---|---|---|---:|---:|---:|---:|---:|")
    for run in runs:
        if "kind" not in run:
            lost = "" if run["lost"] is None else f"{100 * run['lost']:.1f} +- {100 * run['lost_error']:.1f}"
            print(f"| {run['kernel'] or 'unmodified network'} | {run['origin'] or ''} | {run['state']} | {run['epochs']} | "
                  f"{percent(run['accuracy'])} | {lost} | {run['latency_ratio']} | {run['flops_ratio'] or 1:.2f} |")


def table(args):
    runs = known_runs(args.runs)
    explored = [run for run in runs if run["study"] == "explore"]
    if explored:
        table_of_explore(explored)
        errors = [abs(run["predicted_ratio"] / run["latency_ratio"] - 1) for run in explored if run.get("kernel") and run.get("latency_ratio")]
        print(f"\n{sum(run.get('cpu_seconds') or 0 for run in explored):.0f} CPU seconds; predicted and measured latency differ by "
              f"{100 * statistics.median(errors):.0f}% in the median of {len(errors)}")
    for study in EPOCHS:
        table_of_answer([run for run in runs if run["study"] == study])
    for run in runs:
        if run["study"] == "alike":
            print(f"\n{run['kernel']}, seed {run['seed']}, after {run['epochs']} epochs: {percent(run['test_accuracy'])} of the test images.")
        if run["study"] == "twice":
            print(f"\nThe unmodified network after {run['epochs']} epochs: {percent(run['test_accuracy'])} of the test images.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work")
    parser.add_argument("what", choices=("explore", "answer", "longer", "twice", "alike", "table"))
    parser.add_argument("--data", help="folder of CIFAR-100")
    parser.add_argument("--best", type=int, default=6, help="candidates of explore that answer trains")
    parser.add_argument("--minutes", type=float, default=55)
    parser.add_argument("--runs", default=RUNS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="workers")
    args = parser.parse_args()
    args.work = os.path.abspath(args.work)
    os.makedirs(args.work, exist_ok=True)
    {"explore": search, "answer": search, "longer": search, "twice": twice, "alike": alike, "table": table}[args.what](args)


if __name__ == "__main__":
    main()
