/* What the space knows of a primitive: one table row, filled from primitives/<class>.c.
 *
 * Internal to src/host/space.  A new primitive is a new row and a file with its shape rule; the
 * reader, the writer, the canonical form, the cost and the solver all follow from the row.
 */
#ifndef KAS_SPACE_PRIMITIVE_H
#define KAS_SPACE_PRIMITIVE_H

#include "host/space/cost.h"
#include "host/space/kernel.h"
#include "host/space/weights.h"

/* Which fields of kas_node the primitive reads; the others must be zero. */
enum {
    KAS_ATTR_DIM = 1,
    KAS_ATTR_DIM_END = 2,
    KAS_ATTR_AXES = 4,
    KAS_ATTR_OFFSET = 8,
    KAS_ATTR_SYMBOL = 16,
    KAS_ATTR_GROUPED = 32,
    KAS_ATTR_OUT = 64,
    KAS_ATTR_KERNEL = 128,   /* in files only when it is not 0 */
    KAS_ATTR_DILATION = 256, /* in files only when it is above 1 */
    KAS_ATTR_SPLIT = 512,
    KAS_ATTR_SEGMENT = 1024,
    KAS_ATTR_PRODUCT = 2048 /* transpose, softmax; in files only when they are not 0 */
};

typedef struct kas_primitive {
    kas_op_info info;
    uint16_t attributes; /* KAS_ATTR_* */
    /* Fills node[i].shape, which is zeroed; the inputs are inferred. */
    kas_status (*infer)(kas_kernel *kernel, int i);
    /* A size that must be an integer at every target although it is no dim of the result: an FC's
     * outputs per group, a shuffle's channels in one, a broadcast's repetitions. NULL = none. */
    kas_status (*divisor)(const kas_kernel *kernel, int i, kas_dim *out);
    /* Adds its FLOPs and its weight as monomials. NULL = free. */
    kas_status (*cost)(const kas_kernel *kernel, int i, kas_cost_terms *terms);
    /* Sizes of its weight. NULL = it has none. */
    kas_status (*weight)(const kas_kernel *kernel, int i, kas_weight_dims *out);
} kas_primitive;

extern const kas_primitive kas_primitives[KAS_OP_COUNT];
static inline const kas_primitive *kas_primitive_get(int op)
{
    return op >= 0 && op < KAS_OP_COUNT ? &kas_primitives[op] : NULL;
}

/* "node 3 (group): " + text, with KAS_ILLEGAL. */
kas_status kas_node_fail(const kas_kernel *kernel, int i, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline const kas_shape *kas_node_input(const kas_kernel *kernel, int i, int operand)
{
    return &kernel->node[kernel->node[i].in[operand]].shape;
}

/* Checks the window of a node that has `axes`, `kernel` and `dilation`: the axes are still there,
 * the numbers in range; a dilation of 1 is made 0, so that equal windows look equal. */
kas_status kas_window_check(kas_kernel *kernel, int i);

/* Whether the size `out` of a node means anything. */
static inline bool kas_node_has_out(const kas_node *node)
{
    return kas_primitive_get(node->op)->attributes & KAS_ATTR_OUT;
}

/* Checks dims [dim, dim_end): at least one, all in the operand's list, H and W allowed or not. */
kas_status kas_range_check(const kas_kernel *kernel, int i, bool spatial);
/* Their product. */
kas_status kas_range_size(const kas_kernel *kernel, int i, kas_dim *out);

/* Theorem 1: at most one variable over all dims, in a numerator, with exponent 1, not spatial. */
bool kas_shape_theorem1(const kas_shape *shape);
/* Sets, or removes, dim i of the list [channels..., H, W]; inserts a channel dim in front of
 * position i. */
void kas_shape_set(kas_shape *shape, int i, const kas_dim *dim);
void kas_shape_remove(kas_shape *shape, int i);
kas_status kas_shape_insert(kas_shape *shape, int i, const kas_dim *dim, bool is_group);

/* Every size of node i that must be an integer: the dims of its result and its divisor. Returns how
 * many, at most KAS_MAX_DIMS + 1; -1 when one leaves its range (message set). */
int kas_node_integers(const kas_kernel *kernel, int i, kas_dim out[KAS_MAX_DIMS + 1]);

/* Bit i: the shape of node i follows from the variable. */
uint64_t kas_kernel_nodes_of(const kas_kernel *kernel, int var);

/* Products of the channel dims that an FC keeps apart (the group dims, if `grouped`) and of those
 * that it contracts. */
kas_status kas_contracted_dims(const kas_kernel *kernel, int i, kas_dim *groups, kas_dim *fan_in);

kas_status kas_infer_input(kas_kernel *kernel, int i);
kas_status kas_infer_group(kas_kernel *kernel, int i);
kas_status kas_infer_group_all(kas_kernel *kernel, int i);
kas_status kas_infer_shift(kas_kernel *kernel, int i);
kas_status kas_infer_unfold(kas_kernel *kernel, int i);
kas_status kas_infer_shuffle(kas_kernel *kernel, int i);
kas_status kas_infer_slice(kas_kernel *kernel, int i);
kas_status kas_infer_concat(kas_kernel *kernel, int i);
kas_status kas_infer_fc(kas_kernel *kernel, int i);
kas_status kas_infer_elementwise(kas_kernel *kernel, int i);
kas_status kas_infer_fold(kas_kernel *kernel, int i);
kas_status kas_infer_conv(kas_kernel *kernel, int i);
kas_status kas_infer_conv_depthwise(kas_kernel *kernel, int i);
kas_status kas_infer_mix(kas_kernel *kernel, int i);
kas_status kas_infer_pool(kas_kernel *kernel, int i);
kas_status kas_infer_scale(kas_kernel *kernel, int i);
kas_status kas_infer_bmm(kas_kernel *kernel, int i);
kas_status kas_infer_softmax(kas_kernel *kernel, int i);
kas_status kas_infer_norm(kas_kernel *kernel, int i);
kas_status kas_infer_broadcast(kas_kernel *kernel, int i);

/* The outputs of a group, of a primitive with a weight. */
kas_status kas_divisor_weight(const kas_kernel *kernel, int i, kas_dim *out);
kas_status kas_divisor_shuffle(const kas_kernel *kernel, int i, kas_dim *out);
kas_status kas_divisor_broadcast(const kas_kernel *kernel, int i, kas_dim *out);

/* One FLOP for each element of the result, or of the input. */
kas_status kas_cost_result(const kas_kernel *kernel, int i, kas_cost_terms *terms);
kas_status kas_cost_input(const kas_kernel *kernel, int i, kas_cost_terms *terms);
kas_status kas_cost_pool(const kas_kernel *kernel, int i, kas_cost_terms *terms);
/* fan_in multiply-adds for each element of the result, and the weight. */
kas_status kas_cost_weight(const kas_kernel *kernel, int i, kas_cost_terms *terms);

kas_status kas_cost_bmm(const kas_kernel *kernel, int i, kas_cost_terms *terms);

kas_status kas_weight_fc(const kas_kernel *kernel, int i, kas_weight_dims *out);
kas_status kas_weight_conv(const kas_kernel *kernel, int i, kas_weight_dims *out);
kas_status kas_weight_conv_depthwise(const kas_kernel *kernel, int i, kas_weight_dims *out);
kas_status kas_weight_mix(const kas_kernel *kernel, int i, kas_weight_dims *out);
kas_status kas_weight_scale(const kas_kernel *kernel, int i, kas_weight_dims *out);

#endif
