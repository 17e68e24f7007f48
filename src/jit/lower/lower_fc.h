/* What the files of the fully-connected maps share. */
#ifndef KAS_JIT_LOWER_LOWER_FC_H
#define KAS_JIT_LOWER_LOWER_FC_H

#include "jit/lower/lower.h"

/* Fills l->fc[node] up to `sizes`, and the logical part of its kas_weight. (fc_plan.c) */
kas_status kas_fc_plan(kas_lower *l, int node);

/* Dims of the convolution's side tensors, and where instance, group and the rest lie. */
typedef struct kas_fc_side {
    int rank, q, p, group, last; /* dim numbers; `last`: first channel dim, or out */
    int64_t size[KAS_IR_RANK];
} kas_fc_side;
kas_fc_side kas_fc_input_side(const kas_lower *l, int node);
kas_fc_side kas_fc_output_side(const kas_lower *l, int node);

/* Product of the dims that are kept: the side tensors have so many pixels for one of the node's.
 * Between an index of the side and those of n, h, w and the kept dims (digits by dim of the
 * operand). */
int64_t kas_fc_kept(const kas_lower *l, int node);
void kas_fc_merged_pixel(kas_lower *l, int node, const kas_ix *idx, const kas_ix *digit,
                         kas_ix *at);
void kas_fc_pixel(kas_lower *l, int node, const kas_ix *at, kas_ix *idx, kas_ix *digit);

/* Index of the output side from an index of the node's tensor [n,h,w,q,p,channels...], and back.
 */
void kas_fc_output_index(kas_lower *l, int node, const kas_ix *idx, kas_ix *at);
void kas_fc_node_index(kas_lower *l, int node, const kas_ix *at, kas_ix *idx);
/* Index of the base node from one of the input side, and back. */
void kas_fc_base_index(kas_lower *l, int node, const kas_ix *at, kas_ix *idx);
void kas_fc_side_index(kas_lower *l, int node, const kas_ix *idx, kas_ix *at);

/* Weight, value and output tensor; and the contributions to the operand's and weight's gradient. */
void kas_fc_library(kas_lower *l, int node);
void kas_fc_library_gradient(kas_lower *l, int node);
void kas_fc_direct(kas_lower *l, int node);
void kas_fc_direct_gradient(kas_lower *l, int node);

#endif
