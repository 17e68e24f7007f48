/* Where the bytes of a step go, for people and as JSON: what --passes writes. */
#ifndef KAS_BENCH_STEP_PASSES_H
#define KAS_BENCH_STEP_PASSES_H

#include "host/bench/bench.h"
#include "host/train/traffic.h"

typedef struct kas_bench_passes {
    kas_device *device;
    const kas_net *net;
    int batch;
    const char *phase, *kernel; /* kernel NULL: the network as it is */
} kas_bench_passes;

/* Tables: kinds of passes, largest first, then every pass in order. JSON: a line for each pass. */
kas_status kas_bench_passes_put(const kas_bench_passes *subject, const kas_model *model,
                                kas_tape_mode mode, const kas_bench_sink *sink);

#endif
