#!/usr/bin/env python3
"""Study: NAS-PTE's Figure 4 on this machine: whole networks, as they are, compressed by BlockSwap, and after NAS-PTE's search.

    bench/studies/network_figure.py WORK --dataset F.h5 [--batch 1,32] [--threads N] [--repeats 21] [--samples 1000] [--svg FILE]
    bench/studies/network_figure.py WORK --choose --dataset F.h5     only the networks, which other work on the machine does not disturb
    bench/studies/network_figure.py WORK --table [--svg FILE]        what WORK/steps.jsonl says, and nothing is measured

For ResNet-34, ResNeXt-29 and DenseNet-161 with images of 32x32:

    Ours    the answer of `kas-gpu search --space nas-pte --no-training`, 1000 configurations
    NAS     BlockSwap (`kas-gpu assemble --strategy blockswap`): for each layer its convolution, one in 2, 4 or 8 groups, or a bottleneck
            to a half or a quarter of the channels; of --samples networks with no more parameters than ours has, that of the largest
            Fisher potential

Each is timed in inference, in turns with the unmodified network, which is what the figure calls TVM.  Printed are how many times as
fast as that they are, as Markdown, and their parameters and Fisher potentials.  What exists in WORK is not made again.  Nothing else
should run while it times.
What differs from the paper: the library's convolutions and our default schedules stand where TVM's tuned code does; the data set is the
one given, CIFAR-10 there; the paper does not say how far BlockSwap compressed, here its network may be no larger than the search's; and it does not
say how many of the layers one of its configurations changes (docs/search.md says what ours does).
"""
import argparse
import glob
import json
import os
import sys

import bars
from study import ROOT, known_runs, must

# by network: what the paper's text says of its speed on the i7, by NAS and by the paper's own search
PAPER = {"resnet34": (2, 3), "resnext29_2x64d": (1, 1.3), "densenet161": (2.2, 3)}
WAYS = ("NAS", "Ours")
INPUT = ("--input", "3x32x32")


def list_of_blocks(work):
    """BlockSwap's list as kernel files: group convolutions and bottlenecks with numbers of their own."""
    folder = os.path.join(work, "blocks")
    os.makedirs(folder, exist_ok=True)
    for source, name, share in (("group_conv", "G0", (2, 4, 8)), ("bottleneck", None, (2, 4))):
        with open(os.path.join(ROOT, "kernels", source + ".json")) as file:
            text = file.read()
        for number in share:
            kernel = json.loads(text if name else text.replace("1/4*C", f"1/{number}*C"))
            if name:
                kernel["groups"] = {name: number}
            kernel["about"] = f"{source} by {number}"
            with open(os.path.join(folder, f"{source}_{number}.json"), "w") as file:
                json.dump(kernel, file)
    return sorted(glob.glob(os.path.join(folder, "*.json")))


def search(args, net):
    """The file of layers of the search's answer, and its share of the parameters."""
    folder = os.path.join(args.work, net)
    answer = os.path.join(folder, "best", "kernel.json")
    if not os.path.exists(answer):
        must("search", "--dataset", args.dataset, "--net", net, "--space", "nas-pte", "--no-training", "--threads", args.threads, "--study", folder)
    summary, *configurations = known_runs(os.path.join(folder, "untrained.jsonl"))
    best = next(line for line in configurations if line["configuration"] == summary["best"])
    return answer, best["params_ratio"]


def blockswap(args, net, params):
    folder = os.path.join(args.work, net + "-blockswap")
    if not glob.glob(os.path.join(folder, "*", "layers.json")):
        must("assemble", *list_of_blocks(args.work), "--net", net, "--dataset", args.dataset, "--strategy", "blockswap", "--samples", args.samples,
             "--params", params, "--threads", args.threads, "--dry-run", "-o", folder)
    return glob.glob(os.path.join(folder, "*", "layers.json"))[0]


def choose(args, net):
    """Files of layers by way, and a line for each network: parameters and Fisher potential relative to the unmodified network."""
    ours, params = search(args, net)
    files = {"NAS": blockswap(args, net, params), "Ours": ours}
    path = os.path.join(args.work, net + ".jsonl")
    if not os.path.exists(path):
        lines = must("score", *files.values(), "--net", net, "--dataset", args.dataset, "--scores", "fisher,params,flops", "--batch", 8,
                     "--threads", args.threads, "--json")
        unmodified = next(line for line in lines if line["file"] is None)["scores"]
        with open(path, "w") as file:
            for way, kernel in files.items():
                scores = next(line for line in lines if line["file"] == kernel)["scores"]
                file.write(json.dumps({"way": way, "file": kernel, **{name: scores[name] / unmodified[name] for name in scores}}) + "\n")
    return files


def measure(args, net, files):
    with open(os.path.join(args.work, "steps.jsonl"), "a") as file:
        done = {(line["net"], line["way"], line["batch"]) for line in known_runs(file.name)}
        for batch in args.batch:
            for way, kernel in files.items():
                if (net, way, batch) in done:
                    continue
                lines = must("bench", "step", "--net", net, *INPUT, "--batch", batch, "--kernel", kernel, "--repeats", args.repeats,
                             "--threads", args.threads, "--json")
                line = next(line for line in lines if line["phase"] == "inference" and line["kernel"])
                unmodified = next(line for line in lines if line["phase"] == "inference" and not line["kernel"])
                file.write(json.dumps({**line, "way": way, "unmodified_seconds": unmodified["seconds"]}) + "\n")
                file.flush()


def times_as_fast(line):
    """Median and quartiles; the fastest quartile of the ratio is the slowest of its inverse."""
    return [1 / line["ratio_to_unmodified" + quartile] for quartile in ("", "_q3", "_q1")]


def table(work):
    lines = known_runs(os.path.join(work, "steps.jsonl"))
    found = {(line["net"], line["batch"], line["way"]): line for line in lines}
    first = lines[0]
    print(f"{first['device']}, {first['threads']} threads, {first['precision']}, {first['repeats']} repeats, {first['version']}; load "
          f"{max(line['load_average'] for line in lines):.1f} at most.\n")
    print("| network | batch | unmodified, ms | NAS | ours | paper's i7: NAS, ours |\n|---|---:|---:|---:|---:|---:|")
    for net, batch in sorted({(line["net"], line["batch"]) for line in lines}, key=lambda pair: (list(PAPER).index(pair[0]), pair[1])):
        cells = ["{:.2f} ({:.2f} to {:.2f})".format(*times_as_fast(found[net, batch, way])) if (net, batch, way) in found else "" for way in WAYS]
        seconds = next(line["unmodified_seconds"] for line in lines if (line["net"], line["batch"]) == (net, batch))
        print(f"| {net} | {batch} | {1e3 * seconds:.2f} | {' | '.join(cells)} | {PAPER[net][0]}, {PAPER[net][1]} |")
    print("\n| network | way | parameters | FLOPs | Fisher potential |\n|---|---|---:|---:|---:|")
    for net in PAPER:
        for line in known_runs(os.path.join(work, net + ".jsonl")):
            print(f"| {net} | {line['way']} | {line['params']:.2f} | {line['flops']:.2f} | {line['fisher']:.2f} |")
    print("\nAll three are of the whole network, relative to the unmodified one.")
    return found


def draw(found, path):
    groups = [(net, f"batch {batch}", [times_as_fast(found[net, batch, way]) if (net, batch, way) in found else None for way in WAYS])
              for net in PAPER for batch in sorted({batch for name, batch, _ in found if name == net})]
    bars.draw(path, "Whole networks: times as fast as the unmodified network", "times as fast as the unmodified network; median and quartiles",
              groups, WAYS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", help="folder for what is found")
    parser.add_argument("--dataset", help="HDF5 file whose images the search and the Fisher potentials use")
    parser.add_argument("--nets", default=",".join(PAPER), help="some of these, with commas (default: all)")
    parser.add_argument("--batch", type=lambda text: [int(part) for part in text.split(",")], default=[1, 32], help="with commas (default 1,32)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="default: all cores")
    parser.add_argument("--repeats", type=int, default=21, help="turns of a network and the unmodified one (default 21)")
    parser.add_argument("--samples", type=int, default=1000, help="networks that BlockSwap draws (default 1000)")
    parser.add_argument("--choose", action="store_true", help="find the networks, and time nothing")
    parser.add_argument("--table", action="store_true", help="print what was measured before")
    parser.add_argument("--svg", metavar="FILE", help="draw the figure too")
    args = parser.parse_args()
    unknown = set(args.nets.split(",")) - set(PAPER)
    if unknown:
        parser.error(f"--nets {','.join(sorted(unknown))}: expected some of {', '.join(PAPER)}")
    args.work = os.path.abspath(args.work)
    os.makedirs(args.work, exist_ok=True)
    if not args.table:
        if not args.dataset:
            parser.error("--dataset is needed")
        files = {net: choose(args, net) for net in args.nets.split(",")}
        if args.choose:
            return
        for net in files:
            measure(args, net, files[net])
    if not known_runs(os.path.join(args.work, "steps.jsonl")):
        sys.exit(f"{args.work}/steps.jsonl has no measurements; run without --table first")
    found = table(args.work)
    if args.svg:
        draw(found, args.svg)


if __name__ == "__main__":
    main()
