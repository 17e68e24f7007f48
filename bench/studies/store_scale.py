#!/usr/bin/env python3
"""How many workers does one store carry?  A simulation; its inputs were measured.

    bench/studies/store_scale.py [--changes 6800] [--flushed 2100] [--epoch 60] [--epochs 30]

Each worker claims an item, trains it epoch by epoch, and ends it.  A claim, an epoch and an end are changes of the store: they wait in
one queue for a server that carries so many of them a second (`kas-gpu bench store`).  Behind each of them the worker's supervisor reads
the items that were claimed or ended since it read last (an epoch is no change of its item).  That takes a time for the reading and one
for each item that is read (`build/bench/store_list`): on the server, which has `--cores` for it, on the network between them, and on the
supervisor's own core, where it has `--devices` workers.  Then the supervisor walks through the study's items in memory, `--walks` times.
The times of epochs vary by a fifth, with a fixed seed.

Prints for each number of workers: items a second, the share of the time for which workers wait, and what they wait for.
"""
import argparse
import heapq
import random


def simulate(workers, changes, items, o, seconds):
    """Returns items ended a second and the waiting share, for the queue of changes, the server's readings and supervisors."""
    rng, walks = random.Random(1), o.walks * items * o.walk
    change_free, cores, own = 0.0, [0.0] * o.cores, [0.0] * (workers // o.devices + 1)
    link_free, changed, seen = 0.0, 0, [0] * (workers // o.devices + 1)
    waited = {"changes": 0.0, "server": 0.0, "network": 0.0, "supervisor": 0.0}
    ended = 0
    events = [(rng.random() * o.epoch, w, rng.randrange(o.epochs + 1)) for w in range(workers)]
    heapq.heapify(events)
    while events:
        now, w, left = heapq.heappop(events)
        if now > seconds:
            break
        ended += left == 0
        # The end of an item and the claim of the next one are two changes, an epoch is one.
        start = max(now, change_free)
        change_free = start + (2 if left == 0 else 1) / changes
        waited["changes"] += min(change_free, seconds) - now
        changed += 2 * (left == 0)
        news, seen[w // o.devices] = changed - seen[w // o.devices], changed
        served, sent = o.asked + news * o.served, news * o.bytes / o.network
        read = o.asked_read + news * o.read + walks
        core = min(range(o.cores), key=cores.__getitem__)
        at = max(change_free, cores[core])
        cores[core] = at + served
        waited["server"] += max(0, min(cores[core], seconds) - change_free)
        link_free = max(cores[core], link_free) + sent
        waited["network"] += max(0, min(link_free, seconds) - cores[core])
        mine = max(link_free, own[w // o.devices])
        own[w // o.devices] = mine + read
        waited["supervisor"] += max(0, min(mine + read, seconds) - link_free)
        following = left - 1 if left else o.epochs
        heapq.heappush(events, (mine + read + rng.uniform(0.8, 1.2) * o.epoch, w, following))
    return ended / seconds, {k: v / (workers * seconds) for k, v in waited.items()}


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("--changes", type=float, default=6800, help="changes a second of a server whose disk flushes at once")
    p.add_argument("--flushed", type=float, default=2100, help="changes a second of a server on a slow disk")
    p.add_argument("--asked", type=float, default=250e-6, help="processor seconds of the server for a reading without an item")
    p.add_argument("--served", type=float, default=8.5e-6, help="and for one item that is read")
    p.add_argument("--asked-read", type=float, default=55e-6, help="processor seconds of a supervisor for a reading without an item")
    p.add_argument("--read", type=float, default=5.3e-6, help="and for one item that it reads")
    p.add_argument("--walk", type=float, default=3.4e-9, help="processor seconds of a supervisor for an item that it passes in memory")
    p.add_argument("--walks", type=int, default=12, help="through all items, behind each change")
    p.add_argument("--bytes", type=float, default=3500, help="of one item that is read")
    p.add_argument("--network", type=float, default=1.25e9, help="bytes a second that the server sends")
    p.add_argument("--epoch", type=float, default=60, help="seconds of an epoch")
    p.add_argument("--epochs", type=int, default=30, help="of an item")
    p.add_argument("--devices", type=int, default=8, help="of a supervisor")
    p.add_argument("--cores", type=int, default=8, help="of the server")
    o = p.parse_args()
    print("| store | items in the study | workers | items a second | workers wait | changes | server reads | network | supervisor |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, changes in (("memory or a fast disk", o.changes), ("slow disk", o.flushed)):
        for items in (1000, 10000, 100000):
            for workers in (16, 128, 1000, 10000):
                rate, waits = simulate(workers, changes, items, o, 20 * o.epoch)
                parts = " | ".join(f"{waits[k]:.1%}" for k in ("changes", "server", "network", "supervisor"))
                print(f"| {name} | {items:,} | {workers:,} | {rate:.3f} | {sum(waits.values()):.1%} | {parts} |", flush=True)


if __name__ == "__main__":
    main()
