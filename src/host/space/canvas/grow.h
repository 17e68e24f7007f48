/* The rejection sampler: grows one micro-DAG as the paper describes it (6.1). Internal
 * to the samplers.
 *
 * Each step draws a type of primitive uniformly from the types that have a legal candidate
 * operation, then one of these operations uniformly. Both are done by drawing, and drawing again
 * without what proved illegal: this has the same distribution as listing everything legal and costs
 * a fraction of it. Nothing looks ahead, so most attempts end in a dead end or with a kernel that
 * is of no use. */
#ifndef KAS_SPACE_CANVAS_GROW_H
#define KAS_SPACE_CANVAS_GROW_H

#include "host/space/canvas/growth.h"

/* Grows the kernel of one attempt in `g`: complete, with output [C, H, W], pruned; its variables
 * are not solved and it is not canonical. Returns KAS_REJECT_NONE, or why there is no kernel; what
 * has grown so far is in g->kernel either way. */
kas_reject kas_grow(kas_growth *g, const kas_target *targets, int count, uint64_t attempt);

/* Checks two rules for a complete kernel: it has a weight, and it looks at a neighbour if it would
 * replace a convolution larger than 1x1. */
kas_reject kas_rejection_rules(const kas_growth *g);

#endif
