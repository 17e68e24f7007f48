/* The separate pass over everything that was sampled: every kernel through the plain checker
 * (plain.h), and each compared with all others.
 *
 *     kas_recheck_create(...); kas_recheck_add(...) for every kernel; kas_recheck_run(...)
 *
 * Adding copies what the pass needs, about 60 bytes a node and 100 a target, so that a benchmark
 * may add outside its clock and look at everything afterwards.  Other folders include this header.
 */
#ifndef KAS_CHECK_RECHECK_H
#define KAS_CHECK_RECHECK_H

#include "host/space/canonical.h"
#include "host/space/canvas/sample_options.h"
#include "host/space/solve/replacement.h"

typedef struct kas_recheck kas_recheck;

/* Of the options the budget counts, and whether sizes may hold H and W. `targets` [count] must
 * stay. */
kas_status kas_recheck_create(const kas_target *targets, int count,
                              const kas_sample_options *options, kas_recheck **out);
void kas_recheck_free(kas_recheck *recheck);

kas_status kas_recheck_add(kas_recheck *recheck, const char name[KAS_NAME_SIZE],
                           const kas_kernel *kernel, const kas_solution *solution);

/* Kernels for each layer, at the targets: each through the plain checker at its own, and the sum of
 * all; two are the same when all their layers are. Looked at at once, not in kas_recheck_run. */
kas_status kas_recheck_layers(kas_recheck *recheck, const char name[KAS_NAME_SIZE],
                              const kas_replacement *replacement);

typedef struct kas_recheck_report {
    uint64_t kernels;     /* or samples of kernels for each layer */
    uint64_t illegal;     /* a rule, or FLOPs and parameters that are not the solution's */
    uint64_t over_budget; /* FLOPs, parameters, or the size of a tensor or weight */
    uint64_t one_image;   /* legal, but its weights fit images of one size: kas_plain_any_image */
    uint64_t same_name;   /* as an earlier kernel */
    uint64_t same_kernel; /* as an earlier one, whatever its name: kas_plain_same */
    char first[512];      /* the first finding in words; "" when there is none */
} kas_recheck_report;

/* KAS_OK whatever is found; statuses are failures to find out. */
kas_status kas_recheck_run(kas_recheck *recheck, kas_recheck_report *out);

/* Findings of all kinds. */
static inline uint64_t kas_recheck_findings(const kas_recheck_report *r)
{
    return r->illegal + r->over_budget + r->one_image + r->same_name + r->same_kernel;
}

#endif
