/* What the files of the reference share: one node with its sizes, and the functions of each
 * primitive.
 *
 * A primitive sees the tensors of one image and one instance, row-major. `forward` decides the
 * branches of functions that have any (which side of 0, which element is the largest) and writes
 * them down, one number for each element of the result. With `frozen` it follows the branches
 * written before instead, which makes the function smooth around the point where they were taken.
 * `backward` ADDS to the gradients of inputs and weights. Internal to reference/kernel. */
#ifndef KAS_REFERENCE_KERNEL_EVALUATE_H
#define KAS_REFERENCE_KERNEL_EVALUATE_H

#include <stddef.h>

#include "host/core/random.h"
#include "host/reference/kernel/reference.h"

typedef struct kas_ref_shape {
    int rank, channels; /* number of dims; how many of them are channels */
    bool has_h, has_w;
    uint32_t size[KAS_MAX_DIMS];
    size_t elements;
} kas_ref_shape;

typedef struct kas_ref_node {
    const kas_node *node;
    int weight; /* number of the node's weight, -1 = none */
    kas_ref_shape out, in[KAS_MAX_INPUTS];
    /* FC: which channel dims of the input are group dims that it keeps apart, and the sizes
     * of one weight */
    bool apart[KAS_MAX_CHANNEL_DIMS];
    size_t groups, fan_in, fan_out;
    /* broadcast: RHS is [prefix][rhs][suffix], LHS is [prefix][lhs][suffix] */
    size_t suffix, lhs, rhs;
    size_t batch, rows, contracted, columns; /* BMM */
    /* Window along each axis; 1 for an axis that is left alone */
    uint32_t kernel_h, kernel_w;
    long dilation;
    size_t shuffled; /* SHUFFLE: number of groups */
    size_t begin;    /* SLICE: where the segment begins along the dim */
} kas_ref_node;

/* The tensors of one image and one instance. Inputs that the primitive does not have, and `weight`
 * for a primitive without one, are NULL. */
typedef struct kas_ref_values {
    const double *in[KAS_MAX_INPUTS], *weight;
    double *y;
    uint32_t *branch;
    bool frozen;
    kas_reference *rounded; /* kas_ref_inner needs it */
} kas_ref_values;

typedef struct kas_ref_gradients {
    const double *dy;
    double *din[KAS_MAX_INPUTS], *dweight;
} kas_ref_gradients;

typedef struct kas_ref_op {
    void (*forward)(const kas_ref_node *n, const kas_ref_values *v);
    void (*backward)(const kas_ref_node *n, const kas_ref_values *v, const kas_ref_gradients *g);
    /* Fills the sizes that are its own, behind those of the tensors. NULL: it has none. */
    kas_status (*sizes)(const kas_kernel *kernel, int i, kas_ref_node *out);
} kas_ref_op;

/* One for each file eval_NAME.c; which primitive it is, node->op says. */
extern const kas_ref_op kas_eval_rearrange, kas_eval_slice, kas_eval_concat, kas_eval_fc,
    kas_eval_conv, kas_eval_mix, kas_eval_scale, kas_eval_elementwise, kas_eval_fold,
    kas_eval_softmax, kas_eval_norm, kas_eval_pool, kas_eval_bmm, kas_eval_broadcast;
kas_status kas_eval_fc_sizes(const kas_kernel *kernel, int i,
                             kas_ref_node *out); /* of convolutions too */

/* A tensor as [outer][length][inner], where `length` covers the dims [begin, end): element (o, l,
 * i) lies at (o * length + l) * inner + i. */
typedef struct kas_ref_view {
    size_t outer, length, inner;
} kas_ref_view;
/* Returns the view of a tensor of this shape. */
kas_ref_view kas_ref_view_of(const kas_ref_shape *shape, int begin, int end);
static inline size_t kas_ref_at(const kas_ref_view *s, size_t o, size_t l, size_t i)
{
    return (o * s->length + l) * s->inner + i;
}

/* Computes the group, and the input within the group, of a flat channel index of a map's
 * operand. */
void kas_ref_split_channel(const kas_ref_node *n, size_t channel, size_t *g, size_t *i);

const kas_ref_op *kas_ref_op_get(kas_op op); /* returns NULL: none, as of KAS_OP_INPUT */

/* Computes the sizes of a node and of its inputs at a binding. Returns KAS_ILLEGAL when something
 * is no integer or does not divide. */
kas_status kas_ref_node_make(const kas_kernel *kernel, int i, const kas_binding *binding,
                             kas_ref_node *out);

struct kas_reference {
    kas_kernel kernel;
    kas_target target;
    int batch, instances, weights;
    int stride; /* that the kernel takes: pixels from one of the output to the next; else 1 */
    uint32_t x_h, x_w; /* of x */
    double gain;
    kas_ref_node node[KAS_MAX_NODES];
    double *value[KAS_MAX_NODES];    /* [batch][instance][elements] */
    double *grad[KAS_MAX_NODES];     /* likewise */
    uint32_t *branch[KAS_MAX_NODES]; /* likewise */
    double *weight[KAS_MAX_NODES];   /* copies, [instance][group][out][in] */
    bool evaluated;
    int bits; /* bits of the significands to which values are rounded; 0 = no rounding */
    kas_rng rounding;
};

/* Rounds `size` values up or down at random, if kas_reference_round asked for it. */
void kas_ref_round(kas_reference *ref, double *values, size_t size);
/* Returns a value that a node only computes with: where rounding is asked for, moved by half a unit
 * in its last place up or down, even if the format holds it exactly. */
double kas_ref_inner(const kas_ref_values *v, double value);

/* Runs the forward pass, with fresh or with frozen branches. Nodes before `first` keep their
 * values: 0 means that x is new, the node of a weight means that only this weight is. */
void kas_ref_evaluate(kas_reference *ref, const double *x, const double *const *weight, double *y,
                      bool frozen, int first);

#endif
