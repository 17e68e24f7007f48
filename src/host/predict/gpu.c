#include "host/predict/gpu.h"

#include <math.h>

/* Facts of every GPU that CUDA 12 knows. */
enum {
    WARP_REGISTERS = 65536 / 32, /* a lane's, of a multiprocessor */
    MOST_BLOCKS = 32,            /* that a multiprocessor keeps */
    L2_PORT = 64,                /* bytes a clock between a multiprocessor and L2 */
    NEAR_CLOCKS = 40,            /* of a read that L1 holds */
    ISSUE = 4                    /* clocks until an instruction's result can be used */
};
/* Of the latency of memory: what a read of L2 takes. Others measured 200 clocks for the near half
 * of L2 and 260 for the far one, and 479 for memory, on an H100; nearly the same on an A100. */
static const double l2_share = 0.48;

/* Returns the share of `bytes` that a launch finds in L2. What earlier launches wrote is there when
 * it takes up to half of L2, and nothing is when it takes all of it: the two halves hold what their
 * multiprocessors read, partly twice. */
static double share_held(const kas_machine *m, double bytes)
{
    const double left = m->outer_bytes - bytes, held = left < 0 ? 0 : left < bytes ? left : bytes;
    return bytes > 0 ? held / bytes : 1;
}

double kas_gpu_memory(const kas_machine *m, double bytes)
{
    const double held = share_held(m, bytes);
    return bytes * (held / m->outer_bandwidth + (1 - held) / m->memory_bandwidth);
}

double kas_gpu_latency(const kas_machine *m, double bytes)
{
    const double held = share_held(m, bytes);
    return m->read_latency * (1 - held + held * l2_share);
}

double kas_gpu_idle(const kas_machine *m, const kas_operation *op)
{
    const double row = (double)op->block[0] * (op->width > 1 ? op->width : 1);
    const double lanes = fmax(1, op->effort.lanes), threads = (double)op->block[0] * op->block[1];
    return ceil(lanes / row) * row / lanes * ceil(threads / m->warp) * m->warp / threads;
}

/* Returns the blocks that a multiprocessor keeps at once. */
static double blocks_kept(const kas_machine *m, const kas_operation *op, double threads)
{
    const double registers = fmax(1, op->effort.registers);
    const double most = fmin(m->threads, floor(WARP_REGISTERS / registers) * 32);
    return fmax(1, fmin(MOST_BLOCKS, floor(most / threads)));
}

void kas_gpu_generated(const kas_machine *m, const kas_operation *op, double steps,
                       double part[KAS_BOUNDS])
{
    const kas_effort *e = &op->effort;
    const double blocks = (double)op->grid[0] * op->grid[1] * op->grid[2];
    const double threads = (double)op->block[0] * op->block[1] * op->block[2];
    const double kept = blocks_kept(m, op, threads), busy = fmin(blocks, m->cores);
    const double waves = ceil(blocks / (m->cores * kept));
    const double warps = fmin(kept, ceil(blocks / m->cores)) * ceil(threads / m->warp);
    /* With fewer warps some lanes wait for results; a thread has others to compute meanwhile where
     * it has several lanes. */
    const double lanes =
        fmin(1, warps * fmin(ISSUE, fmax(1, e->together)) * m->warp / (ISSUE * m->lanes));
    const double l2 =
        fmax(e->fetched / m->outer_bandwidth, e->fetched / (busy * L2_PORT * m->clock));
    const double l1 = e->sectors / (m->inner_bandwidth * busy / m->cores);
    const double least = op->flops / m->rate[KAS_PRECISION_FP32];
    part[KAS_BOUND_MEMORY] = fmax(kas_gpu_memory(m, op->bytes), fmax(l2, l1));
    part[KAS_BOUND_ARITHMETIC] = fmax(steps / (busy * m->clock * lanes), least);
    part[KAS_BOUND_LATENCY] =
        waves * (e->rounds * kas_gpu_latency(m, op->bytes) + e->near * NEAR_CLOCKS / m->clock);
}
