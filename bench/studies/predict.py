#!/usr/bin/env python3
"""Study (c): how well are latencies predicted?  Reads what predict_times measured, predicts each kernel with
`kas-gpu predict`, and prints the table of bench/results.

    bench/studies/predict.py KAS_GPU MACHINE TIMES.jsonl... [--launches] [--disturbed]

Times are relative to the unmodified network, measured in turns with it. --launches adds which kinds of launches are
predicted worst. --disturbed counts kernels that have no quiet line, too, by their last line: for machines that are never
idle. A ratio of turns suffers less than a time, because what disturbs a kernel disturbs the network beside it.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

from study import spearman


def quantile(values, q):
    values = sorted(values)
    at = q * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def read(paths):
    """The last quiet line of each kernel, and the last line of each that has none: beside a quiet one the unmodified
    network is within 5% of its fastest time of the file, as in src/host/predict/turns.h."""
    rows, disturbed = {}, {}
    for path in paths:
        found = []
        for line in open(path):
            try:
                row = json.loads(line)
            except ValueError:
                continue  # a line that was cut off
            if row.get("kind") == "predict_time":
                found.append(row)
        fastest = min((row["unmodified_seconds"] for row in found), default=0)
        for row in found:
            if row["unmodified_seconds"] <= 1.05 * fastest:
                rows[row["kernel"]] = row
            else:
                disturbed[row["kernel"]] = row
    return rows, {name: row for name, row in disturbed.items() if name not in rows}


def predict(kas, machine, rows):
    any_row = next(iter(rows.values()))
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for name, row in rows.items():
            if row["source"] != "unmodified":
                files[os.path.join(folder, name + ".json")] = name
                with open(os.path.join(folder, name + ".json"), "w") as out:
                    out.write(row["text"])
        command = [kas, "predict", "--quiet", "--json", "--machine", machine, "--net", any_row["net"], "--input",
                   any_row["input"], "--batch", str(any_row["batch"])] + sorted(files)
        lines = [json.loads(line) for line in subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()]
    return {files.get(line["file"], "unmodified"): line for line in lines}


def judge(title, rows):
    """rows: (measured ratio, predicted ratio)"""
    if not rows:
        return
    error = [abs(p / m - 1) for m, p in rows]
    print("| %s | %d | %.3f | %.1f%% | %.1f%% |" % (title, len(rows), spearman([m for m, _ in rows], [p for _, p in rows]),
                                                   100 * quantile(error, 0.5), 100 * quantile(error, 0.9)))


def filters(rows, margin):
    """A search that allows a ratio R discards what is predicted slower than R times the margin."""
    print("\n| limit | margin | fast enough | of them discarded | too slow | of them discarded |\n|---:|---:|---:|---:|---:|---:|")
    for limit in (0.5, 0.75, 1.0, 1.5, 2.0):
        for factor in (1.0, margin):
            good = [p for m, p in rows if m <= limit]
            bad = [p for m, p in rows if m > limit]
            lost = sum(p > limit * factor for p in good)
            saved = sum(p > limit * factor for p in bad)
            print("| %.2f | %.2f | %d | %d (%.1f%%) | %d | %d (%.1f%%) |" % (
                limit, factor, len(good), lost, 100 * lost / max(1, len(good)), len(bad), saved, 100 * saved / max(1, len(bad))))


def launches(rows, predictions):
    kinds = {}
    for name, row in rows.items():
        all_seconds = row["seconds"]
        for measured, launch in zip(row["launches"], predictions[name]["launches"]):
            if measured:
                kind = launch["launch"] + (", library" if launch["library"] else "") + ", " + launch["bound"]
                kinds.setdefault(kind, []).append((measured / all_seconds, launch["seconds"] / measured))
    print("\n| launch | number | share of time | predicted/measured, 10% | median | 90% |\n|---|---:|---:|---:|---:|---:|")
    for kind, list_ in sorted(kinds.items(), key=lambda k: -sum(s for s, _ in k[1])):
        factor = [f for _, f in list_]
        print("| %s | %d | %.1f%% | %.2f | %.2f | %.2f |" % (kind, len(list_), 100 * sum(s for s, _ in list_) / len(rows),
                                                          quantile(factor, 0.1), quantile(factor, 0.5), quantile(factor, 0.9)))


def main():
    arguments = [a for a in sys.argv[1:] if a not in ("--launches", "--disturbed")]
    if len(arguments) < 3:
        raise SystemExit(__doc__)
    rows, disturbed = read(arguments[2:])
    counts = "--disturbed" in sys.argv
    if counts:
        rows.update(disturbed)
    if not rows:
        raise SystemExit("predict.py: %s: no measured kernel" % ", ".join(arguments[2:]))
    if disturbed:
        print("%d kernels were disturbed and %s.\n" % (len(disturbed), "count all the same" if counts else "do not count"))
    predictions = predict(arguments[0], arguments[1], rows)
    if arguments[1].endswith(".json"):
        margin = json.load(open(arguments[1]))["margin"] or 2
    else:
        margin = 2
    pairs = {name: (row["ratio"], predictions[name]["ratio_to_unmodified"]) for name, row in rows.items()
             if row["source"] != "unmodified"}
    print("| kernels | number | Spearman | median error | 90% of errors below |\n|---|---:|---:|---:|---:|")
    judge("all", list(pairs.values()))
    judge("between half and twice the unmodified network", [v for v in pairs.values() if 0.5 <= v[0] <= 2])
    for source in sorted({row["source"] for row in rows.values()} - {"unmodified"}):
        judge(source, [v for name, v in pairs.items() if rows[name]["source"] == source])
    filters(list(pairs.values()), margin)
    worst = sorted(pairs, key=lambda n: -abs(math.log(pairs[n][1] / pairs[n][0])))[:10]
    print("\n| worst predicted | source | measured | predicted |\n|---|---|---:|---:|")
    for name in worst:
        print("| %s | %s | %.2f | %.2f |" % (name, rows[name]["source"], *pairs[name]))
    if "--launches" in sys.argv:
        launches(rows, predictions)


main()
