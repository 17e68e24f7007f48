"""How long PyTorch takes, by the device's own clock on a GPU."""
import time

import torch


def seconds(run, runs, cuda):
    """Of `runs` calls one after the other, on the current stream; their end is waited for."""
    if not cuda:
        start = time.perf_counter()
        for _ in range(runs):
            run()
        return time.perf_counter() - start
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(runs):
        run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e-3
