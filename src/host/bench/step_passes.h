/* Prints the bytes and times of the passes of a step, for people and as JSON (--passes
 * and --times). */
#ifndef KAS_BENCH_STEP_PASSES_H
#define KAS_BENCH_STEP_PASSES_H

#include "host/bench/bench.h"
#include "host/bench/step_times.h"

typedef struct kas_bench_passes {
    const kas_device_info *info;
    const kas_net *net;
    int batch;
    const char *phase, *kernel;   /* kernel NULL: the unmodified network */
    const kas_bench_times *times; /* NULL: the passes have no times */
    double step;                  /* with times: seconds of the whole step when it runs normally */
} kas_bench_passes;

/* Writes two tables, kinds of passes with the slowest or largest first, and all passes in order; or
 * as JSON one line for each pass. */
kas_status kas_bench_passes_put(const kas_bench_passes *subject, const kas_planned_bytes *planned,
                                const kas_bench_sink *sink);

/* Does the same for the training step and the inference of each network in `list`. They are only
 * planned, for any device and without one. */
kas_status kas_bench_passes_plan(const kas_bench_options *options, const char *list, int batch,
                                 int side, const kas_bench_sink *sink);

#endif
