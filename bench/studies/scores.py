#!/usr/bin/env python3
"""Does a score without training rank kernels, or cells of NAS-Bench-201, as a short training does?

    bench/studies/scores.py WORK --data CIFAR100 [--of kernels|cells] [--minutes 55] [--runs FILE]
    bench/studies/scores.py --table [--runs FILE...]         what the runs say, as Markdown

CIFAR100 is the folder of the official binary files (train.bin, test.bin), read at 16x16.  `kas-gpu score` gives every score of all
kernels in one call: minibatch 16, one draw of the weights.

--of kernels: ResNet-20 with kernels that `kas-gpu sample` draws with 0.3 to 0.5 of the FLOPs, the *bucket*, and with others: the files
of kernels/, drawn ones below 0.3, and files of layers of the space nas-pte.  Drawn kernels whose inference is predicted to take
more than twice that of the unmodified network are left out (of those in the bucket about half).  What is true of a kernel is the accuracy on 5,000 validation
images after 100 steps in which it learns to imitate the convolutions of the trained network, and one epoch of the whole network on
the other 45,000 images (ranks.py: Spearman 0.92 (0.71 - 0.98) with 12 epochs from random weights, over 16 kernels, at a twelfth of
the cost).  It says what a kernel can hold more than how it learns from nothing; kernels that diverge are
left out, and counted.  Every fourth kernel of the bucket is trained
again with another seed of weights, images and split, until there are 50: no score can agree better than that.

--of cells: cells of NAS-Bench-201 drawn at random, no two of which compute the same, trained for 2 epochs from random weights (ranks.py: 0.87 (0.56 - 0.98)).

The tables have one more verdict, `regression`: a ridge regression from what all scores say and how many primitives of each kind there
are to the accuracy, fitted to other kernels than those that it judges.

Each training and each scored kernel is a line of --runs.  The same command goes on where the last one stopped; --minutes ends
the part, and a training that has begun is finished.  Several parts may write files of their own, and --table merges them.
"""
import argparse
import bisect
import collections
import glob
import json
import math
import os
import random
import statistics
import sys
import time

import ranks
from study import ROOT, interval, kendall, known_runs, must, ndcg, partial_spearman, ranks_of, recall, ridge, run_part, spearman

RUNS = os.path.join(ROOT, "bench", "results", "scores.jsonl")
BUCKET = (0.3, 0.5)  # FLOPs relative to the replaced convolutions
SETTING = {"kernels": "imitation-1", "cells": "cell-2"}
CELLS, CELL_EPOCHS, AGAIN = 15625, 2, 4
CHANCE = 3  # kernels above so many times chance are a group of their own
SLOWEST = 2  # most predicted time of inference of a drawn kernel, in that of the unmodified network
PROPOSALS = (1, 2, 4, 8, 16, 32)
AZ_NAS = ("expressivity", "progressivity", "trainability", "flops")
REGRESSION, FOLDS, STRENGTH = "regression", 10, 10  # STRENGTH: weight of the squared weights
TOLERANCES = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9)


# ---- what is trained


def draw(args, space, seed, flops, count):
    """(file, FLOPs ratio) of kernels that are drawn, in their order."""
    folder = os.path.join(args.work, f"{space}-{seed}")
    words = ("sample", "--net", ranks.NET, "--input", f"3x{ranks.SIDE}x{ranks.SIDE}", "--space", space, "--flops", flops, "--params", 1,
             "--seed", seed, "--count", count)
    if not os.path.isdir(folder):
        must(*words, "-o", folder)
    return [(os.path.join(folder, line["name"] + ".json"), line["flops_ratio"]) for line in must(*words, "--json") if "flops_ratio" in line]


def take(drawn, group, wanted, allowed):
    """The first kernels of a list that have the FLOPs and are predicted to be fast enough."""
    fit = [path for path, flops in drawn if allowed(flops)]
    taken = []
    while fit and len(taken) < wanted:
        some, fit = fit[:100], fit[100:]
        lines = must("predict", *some, "--net", ranks.NET, "--input", f"3x{ranks.SIDE}x{ranks.SIDE}", "--machine", "cpu", "--json", "--quiet")
        fast = {line["file"] for line in lines if line["ratio_to_unmodified"] <= SLOWEST}
        taken += [{"kernel": path, "group": group} for path in some if path in fast]
    return taken[:wanted]


def choose_kernels(args, runs):
    """Those that were scored, in their order; of a new study, what is drawn.  A file of layers that an earlier version drew and this
    one does not gives way to another one, unless it was trained."""
    known = sorted(glob.glob(os.path.join(ROOT, "kernels", "*.json")))
    several, small, transformed = (draw(args, "canvas", 1, BUCKET[1], 10 * args.count), draw(args, "canvas", 2, BUCKET[0], 4 * args.rest),
                                   draw(args, "nas-pte", 3, 0.9, 4 * args.rest))
    scored_before = [run for run in runs if run["setting"] == "score" and run["group"] in ("bucket", "rest")]
    if scored_before:
        files = {name_of({"kernel": path}): path for path in known + [path for path, _ in several + small + transformed]}
        trained_before = {run["kernel"] for run in runs if run["setting"] == SETTING["kernels"]}
        others = iter(take([pair for pair in transformed if name_of({"kernel": pair[0]}) not in {run["kernel"] for run in scored_before}],
                           "rest", args.rest, lambda flops: True))
        chosen = []
        for run in scored_before:
            if run["kernel"] in files:
                chosen.append({"kernel": files[run["kernel"]], "group": run["group"]})
            elif run["kernel"] not in trained_before:
                chosen += [other for other in [next(others, None)] if other]
        return chosen
    bucket = take(several, "bucket", args.count, lambda flops: flops >= BUCKET[0])
    rest = [{"kernel": path, "group": "rest"} for path in ranks.predicted_ratios(known)]
    rest += take(small, "rest", args.rest, lambda flops: flops < BUCKET[0])
    rest += take(transformed, "rest", args.rest, lambda flops: True)
    order = random.Random(1)
    order.shuffle(rest)
    for i in range(len(rest)):  # between the others, so that a part has some of each
        bucket.insert(min(len(bucket), 5 * i + 4), rest[i])
    return bucket


def structure(cell, zeros=False):
    """What a cell computes, as a text: equal for cells that differ in the order of sums, in skips, or in what lies on no path; "#" where
    the result does not depend on the input.  With `zeros` a sum still counts its zeros, as the benchmark's own count of 6,466 does."""
    digit = (cell // 5 ** (5 - edge) % 5 for edge in range(6))
    nodes = ["0"]
    for node in (1, 2, 3):
        terms = []
        for before in nodes[:node]:
            operation = next(digit)
            if operation == 0 or before == "#":
                terms += ["#"] * zeros
            else:
                terms.append(before if operation == 1 else f"({before})@{operation}")
        nodes.append("+".join(sorted(terms)) or "#")
    return nodes[3]


def choose_cells(args, _):
    """Cells in random order, of which no two compute the same and all have a path from input to result."""
    seen, taken = {"#"}, []
    for cell in random.Random(1).sample(range(CELLS), CELLS):
        if len(taken) < args.count and structure(cell) not in seen:
            seen.add(structure(cell))
            taken.append({"kernel": None, "group": "cells", "cell": cell})
    return taken


def choose(args, runs):
    """The kernels or cells in their order, kept in WORK."""
    kept = os.path.join(args.work, f"{args.of}.json")
    if not os.path.exists(kept):
        chosen = (choose_kernels if args.of == "kernels" else choose_cells)(args, runs)
        with open(kept, "w") as file:
            json.dump(chosen, file, indent=1)
    with open(kept) as file:
        return json.load(file)


def name_of(subject):
    return f"cell {subject['cell']}" if "cell" in subject else ranks.kernel_name(subject)


def primitives(subject):
    """How many primitives of each kind a kernel has: of a file of layers the mean over the layers that have a kernel; of a cell the
    operations of its edges."""
    if "cell" in subject:
        return collections.Counter(f"edge-{subject['cell'] // 5 ** edge % 5}" for edge in range(6))
    if not subject["kernel"]:
        return {}
    with open(subject["kernel"]) as file:
        text = json.load(file)
    kernels = [text["kernels"][i] for i in text["layers"].values() if i is not None] if "kernels" in text else [text]
    counts = collections.Counter(node["op"] for kernel in kernels for node in kernel["nodes"] if node["op"] != "input")
    return {op: count / len(kernels) for op, count in counts.items()}


def scored(args, subjects, net, paths):
    """Lines of the scores of subjects, from one call of `kas-gpu score`; the unmodified network's is the first."""
    words = ("score", *paths, "--net", net, "--dataset", ranks.dataset(args, args.images), "--scores", "all", "--machine", "cpu", "--threads", args.jobs, "--json")
    by_file = {line["file"]: line for line in must(*words)}
    lines = []
    for subject in subjects:
        line = by_file.get(subject["kernel"])
        if line:
            lines.append({"setting": "score", "kernel": name_of(subject), "group": subject["group"], "primitives": primitives(subject), "scores": line["scores"],
                          "states": line["states"], "cpu_seconds": line["cpu_seconds"]})
    return lines


def trained(args, subject, seed):
    about = {"setting": SETTING[args.of], "kernel": name_of(subject), "group": subject["group"], "seed": seed}
    if args.of == "cells":
        run = ranks.train(args, subject, args.images, CELL_EPOCHS, None, seed, f"nb201:cell={subject['cell']}")
    else:
        imitation = ranks.imitate(args, subject, args.images, seed)
        start = ranks.start_of(args, subject, "imitation", seed)
        run = {**imitation, "curve": []}
        if imitation["state"]:
            run = ranks.train(args, subject, args.images, 1, "imitation", seed)
            run["cpu_seconds"] += imitation["cpu_seconds"]
            os.remove(start)
    accuracy = run["curve"][-1] if run["curve"] and run["state"] == "trained" else None
    return [{**about, "accuracy": accuracy, "state": run["state"], "error": run["error"], "cpu_seconds": run["cpu_seconds"]}]


def jobs_of(args, subjects):
    """(kind, subject, seed) in their order."""
    bucket = [subject for subject in subjects if subject["group"] != "rest"]
    again = [name_of(subject) for subject in bucket[::AGAIN]][:args.again]
    jobs = []
    for subject in subjects:
        jobs += [("train", subject, 0)] + [("train", subject, 1)] * (name_of(subject) in again)
        if args.of == "cells":
            jobs.append(("score", subject, 0))
    return jobs


def part(args):
    deadline = time.monotonic() + 60 * args.minutes
    os.makedirs(args.work, exist_ok=True)
    ranks.dataset(args, args.images)
    runs = known_runs(*args.runs)
    subjects = choose(args, runs)
    path = args.runs[0]
    scored_before = {run["kernel"] for run in runs if run["setting"] == "score"}
    unscored = [subject for subject in [{"kernel": None, "group": "unmodified"}, *subjects] if name_of(subject) not in scored_before]
    if args.of == "kernels" and unscored:
        run_part([None], lambda _: scored(args, unscored, ranks.NET, [subject["kernel"] for subject in unscored if subject["kernel"]]), path, deadline, 1)
    for seed in (0, 1) if args.of == "kernels" else ():
        if not os.path.exists(ranks.baseline(args, seed)):  # with which imitation begins
            run = ranks.train(args, {"kernel": None}, args.images, args.baseline_epochs, None, seed, weights=ranks.baseline(args, seed))
            if run["error"]:
                sys.exit(f"the unmodified network was not trained: {run['error']}")
    done = {(run["setting"], run["kernel"], run.get("seed", 0)) for run in runs}
    todo = [job for job in jobs_of(args, subjects)
            if ("score" if job[0] == "score" else SETTING[args.of], name_of(job[1]), job[2]) not in done]

    def work(job):
        kind, subject, seed = job
        if kind == "score":
            return scored(args, [subject], f"nb201:cell={subject['cell']}", [])
        return trained(args, subject, seed)
    ran = run_part(todo, work, path, deadline, args.jobs)
    print(f"{ran} trainings and scores in this part; {len(todo) - ran} are left")


# ---- what the runs say


class Subject:
    def __init__(self):
        self.group, self.accuracy, self.scores, self.primitives = None, {}, {}, {}


def collect(runs):
    found = collections.defaultdict(Subject)
    for run in runs:
        subject = found[run["kernel"]]
        subject.group = run["group"]
        if run["setting"] == "score":
            subject.scores = {name: value for name, value in run["scores"].items() if value is not None}
            subject.primitives = run.get("primitives", {})
        elif run["accuracy"] is not None:
            subject.accuracy[run["seed"]] = run["accuracy"]
    return found


def rank_az_nas(subjects):
    """AZ-NAS's combination, the sum of log(rank / subjects) over its four scores. A call of `kas-gpu score` ranks what it scores, and several
    calls scored these, so they are ranked here. As in the published code a score that is not finite, that of an identity for instance, has the lowest rank."""
    scored = [subject for subject in subjects if subject.scores]
    if not any(all(name in subject.scores for name in AZ_NAS) for subject in scored):
        return
    ranks = [ranks_of([subject.scores.get(name, -math.inf) for subject in scored]) for name in AZ_NAS]
    for subject, of_subject in zip(scored, zip(*ranks)):
        subject.scores["az_nas"] = sum(math.log(rank / len(scored)) for rank in of_subject)


class Regression:
    """From scores and counts of primitives, each as its rank among the kernels that it was fitted to, to the accuracy."""

    def __init__(self, subjects):
        self.scores = {name: sorted(s.scores[name] for s in subjects if name in s.scores) for s in subjects for name in s.scores if name != REGRESSION}
        self.primitives = {op: sorted(s.primitives.get(op, 0) for s in subjects) for s in subjects for op in s.primitives}
        self.weights, self.constant = ridge([self.row(s) for s in subjects], [s.accuracy[0] for s in subjects], STRENGTH)

    def row(self, subject):
        place = lambda values, value: (bisect.bisect_left(values, value) + bisect.bisect_right(values, value)) / (2 * len(values))
        return ([place(values, subject.scores[name]) if name in subject.scores else 0.5 for name, values in self.scores.items()] +
                [place(values, subject.primitives.get(op, 0)) for op, values in self.primitives.items()])

    def judge(self, subjects):
        for subject in subjects:
            subject.scores[REGRESSION] = self.constant + sum(w * x for w, x in zip(self.weights, self.row(subject)))


def cross_validate(subjects):
    """Each subject is judged by a regression that was fitted to the other folds."""
    order = random.Random(3).sample(subjects, len(subjects))
    for fold in range(FOLDS):
        Regression([s for i, s in enumerate(order) if i % FOLDS != fold]).judge(order[fold::FOLDS])


def with_interval(value, bounds, form="{:.2f}"):
    if value != value:
        return "-"
    return f"{form.format(value)} ({form.format(bounds[0])} - {form.format(bounds[1])})"


def measures(score, accuracy, params):
    return (spearman(score, accuracy), kendall(score, accuracy), ndcg(score, accuracy), recall(score, accuracy), partial_spearman(score, accuracy, params))


def print_scores(title, subjects):
    subjects = [subject for subject in subjects if 0 in subject.accuracy and subject.scores]
    print(f"\n**{title}**: {len(subjects)}", end="")
    if len(subjects) < 5:
        print(", too few")
        return
    if len(subjects) >= 2 * FOLDS:
        cross_validate(subjects)
    accuracy = [subject.accuracy[0] for subject in subjects]
    print(f", accuracy {min(accuracy):.1%} to {max(accuracy):.1%}\n")
    print("| score | with a value | Spearman | Kendall | nDCG | best 5% found | Spearman without what parameters say |\n|---|---:|---|---|---|---|---|")
    rows = []
    for name in sorted({name for subject in subjects for name in subject.scores}):
        having = [subject for subject in subjects if name in subject.scores]
        if len(having) < 5:
            continue
        lists = ([subject.scores[name] for subject in having], [subject.accuracy[0] for subject in having], [subject.scores["params"] for subject in having])
        value = measures(*lists)
        cells = [with_interval(*both) for both in zip(value, interval(measures, lists))]
        rows.append((-value[0] if value[0] == value[0] else 9, f"| {name} | {len(having)} | {' | '.join(cells)} |"))
    for _, row in sorted(rows):
        print(row)


def print_again(subjects):
    both = [subject for subject in subjects if {0, 1} <= subject.accuracy.keys()]
    print(f"\n**Another seed**: {len(both)} trained twice", end="")
    if len(both) < 5:
        print(", too few")
        return
    lists = ([subject.accuracy[0] for subject in both], [subject.accuracy[1] for subject in both])
    two = lambda a, b: (spearman(a, b), kendall(a, b), ndcg(a, b), recall(a, b))
    cells = [with_interval(*one) for one in zip(two(*lists), interval(two, lists))]
    print(f": Spearman {cells[0]}, Kendall {cells[1]}, nDCG {cells[2]}, best 5% found {cells[3]}. No score can agree better with one training.")


def expected_best(score, accuracy, count):
    """Mean accuracy of the one with the best score among `count` drawn at random, without replacement."""
    order = sorted(range(len(score)), key=lambda i: score[i])
    every = math.comb(len(order), count)
    return sum(accuracy[i] * math.comb(place, count - 1) for place, i in enumerate(order)) / every


def prefilters(subjects):
    """By score: for each number of proposals the mean accuracy of the one that is trained."""
    found = {}
    for name in sorted({name for subject in subjects for name in subject.scores}):
        having = [subject for subject in subjects if name in subject.scores]
        if len(having) == len(subjects):
            found[name] = [expected_best([s.scores[name] for s in having], [s.accuracy[0] for s in having], count)
                           for count in PROPOSALS if count <= len(having)]
    return found


def print_prefilter(halves):
    """The score and the number of proposals are chosen on the first half, to which the regression is fitted, too."""
    cross_validate(halves[0])
    Regression(halves[0]).judge(halves[1])
    first, second = map(prefilters, halves)
    chosen = max((name for name in first if name in second), key=lambda name: first[name][-1])
    gains = [value - first[chosen][0] for value in first[chosen]]
    count = next(i for i, gain in enumerate(gains) if gain >= 0.9 * max(gains))  # nine tenths of what most proposals give
    lists = ([s.scores[chosen] for s in halves[1]], [s.accuracy[0] for s in halves[1]])
    gain = lambda score, accuracy: (expected_best(score, accuracy, PROPOSALS[count]) - statistics.mean(accuracy),)
    value, bounds = gain(*lists)[0], interval(gain, lists)[0]
    print(f"\n**--prefilter**: chosen on one half of the bucket: {chosen}:{PROPOSALS[count]}. On the other half the kernel that is trained is better than one "
          f"drawn at random by {with_interval(100 * value, [100 * b for b in bounds])} points.\n")
    print(f"| score | {' | '.join(f'of {count}' for count in PROPOSALS[:len(second[chosen])])} |\n|---|{'---:|' * len(second[chosen])}")
    for name in sorted(second, key=lambda name: -second[name][-1]):
        print(f"| {name} | {' | '.join(f'{value:.2%}' for value in second[name])} |")
    print("\nMean accuracy of the one that is trained, on the other half.")


def legal(subjects, original, tolerance):
    return [subject for subject in subjects if subject.scores.get("fisher", -math.inf) >= (1 - tolerance) * original]


def judged(subjects, original, tolerance):
    """Share rejected, mean accuracy of those that are left, share of the best tenth that is left."""
    left = legal(subjects, original, tolerance)
    best = sorted(subjects, key=lambda s: -s.accuracy[0])[:max(1, len(subjects) // 10)]
    mean = statistics.mean(s.accuracy[0] for s in left) if left else math.nan
    return 1 - len(left) / len(subjects), mean, sum(s in left for s in best) / len(best)


def print_legality(halves, original):
    """The tolerance is that of the largest mean accuracy on the first half with nine tenths of the best tenth left there."""
    everything = [statistics.mean(s.accuracy[0] for s in half) for half in halves]
    fair = [t for t in TOLERANCES if judged(halves[0], original, t)[2] >= 0.9 and judged(halves[0], original, t)[1] > everything[0]]
    chosen = max(fair, key=lambda t: judged(halves[0], original, t)[1]) if fair else None
    print(f"\n**--legality**: chosen on one half of the bucket: {'none: no tolerance keeps the best and rejects the others' if chosen is None else f'fisher:{chosen}'}. "
          f"On the other half, where the mean accuracy of all is {everything[1]:.2%}:\n")
    print("| tolerance | rejected | mean accuracy of the others | of the best tenth left |\n|---:|---:|---:|---:|")
    for tolerance in TOLERANCES:
        rejected, mean, best = judged(halves[1], original, tolerance)
        print(f"| {tolerance}{' *' if tolerance == chosen else ''} | {rejected:.0%} | {mean:.2%} | {best:.0%} |")


def table(runs, classes):
    found = collect(runs)
    unmodified = found.pop("unmodified", Subject())
    subjects = list(found.values())
    bucket = [subject for subject in subjects if subject.group == "bucket"]
    kernels = [subject for subject in subjects if subject.group in ("bucket", "rest")]
    rank_az_nas(kernels)
    print_scores(f"Kernels of one bucket of FLOPs ({BUCKET[0]} to {BUCKET[1]})", bucket)
    print_scores("All kernels", kernels)
    above = [subject for subject in kernels if subject.accuracy.get(0, 0) > CHANCE / classes]
    print_scores(f"Kernels above {CHANCE} times chance ({CHANCE / classes:.1%})", above)
    print_again(bucket)
    cells = [subject for subject in subjects if subject.group == "cells"]
    rank_az_nas(cells)
    print_scores("Cells of NAS-Bench-201", cells)
    whole = sorted((name for name, subject in found.items() if subject.group == "bucket" and 0 in subject.accuracy and subject.scores))
    random.Random(2).shuffle(whole)
    halves = [[found[name] for name in whole[:len(whole) // 2]], [found[name] for name in whole[len(whole) // 2:]]]
    if len(halves[0]) >= 10:
        print_prefilter(halves)
        if "fisher" in unmodified.scores:
            print_legality(halves, unmodified.scores["fisher"])
    cost = sum(run["cpu_seconds"] for run in runs)
    failed = [run for run in runs if run.get("error")]
    if failed:
        print(f"\n{len(failed)} trainings failed, the first one, {failed[0]['kernel']}: {failed[0]['error']}")
    print(f"\n{len(runs)} lines, {cost / 3600:.2f} CPU hours. Intervals: 95%, over samples of the kernels. A score that is not finite has no rank.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", nargs="?")
    parser.add_argument("--data")
    parser.add_argument("--of", choices=("kernels", "cells"), default="kernels")
    parser.add_argument("--minutes", type=float, default=55)
    parser.add_argument("--runs", nargs="+", default=[RUNS])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--count", type=int, help="kernels of the bucket (200), or cells (100)")
    parser.add_argument("--rest", type=int, default=30, help="other kernels of each space")
    parser.add_argument("--again", type=int, help="kernels that are trained twice (50), or cells (0)")
    parser.add_argument("--images", type=int, default=50000)
    parser.add_argument("--baseline-epochs", type=int, default=12)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    args.count = args.count or (200 if args.of == "kernels" else 100)
    args.again = args.again if args.again is not None else 50 if args.of == "kernels" else 0
    if args.table:
        table(known_runs(*args.runs), args.classes)
    elif not args.work or not args.data:
        sys.exit("a folder to work in and --data are needed")
    else:
        args.work = os.path.abspath(args.work)
        part(args)


if __name__ == "__main__":
    main()
