/* A second look at everything that was sampled: every kernel passes the plain checker (plain.h),
 * and each is compared with all others.
 *
 *     kas_recheck_create(...); kas_recheck_add(...) for every kernel; kas_recheck_run(...)
 *
 * Adding copies what the pass needs, about 60 bytes a node and 100 a target, so that a benchmark
 * may add outside its clock and look at everything afterwards. Other folders include this
 * header. */
#ifndef KAS_CHECK_RECHECK_H
#define KAS_CHECK_RECHECK_H

#include "host/space/canonical.h"
#include "host/space/canvas/sample_options.h"
#include "host/space/solve/replacement.h"

typedef struct kas_recheck kas_recheck;

/* Makes an empty pass. Of `options` it reads the budget and whether weights may span the image.
 * `targets` [count] must outlive the pass. */
kas_status kas_recheck_create(const kas_target *targets, int count,
                              const kas_sample_options *options, kas_recheck **out);
void kas_recheck_free(kas_recheck *recheck);

/* Adds a copy of a kernel with its name and solution. */
kas_status kas_recheck_add(kas_recheck *recheck, const char name[KAS_NAME_SIZE],
                           const kas_kernel *kernel, const kas_solution *solution);

/* Checks kernels for each layer at once, not in kas_recheck_run: each kernel passes the plain
 * checker at its own targets, then the sum of all layers is checked. Two samples are the same when
 * all their layers are. */
kas_status kas_recheck_layers(kas_recheck *recheck, const char name[KAS_NAME_SIZE],
                              const kas_replacement *replacement);

typedef struct kas_recheck_report {
    uint64_t kernels; /* kernels, or samples with a kernel for each layer */
    /* Break a rule, or have other FLOPs or parameters than the solution says */
    uint64_t illegal;
    uint64_t over_budget; /* exceed FLOPs, parameters, or the size of a tensor or weight */
    uint64_t one_image;   /* legal, but its weights fit images of one size: kas_plain_any_image */
    uint64_t same_name;   /* have the name of an earlier kernel */
    uint64_t same_kernel; /* equal an earlier kernel, whatever its name: kas_plain_same */
    char first[512];      /* the first finding in words; "" when there is none */
} kas_recheck_report;

/* Runs the pass. Returns KAS_OK whatever is found; another status says that the pass itself
 * failed. */
kas_status kas_recheck_run(kas_recheck *recheck, kas_recheck_report *out);

/* Returns the number of findings of all kinds. */
static inline uint64_t kas_recheck_findings(const kas_recheck_report *r)
{
    return r->illegal + r->over_budget + r->one_image + r->same_name + r->same_kernel;
}

#endif
