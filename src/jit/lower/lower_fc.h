/* What the files of the linear operators (fc, conv, conv_depthwise, mix) share. Internal to
 * lower. */
#ifndef KAS_JIT_LOWER_LOWER_FC_H
#define KAS_JIT_LOWER_LOWER_FC_H

#include "jit/lower/lower.h"

/* Fills l->fc[node] up to `sizes`, and the logical part of the node's kas_weight (fc_plan.c). */
kas_status kas_fc_plan(kas_lower *l, int node);

/* Returns whether the operand is the windows that the node, a convolution, has itself. */
static inline bool kas_fc_has_own_windows(const kas_lowered_fc *fc)
{
    return fc->in >= KAS_WITHIN;
}

/* Fills the digits of the node's kas_weight. `stride` has the strides of its channels and taps by dim
 * of the operand. */
void kas_fc_put_digits(kas_lower *l, int node, const size_t *stride);

/* The dims of a side tensor, the input or the output of the operator as a convolution, and the
 * places of instance, group and the rest. */
typedef struct kas_fc_side {
    int rank, q, p, group, last; /* numbers of dims; `last`: the first channel dim, or out */
    int64_t size[KAS_IR_RANK];
} kas_fc_side;
/* Return the dims of the input side and of the output side. */
kas_fc_side kas_fc_input_side(const kas_lower *l, int node);
kas_fc_side kas_fc_output_side(const kas_lower *l, int node);

/* Convert between an index of a side tensor, whose pixels are merged with the dims that are kept, and the
 * indices of n, h, w and these dims (`digit` by dim of the operand). */
void kas_fc_merged_pixel(kas_lower *l, int node, const kas_ix *idx, const kas_ix *digit,
                         kas_ix *at);
void kas_fc_pixel(kas_lower *l, int node, const kas_ix *at, kas_ix *idx, kas_ix *digit);

/* Convert between an index of the node's tensor [n,h,w,q,p,channels...] and one of the output
 * side. */
void kas_fc_output_index(kas_lower *l, int node, const kas_ix *idx, kas_ix *at);
void kas_fc_node_index(kas_lower *l, int node, const kas_ix *at, kas_ix *idx);
/* Convert between an index of the base node and one of the input side. */
void kas_fc_base_index(kas_lower *l, int node, const kas_ix *at, kas_ix *idx);
void kas_fc_side_index(kas_lower *l, int node, const kas_ix *idx, kas_ix *at);

/* Build weight, value and output tensor of the operator, by a library convolution or by loops of
 * our own; and its contributions to the gradients of operand and weight. */
void kas_fc_library(kas_lower *l, int node);
void kas_fc_library_gradient(kas_lower *l, int node);
/* Whether a convolution's passes can be loops of our own; and the tensor of one, which reads and
 * writes what the library's would: the dims `side` for pixels, [out][tap][tap][in] for the gradient
 * of the weights (fc_loops.c). */
bool kas_fc_loops_fit(const kas_conv_desc *d);
int kas_fc_loops(kas_lower *l, const kas_fc_side *side, int pitch, kas_conv_pass pass,
                 const kas_conv_desc *d, int a, int b);
void kas_fc_direct(kas_lower *l, int node);
void kas_fc_direct_gradient(kas_lower *l, int node);

#endif
