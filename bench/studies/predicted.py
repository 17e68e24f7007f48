#!/usr/bin/env python3
"""How near are the launches of generated kernels to what a GPU could do, by the machine model?

    bench/studies/predicted.py KAS_GPU known             the model beside figures found by reading machine code
    bench/studies/predicted.py KAS_GPU bars [COUNT]      the sums over COUNT (300) sampled kernels at ResNet-18's shapes

Prints tables of Markdown. Nothing is compiled or run, so no GPU is needed (docs/benchmarks.md, "predicted").
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

SCALE = {"format": "kas-gpu kernel", "version": 1, "groups": {}, "nodes": [
    {"op": "input"}, {"op": "scale", "in": [0], "dim": 0, "dim_end": 1}]}
# the product of x with its mean over the channels: a sum over all pixels for each channel
PRODUCT = {"format": "kas-gpu kernel", "version": 1, "groups": {}, "nodes": [
    {"op": "input"}, {"op": "fold_avg", "in": [0], "dim": 0}, {"op": "bmm", "in": [0, 1], "transpose": "rhs"},
    {"op": "mul", "in": [2, 0]}]}
WITHIN = 1.5


def predicted(kas_gpu, *options):
    """The launches, those that lose most first, and the line with the sums."""
    out = subprocess.run([kas_gpu, "bench", "predicted", "--json", "--quiet", *options], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    lines = [json.loads(line) for line in out.splitlines()]
    return [line for line in lines if "launch" in line], lines[-1]


def of_kernel(kas_gpu, kernel, *options):
    """The launches of one kernel, given as JSON, at the first target."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "k.json")
        with open(path, "w") as file:
            json.dump(kernel, file)
        return first_layer(predicted(kas_gpu, "--kernel", path, *options)[0])


def first_layer(launches):
    return [line for line in launches if line["kernel"] and line["layer"] == "layer1.0.conv1"]


def known(kas_gpu):
    """Each row: what, seconds read from machine code (low, high), seconds by the model."""
    large, small = ("--net", "resnet18", "--input", "3x56x56"), ("--net", "resnet20", "--input", "3x32x32")
    rows = []

    def add(what, low, high, seconds):
        rows.append((what, low, high, seconds, low / WITHIN <= seconds <= high * WITHIN))

    few = [l for l in of_kernel(kas_gpu, SCALE, *large) if l["backward"] and l["bytes"] < 4e6]
    add("gradient of a scale, 64x56x56, batch 64: the total of its partial sums", 0.3e-3, 0.45e-3,
        sum(l["seconds"] for l in few))
    add("its floor", 2e-6, 2e-6, sum(l["floor_seconds"] for l in few) / max(1, len(few)))
    product = [l for l in of_kernel(kas_gpu, PRODUCT, *large) if not l["backward"] and l["bytes"] > 40e6]
    worst = max(product, key=lambda l: l["seconds"] / l["floor_seconds"])
    add("sum over one variable, 52 MB", 0.8e-3, 0.8e-3, worst["seconds"])
    add("its floor", 16e-6, 16e-6, worst["floor_seconds"])
    for net, seconds, floor in ((small, 5.75e-3, 1.18e-3),
                                (("--net", "resnet18", "--input", "3x224x224"), 19.8e-3, 9.3e-3)):
        sums = []  # of generated launches; the sixteen kernels that were read are not known
        for seed in range(1, 8):
            chosen = first_layer(predicted(kas_gpu, "--kernel", "kernels", "--repeats", "16", "--seed", str(seed), *net)[0])
            chosen = [l for l in chosen if not l["library"]]
            sums.append((sum(l["seconds"] for l in chosen), sum(l["floor_seconds"] for l in chosen)))
        for what, value, at in (("", seconds, 0), (", floors", floor, 1)):
            add(f"first target layer of {net[1]} at {net[3]}, kernels/ and 16 sampled{what}: median of 7 draws, "
                f"{min(s[at] for s in sums) * 1e3:.2f} to {max(s[at] for s in sums) * 1e3:.2f} ms", value, value,
                statistics.median(s[at] for s in sums))
    norms = [l["seconds"] for l in predicted(kas_gpu, "--kernel", "kernels/conv.json", "--batch", "128", "--net",
                                             "resnet18", "--input", "3x32x32")[0] if l["launch"] == "batch norm combine"]
    add("norm_combine and its gradient, the longest", 8e-6, 11e-6, max(norms))
    print("| what | read | model | within 1.5 |\n|---|---:|---:|---|")
    for what, low, high, seconds, good in rows:
        read = f"{low * 1e6:.0f}" if low == high else f"{low * 1e6:.0f} to {high * 1e6:.0f}"
        print(f"| {what} | {read} us | {seconds * 1e6:.1f} us | {'yes' if good else 'no'} |")


def bars(kas_gpu, count):
    print("| precision | launches | programs | predicted | floors | within 2x of the floor | of generated ones | largest ratio "
          "| of generated ones | median of programs |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    worst = {}
    for precision in ("bf16", "fp32"):
        launches, sums = predicted(kas_gpu, "--net", "resnet18", "--input", "3x56x56", "--repeats", str(count), "--seed", "1",
                                   "--precision", precision)
        ours = [l for l in launches if l["kernel"] and not l["library"]]
        near = sum(l["seconds"] for l in ours if l["ratio"] <= 2) / sum(l["seconds"] for l in ours)
        print(f"| {precision} | {sums['launches']} | {sums['programs']} | {sums['seconds'] * 1e3:.1f} ms | "
              f"{sums['floor_seconds'] * 1e3:.1f} ms | {sums['near_floor']:.1%} | {near:.1%} | {sums['largest_ratio']:.1f} | "
              f"{max(l['ratio'] for l in ours):.1f} | {sums['median_program_ratio']:.2f} |")
        worst[precision] = launches
    print("\nWhere the time beyond twice the floor lies, by what bounds the launch:\n")
    print("| precision | bound | launches | time | their floors | largest ratio |\n|---|---|---:|---:|---:|---:|")
    for precision, launches in worst.items():
        for bound in ("memory", "arithmetic", "latency"):
            for library in (False, True):
                far = [l for l in launches if l["bound"] == bound and l["ratio"] > 2 and l["library"] == library]
                if far:
                    print(f"| {precision} | {bound}{', library' if library else ''} | {len(far)} | "
                          f"{sum(l['seconds'] for l in far) * 1e3:.2f} ms | {sum(l['floor_seconds'] for l in far) * 1e3:.2f} ms | "
                          f"{max(l['ratio'] for l in far):.1f} |")
    print("\n| precision | kernel | layer | launch | blocks | time | floor | ratio | bound |\n|---|---|---|---|---:|---:|---:|---:|---|")
    for precision, launches in worst.items():
        for l in launches[:12]:
            print(f"| {precision} | {l['kernel'] or l['net']} | {l['layer']} | {l['launch']} | {l['blocks']} | {l['seconds'] * 1e6:.1f} us | "
                  f"{l['floor_seconds'] * 1e6:.1f} us | {l['ratio']:.1f} | {l['bound']}{', library' if l['library'] else ''} |")


def main():
    if len(sys.argv) < 3 or sys.argv[2] not in ("known", "bars"):
        sys.exit(__doc__)
    if sys.argv[2] == "known":
        known(sys.argv[1])
    else:
        bars(sys.argv[1], int(sys.argv[3]) if len(sys.argv) > 3 else 300)


main()
