/* What the space knows of each primitive: one row of the table in primitives.c, whose functions are
 * in primitives/NAME.c.
 *
 * Internal to src/host/space. The reader, the writer, the canonical form, the cost and the solver
 * all follow from the row; docs/adding-a-primitive.md lists what else a new primitive needs. */
#ifndef KAS_SPACE_PRIMITIVE_H
#define KAS_SPACE_PRIMITIVE_H

#include "host/space/cost.h"
#include "host/space/kernel.h"
#include "host/space/weights.h"

/* The fields of kas_node that the primitive reads, as bits. The other fields must be zero. */
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
    /* Fills node[i].shape, which is zero on entry; the inputs are inferred. */
    kas_status (*infer)(kas_kernel *kernel, int i);
    /* Computes a size that must be an integer at every target although it is no dim of the result:
     * an FC's outputs per group, a shuffle's channels in one group, a broadcast's repetitions. NULL
     * = none. */
    kas_status (*divisor)(const kas_kernel *kernel, int i, kas_dim *out);
    /* Adds the node's FLOPs and its weight as monomials. NULL = the primitive is free. */
    kas_status (*cost)(const kas_kernel *kernel, int i, kas_cost_terms *terms);
    /* Computes the sizes of the node's weight. NULL = the primitive has none. */
    kas_status (*weight)(const kas_kernel *kernel, int i, kas_weight_dims *out);
} kas_primitive;

extern const kas_primitive kas_primitives[KAS_OP_COUNT];
static inline const kas_primitive *kas_primitive_get(int op)
{
    return op >= 0 && op < KAS_OP_COUNT ? &kas_primitives[op] : NULL;
}

/* Returns KAS_ILLEGAL with the message "node 3 (group): " and the text. */
kas_status kas_node_fail(const kas_kernel *kernel, int i, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline const kas_shape *kas_node_input(const kas_kernel *kernel, int i, int operand)
{
    return &kernel->node[kernel->node[i].in[operand]].shape;
}

/* Checks the window of a node that has `axes`, `kernel` and `dilation`: the axes are still there
 * and the numbers in range. A dilation of 1 is made 0, so that equal windows look equal. */
kas_status kas_window_check(kas_kernel *kernel, int i);

/* Returns whether the primitive uses the size `out` of the node. */
static inline bool kas_node_has_out(const kas_node *node)
{
    return kas_primitive_get(node->op)->attributes & KAS_ATTR_OUT;
}

/* Checks the dims [dim, dim_end) of a node's operand: at least one dim, all in the operand's list,
 * and none of H and W unless `spatial`. */
kas_status kas_range_check(const kas_kernel *kernel, int i, bool spatial);
/* Computes the product of those dims. */
kas_status kas_range_size(const kas_kernel *kernel, int i, kas_dim *out);

/* Returns whether the shape meets Theorem 1: at most one variable over all dims, in a numerator,
 * with exponent 1, in a channel dim. */
bool kas_shape_theorem1(const kas_shape *shape);
/* Sets or removes dim i of the list [channels..., H, W], or inserts a channel dim in front of
 * position i. kas_shape_insert returns KAS_ILLEGAL without a message when there is no room. */
void kas_shape_set(kas_shape *shape, int i, const kas_dim *dim);
void kas_shape_remove(kas_shape *shape, int i);
kas_status kas_shape_insert(kas_shape *shape, int i, const kas_dim *dim, bool is_group);

/* Lists every size of node i that must be an integer: the dims of its result and its divisor.
 * Returns their number, at most KAS_MAX_DIMS + 1, or -1 with a message when one leaves its
 * range. */
int kas_node_integers(const kas_kernel *kernel, int i, kas_dim out[KAS_MAX_DIMS + 1]);
/* Returns what the size number `d` of them is, for messages: "the size", ... */
const char *kas_node_integer_name(const kas_kernel *kernel, int i, int d);

/* Copies a kernel, but not the many places for nodes that it does not have. */
void kas_kernel_copy(const kas_kernel *from, kas_kernel *to);

/* Returns the nodes whose shapes depend on the variable, as bits. */
uint64_t kas_kernel_nodes_of(const kas_kernel *kernel, int var);

/* The shape rules of the primitives (kas_primitive.infer). */
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

/* For a primitive with a weight: the outputs of one group. */
kas_status kas_divisor_weight(const kas_kernel *kernel, int i, kas_dim *out);
kas_status kas_divisor_shuffle(const kas_kernel *kernel, int i, kas_dim *out);
kas_status kas_divisor_broadcast(const kas_kernel *kernel, int i, kas_dim *out);

/* Add one FLOP for each element of the result, or of the input. */
kas_status kas_cost_result(const kas_kernel *kernel, int i, kas_cost_terms *terms);
kas_status kas_cost_input(const kas_kernel *kernel, int i, kas_cost_terms *terms);
kas_status kas_cost_pool(const kas_kernel *kernel, int i, kas_cost_terms *terms);
/* Adds fan_in multiply-adds for each element of the result, and the weight. */
kas_status kas_cost_weight(const kas_kernel *kernel, int i, kas_cost_terms *terms);

kas_status kas_cost_bmm(const kas_kernel *kernel, int i, kas_cost_terms *terms);

/* The sizes of weights (kas_primitive.weight). */
kas_status kas_weight_fc(const kas_kernel *kernel, int i, kas_weight_dims *out);
kas_status kas_weight_conv(const kas_kernel *kernel, int i, kas_weight_dims *out);
kas_status kas_weight_conv_depthwise(const kas_kernel *kernel, int i, kas_weight_dims *out);
kas_status kas_weight_mix(const kas_kernel *kernel, int i, kas_weight_dims *out);
kas_status kas_weight_scale(const kas_kernel *kernel, int i, kas_weight_dims *out);

#endif
