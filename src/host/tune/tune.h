/* Searches schedules of a program's launches on a device, and who computes its maps.
 *
 * First each pass of a linear map that the library computes is timed as loops of our own (maps.h), with
 * default schedules. Then the launches of the program that results are searched.
 *
 * Schedules are drawn at random, half of them around the default (jit/schedule/vary.h). The machine
 * model ranks them, for each launch by itself, because launches have schedules of their own. The
 * few that it likes best are compiled in one text with the default and timed in turns with it, on
 * random data that stay in the caches, as between the launches of a piece (program.h). (Evolution
 * in generations, and a model that learns from the timings of a launch, found no better schedules
 * with as many timings: bench/results.)
 *
 * The best of many timings is biased, so the winner is timed again beside the default, in turns,
 * and kept only where the interval from the 10th to the 90th percentile of their ratio leaves
 * out 1. With caches swept its interval must not lie above 1. A time below the launch's floor is an
 * error of the clock or of the machine model; it counts for nothing, and a warning says so. Times
 * are those of kas_plan_seconds: on one thread of the CPU the processor time, which other work on
 * the machine disturbs least.
 *
 * What was found is kept by launch (jit/tuned.h) and found again without timing. Launches with equal
 * texts have one record: the first of them is searched for all. A search of more trials than a
 * record's begins anew, and times the schedule that the record has among those that it draws. A record
 * whose steps have become illegal is warned of and counts as missing. Other folders include this
 * header. */
#ifndef KAS_TUNE_TUNE_H
#define KAS_TUNE_TUNE_H

#include "host/core/buf.h"
#include "host/predict/machine.h"
#include "jit/programs.h"

enum { KAS_TUNE_TRIALS = 192 /* by default */ };

typedef struct kas_tune_options {
    int trials; /* schedules of a launch that the model ranks */
    uint64_t seed;
    const char *folder;         /* of the device's records */
    const char *pins;           /* of a study's records, which come first; NULL: none */
    bool again;                 /* records in `folder` are not looked at, but for those made here */
    kas_buf *made;              /* gets the names of the records that are made; NULL: nobody asks */
    void (*begin)(void *quiet); /* called before anything is timed, as in kas_device_set_quiet */
    void *quiet;
    /* Told what is being done, whenever that changes; NULL: nobody */
    void (*progress)(void *context, const char *what);
    void *progress_context;
} kas_tune_options;

/* What became of a launch. Seconds and ratio (tuned by default) are those of the second timing,
 * with data in the caches; where nothing beat the default in the first one, there is no second and
 * the ratio is 1. `choice` is of the first timing: what the schedule takes that the machine model
 * alone would choose, by the default; 1 where that is the default, or the launch was known. */
typedef struct kas_tuned_launch {
    char name[16];  /* of its kernel: f0, b3, ... */
    int times;      /* it runs in a pass: once for each piece of the batch, or once */
    double seconds; /* of one run, by default */
    double floor;   /* seconds that bytes and multiply-adds take at least: less is not accepted */
    double choice;
    double ratio, ratio_low, ratio_high; /* median, 10th and 90th percentile */
    int tried; /* schedules timed beside the default; 0: it was known, or none but the default was drawn */
    bool kept, known;
    bool illegal; /* it had a record, whose steps have become illegal */
} kas_tuned_launch;

typedef struct kas_tuned {
    kas_tuned_launch *launch; /* [launches] of both passes, then epilogues */
    int launches;
    /* [maps] of passes of linear maps that the library computes: `kept` where loops of our own are
     * faster. `name` is the node's number and the pass; times are those of all operations that one way
     * has and the other has not, and NaN where the loops cannot be timed */
    kas_tuned_launch *map;
    int maps;
    char *file; /* the schedules that were kept, as a schedule file */
} kas_tuned;

/* Tunes program number p. The caller frees *out with kas_tuned_free. */
kas_status kas_tune(kas_device *device, const kas_machine *machine, const char *cache_dir,
                    const kas_programs *programs, int p, const kas_tune_options *options,
                    kas_tuned *out);
void kas_tuned_free(kas_tuned *tuned);

#endif
