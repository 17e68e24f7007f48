#!/usr/bin/env python3
"""Study: what does tuning the schedules of kernels gain on a CPU?

    bench/studies/tuned.py run OUT.jsonl [--kernels 100] [--seed 19] [--net resnet18] [--input 3x32x32] [--layer layer2.1.conv1]
                                         [--batch 8] [--phases training,inference] [--seconds 3000] [--kas build/kas-gpu]
    bench/studies/tuned.py table OUT.jsonl...

Tunes the files of kernels/ and the sampled kernels in the place of one layer, on one thread, and times all operations of each, its
library's convolutions included, by the default schedules in turns with the tuned ones (tuned_pass.c).  A line of OUT is a kernel in
one phase; kernels that OUT has are left out, and after --seconds none is begun, so the same command goes on where it stopped (exit
code 75 when some are left).  `doctor --calibrate --threads 1` comes first: floors and the model's choice are those of its model.
"""
import argparse
import glob
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import study

LEFT = 75
TRAINING = "training"


def parse():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("out")
    run.add_argument("--kernels", type=int, default=100)
    run.add_argument("--seed", type=int, default=19)
    run.add_argument("--net", default="resnet18")
    run.add_argument("--input", default="3x32x32")
    run.add_argument("--layer", default="layer2.1.conv1")
    run.add_argument("--batch", type=int, default=8)
    run.add_argument("--phases", default="training,inference")
    run.add_argument("--seconds", type=float, default=3000)
    run.add_argument("--kas", default=os.path.join(study.ROOT, "build/kas-gpu"))
    table = commands.add_parser("table")
    table.add_argument("files", nargs="+")
    return parser.parse_args()


# ---- measuring


def measure(o, path, phase):
    """Tunes a kernel, then times the whole pass; None where the kernel does not fit the layer."""
    common = ["--net", o.net, "--input", o.input, "--layer", o.layer, "--device", "cpu", "--threads", "1", "--batch", o.batch]
    code, launches, error, cpu = study.timed("tune", path, *common, "--again", "--json", *(["--inference"] if phase != TRAINING else []))
    if code:
        print(f"{path}: {error.strip()[-300:]}", file=sys.stderr)
        return None
    launches = [line for line in launches if "kernel" in line]  # the others are maps
    whole = None
    if launches:
        words = [os.path.join(os.path.dirname(o.kas), "bench/tuned_pass"), path, o.net, o.input, o.layer, str(o.batch), phase]
        whole = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return {"phase": phase, "layer": o.layer, "batch": o.batch, "cpu_seconds": cpu, "launches": launches, "pass": whole,
            "error": error.strip()}


def run(o):
    study.KAS = o.kas
    done = {(line["kernel"], line["layer"], line["phase"]) for line in study.known_runs(o.out)}
    until = time.monotonic() + o.seconds
    left = 0
    with tempfile.TemporaryDirectory() as folder, open(o.out, "a") as out:
        study.must("sample", "--net", o.net, "--input", o.input, "--count", o.kernels, "--seed", o.seed, "-o", folder, "--quiet", "--json")
        files = sorted(glob.glob(os.path.join(study.ROOT, "kernels/*.json"))) + sorted(glob.glob(os.path.join(folder, "*.json")))
        for phase in o.phases.split(","):
            for path in files:
                name = os.path.basename(path)[:-len(".json")]
                if (name, o.layer, phase) in done:
                    continue
                if time.monotonic() > until:
                    left += 1
                    continue
                found = measure(o, path, phase)
                if found:
                    found = {"kernel": name, "sampled": path.startswith(folder), **found}
                    out.write(json.dumps(found) + "\n")
                    out.flush()
    print(f"{left} left")
    return LEFT if left else 0


# ---- the table


def mean(ratios):
    return math.exp(statistics.mean(map(math.log, ratios))) if ratios else study.NAN


def tuned(launch):
    return launch["ratio"] if launch["kept"] else 1


def put_launches(title, lines):
    launches = [launch for line in lines for launch in line["launches"]]
    before = [launch["floor"] / launch["seconds"] for launch in launches if launch["seconds"] > 0]
    after = [launch["floor"] / launch["seconds"] / tuned(launch) for launch in launches if launch["seconds"] > 0]
    choice = [launch["choice"] / tuned(launch) for launch in launches if launch["tried"]]
    default = [1 / tuned(launch) for launch in launches if launch["tried"]]
    kept = [launch["ratio"] for launch in launches if launch["kept"]]
    whole = [line["pass"]["ratio"] for line in lines if line["pass"]]
    moved = [line["pass"]["ratio"] for line in lines if line["pass"] and line["pass"]["tuned_launches"]]
    seconds = [(line["pass"]["seconds"], line["pass"]["tuned_seconds"]) for line in lines if line["pass"]]
    rows = [("kernels; with generated launches", f"{len(lines)}; {len(whole)}"),
            ("launches; kept", f"{len(launches)}; {len(kept)}"),
            ("tuned by default, geometric mean of launches", f"{mean([tuned(launch) for launch in launches]):.3f}"),
            ("of those that were kept", f"{mean(kept):.3f}"),
            ("tuned by default, geometric mean of whole passes", f"{mean(whole):.3f}"),
            ("of the passes with a tuned launch", f"{len(moved)}: {mean(moved):.3f}"),
            ("sum of all passes, tuned by default", f"{sum(b for _, b in seconds) / sum(a for a, _ in seconds):.3f}"),
            ("share of the floor, median of launches: default, tuned", f"{statistics.median(before):.2f}, {statistics.median(after):.2f}"),
            ("the model's choice by the tuned time, median", f"{statistics.median(choice):.3f}"),
            ("... within 15%", f"{sum(c <= 1.15 for c in choice)} of {len(choice)}"),
            ("the default by the tuned time, median", f"{statistics.median(default):.3f}"),
            ("... within 15%", f"{sum(d <= 1.15 for d in default)} of {len(default)}"),
            ("CPU seconds of tuning a kernel: median, most",
             f"{statistics.median(line['cpu_seconds'] for line in lines):.1f}, {max(line['cpu_seconds'] for line in lines):.1f}")]
    print(f"\n### {title}\n\n| | |\n|---|---:|")
    for row in rows:
        print("| %s | %s |" % row)
    losses = [line for line in lines if line["pass"] and line["pass"]["tuned_launches"] and line["pass"]["ratio_low"] > 1]
    print(f"\nPasses that are slower tuned, for certain (10th percentile above 1): {len(losses)}")
    for line in losses:
        print(f"- {line['kernel']}: {line['pass']['ratio']:.3f} ({line['pass']['ratio_low']:.3f} to {line['pass']['ratio_high']:.3f})")
    print("\n| kernel | launches | kept | whole pass, us | tuned by default | 8 of 10 turns |\n|---|---:|---:|---:|---:|---|")
    for line in sorted(lines, key=lambda line: line["pass"]["ratio"] if line["pass"] else 1):
        p = line["pass"]
        if p and p["tuned_launches"]:
            print(f"| {line['kernel']} | {len(line['launches'])} | {p['tuned_launches']} | {p['seconds'] * 1e6:.0f} | {p['ratio']:.3f} | "
                  f"{p['ratio_low']:.3f} to {p['ratio_high']:.3f} |")


def table(files):
    lines = study.known_runs(*files)
    for key in sorted({(line["layer"], line["phase"]) for line in lines}):
        chosen = [line for line in lines if (line["layer"], line["phase"]) == key and line["launches"]]
        put_launches(", ".join(key), chosen)


if __name__ == "__main__":
    arguments = parse()
    sys.exit(run(arguments) if arguments.command == "run" else table(arguments.files))
