/* What stands in the place of a network's targets: kernels, and which of them each target has.
 *
 * One kernel for all targets is Canvas' way; NAS-PTE chooses for each layer, and may leave a
 * convolution as it is.  Either way sizes are those of one solution over all targets, so whoever
 * looks at one target asks kas_replacement_kernel and the binding of that number, and need not know
 * which of the two it is.  Other folders include this header. */
#ifndef KAS_SPACE_SOLVE_REPLACEMENT_H
#define KAS_SPACE_SOLVE_REPLACEMENT_H

#include "host/space/solve/solve.h"

enum { KAS_KEPT = -1 }; /* in kernel_of: the convolution stays */

/* Everything is the caller's. */
typedef struct kas_replacement {
    const kas_kernel *kernel; /* one, or as many as kernel_of names */
    const kas_target *target; /* [solution->targets] */
    /* Its totals are over all targets, kept convolutions at their own cost; the binding of a kept
     * one is not read. */
    const kas_solution *solution;
    const int *kernel_of; /* [targets] index into kernel, or KAS_KEPT; NULL: kernel[0] everywhere */
} kas_replacement;

/* The kernel in the place of target `t`; NULL where the convolution stays. */
static inline const kas_kernel *kas_replacement_kernel(const kas_replacement *r, int t)
{
    if (!r->kernel_of)
        return r->kernel;
    return r->kernel_of[t] == KAS_KEPT ? NULL : &r->kernel[r->kernel_of[t]];
}

/* How many kernels there are. */
static inline int kas_replacement_kernels(const kas_replacement *r)
{
    int kernels = r->kernel_of ? 0 : 1;
    for (int t = 0; r->kernel_of && t < r->solution->targets; t++)
        if (r->kernel_of[t] >= kernels)
            kernels = r->kernel_of[t] + 1;
    return kernels;
}

/* How many targets are replaced. */
static inline int kas_replacement_replaced(const kas_replacement *r)
{
    int replaced = 0;
    for (int t = 0; t < r->solution->targets; t++)
        replaced += kas_replacement_kernel(r, t) != NULL;
    return replaced;
}

/* Sizes of kernels[kernel_of[t]] at every target t, and the cost of all targets together; the
 * caller frees `out`.  The budget is one for all targets: kept convolutions and kernels without a
 * free size cost what they cost, and what they leave is shared by the kernels that have free sizes,
 * in the same ratio to the convolutions that each of them replaces.  (A kernel's variables are its
 * own, so each is solved over its own targets, docs/sampling.md "A kernel for each layer".)
 * Statuses as of kas_solve, naming the kernel. */
kas_status kas_solve_layers(const kas_kernel *kernel, const int *kernel_of,
                            const kas_target *targets, int count, const kas_budget *budget,
                            kas_solution *out);

#endif
