/* Other legal schedules of a kernel, drawn at random: what a search looks at, and what tests run.
 * Other folders include this header. */
#ifndef KAS_JIT_SCHEDULE_VARY_H
#define KAS_JIT_SCHEDULE_VARY_H

#include "host/core/random.h"
#include "jit/schedule/schedule.h"

/* Draws a schedule of an open nest: the usual one with small changes, or anew which loops are
 * split, fused and interchanged, which one is the lanes, what runs inside them, tiles, chunks,
 * rows, coordinates of the block, and where reductions run. Every schedule that comes out is legal
 * and complete; equal numbers give equal schedules. */
kas_status kas_schedule_vary(kas_ir *ir, const kas_nest *open, const kas_schedule *usual,
                             kas_rng *rng, kas_schedule *out);

#endif
