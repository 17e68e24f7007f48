/* Lowering: every node of a micro-DAG becomes a tensor of the IR, and so does, in reverse order,
 * its gradient.
 *
 * The tensor of a node is [batch][h][w][q][p][channels...], where h or w is 1 when the node has
 * lost it, and (q, p) is the instance (target.h). As long as no node with a weight stands before a
 * node, all q share its values: then its q has size 1, and its readers broadcast.
 *
 * The output is multiplied by the gain of the layer (kernel-file.md), which lies in memory. A kernel
 * of ours that writes Y does so in its last expression. Where a library's convolution writes Y, the
 * convolution reads weights times the gain instead, since a pass over the weights is much shorter
 * than one over the output; it is there only if the gain is not 1.
 *
 * Differentiation works on whole tensors, before fusion, in gather form: each class of primitives
 * adds to an operand's gradient an expression over that operand's own index variables, with the
 * index map of the forward read inverted (the same file holds both directions). Scalar derivatives
 * are symbolic (diff.c). Other folders include this header. */
#ifndef KAS_JIT_LOWER_LOWER_H
#define KAS_JIT_LOWER_LOWER_H

#include "jit/ir/ir.h"

/* Some nodes compute an intermediate that is no node of the micro-DAG: a convolution the windows of
 * its input, [channels..., taps], a product its values before the softmax. The tables below hold it
 * as node KAS_WITHIN + the node's own number. */
enum {
    KAS_WITHIN = KAS_MAX_NODES,
    KAS_LOWER_NODES = 2 * KAS_MAX_NODES,
    KAS_LOWER_ALONGS = 64, /* reductions of softmaxes and norms that are told apart */
    KAS_FC_DIMS = KAS_MAX_DIMS
};

/* How windows reach a library (fc_plan.c decides). */
typedef enum kas_fc_windows {
    KAS_FC_CONVOLVED, /* they are its convolution's */
    /* They lie in memory, taps beside channels, and a 1x1 map reads them: for few inputs */
    KAS_FC_UNFOLDED,
    /* A 1x1 map computes a result for each tap, and the pixels that a window covers are added up
     * from these: for few outputs */
    KAS_FC_SHIFTED,
    /* They are a convolution's whose weights are 0 between groups: for few groups */
    KAS_FC_MERGED
} kas_fc_windows;

/* A node with a linear operator (fc, conv, conv_depthwise, mix): how it is computed, and the
 * tensors that its gradient needs. */
typedef struct kas_lowered_fc {
    int in;              /* operand: a node, or its own windows */
    int dims;            /* channel dims of the operand, taps included */
    int weight;          /* number of its weight */
    bool library, share; /* share: all q read one input and are outputs of one convolution */
    kas_fc_windows windows;
    /* Node that the convolution reads; the unfolds between that node and this one are its taps */
    int base;
    int axes;     /* KAS_AXIS_* that are taps */
    bool w_first; /* the unfold along W came first of two: the tap dims are [K_W, K_H] */
    int dilation; /* pixels from one tap of a library convolution to the next */
    int input;    /* library: tensor that the convolution reads */
    int filter;   /* library: tensor of the weights that it reads */
    int output;
    /* The channel dims of the operand by their part. Kept dims count as pixels: one map for
     * all of them. */
    int group[KAS_FC_DIMS], groups, channel[KAS_FC_DIMS], channels, tap[KAS_FC_DIMS], taps,
        kept[KAS_FC_DIMS], kepts;
    uint32_t in_channels; /* product of the channel part */
    kas_weight_sizes sizes;
} kas_lowered_fc;

/* Asks who computes a pass of node's convolution: *loops is false where nothing is known, and then
 * the library does. */
typedef kas_status kas_choose_loops(void *context, int node, kas_conv_pass pass,
                                    const kas_conv_desc *desc, bool *loops);

typedef struct kas_lower {
    kas_ir *ir;
    const kas_kernel *kernel;
    const kas_target *target;
    const kas_binding *binding;
    int batch;
    bool training, tf32, gained;
    kas_choose_loops *choose;
    void *chooser; /* its context */
    kas_linear_policy linear_policy;
    int x_pitch, y_pitch;
    int rank[KAS_MAX_NODES]; /* rank of the micro-DAG's list [channels..., H, W] */
    int64_t size[KAS_LOWER_NODES][KAS_FC_DIMS + 2];
    int tensor[KAS_LOWER_NODES];          /* value of each node */
    kas_ex gradient[KAS_LOWER_NODES];     /* sum so far, over the variables of tensor[] */
    int contributions[KAS_LOWER_NODES];   /* contributions to the sum */
    int gradient_tensor[KAS_LOWER_NODES]; /* tensor of the gradient once the sum is complete */
    /* fold_max, pool_max: tensor of the argmax, of a pool_max in stages along W; norm: tensor of the
     * inverse deviation; scale: number of its weight */
    int aux[KAS_MAX_NODES];
    int won[KAS_MAX_NODES];       /* pool_max in stages: tensor of the row that won */
    int packed[KAS_MAX_NODES][2]; /* bmm: operands of the library product; 0: loops of our own */
    kas_lowered_fc fc[KAS_MAX_NODES];
    kas_weight weight[KAS_MAX_NODES];
    int weights, weight_tensor[KAS_MAX_NODES]; /* by number of the weight */
    int x, y, dx, dy;                          /* tensors */
    /* Pixels of the input from one of the output to the next, where the kernel takes the stride;
     * else 1. Then the nodes that windows read, as bits, are there at the size of the input too, as
     * node KAS_WITHIN + their own number (strided.c), and `small` says which are there as usual. */
    int stride;
    uint64_t whole, small;
    int gain; /* tensor of the factor of Y; -1: none */
    /* Where libraries' convolutions write Y, or parts of it, of a layer with a gain: the numbers of
     * their weights, as bits, and the last tensor of such weights times the gain; -1: there is none */
    uint64_t scaled_weights;
    int scaled;
    int dweight[KAS_MAX_NODES];
    /* The reductions of softmaxes and norms by their number: which no row or column takes in, although
     * one might, as bits: on a GPU they come in stages; how many there are; and their tensors */
    uint64_t left;
    int alongs, along_tensor[KAS_LOWER_ALONGS];
} kas_lower;

/* Builds the forward pass and, for training, the backward pass into l->ir. */
kas_status kas_lower_kernel(kas_lower *l);

/* ---- shared by the classes ------------------------------------------------------------------- */

/* Returns the IR dim of dim i of a node's list [channels..., H, W]. */
int kas_lower_dim(const kas_lower *l, int node, int i);
/* Writes the variables of a node's tensor as indices. */
void kas_lower_vars(kas_lower *l, int node, kas_ix *idx);
/* Returns the elements from one pixel of an inner tensor to the next. On the CPU pixels are dense: a
 * tensor of one channel is then one run of elements, and no library has to pack it. */
int kas_lower_pitch(const kas_lower *l, int64_t channels);
/* Adds a tensor of pixels; the dims size[3..] together are one pixel. */
int kas_lower_tensor(kas_lower *l, const int64_t *size, int rank);
/* Adds a tensor that has the dims of another one, in the same order of memory. */
int kas_lower_like(kas_lower *l, int tensor, int pitch);
/* Adds the tensor of a node, with the micro-DAG's shape and `q` instances, as l->tensor[node]. */
int kas_lower_result(kas_lower *l, int node, int64_t q);
/* Lays out a tensor of `operand`'s windows, whose taps are its last dims: on the CPU device taps lie
 * in front of the channels in memory, which then are side by side (kas_ir_put_ahead). */
void kas_lower_lay_windows(kas_lower *l, int operand, int windows);
/* Returns how many instances the tensor of a node has. */
static inline int64_t kas_lower_q(const kas_lower *l, int node)
{
    return l->ir->tensor[l->tensor[node]].size[KAS_DIM_Q];
}
kas_ex kas_lower_read(kas_lower *l, int node, const kas_ix *idx);
/* Makes the sum of the contributions to a node's gradient its gradient_tensor. */
void kas_lower_sum_gradient(kas_lower *l, int node);
kas_ex kas_lower_read_gradient(kas_lower *l, int node, const kas_ix *idx);
/* Adds an expression over the variables of the node's tensor to its gradient. */
void kas_lower_contribute(kas_lower *l, int node, kas_ex e);
/* Sums an expression over q when `from` has q and `to` shares its values; `q_var` is the index that
 * the expression used for q, from kas_lower_q_var. */
kas_ex kas_lower_sum_q(kas_lower *l, int from, int to, int q_var, kas_ex e);
int kas_lower_q_var(kas_lower *l, int from, int to);

/* Reduces over `vars` variables, outermost first, for each element of a tensor whose index
 * variables are out_var[]. When the tensor is small and the reduction long it is done in stages,
 * with partial results first, because otherwise most of a GPU would be idle (reduce.c). `whole`: a
 * kernel of rows or columns may take the reduction in, so no loop is cut. */
kas_ex kas_lower_reduce(kas_lower *l, kas_fn fn, bool whole, int out_rank, const int *out_var,
                        int vars, const int *var, kas_ex body);
/* Returns the terms of a chunk where so many results of so many terms each come in stages: first for
 * each chunk, then for the chunks. 0: in one. */
int64_t kas_lower_chunk(const kas_lower *l, int64_t results, int64_t length);
kas_ex kas_lower_sum(kas_lower *l, int out_rank, const int *out_var, int vars, const int *var,
                     kas_ex body);

/* A span: the dims [dim, dim_end) of an operand that has the same dims as the node. */
typedef struct kas_span {
    int node, operand, dim, dim_end;
} kas_span;
/* Returns the span of the node's attributes */
kas_span kas_lower_span(const kas_lower *l, int node);

/* A span to reduce over: its IR dims and new variables, outermost first. `size` is the operand's,
 * with 1 in their place. */
typedef struct kas_along {
    int count, dim[KAS_MAX_DIMS], var[KAS_MAX_DIMS];
    int64_t elements; /* elements reduced for one result */
    int64_t size[KAS_IR_RANK];
    int rank;
    uint32_t ahead; /* as the operand's */
} kas_along;
/* Returns the dims of a span with new variables. */
kas_along kas_lower_along(kas_lower *l, const kas_span *span);
/* Adds a tensor of dims->size. `idx` gets an index of the operand over the tensor's
 * variables and dims->var. */
int kas_lower_along_tensor(kas_lower *l, const kas_along *dims, kas_ix *idx);
kas_ex kas_lower_along_reduce(kas_lower *l, kas_fn fn, const kas_along *dims, int tensor,
                              kas_ex body);

/* Returns, as bits, the reductions that were kept whole for a row or column that did not take them
 * in (after kas_rows_find), for `left` of another lowering. */
uint64_t kas_lower_alongs_left(const kas_lower *l);
/* Returns whether the next reduction of a span is one of them. */
bool kas_lower_along_is_left(const kas_lower *l);

/* A window on an image, along H and W: its taps (one along an axis that it does not have), the pixels
 * from one tap to the next, and the size of the image (window.c). */
typedef struct kas_window {
    int64_t taps[2], size[2], step;
} kas_window;
/* Returns the taps of a node with windows along an axis, and its window on the image of node `in`. */
int64_t kas_lower_taps(kas_lower *l, int node, int axis);
kas_window kas_lower_window(kas_lower *l, int node, int in);
/* Makes a variable for the taps of each axis. */
void kas_lower_tap_vars(kas_ir *ir, const kas_window *w, int var[2], kas_ix tap[2]);
/* Moves the pixel of `idx` to the one that a tap reads or, with direction -1, to the one whose tap
 * reads it, clamped into the image; from[] gets its place before clamping. */
void kas_lower_move(kas_ir *ir, const kas_window *w, const kas_ix tap[2], int direction,
                    kas_ix *idx, kas_ix from[2]);
/* Returns e where from[] lies inside the image, else 0. */
kas_ex kas_lower_inside(kas_ir *ir, const kas_window *w, const kas_ix from[2], kas_ex e);

/* Windows of the operand of `node` (unfold, conv), which has axes, kernel and dilation.
 * kas_lower_windows returns the value at an index whose channel dims are those of the operand, then
 * the taps, and moves the index's H and W. kas_lower_windows_gradient adds the contribution of the
 * gradient of node `windows`, which holds the windows. */
kas_ex kas_lower_windows(kas_lower *l, int node, kas_ix *idx);
/* The same windows of another tensor, which may have other channels. */
kas_ex kas_lower_windows_in(kas_lower *l, int node, int operand, kas_ix *idx);
void kas_lower_windows_gradient(kas_lower *l, int node, int windows);

/* Returns the node whose values Y repeats; -1 where Y sums several. */
int kas_lower_last(const kas_lower *l);
/* Returns whether a map writes Y or a part of Y that nothing else reads: its weights then have the
 * gain, if a library computes it. */
bool kas_lower_takes_gain(const kas_lower *l, int node);
/* Returns whether the weights of a part of Y have the gain. */
bool kas_lower_part_has_gain(const kas_lower *l, int part);
/* Returns a value of a part of a concatenation, or its gradient, with the gain where Y is this
 * concatenation and the weights of the part have none. */
kas_ex kas_lower_part_gained(kas_lower *l, int concat, int part, kas_ex e);
/* Notes that X's gradient joins those of slices, if these are all that reads X, and each element is in
 * one of them. */
void kas_lower_note_slices(kas_lower *l);
/* Returns an expression times the gain. */
kas_ex kas_lower_times_gain(kas_lower *l, kas_ex e);

/* Adds a weight to the program, with its logical part; the lowering adds tensor and strides.
 * Returns its number. */
int kas_lower_new_weight(kas_lower *l, const kas_weight_sizes *sizes);

/* Where the kernel takes the stride (strided.c). kas_lower_strided_nodes finds l->whole and
 * l->small, and kas_lower_whole_sizes the sizes of a node of l->whole. kas_lower_strided_input makes
 * X, and node 0 of every stride-th pixel of it. The others lower a node of l->whole, and make the
 * gradient of X of both gradients of node 0. */
void kas_lower_strided_nodes(kas_lower *l);
void kas_lower_whole_sizes(kas_lower *l, int node);
void kas_lower_strided_input(kas_lower *l);
void kas_lower_whole(kas_lower *l, int node);
void kas_lower_whole_gradient(kas_lower *l, int node);
/* Returns the node that a window reads: the operand, or it at the size of the input. */
int kas_lower_window_input(const kas_lower *l, int node);

/* One pair for each class of primitives: the value of a node, and its contributions to the
 * gradients of its operands and weight. */
void kas_lower_rearrange(kas_lower *l, int node);
void kas_lower_rearrange_gradient(kas_lower *l, int node);
void kas_lower_pool(kas_lower *l, int node);
void kas_lower_pool_gradient(kas_lower *l, int node);
void kas_lower_slice(kas_lower *l, int node);
void kas_lower_slice_gradient(kas_lower *l, int node);
void kas_lower_concat(kas_lower *l, int node);
void kas_lower_concat_gradient(kas_lower *l, int node);
void kas_lower_elementwise(kas_lower *l, int node);
void kas_lower_elementwise_gradient(kas_lower *l, int node);
void kas_lower_fold(kas_lower *l, int node);
void kas_lower_fold_gradient(kas_lower *l, int node);
void kas_lower_scale(kas_lower *l, int node);
void kas_lower_scale_gradient(kas_lower *l, int node);
void kas_lower_norm(kas_lower *l, int node);
void kas_lower_norm_gradient(kas_lower *l, int node);
void kas_lower_softmax_of(kas_lower *l, const kas_span *span);
void kas_lower_softmax_gradient_of(kas_lower *l, const kas_span *span);
void kas_lower_bmm(kas_lower *l, int node);
void kas_lower_bmm_gradient(kas_lower *l, int node);
void kas_lower_softmax(kas_lower *l, int node);
void kas_lower_softmax_gradient(kas_lower *l, int node);
void kas_lower_broadcast(kas_lower *l, int node);
void kas_lower_broadcast_gradient(kas_lower *l, int node);
void kas_lower_fc(kas_lower *l, int node);
void kas_lower_fc_gradient(kas_lower *l, int node);

#endif
