/* The ways in which each type of primitive could be used next. Internal to the sampler. */
#ifndef KAS_SPACE_CANVAS_CANDIDATE_OPS_H
#define KAS_SPACE_CANVAS_CANDIDATE_OPS_H

#include "host/space/kernel.h"

const char *kas_type_name(kas_type type);

#define KAS_OP_BIT(op) ((uint64_t)1 << (op))

/* Which uses are wanted. */
typedef struct kas_op_filter {
    uint64_t ops;       /* KAS_OP_BIT of those that are allowed */
    uint16_t kernels;   /* bit k: a window of k; bit 0: that of the replaced convolution */
    uint16_t dilations; /* bit d */
    uint16_t shifts;    /* bit KAS_MAX_SHIFT + offset */
    uint64_t leaves;    /* bit i: nothing reads node i */
    bool skip_illegal;  /* leave out what the shapes plainly forbid; it would be refused anyway */
    int8_t leaves_needed[KAS_OP_COUNT]; /* fewest operands that must be leaves; by operation */
} kas_op_filter;

/* What the paper's Table 1 has: window and shift of its primitives, any operands. */
kas_op_filter kas_op_filter_table_1(void);

/* One use; the fields are those of kas_node. */
typedef struct kas_candidate_op {
    uint8_t op, inputs, in[KAS_MAX_INPUTS];
    int8_t dim, dim_end, offset;
    uint8_t axes, kernel, dilation, grouped, split, segment, transpose, softmax;
} kas_candidate_op;

/* The node that a use makes, whose shape is left as it was, and the use that made a node. `var` is
 * the variable of a primitive whose size is free. */
void kas_candidate_op_node(const kas_candidate_op *use, int var, kas_node *out);
kas_candidate_op kas_node_candidate_op(const kas_node *node);

/* All pairs of nodes with the four transposes of a product, with and without softmax
 * (pair_ops.h); every other type has fewer, concatenations aside: of more tuples of operands than
 * that, for which 14 nodes must be alike, the first in order of nodes are listed. */
enum { KAS_MAX_CANDIDATE_OPS = KAS_MAX_NODES * KAS_MAX_NODES * 8 };

/* Uses of one type but bmm on the nodes there are that pass the filter, legal or not: attributes
 * are in range, but shapes and rules are left to kas_node_infer. Returns how many. */
int kas_list_candidate_ops(const kas_kernel *kernel, kas_type type, const kas_op_filter *filter,
                           kas_candidate_op out[KAS_MAX_CANDIDATE_OPS]);

/* Does the filter let the use through: its operation and attributes, and the number of leaves among
 * its operands? */
bool kas_candidate_op_passes(const kas_op_filter *filter, const kas_candidate_op *use);
bool kas_candidate_op_has_leaves(const kas_op_filter *filter, const kas_candidate_op *use);

#endif
