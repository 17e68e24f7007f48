#!/usr/bin/env bash
# What bench/studies/scores.py makes of runs that were written by hand, and the statistics of bench/studies/study.py against numbers
# that were worked out by hand or that SciPy's documentation gives.
set -eu
. tests/e2e/expect.bash
command -v python3 >/dev/null || { echo "SKIPPED: no python3 to run the study's script"; exit 77; }

PYTHONPATH=bench/studies python3 -B - <<'END' || fail "the statistics"
import math
from study import interval, kendall, ndcg, partial_spearman, ranks_of, recall, ridge, spearman
largest = 0
def near(found, expected, what):
    global largest
    error = abs(found - expected)
    largest = max(largest, error)
    assert error <= 1e-12, (what, found, expected)
assert ranks_of([3, 1, 3, 2]) == [3.5, 1, 3.5, 2]
near(spearman([1, 2, 3, 4, 5], [5, 6, 7, 8, 7]), 0.82078268166812329, "SciPy's example of spearmanr")
near(kendall([12, 2, 1, 12, 2], [1, 4, 7, 1, 0]), -4 / math.sqrt(8 * 9), "SciPy's example of kendalltau: 2 pairs with, 6 against")
near(kendall([1, 2, 3, 4], [1, 3, 2, 4]), 4 / 6, "one pair of six against")
# rho of ab 0.8, of a and of b with the third list 0.4 and 0.2: (0.8 - 0.08) / sqrt(0.84 * 0.96)
a, b, c = [1, 2, 3, 4], [1, 3, 2, 4], [2, 1, 4, 3]
near(spearman(a, b), 0.8, "1 - 6 * 2 / 60")
near(spearman(a, c), 0.6, "1 - 6 * 4 / 60")
near(spearman(b, c), 0.0, "1 - 6 * 10 / 60")
near(partial_spearman(a, b, c), 0.8 / math.sqrt((1 - 0.36) * 1), "without what the third says")
# gains 1, 0.5, 0 in the order 0.5, 1, 0: (0.5 + 1 / log2 3) / (1 + 0.5 / log2 3)
l = math.log2(3)
near(ndcg([2, 3, 1], [30, 20, 10]), (0.5 + 1 / l) / (1 + 0.5 / l), "two in the wrong order")
near(ndcg([1, 1, 1], [30, 20, 10]), 0.5 * (1 + 1 / l + 0.5) / (1 + 0.5 / l), "a verdict that says nothing has the mean gain")
truth = list(range(40)) # the best two are 39 and 38
near(recall(truth, truth), 1, "all")
near(recall([-t for t in truth], truth), 0, "none")
near(recall([0] * 39 + [1], truth), (1 + 1 / 39) / 2, "one, and one of 39 equal ones by chance")
assert math.isnan(spearman([1, 1, 1], [1, 2, 3])) and math.isnan(kendall([1, 1], [1, 2])) and math.isnan(ndcg([1, 2], [1, 1]))
(low, high), = interval(lambda a, b: (spearman(a, b),), (truth, truth))
assert low == high == 1
(low, high), = interval(lambda a, b: (spearman(a, b),), (truth, truth[20:] + truth[:20]))
assert -0.8 < low < spearman(truth, truth[20:] + truth[:20]) < high < 0, (low, high)
# One number: (2 * 3 + 2 * 3) / (4 + 4 + 4) = 1, and a constant of 5 - 3; two that are equal share it: 12 / (8 + 8 + 4) each
(weight,), constant = ridge([[1], [5]], [2, 8], 4)
near(weight, 1, "weight")
near(constant, 2, "constant")
weights, _ = ridge([[1, 1], [5, 5]], [2, 8], 4)
near(max(weights), 0.6, "weights")
near(min(weights), 0.6, "weights")
print(f"largest error {largest:.1e}")

# A network that diverged is a result; a command that failed for another reason is done again by the next part.
import contextlib, io, json, os, tempfile, time
from study import Failed, check, run_part
for code, lines in ((0, []), (6, []), (1, [{"state": "diverged"}])):
    check(("train",), code, lines, "")
for code, lines in ((1, []), (3, []), (75, [{"state": "stopped"}]), (130, []), (-9, [])):
    try:
        check(("train",), code, lines, "why")
    except Failed as failure:
        assert "why" in str(failure)
    else:
        raise AssertionError(code)
def work(job):
    if job in failing:
        raise Failed("full disk")
    return [{"job": job}, {"job": job}]
with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
    path, later = os.path.join(folder, "lines"), time.monotonic() + 1000
    failing = {1, 2, 4, 5}
    assert run_part(range(8), work, path, later, 1) == 4
    assert run_part(range(8), work, path, 0, 1) == 0 # the deadline has passed
    assert [json.loads(line)["job"] for line in open(path)] == [0, 0, 3, 3, 6, 6, 7, 7]
    failing = set(range(1, 9))
    try:
        run_part(range(9), work, path, later, 2)
    except SystemExit as end:
        assert "failed one after the other" in end.code
    else:
        raise AssertionError("the part goes on")
    assert len(open(path).readlines()) <= 10 # of job 0

# A regression says nothing of what no score says: each kernel is judged by a fit that has not seen it.
import random
from scores import Regression, Subject, cross_validate
draw, subjects = random.Random(5), []
for _ in range(60):
    subject = Subject()
    subject.accuracy[0] = draw.random()
    subject.scores = {f"score {i}": draw.random() for i in range(30)}
    subjects.append(subject)
said = lambda: spearman([s.scores["regression"] for s in subjects], [s.accuracy[0] for s in subjects])
cross_validate(subjects)
unseen = said()
Regression(subjects).judge(subjects)
print(f"random accuracies: {unseen:.2f} of unseen kernels, {said():.2f} of those that it was fitted to")
assert abs(unseen) <= 0.35 and said() >= 0.6

# NAS-Bench-201: 15,625 cells, of which the benchmark's authors count 6,466 that are not isomorphic; 341 have no path.
from scores import CELLS, structure
found = [structure(cell) for cell in range(CELLS)]
assert len({structure(cell, zeros=True) for cell in range(CELLS)}) == 6466 and found.count("#") == 341
print(f"{len(set(found)) - 1} cells compute different things")
END

# Cells are ranked among each other: by hand, of three cells; an identity has no trainability, and the lowest rank.
PYTHONPATH=bench/studies python3 -B - <<'END' || fail "the ranks of cells"
import math
from scores import AZ_NAS, Subject, rank_az_nas
cells = [Subject() for _ in range(4)]
for cell, values in zip(cells, ((30, -1, -2, 5), (20, 0, None, 1), (10, -3, -1, 5))):
    cell.scores = {name: value for name, value in zip(AZ_NAS, values) if value is not None}
rank_az_nas(cells)
for cell, ranks in zip(cells, ((3, 2, 2, 2.5), (2, 3, 1, 1), (1, 1, 3, 2.5))):
    assert abs(cell.scores["az_nas"] - sum(math.log(rank / 3) for rank in ranks)) < 1e-12, cell.scores
assert cells[3].scores == {} # trained, and not scored
END

# 40 kernels of a bucket whose accuracy is in the order of synflow, with naswot against it and without a value for one of them; five
# with another seed; the unmodified network's potential, below which lies the worse half.
PYTHONPATH=bench/studies python3 -B - >"$dir/runs.jsonl" <<'END'
import json
def score(name, group, fisher, synflow):
    scores = {"synflow": synflow, "fisher": fisher, "naswot": -synflow if synflow != 7 else None, "params": (7 * synflow) % 40}
    return {"setting": "score", "kernel": name, "group": group, "scores": scores, "states": {}, "cpu_seconds": 1}
print(json.dumps(score("unmodified", "unmodified", 20, 0)))
for i in range(40):
    print(json.dumps(score(f"k{i}", "bucket", i, i)))
    for seed in range(2 if i % 8 == 0 else 1):
        line = {"setting": "imitation-1", "kernel": f"k{i}", "group": "bucket", "seed": seed, "accuracy": 0.01 * i, "state": "trained", "error": None}
        print(json.dumps({**line, "cpu_seconds": 80}))
print(json.dumps({**line, "kernel": "diverged", "seed": 0, "accuracy": None, "error": "imitate: out of patience", "cpu_seconds": 19}))
END
study() { python3 -B bench/studies/scores.py --table --runs "$dir/one.jsonl" "$dir/other.jsonl" "$dir/missing.jsonl"; }
head -n 30 "$dir/runs.jsonl" >"$dir/one.jsonl"
tail -n +31 "$dir/runs.jsonl" >"$dir/other.jsonl"
expect 0 '' study
says() { grep -qF -- "$1" "$dir/out" || { cat "$dir/out"; fail "expected \"$1\""; }; }
says '| synflow | 40 | 1.00 (1.00 - 1.00) | 1.00 (1.00 - 1.00) | 1.00 (1.00 - 1.00) | 1.00 (1.00 - 1.00) | 1.00 (1.00 - 1.00) |'
says '| naswot | 39 | -1.00 (-1.00 - -1.00) | -1.00 (-1.00 - -1.00)'
says '| regression | 40 | 1.00 (0.99 - 1.00)'
says '5 trained twice: Spearman 1.00 (1.00 - 1.00)'
says '**Kernels above 3 times chance (3.0%)**: 36, accuracy 4.0% to 39.0%' # kernels of exactly 3% are not
says '**--legality**: chosen on one half of the bucket: fisher:0.0'
says '**--prefilter**: chosen on one half of the bucket: fisher:8'
says '**Cells of NAS-Bench-201**: 0, too few'
says '1 trainings failed, the first one, diverged: imitate: out of patience'
says '87 lines, 1.02 CPU hours'
echo "ok: statistics and tables of made runs"
