#!/usr/bin/env python3
"""How near are the launches of generated kernels to what a GPU could do, by the machine model?

    bench/studies/predicted.py KAS_GPU [COUNT]      the sums over COUNT (300) sampled kernels at ResNet-18's shapes

Prints tables of Markdown. Nothing is compiled or run, so no GPU is needed (docs/benchmarks.md, "predicted").
"""
import json
import subprocess
import sys


def predicted(kas_gpu, *options):
    """The launches, those that lose most first, and the line with the sums."""
    out = subprocess.run([kas_gpu, "bench", "predicted", "--json", "--quiet", *options], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    lines = [json.loads(line) for line in out.splitlines()]
    return [line for line in lines if "launch" in line], lines[-1]


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
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    bars(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 300)


main()
