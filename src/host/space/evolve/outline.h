/* The outline of a kernel: its primitives without the shapes that follow from them, so that it can
 * be edited freely. Rebuilding it (rebuild.h) shows whether it is a kernel.
 *
 * Internal to evolve/. */
#ifndef KAS_SPACE_EVOLVE_OUTLINE_H
#define KAS_SPACE_EVOLVE_OUTLINE_H

#include "host/space/canvas/guided.h"

enum { KAS_OUTLINE_NODES = 2 * KAS_MAX_NODES }; /* room for two kernels while they are joined */

typedef struct kas_outline_node {
    kas_candidate_op use; /* its operands are places in the outline */
    /* For a primitive that makes a size: the one it had in its parent, num 0 = left free. A
     * variable stands for the size of the node whose `out` is just that variable. */
    kas_dim out;
    const kas_shape *like; /* its shape in the parent, or that of the operand of a new node */
} kas_outline_node;

typedef struct kas_outline {
    int nodes;
    kas_outline_node node[KAS_OUTLINE_NODES]; /* [0] is the input; the last one is the output */
    kas_split split[KAS_MAX_SPLITS];
    uint32_t group; /* the value of G0; 0 = the targets have none */
} kas_outline;

/* Outlines a kernel, whose shapes the outline borrows. What no sample has is brought to what
 * samples have: all group symbols become G0, with one of their values or, if none divides the
 * channels of all targets, another. A kernel without a split gets one, as a sample does. Both are
 * drawn from d->rng. */
void kas_outline_begin(kas_guided *d, const kas_kernel *kernel, kas_outline *out);

/* Copies an outline without the nodes that it does not have. */
void kas_outline_copy(const kas_outline *from, kas_outline *to);

/* Replaces G1 to G3 in a size by G0. */
void kas_outline_merge_groups(kas_dim *size);

/* Returns the size of a node's tensor in channels in its parent, or a size with num 0 when it
 * leaves its range or holds a variable. */
kas_dim kas_outline_channels(const kas_outline_node *node);

/* Makes an outline of what `output` is computed from, which may have been edited: nodes that it
 * does not need are left out, nodes that hold the same values become one, and they come in an order
 * with few branches at once. Returns false when that is more than a kernel can have. */
bool kas_outline_tidy(const kas_outline *outline, int output, kas_outline *out);

/* Returns the split that a node uses, or -1. */
static inline int kas_outline_split(const kas_outline_node *node)
{
    return node->use.op == KAS_OP_SLICE || node->use.op == KAS_OP_CONCAT ? node->use.split : -1;
}

#endif
