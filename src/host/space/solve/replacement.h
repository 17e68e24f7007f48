/* A replacement: the kernels that take the place of a network's targets, with their sizes.
 *
 * Canvas has one kernel for all targets.  NAS-PTE chooses a kernel for each layer, and may leave a
 * convolution as it is.  In both cases one solution holds the sizes at all targets.  A reader looks
 * at one target at a time: kas_replacement_kernel gives its kernel, and the binding of the same
 * number gives its sizes, so no reader needs to know which of the two cases it has.
 *
 * A candidate is a replacement from the moment it was sampled, or read from its file, until its
 * programs are freed (docs/design.md, "What holds a candidate").  Other folders include this
 * header. */
#ifndef KAS_SPACE_SOLVE_REPLACEMENT_H
#define KAS_SPACE_SOLVE_REPLACEMENT_H

#include "host/space/solve/solve.h"

enum { KAS_KEPT = -1 }; /* in kernel_of: the convolution stays */

/* Owns everything but the targets, which must outlive it. kas_replacement_free frees it. */
typedef struct kas_replacement {
    const kas_target *target; /* [solution.targets] */
    kas_kernel *kernel;       /* [kernels] */
    int kernels;
    int *kernel_of; /* [targets] index into kernel, or KAS_KEPT; NULL: kernel[0] everywhere */
    /* Its totals are over all targets, where a kept convolution counts with its own cost. The
     * binding of a kept convolution is not read. */
    kas_solution solution;
    /* [targets] by which the output of each target's kernel is multiplied, so that its scale is
     * that of a usual layer (docs/kernel-file.md, "Gains"); NULL: not known, 1 everywhere */
    float *gain;
} kas_replacement;

/* Copies `kernels` kernels and `kernel_of` [count] (NULL: kernel[0] everywhere) and finds the sizes
 * at all targets.  The budget is one for all targets: kept convolutions and kernels without a free
 * size cost what they cost, and the kernels with free sizes share the rest, in the same ratio to
 * the convolutions that each of them replaces.  (The variables of a kernel are its own, so each
 * kernel is solved over its own targets: docs/sampling.md, "A kernel for each layer".)  Returns
 * what kas_solve returns; a message names the kernel.  After a failure *out has nothing to free. */
kas_status kas_replacement_solve(const kas_kernel *kernel, int kernels, const int *kernel_of,
                                 const kas_target *targets, int count, const kas_budget *budget,
                                 kas_replacement *out);
void kas_replacement_free(kas_replacement *replacement); /* an empty one is allowed */

/* Copies kernels, as above, into a replacement that has its targets and solution; frees it after a
 * failure. */
kas_status kas_replacement_set(kas_replacement *replacement, const kas_kernel *kernel, int kernels,
                               const int *kernel_of);

/* The kernel in the place of target `t`; NULL where the convolution stays. */
static inline const kas_kernel *kas_replacement_kernel(const kas_replacement *r, int t)
{
    const int k = r->kernel_of ? r->kernel_of[t] : 0;
    return k == KAS_KEPT ? NULL : &r->kernel[k];
}

/* The target at layer `layer` of the network whose convolution is replaced; -1: none, or it stays. `r`
 * may be NULL. */
static inline int kas_replacement_at(const kas_replacement *r, int layer)
{
    for (int t = 0; r && t < r->solution.targets; t++)
        if (r->target[t].layer == layer && kas_replacement_kernel(r, t))
            return t;
    return -1;
}

/* Copies the gains [targets]; NULL takes them away. */
kas_status kas_replacement_set_gains(kas_replacement *replacement, const float *gain);

static inline float kas_replacement_gain(const kas_replacement *r, int t)
{
    return r->gain ? r->gain[t] : 1;
}

/* Whether a gain is not 1. Networks with such a replacement have a parameter for each gain. */
static inline bool kas_replacement_scales(const kas_replacement *r)
{
    for (int t = 0; r && t < r->solution.targets; t++)
        if (kas_replacement_kernel(r, t) && kas_replacement_gain(r, t) != 1)
            return true;
    return false;
}

/* How many targets are replaced. */
static inline int kas_replacement_replaced(const kas_replacement *r)
{
    int replaced = 0;
    for (int t = 0; t < r->solution.targets; t++)
        replaced += kas_replacement_kernel(r, t) != NULL;
    return replaced;
}

#endif
