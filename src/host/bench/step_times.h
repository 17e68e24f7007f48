/* Measures the time of every pass of a step, so that every pass has a time as well as its bytes
 * (model/planned_bytes.h). Each launch is timed between two points of the device's queue.
 *
 * Single launches find other data in the caches than launches within a graph, and they do not
 * overlap. Their sum is therefore not the time of a step, and both are reported. */
#ifndef KAS_BENCH_STEP_TIMES_H
#define KAS_BENCH_STEP_TIMES_H

#include "host/bench/step_model.h"
#include "host/model/planned_bytes.h"

typedef struct kas_bench_times {
    int repeats;
    double sum;  /* seconds of all launches together: sum of medians */
    double rest; /* the part of `sum` that belongs to no pass: the step's counter */
} kas_bench_times;

/* Fills `seconds` of the passes of a step with the medians of `repeats` runs. */
kas_status kas_bench_times_measure(kas_bench_model *model, kas_tape_mode mode, int repeats,
                                   kas_planned_bytes *planned, kas_bench_times *out);

#endif
