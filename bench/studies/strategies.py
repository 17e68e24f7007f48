#!/usr/bin/env python3
"""Does a strategy find better kernels than random sampling in the same device time?

    bench/studies/strategies.py WORK --plan                            what it costs, and what is left of it
    bench/studies/strategies.py WORK --data CIFAR100 [--minutes 55] [--runs bench/results/strategies.jsonl]
    bench/studies/strategies.py WORK --table [--svg FILE] [--runs FILE]     what the runs say, as Markdown and as curves

CIFAR100 is the folder of the official binary files (train.bin, test.bin).  Each strategy searches with each of 5 seeds in two settings:
`known` begins with the known kernels on all sides; `none` without them.  NAME@N is a strategy with --ancestors N, NAME+SCORE:K one with
--prefilter, NAME/SCORE:T one with --legality.  A candidate's verdict is the cheap one of the study on ranks: its kernels imitate the
convolutions of a trained network, and unless they miss more than 70% of their variance, one epoch of training follows.  That network is trained first, once,
on images that no search sees: the searches have the first --images of the training set, and it has the others.  A search gets --seconds of
device time: processor seconds of its worker and of the compilers that it starts, those of the unmodified network not counted, and of the
process that proposes and scores candidates.  Of these the ancestors' come before the first candidate, and the others are shared evenly
among the candidates.  It has one worker
of one thread, and a cache of its own, so that no search uses what another one has compiled.  No decision depends on a measured time:
latencies are predicted for the machine `cpu` that comes with kas-gpu.  No search opens the test set, since each is stopped before its
final trainings.

One JSON object for each search goes to the file of --runs: its candidates in their order, with the accuracy on the images that select,
the predicted latency in that of the unmodified network, and the processor seconds.  The same command goes on where the last one
stopped, in the middle of a search too; --minutes ends the part.  The runs of one file must have the same images, epochs and seconds.
"""
import argparse
import collections
import concurrent.futures
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from ranks import BATCH, NET, RATE, SIDE, WARM_RATE
from study import KAS, ROOT, kas, known_runs, must

RUNS = os.path.join(ROOT, "bench", "results", "strategies.jsonl")
STRATEGIES = ("random", "evolution", "evolution@0", "random/imitation:0.9", "tree")
SETTINGS = {"known": "yes", "none": "no"}  # by name: --known
SEEDS = 5
MOST_MISSED = 0.7
VALIDATION = 0.3  # half of it selects: 1,500 images of 10,000, so an accuracy of 0.3 has a standard error of 0.012
RECORD = 2 + 3 * 32 * 32  # bytes of an image of CIFAR-100
SLOWEST = 1.0  # most predicted latency of a kernel, in that of the unmodified network
MARGIN = 2  # of a machine that was never calibrated: a search discards what is predicted slower than its --latency by more
COLOURS = ("#888888", "#c23b22", "#1f6fb2", "#2e8b57", "#8a5fbf")


# ---- searching ----------------------------------------------------------------------------------

def dataset(args, name):
    """The images of the searches, or those of the network that is imitated ("teacher")."""
    path = os.path.join(args.work, f"{name}-{args.images}.h5")
    if os.path.exists(path):
        return path
    if not args.data:
        sys.exit("--data CIFAR100 is needed")
    with tempfile.TemporaryDirectory(dir=args.work) as folder:
        for file in os.listdir(args.data):
            shutil.copy(os.path.join(args.data, file), folder)
        with open(os.path.join(folder, "train.bin"), "r+b") as file:
            images = file.read()
            first, rest = images[:args.images * RECORD], images[args.images * RECORD:]
            file.seek(0)
            file.truncate()
            file.write(rest if name == "teacher" else first)
        must("dataset", "import", "cifar100", folder, "-o", path, "--resize", SIDE)
    return path


def teacher(args):
    """The weights of the trained network."""
    path = os.path.join(args.work, f"teacher-{args.images}-{args.epochs}.safetensors")
    if not os.path.exists(path):
        must("train", "--net", NET, "--dataset", dataset(args, "teacher"), "--epochs", args.epochs, "--batch", BATCH, "--lr", RATE,
             "--seed", 0, "--device", "cpu", "--threads", 1, "--quiet", "--json", "--checkpoint", path + ".checkpoint", "--weights", path)
    return path


def name_of(job):
    return "-".join(map(str, job)).replace("/", "~")


def study_of(args, job):
    return os.path.join(args.work, name_of(job))


def search(args, job):
    """Starts or continues a search."""
    strategy, setting, seed = job
    strategy, _, prefilter = strategy.partition("+")
    strategy, _, legality = strategy.partition("/")
    strategy, _, ancestors = strategy.partition("@")
    words = ["search", "--dataset", dataset(args, "search"), "--init", teacher(args), "--net", NET, "--study", study_of(args, job),
             "--strategy", strategy, "--rungs", "none", "--seed", seed, "--known", SETTINGS[setting], "--candidates", 100000, "--epochs", 1, "--batch", BATCH,
             "--lr", WARM_RATE, "--imitate", 1, "--most-missed", MOST_MISSED, "--validation", VALIDATION, "--objective", "frontier",
             "--latency", SLOWEST / MARGIN, "--latency-on", "cpu", "--device", "cpu", "--workers", 1, "--threads", 1, "--weights-limit", 0, "--quiet"]
    if strategy == "evolution":
        words += ["--population", args.population]
    if strategy == "tree":
        words += ["--generation", args.population // 5]  # as many as evolution has
    if ancestors:
        words += ["--ancestors", ancestors]
    if prefilter:
        words += ["--prefilter", prefilter]
    if legality:
        words += ["--legality", legality]
    with open(study_of(args, job) + ".log", "a") as log:
        return subprocess.Popen([KAS, *map(str, words)], cwd=args.work, stdout=log, stderr=log, start_new_session=True,
                                env={**os.environ, "KAS_CACHE_DIR": os.path.join(args.work, "cache", name_of(job))})


def items(args, job):
    """The unmodified network, if it was trained, and the candidates that have ended, in their order. One whose worker died has only the
    time on the clock."""
    if not os.path.exists(os.path.join(study_of(args, job), "study.db")):
        return None, []
    code, lines, _ = kas("best", study_of(args, job), "--json")
    baseline, ended = None, []
    for line in lines if code == 0 else []:
        if line["kind"] == "baseline" and line["state"] == "finished":
            baseline = line
        elif line["kind"] == "candidate" and line["state"] not in ("queued", "running", "waiting", "predicted-slow", "low-score", "prefiltered"):
            if line["processor_seconds"] is None:
                line["processor_seconds"] = line["ended"] - line["started"]
            ended.append(line)
    return baseline, sorted(ended, key=lambda line: line["ended"])


def noted(args, job, what):
    """Processor seconds of the process that proposes: of `ancestors`, or all of `proposing`."""
    path = f"{study_of(args, job)}.{what}"
    if not os.path.exists(path):
        return 0
    with open(path) as file:
        return float(file.read())


def note(args, job, seconds):
    """Notes what the process has used so far, which is the ancestors' share when these have just been written down."""
    whats = ["proposing"]
    if os.path.exists(os.path.join(study_of(args, job), "ancestors.json")) and not noted(args, job, "ancestors"):
        whats.append("ancestors")
    for what in whats:
        with open(f"{study_of(args, job)}.{what}", "w") as file:
            file.write(str(seconds))


def own_seconds(process):
    """The processor seconds of a process without those of its children."""
    with open(f"/proc/{process.pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def spent(args, job):
    return noted(args, job, "proposing") + sum(line["processor_seconds"] for line in items(args, job)[1])


def record(args, job):
    baseline, ended = items(args, job)
    plain, before = baseline["predicted_seconds"], noted(args, job, "ancestors")
    each = (noted(args, job, "proposing") - before) / max(1, len(ended))
    return {"strategy": job[0], "setting": job[1], "seed": job[2], "images": args.images, "epochs": args.epochs, "seconds": args.seconds,
            "before": round(before, 3), "unmodified": {"accuracy": baseline["accuracy"], "seconds": baseline["processor_seconds"]},
            "candidates": [{"kernel": line["kernel"], "origin": line["origin"], "state": line["state"],
                            "accuracy": line["accuracy"] if line["state"] == "finished" else None, "missed": line["missed"],
                            "ratio": line["predicted_seconds"] and round(line["predicted_seconds"] / plain, 4),
                            "seconds": round(line["processor_seconds"] + each, 3)} for line in ended]}


def run(args, job, deadline, file):
    """Lets a search go on until it has had its time, and returns whether it has: the part may end before."""
    if time.monotonic() > deadline:
        return False
    process, whole, before = search(args, job), False, noted(args, job, "proposing")
    while process.poll() is None and not whole and time.monotonic() < deadline:
        time.sleep(min(5, args.seconds / 50))
        note(args, job, before + own_seconds(process))
        whole = spent(args, job) >= args.seconds
    stopped = process.poll() is None
    if stopped:
        process.send_signal(signal.SIGTERM)
    code = process.wait()
    if not stopped and code not in (0, 6):  # 0, 6: there are no more candidates
        raise RuntimeError(f"{name_of(job)}: exit code {code}; see {study_of(args, job)}.log")
    if stopped and not whole and spent(args, job) < args.seconds:
        return False
    print(json.dumps(record(args, job)), file=file, flush=True)
    shutil.rmtree(os.path.join(args.work, "cache", name_of(job)), ignore_errors=True)
    return True


def jobs_of(args):
    """By seeds, so that a part of the study compares what it has."""
    return [(strategy, setting, seed) for seed in range(SEEDS) for setting in args.settings for strategy in args.strategies]


def left_of(args):
    done = {(run["strategy"], run["setting"], run["seed"]) for run in known_runs(args.runs)}
    return [job for job in jobs_of(args) if job not in done]


def plan(args):
    left, runs = left_of(args), known_runs(args.runs)
    rest = sum(max(0, args.seconds - spent(args, job)) for job in left)
    overhead = [run["unmodified"]["seconds"] for run in runs]
    candidates = [len(run["candidates"]) for run in runs]
    print(f"{len(jobs_of(args))} searches of {args.seconds:g} s of device time on {args.images} images for {args.epochs} epochs: "
          f"{len(jobs_of(args)) * args.seconds / 3600:.1f} core-hours; {len(left)} searches are left, {rest / 3600:.1f} core-hours, "
          f"{math.ceil(rest / 60 / args.jobs / args.minutes)} parts of {args.minutes:g} minutes on {args.jobs} cores.")
    print("Each also trains the unmodified network" + (f" ({statistics.median(overhead):.0f} s) and is stopped within a candidate "
          f"({statistics.median(candidates):.0f} candidates a search)" if runs else ", and is stopped within a candidate") + ".")


def part(args):
    deadline = time.monotonic() + 60 * args.minutes
    plan(args)
    dataset(args, "search")
    teacher(args)
    with open(args.runs, "a") as file, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        done = sum(pool.map(lambda job: run(args, job, deadline, file), left_of(args)))
    print(f"{done} searches ended in this part; {len(left_of(args))} are left")


# ---- what the runs say --------------------------------------------------------------------------

def best_accuracy(points):
    return max((accuracy for accuracy, _ in points), default=0)


def hypervolume(points):
    """The best accuracy within a limit of the latency, in the mean over all limits up to that of the unmodified network."""
    area, best, at = 0, 0, 0
    for accuracy, ratio in sorted(points, key=lambda point: point[1]):
        area += best * (ratio - at)
        best, at = max(best, accuracy), ratio
    return area + best * (SLOWEST - at)


MEASURES = {"best accuracy": best_accuracy, "hypervolume": hypervolume}


def curve(run, measure):
    """Shares of the device time, and the measure of what has ended until then."""
    points, at, steps = [], run.get("before", 0), [(0, 0)]
    for one in run["candidates"]:
        at += one["seconds"]
        if at > run["seconds"]:
            break
        if one["accuracy"] is not None and one["ratio"] is not None and one["ratio"] <= SLOWEST:
            points.append((one["accuracy"], one["ratio"]))
            steps.append((at / run["seconds"], measure(points)))
    return steps


def value_at(steps, share):
    return [value for at, value in steps if at <= share][-1]


def share_to(steps, value):
    """The share of the device time after which the value is reached; infinite: never."""
    return next((at for at, found in steps if found >= value), math.inf)


def spread(values, form):
    def text(value):
        return form.format(value) if value <= 1 else "not reached"
    return f"{text(statistics.median(values))} ({text(min(values))} - {text(max(values))})"


def grouped(runs):
    """By setting and strategy: the runs by seed."""
    found = collections.defaultdict(lambda: collections.defaultdict(dict))
    for one in runs:
        found[one["setting"]][one["strategy"]][one["seed"]] = one
    return found


def table(runs):
    if len({(run["images"], run["epochs"], run["seconds"]) for run in runs}) > 1:
        sys.exit("the runs differ in images, epochs or seconds: compare those of one setting")
    for setting, of_strategy in grouped(runs).items():
        random = of_strategy["random"]
        print(f"\n{setting}: {runs[0]['seconds']:g} s of device time a search; medians over the seeds (least - most); shares of the time "
              "until the best of random sampling by the same seed is reached.\n")
        print("| strategy | seeds | candidates, finished | best accuracy | share of time | hypervolume | share of time |\n"
              "|---|---:|---|---|---|---|---|")
        for strategy, by_seed in of_strategy.items():
            seeds = [seed for seed in by_seed if seed in random]
            if not seeds:
                continue
            cells = []
            for measure in MEASURES.values():
                own = [curve(by_seed[seed], measure) for seed in seeds]
                against = [curve(random[seed], measure)[-1][1] for seed in seeds]
                cells += [spread([steps[-1][1] for steps in own], "{:.4f}"),
                          spread([share_to(steps, best) for steps, best in zip(own, against)], "{:.2f}")]
            ran = statistics.median(len(by_seed[seed]["candidates"]) for seed in seeds)
            finished = statistics.median(sum(c["state"] == "finished" for c in by_seed[seed]["candidates"]) for seed in seeds)
            print(f"| {strategy} | {len(seeds)} | {ran:g}, {finished:g} | {' | '.join(cells)} |")


def panel(found, measure, left, top, width, height):
    """The curves of one setting: medians over the seeds, and a band from the least to the most."""
    shares = [i / 100 for i in range(101)]
    by_strategy = {}
    for strategy, by_seed in found.items():
        steps = [curve(one, measure) for one in by_seed.values()]
        by_strategy[strategy] = [sorted(value_at(one, share) for one in steps) for share in shares]
    most = max(max(values[-1] for values in of) for of in by_strategy.values()) or 1

    def path(values):
        return " ".join(f"{left + share * width:.1f},{top + height * (1 - value / most):.1f}" for share, value in values)
    text = [f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#999"/>',
            f'<text x="{left}" y="{top + height + 14}">0</text><text x="{left + width}" y="{top + height + 14}" text-anchor="end">'
            f'all of the time</text><text x="{left - 4}" y="{top + 10}" text-anchor="end">{most:.3f}</text>']
    for (strategy, of), colour in zip(by_strategy.items(), COLOURS):
        band = list(zip(shares, (v[0] for v in of))) + list(zip(reversed(shares), (v[-1] for v in reversed(of))))
        text.append(f'<polygon points="{path(band)}" fill="{colour}" opacity="0.18"/>'
                    f'<polyline points="{path(zip(shares, map(statistics.median, of)))}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
    return text


def write_svg(runs, path):
    found, width, height = grouped(runs), 300, 180
    text = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {len(found) * (width + 70) + 10} {2 * (height + 60) + 30}" '
            'font-family="sans-serif" font-size="11">']
    for column, (setting, of) in enumerate(found.items()):
        for row, (name, measure) in enumerate(MEASURES.items()):
            left, top = 60 + column * (width + 70), 30 + row * (height + 60)
            text.append(f'<text x="{left}" y="{top - 8}">{setting}: {name} so far</text>')
            text += panel(of, measure, left, top, width, height)
    names = list(dict.fromkeys(strategy for of in found.values() for strategy in of))
    for i, (name, colour) in enumerate(zip(names, COLOURS)):
        text.append(f'<text x="{60 + 100 * i}" y="{2 * (height + 60) + 20}" fill="{colour}">{name}</text>')
    with open(path, "w") as file:
        file.write("\n".join(text + ["</svg>", ""]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work")
    parser.add_argument("--data", help="folder of CIFAR-100")
    parser.add_argument("--strategies", default=",".join(STRATEGIES), type=lambda text: text.split(","))
    parser.add_argument("--settings", default=",".join(SETTINGS), type=lambda text: text.split(","))
    parser.add_argument("--images", type=int, default=10000, help="of the searches, validation included")
    parser.add_argument("--epochs", type=int, default=12, help="of the network that is imitated")
    parser.add_argument("--seconds", type=float, default=600, help="device time of a search")
    parser.add_argument("--population", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=55)
    parser.add_argument("--runs", default=RUNS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--svg")
    args = parser.parse_args()
    args.work = os.path.abspath(args.work)
    os.makedirs(args.work, exist_ok=True)
    if args.plan:
        plan(args)
    elif args.table:
        table(known_runs(args.runs))
        if args.svg:
            write_svg(known_runs(args.runs), args.svg)
    else:
        part(args)


if __name__ == "__main__":
    main()
