/* Chooses among the plans that a library offers for one problem: once, written down, and found
 * again by every later run and process.
 *
 * A choice is looked up in this order:
 *   1. $KAS_CUDA_PINS, a folder: the plans of a study, which all its workers and reruns must share;
 *   2. the cache: <cache dir>/plans, filled by timed choices on this machine;
 *   3. the library's ranking: its candidates are timed on scratch memory and the fastest taken.
 * What was chosen is written to both folders (to the first where it is set), and so is that nothing
 * can be used. A record (plan_records.h) is a file named by the SHA-256 of everything on which the choice
 * depends: GPU, driver, library and its version, problem. A process that times holds a lock, so that
 * two do not disturb each other; the first process to pin a plan decides for all that share the
 * folder.
 *
 * Before anything is timed the device asks for quiet (kas_device_set_quiet): other items of the
 * same worker would slow some candidates more than others.
 *
 * KAS_CUDA_PLANS=heuristic takes the first of the ranking that works and times nothing; the cache
 * is then neither read nor written. The default is "timed". See docs/cuda.md, Plans. */
#ifndef KAS_CUDA_TUNING_H
#define KAS_CUDA_TUNING_H

#include "cuda/conv_cuda.h"
#include "host/core/buf.h"

/* The most candidates that are looked at; the first 8 of them that run are timed, if they are among the
 * first 12 or nothing else runs. A candidate that fuses an activation must pass NaN on: it is run once
 * with weights of NaN before it is taken, and passed over where y is not NaN. It counts among the 8. */
enum { KAS_MAX_CANDIDATES = 64 };

/* A problem whose plan is to be chosen; `self` is the owner's object. */
typedef struct kas_tuned {
    const char *name; /* name of the library, with its version */
    void *self;
    /* The library's ranking, best first, at most KAS_MAX_CANDIDATES. */
    kas_status (*list)(kas_cuda *cuda, void *self, int *count);
    /* Makes a candidate the plan of `self` and reserves its workspace. The candidate is passed over
     * when it is refused, or fails and leaves the device usable. */
    kas_status (*take)(kas_cuda *cuda, void *self, int candidate);
    /* One line, without a line break */
    void (*write)(const void *self, int candidate, kas_buf *out);
    /* Takes what `write` wrote. KAS_BAD_INPUT, a refusal or a failure that leaves the device usable
     * mean that the record cannot be used here. */
    kas_status (*read)(kas_cuda *cuda, void *self, const char *line);
    kas_status (*run)(kas_cuda *cuda, const void *self, const kas_conv_operands *o);
} kas_tuned;

/* Gives `t->self` its plan for a pass and for what is beside it. Returns KAS_UNSUPPORTED when there
 * is no candidate. */
kas_status kas_tune_conv(kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass,
                         kas_conv_beside beside, const kas_tuned *t);

#endif
