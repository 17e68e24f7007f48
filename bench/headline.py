#!/usr/bin/env python3
"""The figures that matter out of a folder of bench/gpu.sh, each beside what is aimed at.

    python3 bench/headline.py build/gpu-results

A figure whose measurement is not in the folder is said to be missing; nothing is made up for it.  Aims are for an H100.
"""
import glob
import json
import os
import statistics
import sys


def lines(folder, pattern):
    """The JSON objects of the files, whole lines only: a measurement that was cut ends in the middle of one."""
    found = []
    for path in sorted(glob.glob(os.path.join(folder, pattern))):
        with open(path, errors="replace") as file:
            for line in file:
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if isinstance(row, dict):
                    found.append(row)
    return found


def some(rows, **wanted):
    return [r for r in rows if all(r.get(k) == v for k, v in wanted.items())]


def put(what, found, aim=""):
    print(f"{what:58} {found or 'not measured':42}{' aim: ' + aim if aim else ''}".rstrip())


def images(folder):
    for precision in ("bf16", "tf32"):
        rows = some(lines(folder, f"bench-step-{precision}.json"), suite="step", phase="training", kernel=None)
        row = rows[0] if rows else None
        what = f"{row['net']}, batch {row['batch']}, {precision}" if row else f"training step, {precision}"
        put(f"{what}: images/s", row and f"{row['images_per_second']:,.0f}",
            "93,000, then 140,000 (ResNet-18, batch 512)" if precision == "bf16" else "")
        put(f"{what}: share of the floor", row and f"{100 * row['share_of_floor']:.0f}%")
        host = row and row.get("host_seconds")
        put(f"{what}: host's time for a step", host and f"{1e6 * host:.1f} us", "below 10 us")


def beside(rows):
    """Of the variants beside which we do worst: '1.31x (graph), of graph 1.31x, compile 1.50x'."""
    if not rows:
        return None
    worst = min(rows, key=lambda r: r["ratio"])
    return f"{worst['ratio']:.2f}x {worst['variant']} (" + ", ".join(f"{r['variant']} {r['ratio']:.2f}x" for r in rows) + ")"


def peer_steps(folder):
    rows = [r for r in lines(folder, "peer-step-*.json") if r.get("suite") == "peer_step"]
    keys = list(dict.fromkeys((r["net"], r["precision"], r["phase"]) for r in rows)) or [("resnet18", "bf16", "train")]
    for net, precision, phase in keys:
        put(f"{net}, {precision}, {phase}: PyTorch's time by ours, its fastest",
            beside(some(rows, net=net, precision=precision, phase=phase)),
            "1.3x, then 2x" if (net, precision, phase) == ("resnet18", "bf16", "train") else "")
    for row in lines(folder, "peer-step-*.json"):
        for failed in row.get("failed", []) if row.get("suite") == "peer_step_summary" else []:
            put("variant of PyTorch that did not run", failed)


def jit(folder):
    rows = some(lines(folder, "bench-jit.json"), suite="jit")
    if not rows:
        put("a candidate compiled cold", None, "0.3 s on 16 cores (ResNet-18)")
    for row in rows:
        seconds = row.get("nvrtc_cold_seconds")
        put(f"a candidate in {row['net']} compiled cold, {row['threads']} threads",
            seconds and f"{seconds:.2f} s ({row['nvrtc_cold_seconds_q1']:.2f} to {row['nvrtc_cold_seconds_q3']:.2f})",
            "0.3 s on 16 cores (ResNet-18)")


def checks(folder):
    found = some(lines(folder, "check/*.json"), kind="summary")
    total = {name: sum(row[name] for row in found) for name in ("kernels", "comparisons", "failures")}
    put("sampled kernels against the reference", found and f"{total['kernels']} kernels, {total['comparisons']} comparisons, "
        f"{total['failures']} failed", "300 kernels, 0 failed")


def pack(folder):
    rows, ratios, whole = some(lines(folder, "pack-*.json"), bench="pack"), [], []
    for one, many in zip(some(rows, pack=1), [r for r in rows if r["pack"] != 1]):
        if one["candidate_seconds"] and many["candidate_seconds"]:
            ratios.append(one["candidate_seconds"] / many["candidate_seconds"])
            whole.append(one["seconds"] / many["seconds"])
    same = all(r["same_losses"] for r in rows)
    put(f"candidates {max((r['pack'] for r in rows), default=8)} at once against one after the other",
        ratios and f"{statistics.median(ratios):.2f}x (whole searches {statistics.median(whole):.2f}x), "
        f"{'equal losses' if same else 'LOSSES DIFFER'}", "3x")


def kernels(folder):
    found = some(lines(folder, "peer-kernels.json"), suite="peer_kernels_summary")
    if not found or not found[-1]["kernels"]:
        put("sampled kernels beside PyTorch", None, "1.5x, then 2x torch.compile; 6x eager")
        return
    s = found[-1]
    put(f"{s['kernels']} of {s['asked']} sampled kernels, {s['precision']}: geometric mean",
        f"{s['geometric_mean']:.2f}x PyTorch's fastest", "1.5x, then 2x torch.compile; 6x eager")
    for variant, mean in s["geometric_means"].items():
        put(f"    beside {variant}", mean and f"{mean:.2f}x")
    put("    slower than PyTorch's fastest", f"{len(s['losses'])} (listed in peer-kernels.json)")
    put("    results that disagree, kernels that failed", f"{len(s['disagree'])}, {len(s['failed'])}", "0, 0")
    if s["compiled_alone"]:
        theirs = ", ".join(f"{v} {seconds:.1f} s" for v, seconds in s["torch_compile_seconds"].items())
        put(f"    compiled from empty caches ({s['compiled_alone']} kernels)",
            f"{s['compile_seconds']:.2f} s; PyTorch: {theirs}")


def floors(folder):
    for suite in ("layers", "models"):
        shares = [r["share_of_floor"] for r in lines(folder, f"bench-{suite}*.json") if r.get("suite") == suite]
        low = sum(share < 0.6 for share in shares)
        put(f"{suite} beside their floor", shares and f"median {100 * statistics.median(shares):.0f}%, "
            f"{low} of {len(shares)} below 60%")
    for row in some(lines(folder, "bench-data.json"), suite="data"):
        put(f"images from {row['case']}: feed by its bound", f"{row['feed_to_bound']:.2f} ({row['bound']})", "0.90")


def accuracy(folder):
    rows = some(lines(folder, "train.json"), event="result")
    found = [r["test_accuracy"] for r in rows if r.get("test_accuracy") is not None]
    put("training: accuracy on the test images", found and f"{100 * found[-1]:.2f}%",
        "75% (CIFAR-100, ResNet-18, --recipe cifar200)")
    done = [r for r in lines(folder, "search.json") if r.get("kind") == "candidate"]
    put("search: candidates that ended", done and f"{len(done)}, {len(some(done, state='finished'))} finished")


def states(folder):
    """The last state of each step."""
    path, found = os.path.join(folder, "summary.tsv"), {}
    if os.path.exists(path):
        with open(path) as file:
            for line in file:
                name, state = line.split("\t")[:2]
                found[name] = state
    return found


def tests(folder):
    every = states(folder)
    groups = [("test programs on the device", "tests/"), ("the same by timed plans", "tests-timed/")] + [
        ("under compute-sanitizer: " + tool, tool + "/") for tool in ("memcheck", "racecheck", "initcheck", "synccheck")]
    for what, prefix in groups:
        mine = [state for name, state in every.items() if name.startswith(prefix)]
        bad = sum(state.startswith("failed") or state == "timed out" for state in mine)
        left = sum(state in ("no time", "cut", "to go on") for state in mine)
        put(what, mine and f"{sum(s == 'ok' for s in mine)} of {len(mine)} ok, {bad} failed, {left} left", "0 failed")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for part in (tests, checks, images, peer_steps, jit, pack, kernels, floors, accuracy):
        try:
            part(sys.argv[1])
        except (KeyError, TypeError, ValueError) as error:  # a line of another form spoils no other figure
            put(part.__name__, f"not read: {type(error).__name__} {error}")


if __name__ == "__main__":
    main()
