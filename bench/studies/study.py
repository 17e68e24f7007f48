"""What the studies share: runs of kas-gpu with their CPU seconds, parts that go on where the last one stopped, and statistics of
ranks.  Statistics are written out, because a study must run where there is no numpy; tests/e2e/scores_study.sh compares them with
numbers that were worked out by hand."""
import concurrent.futures
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KAS = os.environ.get("KAS_GPU", os.path.join(ROOT, "kas-gpu"))
NAN = float("nan")
NOTHING_VALID = 6  # exit code
IN_A_ROW = 3  # failures after which a part ends


class Failed(Exception):
    """A command failed for a reason that lies not in the network that it trains, such as a full disk or a signal."""


def check(words, code, lines, error):
    """Raises Failed unless the command did its work, or the network is at fault: it diverged, or there is none."""
    if code and code != NOTHING_VALID and not (lines and lines[-1].get("state") == "diverged"):
        raise Failed(f"{' '.join(map(str, words))}: exit code {code}: {error.strip()[-400:]}")


def timed(*words):
    """Exit code, JSON lines, messages, and CPU seconds of a command with those of the compilers that it started."""
    with tempfile.TemporaryFile("w+") as messages:
        process = subprocess.Popen([KAS, *map(str, words)], stdout=subprocess.PIPE, stderr=messages, text=True)
        lines = [json.loads(line) for line in process.stdout if line.startswith("{") and line.endswith("}\n")]
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        messages.seek(0)
        return process.returncode, lines, messages.read(), usage.ru_utime + usage.ru_stime


def kas(*words):
    return timed(*words)[:3]


def must(*words):
    code, lines, error = kas(*words)
    if code:
        sys.exit(f"{' '.join(map(str, words))}: {error}")
    return lines


def known_runs(*paths):
    """The JSON objects of files, of those that exist."""
    found = []
    for path in paths:
        if os.path.exists(path):
            with open(path) as file:
                found += [json.loads(line) for line in file]
    return found


def run_part(jobs, work, path, deadline, workers):
    """Does the jobs in their order until the deadline (time.monotonic), `workers` at a time, and appends what work(job) returns,
    a list of objects, as lines.  A job that has begun is finished.  One that Failed leaves no line, so that the next part does it
    again; when several in a row fail, the part ends with exit code 1.  Returns how many were done."""
    failed = 0

    def run(job):
        nonlocal failed
        if time.monotonic() > deadline or failed >= IN_A_ROW:
            return False
        try:
            lines = work(job)
        except Failed as failure:
            failed += 1
            print(f"not done: {failure}", file=sys.stderr, flush=True)
            return False
        failed = 0
        file.write("".join(json.dumps(line) + "\n" for line in lines))
        file.flush()
        return True
    with open(path, "a") as file, concurrent.futures.ThreadPoolExecutor(workers) as pool:
        done = sum(pool.map(run, jobs))
    if failed >= IN_A_ROW:
        sys.exit(f"{failed} commands failed one after the other; {done} were done in this part")
    return done


# ---- statistics of two lists: a verdict, and what is true


def ranks_of(values):
    """Ranks from 1, the mean of them for equal values."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranks = [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end < len(order) and values[order[end]] == values[order[at]]:
            end += 1
        for i in order[at:end]:
            ranks[i] = (at + end + 1) / 2
        at = end
    return ranks


def spearman(a, b):
    if len(a) < 3 or len(set(a)) < 2 or len(set(b)) < 2:
        return NAN
    return statistics.correlation(ranks_of(a), ranks_of(b))


def partial_spearman(a, b, given):
    """Spearman's rho of a and b with that which both have in common with `given` taken out."""
    ab, ag, bg = spearman(a, b), spearman(a, given), spearman(b, given)
    rest = (1 - ag * ag) * (1 - bg * bg)
    return (ab - ag * bg) / math.sqrt(rest) if rest > 1e-12 else NAN


def inversions(values):
    """The sorted list, and how many pairs of it stood in descending order."""
    if len(values) < 2:
        return values, 0
    half = len(values) // 2
    (low, some), (high, more) = inversions(values[:half]), inversions(values[half:])
    merged, count, i = [], some + more, 0
    for value in high:
        while i < len(low) and low[i] <= value:
            merged.append(low[i])
            i += 1
        merged.append(value)
        count += len(low) - i
    return merged + low[i:], count


def tied_pairs(values):
    counts = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return sum(count * (count - 1) // 2 for count in counts.values())


def kendall(a, b):
    """Kendall's tau-b (Knight 1966)."""
    pairs = sorted(zip(a, b))
    every = len(a) * (len(a) - 1) // 2
    in_a, in_b, in_both = tied_pairs(a), tied_pairs(b), tied_pairs(pairs)
    if in_a == every or in_b == every:
        return NAN
    against = inversions([y for _, y in pairs])[1]
    return (every - in_a - in_b + in_both - 2 * against) / math.sqrt((every - in_a) * (every - in_b))


def places(verdict):
    """Groups of equal verdicts, the largest first: the places from 0 that they take, and their members."""
    order = sorted(range(len(verdict)), key=lambda i: -verdict[i])
    at = 0
    while at < len(order):
        end = at
        while end < len(order) and verdict[order[end]] == verdict[order[at]]:
            end += 1
        yield range(at, end), order[at:end]
        at = end


def ndcg(verdict, truth):
    """Normalised discounted cumulative gain of the whole order: gains are `truth` scaled to 0..1; equal verdicts share theirs."""
    low, high = min(truth), max(truth)
    if high == low:
        return NAN
    gain = [(value - low) / (high - low) for value in truth]
    discount = [1 / math.log2(place + 2) for place in range(len(truth))]
    found = sum(statistics.mean(gain[i] for i in members) * sum(discount[place] for place in at) for at, members in places(verdict))
    return found / sum(g * d for g, d in zip(sorted(gain, reverse=True), discount))


def among_first(verdict, count):
    """For each member whether it is among the first `count`; of equal ones at the edge each is in part."""
    share = [0.0] * len(verdict)
    for at, members in places(verdict):
        for i in members:
            share[i] = min(1.0, max(0, count - at.start) / len(members))
    return share


def recall(verdict, truth, share=0.05):
    """Which part of the best `share` (one at least) the verdict has among as many."""
    count = max(1, round(share * len(truth)))
    return sum(map(min, among_first(verdict, count), among_first(truth, count))) / count


def interval(measure, lists, draws=400):
    """For each number of measure(*lists), a tuple, the 95% interval over samples of the members, drawn with replacement."""
    draw = random.Random(0)
    count = len(lists[0])
    found = []
    for _ in range(draws):
        chosen = [draw.randrange(count) for _ in range(count)]
        found.append(measure(*([values[i] for i in chosen] for values in lists)))
    bounds = []
    for values in zip(*found):
        values = sorted(value for value in values if value == value)
        bounds.append((values[len(values) // 40], values[-1 - len(values) // 40]) if values else (NAN, NAN))
    return bounds


def ridge(rows, values, strength):
    """Weights and constant of the linear function that has the least sum of squared errors and `strength` times the squared weights."""
    means = [statistics.mean(column) for column in zip(*rows)]
    mean = statistics.mean(values)
    centred = [[x - m for x, m in zip(row, means)] for row in rows]
    width = len(means)
    equation = [[sum(row[i] * row[j] for row in centred) + strength * (i == j) for j in range(width)] +
                [sum(row[i] * (value - mean) for row, value in zip(centred, values))] for i in range(width)]
    for i in range(width):  # the matrix is positive definite: no pivots
        for below in range(i + 1, width):
            factor = equation[below][i] / equation[i][i]
            equation[below] = [x - factor * y for x, y in zip(equation[below], equation[i])]
    weights = [0.0] * width
    for i in reversed(range(width)):
        weights[i] = (equation[i][-1] - sum(equation[i][j] * weights[j] for j in range(i + 1, width))) / equation[i][i]
    return weights, mean - sum(w * m for w, m in zip(weights, means))
