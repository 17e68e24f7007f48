#!/usr/bin/env python3
"""What ncu saw of each kernel, summed up: time, bytes that went to and came from memory, and their rate.

    ncu --csv --page raw --print-units base --log-file F.csv --metrics gpu__time_duration.sum,dram__bytes_read.sum,... PROGRAM
    python3 bench/profile_table.py F.csv

Kernels with the longest time first.  Beside the plan's own count of bytes (kas-gpu bench step --times) this shows what a
library moves inside a call.
"""
import csv
import sys

TIME, READ, WRITTEN = "gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "nsecond": 1e-9, "usecond": 1e-6, "msecond": 1e-3, "second": 1,
         "byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}


def launches(path):
    """Of each launch its kernel's name, seconds and bytes.  Above the header stand ncu's own lines, below it the units."""
    with open(path, newline="", errors="replace") as file:
        rows = csv.reader(line for line in file if line.startswith('"'))
        header = next(rows, None)
        units = dict(zip(header, next(rows, []))) if header else {}
        for row in rows:
            found = dict(zip(header, row))
            number = {name: float(found[name].replace(",", "")) * UNITS[units[name]] for name in (TIME, READ, WRITTEN)}
            yield found["Kernel Name"], number[TIME], number[READ] + number[WRITTEN]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    kernels = {}
    for name, seconds, moved in launches(sys.argv[1]):
        count, time, size = kernels.get(name, (0, 0, 0))
        kernels[name] = (count + 1, time + seconds, size + moved)
    if not kernels:
        sys.exit(f"{sys.argv[1]}: no kernels in it")
    whole = sum(time for _, time, _ in kernels.values())
    print(f"{'launches':>8} {'us each':>10} {'MB each':>10} {'GB/s':>7} {'share':>6}  kernel")
    for name, (count, time, size) in sorted(kernels.items(), key=lambda kernel: -kernel[1][1]):
        print(f"{count:8} {1e6 * time / count:10.1f} {1e-6 * size / count:10.2f} {1e-9 * size / max(time, 1e-12):7.0f} "
              f"{100 * time / whole:5.1f}%  {name[:120]}")


if __name__ == "__main__":
    main()
