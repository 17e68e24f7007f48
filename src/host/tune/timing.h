/* Times two versions of a launch in turns, on memory of their own. Internal to tune. */
#ifndef KAS_TUNE_TIMING_H
#define KAS_TUNE_TIMING_H

#include "host/predict/machine.h"
#include "jit/ir/program.h"

/* What all timings of a program share. */
typedef struct kas_tune_stand {
    kas_device *device;
    kas_timer *timer;
    void **memory; /* by buffer */
    int buffers;
    void *swept;     /* larger than the caches */
    kas_plan *sweep; /* reads it, so that the caches hold nothing else */
} kas_tune_stand;

/* Fills memory for a program's buffers with normal numbers. `machine` NULL: nothing will be timed with
 * caches swept. All versions have the same buffers.
 * After a failure, too, kas_tune_stand_free frees *out. */
kas_status kas_tune_stand_make(kas_device *device, const kas_machine *machine,
                               const kas_program *program, uint64_t seed, kas_tune_stand *out);
void kas_tune_stand_free(kas_tune_stand *stand);

/* A version of a launch. */
typedef struct kas_tune_version {
    kas_module *module;
    const kas_operation *op;
} kas_tune_version;

/* Rounds of a first timing, and of the second one, by which what is faster for certain is kept; and the
 * share of the time that a first timing must stay below. */
enum { KAS_TUNE_FIRST_ROUNDS = 5, KAS_TUNE_SECOND_ROUNDS = 15 };
#define KAS_TUNE_WORTH 0.97

typedef struct kas_tune_ratio {
    double seconds[2];       /* of one launch, medians */
    double low, ratio, high; /* second by first: 10th percentile, median, 90th */
} kas_tune_ratio;

/* Times version[0] and version[1] in turns, `rounds` times, or once where the second takes three
 * times as long. `repeats`: launches of a timing, which find their data in the caches; 0: one
 * launch, which finds nothing there. */
kas_status kas_tune_in_turns(const kas_tune_stand *stand, const kas_tune_version version[2],
                             int repeats, int rounds, kas_tune_ratio *out);

/* Times two plans in turns. `cold`: with caches swept. */
kas_status kas_tune_plans_in_turns(const kas_tune_stand *stand, kas_plan *const plan[2], bool cold,
                                   int rounds, kas_tune_ratio *out);

#endif
