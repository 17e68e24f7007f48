/* The rejection sampler: the growth of one micro-DAG as the paper describes it (6.1). Internal to
 * the samplers.
 *
 * Each step draws a type of primitive uniformly from those that have a legal use, then a use
 * uniformly.  Both are done by drawing and drawing again without what proved illegal, which has the
 * same distribution as listing all legal uses and costs a fraction of it.  Nothing looks ahead:
 * most attempts end in a dead end or with a kernel that is of no use. */
#ifndef KAS_SPACE_CANVAS_GROW_H
#define KAS_SPACE_CANVAS_GROW_H

#include "host/space/canvas/growth.h"

/* Grows the kernel of one attempt in `g`: complete, [C, H, W] at its end, pruned, variables
 * unsolved, not canonical.  The result says why there is none.  What has grown so far is in
 * g->kernel either way. */
kas_reject kas_grow(kas_growth *g, const kas_target *targets, int count, uint64_t attempt);

/* What it asks of a complete kernel besides: a weight, and a look at a neighbour where it would
 * replace a convolution larger than 1x1. */
kas_reject kas_rejection_rules(const kas_growth *g);

#endif
