/* Searches schedules of one kernel's program on a device.
 *
 * Schedules are drawn at random around the default (jit/schedule/vary.h). The machine model ranks
 * them, for each launch of the program by itself, because launches have schedules of their own. The
 * few that it likes best are compiled in one text with the default and timed in turns with it, each
 * launch by itself, on random data. The best of many timings is biased, so the winner of a launch
 * is timed again beside the default, in turns, and kept only where the interval from the 10th to
 * the 90th percentile of their ratio leaves out 1. Data stay in the caches, as between the launches
 * of a piece (program.h). Times are those of kas_plan_seconds: on one thread of the CPU the
 * processor time, which other work on the machine disturbs least. Other folders include this
 * header. */
#ifndef KAS_TUNE_TUNE_H
#define KAS_TUNE_TUNE_H

#include "host/predict/machine.h"
#include "jit/ir/program.h"

enum { KAS_TUNE_BEST = 4 /* schedules of a launch that are compiled, beside the default */ };

typedef struct kas_tune_options {
    const char *layer; /* in the file that is written */
    int batch, trials; /* trials: schedules that the model ranks */
    bool training;
    kas_dtype dtype;
    uint64_t seed;
} kas_tune_options;

/* What became of a launch. Seconds and ratio (tuned by default) are those of the second timing;
 * where nothing beat the default in the first one, there is no second and the ratio is 1. */
typedef struct kas_tuned_launch {
    char name[16];                       /* of its kernel: f0, b3, ... */
    double seconds;                      /* by default */
    double ratio, ratio_low, ratio_high; /* median, 10th and 90th percentile */
    int tried;                           /* schedules that were compiled */
    bool kept;
} kas_tuned_launch;

typedef struct kas_tuned {
    kas_tuned_launch *launch; /* [launches] of both passes */
    int launches;
    char *file; /* the schedules that were kept, as a schedule file */
} kas_tuned;

/* Tunes a kernel's program at one target. The caller frees *out with kas_tuned_free. */
kas_status kas_tune(kas_device *device, const kas_machine *machine, const char *cache_dir,
                    const kas_kernel *kernel, const kas_target *target, const kas_binding *binding,
                    const kas_tune_options *options, kas_tuned *out);
void kas_tuned_free(kas_tuned *tuned);

#endif
