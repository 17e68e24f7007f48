/* The growth of one micro-DAG, paper 6.1. Internal to the sampler.
 *
 * Each step draws a type of primitive uniformly from those that have a legal use, then a use
 * uniformly.  Both are done by drawing and drawing again without what proved illegal, which has the
 * same distribution as listing all legal uses and costs a fraction of it. */
#ifndef KAS_SPACE_GROW_H
#define KAS_SPACE_GROW_H

#include "host/space/sampler.h"

/* Grows the kernel of one attempt: complete, [C, H, W] at its end, pruned, variables unsolved, not
 * canonical.  *why says why there is none.  What has grown so far is in *kernel either way. */
kas_status kas_grow(const kas_sample_options *options, const kas_target *targets, int count,
                    uint64_t attempt, kas_kernel *kernel, kas_reject *why);

#endif
