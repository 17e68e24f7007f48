#!/usr/bin/env python3
"""Study: the papers' figures of ResNet-34's 11 layers on this machine: NAS-PTE's Figure 6 and Canvas' Figure 7.

    bench/studies/layer_figures.py WORK [--batch 1] [--threads N] [--repeats 9] [--device cpu] [--svg FILE]
    bench/studies/layer_figures.py WORK --table [--svg FILE]       what WORK/layers.jsonl says, and nothing is measured

Runs `kas-gpu bench layers` on the distinct convolutions of ResNet-34 at 224x224: the library's convolution, and in its place a
convolution in two groups (what NAS-PTE's figure calls NAS), the three sequences of NAS-PTE, and the kernel that Canvas found for
ResNet-34 (its Figure 6), each timed in turns with the convolution. Prints how many times as fast as the convolution each is, layer by
layer, as Markdown, and draws bars. A kernel that does not fit a layer has no figure there, and the stem is not replaced.
Nothing else should run meanwhile; it takes a few minutes, most of them for compiling. The papers' own figures are pictures; what their
text says of them is printed below the table, beside the same statistic of ours.
"""
import argparse
import json
import math
import os
import statistics
import sys

import bars
from study import ROOT, must

NAMES = {"group2": "2 groups", "nas_pte_1": "NAS-PTE 1", "nas_pte_2": "NAS-PTE 2", "nas_pte_3": "NAS-PTE 3", "canvas_figure6": "Canvas"}


def kernels(work):
    """A folder with the kernels; the one with two groups is that of kernels/group_conv.json."""
    folder = os.path.join(work, "kernels")
    os.makedirs(folder, exist_ok=True)
    for name in NAMES:
        with open(os.path.join(ROOT, "kernels", "group_conv.json" if name == "group2" else name + ".json")) as file:
            kernel = json.load(file)
        if name == "group2":
            kernel["groups"] = {"G0": 2}
        with open(os.path.join(folder, name + ".json"), "w") as file:
            json.dump(kernel, file)
    return folder


def measure(args):
    words = ["bench", "layers", "--net", "resnet34", "--batch", args.batch, "--repeats", args.repeats, "--device", args.device,
             "--kernel", kernels(args.work), "--json"]
    lines = must(*words, *(["--threads", args.threads] if args.threads else []))
    with open(os.path.join(args.work, "layers.jsonl"), "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def read(work):
    """Of inference: the lines of the convolutions, in their order, and by (kernel, shape) those of the kernels."""
    with open(os.path.join(work, "layers.jsonl")) as file:
        lines = [line for line in map(json.loads, file) if line["phase"] == "inference"]
    convolutions = [line for line in lines if line["kernel"] is None]
    return convolutions, {(line["kernel"].removesuffix(".json"), line["shape"]): line for line in lines if line["kernel"]}


def times_as_fast(found, name, shape):
    """Median and quartiles; the fastest quartile of the ratio is the slowest of its inverse."""
    line = found.get((name, shape))
    return line and [1 / line["ratio_to_convolution" + quartile] for quartile in ("", "_q3", "_q1")]


def geometric(values):
    return math.exp(statistics.mean(map(math.log, values))) if values else math.nan


def table(convolutions, found):
    first = convolutions[0]
    print(f"{first['device']}, {first['threads']} threads, batch {first['batch']}, {first['precision']}, {first['repeats']} repeats, "
          f"{first['version']}; load {max(line['load_average'] for line in convolutions):.1f} at most.\n")
    print(f"| | layer | convolution, ms | {' | '.join(NAMES.values())} |\n|---|---|---:|{'---:|' * len(NAMES)}")
    for number, line in enumerate(convolutions, 1):
        cells = []
        for name in NAMES:
            ours = times_as_fast(found, name, line["shape"])
            cells.append("{:.2f} ({:.2f} to {:.2f})".format(*ours) if ours else "")
        print(f"| {number} | {line['shape']} | {1e3 * line['seconds']:.3f} | {' | '.join(cells)} |")
    medians = {name: {line["shape"]: of[0] for line in convolutions if (of := times_as_fast(found, name, line["shape"]))} for name in NAMES}
    print(f"| | geometric mean | | {' | '.join(f'{geometric(list(of.values())):.2f}' for of in medians.values())} |\n")
    compare(medians)


def compare(medians):
    """What the papers' text says of their figures, and ours."""
    canvas, groups = medians["canvas_figure6"], medians["group2"]
    against = [geometric([canvas[shape] / of[shape] for shape in of if shape in canvas])
               for of in (medians[f"nas_pte_{i}"] for i in (1, 2, 3))]
    print("- Canvas' kernel is up to {:.2f} times as fast as the convolution (Canvas: 9.45), and {:.2f}, {:.2f} and {:.2f} times as fast as "
          "NAS-PTE's three in the geometric mean (Canvas: 2.2, 1.7 and 1.2 on average).".format(max(canvas.values(), default=math.nan),
                                                                                              *against))
    print(f"- Two groups are 1.5 times as fast or faster in {sum(of >= 1.5 for of in groups.values())} of {len(groups)} layers (NAS-PTE: "
          "about 2 times in 7 of 11; its Fisher potential keeps 4 layers as they are).")


def draw(convolutions, found, path):
    groups = [(number, line["shape"].split(",")[0], [times_as_fast(found, name, line["shape"]) for name in NAMES])
              for number, line in enumerate(convolutions, 1)]
    bars.draw(path, "ResNet-34, layer by layer: times as fast as the convolution", "times as fast as the convolution; median and quartiles",
              groups, NAMES.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--svg")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    if not args.table:
        measure(args)
    elif not os.path.exists(os.path.join(args.work, "layers.jsonl")):
        sys.exit(f"{args.work}/layers.jsonl does not exist; measure without --table first")
    convolutions, found = read(args.work)
    table(convolutions, found)
    if args.svg:
        draw(convolutions, found, args.svg)


if __name__ == "__main__":
    main()
