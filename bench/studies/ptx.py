#!/usr/bin/env python3
"""Study: sampled kernels through the executor of PTX (docs/ptx.md), against the float64 reference.

  ptx.py FOLDER [--kernels 2000] [--portion 50] [--net resnet20] [--input 3x8x8]

Checks --kernels kernels in each of fp32 and bf16, each at one of the network's shapes, forward and gradients. A portion is
`kas-gpu check` with its number as the seed; FOLDER keeps its lines (PRECISION-SEED.jsonl), and the same command goes on with
the portions that are missing; several may run at once. Even seeds refuse the stand-in's libraries, so that our own kernels for
them run. Prints a table of what FOLDER has, then the line of every kernel that is not ok; exit code 1 when one failed. A finding
of the executor ends its portion, whose line says what was found; the rest of it is not checked.
Needs a build with the stand-in (make test builds it), and NVRTC.
"""
import argparse
import collections
import fcntl
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

BUILD = Path(os.environ.get("BUILD", "build"))


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_portion(path, precision, seed, options):
    """Writes the portion's lines and its CPU time to path, unless another process is at it. What was cut off is done again."""
    part = path.with_suffix(".part")
    lines = open(part, "a")
    try:
        fcntl.flock(lines, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    if path.exists():
        return
    lines.truncate(0)
    env = dict(os.environ, KAS_CUDA_LIBS=str(BUILD / "tests/libkas_cuda_sim.so"), KAS_CUDA_SIM="ptx", KAS_CUDA_PLANS="heuristic",
               KAS_SIM_REFUSE="" if seed % 2 else "cublasLt,cudnn")
    begin = cpu_seconds()
    ran = subprocess.run([BUILD / "kas-gpu", "check", "--sampled", str(options.portion), "--seed", str(seed), "--shapes", "1",
                          "--net", options.net, "--input", options.input, "--device", "cuda", "--directions", "0",
                          "--precision", precision, "--threads", "1", "--json"], env=env, capture_output=True, text=True)
    end = {"kind": "portion", "precision": precision, "seed": seed, "exit_code": ran.returncode, "messages": ran.stderr.splitlines(),
           "cpu_seconds": round(cpu_seconds() - begin, 2)}
    lines.write(ran.stdout + json.dumps(end) + "\n")
    lines.flush()
    part.rename(path)


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def table(folder, precision):
    """Prints a row of the table; returns the lines that are not ok."""
    lines = [line for path in sorted(folder.glob(f"{precision}-*.jsonl")) for line in read(path)]
    checks = [line for line in lines if line["kind"] == "check"]
    portions = [line for line in lines if line["kind"] == "portion"]
    count = collections.Counter(line["result"] for line in checks)
    good = [line for line in checks if line["result"] == "ok"]
    if good:
        print(f"| {precision} | {len(checks)} | {len({line['kernel'] for line in checks})} | {count['ok']} | {count['ill-conditioned']} "
              f"| {count['undecided']} | {count['failed']} | {sum(line['exit_code'] not in (0, 1) for line in portions)} "
              f"| {max(line['forward'] for line in good):.1e} | {max(max(line['dx'], line['dweight']) for line in good):.1e} "
              f"| {sum(line['cpu_seconds'] for line in portions) / len(checks):.2f} |")
    return [line for line in lines if line.get("result", "ok") != "ok" or line.get("exit_code", 0) not in (0, 1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kernels", type=int, default=2000)
    parser.add_argument("--portion", type=int, default=50)
    parser.add_argument("--net", default="resnet20")
    parser.add_argument("--input", default="3x8x8")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for seed in range(1, options.kernels // options.portion + 1):
        for precision in ("fp32", "bf16"):
            path = options.folder / f"{precision}-{seed:03}.jsonl"
            if not path.exists():
                run_portion(path, precision, seed, options)
    print("| precision | kernels | distinct | ok | ill-conditioned | undecided | failed | findings | largest error forward | of gradients "
          "| CPU s a kernel |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    others = [line for precision in ("fp32", "bf16") for line in table(options.folder, precision)]
    for line in others:
        print(json.dumps(line))
    sys.exit(any(line.get("result", "failed") == "failed" for line in others))


if __name__ == "__main__":
    main()
