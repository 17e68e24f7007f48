/* Where the bytes of a step go, and its time, for people and as JSON: what --passes and --times
 * write. */
#ifndef KAS_BENCH_STEP_PASSES_H
#define KAS_BENCH_STEP_PASSES_H

#include "host/bench/bench.h"
#include "host/bench/step_times.h"

typedef struct kas_bench_passes {
    const kas_device_info *info;
    const kas_net *net;
    int batch;
    const char *phase, *kernel;   /* kernel NULL: the network as it is */
    const kas_bench_times *times; /* NULL: the passes have none */
    double step;                  /* with times: seconds of the whole step as it is run */
} kas_bench_passes;

/* Tables: kinds of passes, slowest or largest first, then every pass in order. JSON: a line for
 * each pass. */
kas_status kas_bench_passes_put(const kas_bench_passes *subject, const kas_planned_bytes *planned,
                                const kas_bench_sink *sink);

/* The same of the training step and the inference of each of the networks `list`, which are only
 * planned: for any device, and on none. */
kas_status kas_bench_passes_plan(const kas_bench_options *options, const char *list, int batch,
                                 int side, const kas_bench_sink *sink);

#endif
