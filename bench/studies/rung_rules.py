#!/usr/bin/env python3
"""Which rule at a rung keeps the kernels that are worth a training?  A simulation with the 60 kernels of bench/results/ranks.jsonl.

Generations are drawn from these kernels; what they do is what was measured: their accuracy after each of 12 epochs, that behind an
imitation, and their predicted latency.  It trains nothing and takes some seconds.  Two tables (docs/search.md, Rungs):

- whom to promote at the rungs 1, 4 and 12: the most accurate, or by fronts of accuracy and latency, among all or among those in
  reach of the best.  `area`: what those that get to the end keep of the area below the accuracy/latency frontier of all;
- what to promote by: accuracies after few epochs, or that behind an imitation."""
import json
import os
import random

RUNS, EPOCHS = 4000, 12
FILE = os.path.join(os.path.dirname(__file__), "..", "results", "ranks.jsonl")


def read():
    kernels = {}
    for line in map(json.loads, open(FILE)):
        if line["kernel"] != "unmodified" and line["setting"] in ("long", "imitation-1"):
            kernels.setdefault(line["kernel"], {})[line["setting"]] = line
    return kernels


KERNELS = read()
COST = {name: runs["long"]["predicted"] for name, runs in KERNELS.items()}


def after(name, epochs):
    """Accuracy after so many epochs, 0: behind an imitation; -1: it did not get there."""
    run = KERNELS[name].get("long" if epochs else "imitation-1", {"curve": []})
    at = epochs or 1
    return run["curve"][at - 1] if len(run["curve"]) >= at else -1


def by_fronts(names, epochs):
    """As src/host/leaderboard/objective.c: by front, in a front by crowding distance, then by accuracy."""
    left, out = sorted(names, key=lambda name: (-after(name, epochs), COST[name])), []
    while left:
        front = []
        for name in left:  # in falling order of accuracy, so the last of a front is its cheapest
            if not front or COST[name] < COST[front[-1]]:
                front.append(name)
        width, height = (abs(of(front[0]) - of(front[-1])) or 1 for of in (lambda name: after(name, epochs), COST.get))
        room = {name: float("inf") for name in (front[0], front[-1])}
        for before, name, behind in zip(front, front[1:], front[2:]):
            room[name] = (after(before, epochs) - after(behind, epochs)) / width + (COST[before] - COST[behind]) / height
        out += sorted(front, key=lambda name: (-room[name], -after(name, epochs)))
        left = [name for name in left if name not in front]
    return out


def ordered(names, epochs, rule):
    ranked = sorted(names, key=lambda name: (-after(name, epochs), COST[name]))
    best = after(ranked[0], epochs)
    behind = {"the most accurate": 0, "fronts in reach": min(0.05, best / 5), "fronts": 9}[rule]
    near = [name for name in ranked if best - after(name, epochs) < behind]
    return by_fronts(near, epochs) + [name for name in ranked if name not in near]


def survivors(names, rungs, rule):
    for epochs in rungs:
        names = ordered(names, epochs, rule)[:-(-len(names) // 3)]
    return names


def area(names):
    """Below the frontier, up to the latency of the unmodified network."""
    total = best = last = 0
    for name in sorted(names, key=COST.get):
        total, last, best = total + best * (COST[name] - last), COST[name], max(best, after(name, EPOCHS))
    return total + best * (1 - last)


def most(names):
    return max(after(name, EPOCHS) for name in names)


def simulate(source, size, generations, rungs, rule):
    """Returns the mean share of the area that is kept, the points that the best loses, how often the best is found."""
    random.seed(1)
    kept = lost = found = 0
    for _ in range(RUNS):
        drawn = [random.sample(source, size) for _ in range(generations)]
        everyone, ended = sum(drawn, []), sum((survivors(names, rungs, rule) for names in drawn), [])
        kept, lost, found = kept + area(ended) / area(everyone), lost + most(everyone) - most(ended), found + (most(ended) == most(everyone))
    return kept / RUNS, 100 * lost / RUNS, found / RUNS


def main():
    fast = [name for name in KERNELS if COST[name] <= 1]
    found = [name for name, runs in KERNELS.items() if runs["long"]["kind"].startswith("found")]
    print(f"three generations of {len(fast)} kernels that are no slower than the unmodified network, rungs 1, 4 and 12\n")
    print("| generation | who goes on | area | points lost |\n|---:|---|---:|---:|")
    for size in (9, 27):
        for rule in ("the most accurate", "fronts in reach", "fronts"):
            kept, lost, _ = simulate(fast, size, 3, (1, 4), rule)
            print(f"| {size} | {rule} | {kept:.2f} | {lost:.2f} |")
    print(f"\none generation of 9 of the {len(found)} kernels that searches found\n")
    print("| rungs | best one found | points lost |\n|---|---:|---:|")
    for text, rungs in (("1, 4, 12", (1, 4)), ("4, 12", (4,)), ("imitation, 12", (0,))):
        _, lost, best = simulate(found, 9, 1, rungs, "the most accurate")
        print(f"| {text} | {best:.0%} | {lost:.2f} |")


if __name__ == "__main__":
    main()
