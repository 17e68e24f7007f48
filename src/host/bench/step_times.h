/* Where the time of a step goes: the launches of its passes between two points of the device's
 * queue, so that every pass has a time beside its bytes (model/planned_bytes.h).
 *
 * An operation of the tape has a launch for each of its passes, and each pass has the time of its
 * own; a bias that the library takes along has none.  Where the numbers differ otherwise, the time
 * of the operation stands at its largest pass and the others have none.
 *
 * Launches by themselves find other data in the caches than within a graph, and do not overlap: the
 * sum of all is not the time of a step, and both are told. */
#ifndef KAS_BENCH_STEP_TIMES_H
#define KAS_BENCH_STEP_TIMES_H

#include "host/bench/step_model.h"
#include "host/model/planned_bytes.h"

typedef struct kas_bench_times {
    int repeats;
    double sum;  /* seconds of all launches together: sum of medians */
    double rest; /* the part of it that belongs to no pass: the step's counter */
} kas_bench_times;

/* Fills `seconds` of the passes of a step: medians of `repeats` runs. */
kas_status kas_bench_times_measure(kas_bench_model *model, kas_tape_mode mode, int repeats,
                                   kas_planned_bytes *planned, kas_bench_times *out);

#endif
