/* What a launch costs on a GPU, to compare one schedule of a kernel with another.
 *
 * The same counts as for predictions (host/predict/gpu.c) with the numbers of one machine, an H100:
 * only ratios matter, and they differ little from one GPU to the next. */
#include <math.h>

#include "jit/schedule/nest.h"

static const double cores = 132, clock_rate = 1.83e9, core_lanes = 128, warp = 32,
                    threads_kept = 2048, bandwidth = 3.35e12, outer_bandwidth = 5.5e12,
                    inner_bandwidth = 30.9e12, far_read = 2e-7, near_read = 2e-8,
                    registers_kept = 65536, issue = 4;
/* Steps of a core for each count (kas_effort). */
static const double load_cost = 2, gather_cost = 0.25, single_cost = 0.1;

kas_status kas_nest_price(const kas_ir *ir, const kas_nest *nest, double *seconds, double *least)
{
    kas_effort e;
    double flops, bytes;
    KAS_TRY(kas_nest_count(ir, nest, &flops, &bytes, &e));
    const double blocks = (double)nest->grid[0] * nest->grid[1] * nest->grid[2];
    const double threads = (double)nest->block[0] * nest->block[1] * nest->block[2];
    const double row = (double)nest->block[0] * nest->width, lanes = fmax(1, e.lanes);
    const double idle = ceil(lanes / row) * row / lanes * ceil(threads / warp) * warp / threads;
    const double kept =
        fmax(1, floor(fmin(threads_kept, registers_kept / fmax(1, e.registers)) / threads));
    const double busy = fmin(blocks, cores);
    const double warps = fmin(kept, ceil(blocks / cores)) * ceil(threads / warp);
    const double rate =
        fmin(1, warps * fmin(issue, fmax(1, e.together)) * warp / (issue * core_lanes));
    const double steps =
        (e.arithmetic + e.functions + load_cost * e.loads + e.reduced) * idle / core_lanes +
        gather_cost * e.gathers + single_cost * (e.divisions + e.shared + e.turns);
    const double waves = ceil(blocks / (cores * kept));
    *least = bytes / bandwidth;
    *seconds =
        fmax(fmax(*least, steps / (busy * clock_rate * rate)),
             fmax(e.fetched / outer_bandwidth, e.sectors * cores / (busy * inner_bandwidth)));
    *seconds = fmax(*seconds, waves * (e.rounds * far_read + e.near * near_read));
    return KAS_OK;
}
