/* Candidate operations: the ways in which each type of primitive could be used next. Internal to
 * the samplers. */
#ifndef KAS_SPACE_CANVAS_CANDIDATE_OPS_H
#define KAS_SPACE_CANVAS_CANDIDATE_OPS_H

#include "host/space/kernel.h"

const char *kas_type_name(kas_type type);

#define KAS_OP_BIT(op) ((uint64_t)1 << (op))

/* Which candidate operations are wanted. */
typedef struct kas_op_filter {
    uint64_t ops; /* KAS_OP_BIT of every allowed operation */
    /* Bit k: windows of k are allowed; bit 0: the window of the replaced convolution is */
    uint16_t kernels;
    uint16_t dilations; /* bit d: dilation d is allowed */
    uint16_t shifts;    /* bit KAS_MAX_SHIFT + offset: that shift is allowed */
    uint64_t leaves;    /* bit i: nothing reads node i */
    /* Leave out what the shapes plainly forbid; kas_growth_try would refuse it anyway */
    bool skip_illegal;
    /* By operation: how many operands at least must be leaves */
    int8_t leaves_needed[KAS_OP_COUNT];
} kas_op_filter;

/* One candidate operation; the fields are those of kas_node. */
typedef struct kas_candidate_op {
    uint8_t op, inputs, in[KAS_MAX_INPUTS];
    int8_t dim, dim_end, offset;
    uint8_t axes, kernel, dilation, grouped, split, segment, transpose, softmax;
} kas_candidate_op;

/* Converts a candidate operation to a node and back. kas_candidate_op_node leaves the node's shape
 * as it was; `var` is the variable that becomes the node's free size, if its primitive has one. */
void kas_candidate_op_node(const kas_candidate_op *use, int var, kas_node *out);
kas_candidate_op kas_node_candidate_op(const kas_node *node);

/* Room for the longest list: all pairs of nodes with the four transposes of a product, with and
 * without softmax (pair_ops.h). Only concatenations could exceed it, when 14 nodes or more have one
 * shape; then the first tuples of operands in order of nodes are listed. */
enum { KAS_MAX_CANDIDATE_OPS = KAS_MAX_NODES * KAS_MAX_NODES * 8 };

/* Lists the candidate operations of one type other than bmm on the present nodes that pass the
 * filter. Attributes are in range, but shapes and rules are left to kas_node_infer, so some may be
 * illegal. Returns their number. */
int kas_list_candidate_ops(const kas_kernel *kernel, kas_type type, const kas_op_filter *filter,
                           kas_candidate_op out[KAS_MAX_CANDIDATE_OPS]);

/* Return whether the filter allows the candidate's operation and attributes, and whether enough of
 * its operands are leaves. */
bool kas_candidate_op_passes(const kas_op_filter *filter, const kas_candidate_op *use);
bool kas_candidate_op_has_leaves(const kas_op_filter *filter, const kas_candidate_op *use);

#endif
