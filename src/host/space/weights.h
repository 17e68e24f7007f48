/* The learned weights of a kernel: one for each node whose primitive has a weight, in node order.
 *
 * Every weight has the same logical form, whatever its primitive: [instance][group][out][in], where
 * `in` counts the values that one output adds up, so fan_in is that of the usual initialisations.
 * The JIT, the reference, the trainer, the files and the exports all use this list.
 * docs/primitives.md says what group, out and in are for each primitive. */
#ifndef KAS_SPACE_WEIGHTS_H
#define KAS_SPACE_WEIGHTS_H

#include "host/space/kernel.h"

/* Initial values. Both keep the variance of the data that passes through. */
typedef enum kas_weight_init {
    KAS_WEIGHT_NORMAL, /* mean 0, variance 1/fan_in; decays */
    KAS_WEIGHT_ONES    /* a factor: 1 leaves its operand as it is; does not decay */
} kas_weight_init;

/* The sizes of a weight, as monomials and as numbers at one target. */
typedef struct kas_weight_dims {
    kas_dim groups, fan_out, fan_in;
    kas_weight_init init;
} kas_weight_dims;

typedef struct kas_weight_sizes {
    uint32_t groups, fan_out, fan_in; /* one instance has as many elements as their product */
    kas_weight_init init;
} kas_weight_sizes;

/* Returns whether nodes of this primitive have a weight. */
bool kas_op_has_weight(kas_op op);
/* Returns the number of weights of a kernel. */
int kas_kernel_weights(const kas_kernel *kernel);

/* Compute the sizes of a node's weight. Return KAS_FAILURE for a node without a weight, KAS_ILLEGAL
 * when a size leaves its range or is no integer at the target. */
kas_status kas_weight_dims_of(const kas_kernel *kernel, int node, kas_weight_dims *out);
kas_status kas_weight_sizes_at(const kas_kernel *kernel, int node, const kas_binding *binding,
                               kas_weight_sizes *out);

/* Returns whether the sizes of the node's weight hold H or W, so that the weight fits one image
 * size only. Returns false for a node without a weight. */
bool kas_weight_spans_image(const kas_kernel *kernel, int node);

#endif
