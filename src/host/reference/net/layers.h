/* Layers, and a training step of a whole network, in float64: the judge of the trainer.
 *
 * Tensors are plain [n][c][h][w] (PyTorch's order). Weights are in PyTorch's order too: convolution
 * [c_out][c_in/groups][kh][kw], linear [out][in]. Functions overwrite their outputs. Other folders
 * include this header. */
#ifndef KAS_REFERENCE_NET_LAYERS_H
#define KAS_REFERENCE_NET_LAYERS_H

#include <stdbool.h>
#include <stdint.h>

#include "host/net/net.h"
#include "host/space/solve/replacement.h"
#include "host/space/weights.h"

/* Convolution without bias, and its two gradients. x is [n][c_in][h][w]; the output's height is (h
 * + 2 pad_h - kh) / stride + 1, its width likewise. */
void kas_ref_conv_forward(int n, int c_in, int h, int w, int c_out, int kh, int kw, int stride,
                          int pad_h, int pad_w, int groups, const double *x, const double *weight,
                          double *y);
void kas_ref_conv_backward(int n, int c_in, int h, int w, int c_out, int kh, int kw, int stride,
                           int pad_h, int pad_w, int groups, const double *x, const double *weight,
                           const double *dy, double *dx, double *dweight);
/* Batch norm in training mode: normalises with the batch's statistics (biased variance) and moves
 * running_* towards them by `momentum`, with the unbiased variance, as PyTorch does. saved_mean and
 * saved_rstd [c] are for the backward pass. */
void kas_ref_batch_norm_forward(int n, int c, int h, int w, double eps, double momentum,
                                const double *x, const double *gamma, const double *beta,
                                double *running_mean, double *running_var, double *saved_mean,
                                double *saved_rstd, double *y);
void kas_ref_batch_norm_backward(int n, int c, int h, int w, const double *x, const double *gamma,
                                 const double *saved_mean, const double *saved_rstd,
                                 const double *dy, double *dx, double *dgamma, double *dbeta);
/* Batch norm in evaluation mode: normalises with the running statistics, which stay as they are. */
void kas_ref_batch_norm_eval(int n, int c, int h, int w, double eps, const double *x,
                             const double *gamma, const double *beta, const double *running_mean,
                             const double *running_var, double *y);
/* A pool. Windows begin at multiples of the stride, minus the padding. The mean is over the pixels
 * inside the image or, with count_include_pad, over the window's padding too, but never over what
 * lies beyond the padding. The first of equal maxima takes the gradient. The caller chooses the
 * output's size. */
typedef struct kas_ref_pool {
    int kernel_h, kernel_w, stride, pad_h, pad_w;
    bool count_include_pad;
} kas_ref_pool;
void kas_ref_avg_pool_forward(const kas_ref_pool *pool, int n, int c, int h, int w, int out_h,
                              int out_w, const double *x, double *y);
void kas_ref_avg_pool_backward(const kas_ref_pool *pool, int n, int c, int h, int w, int out_h,
                               int out_w, const double *dy, double *dx);
void kas_ref_max_pool_forward(const kas_ref_pool *pool, int n, int c, int h, int w, int out_h,
                              int out_w, const double *x, double *y);
void kas_ref_max_pool_backward(const kas_ref_pool *pool, int n, int c, int h, int w, int out_h,
                               int out_w, const double *x, const double *dy, double *dx);
/* Adaptive average pool, as PyTorch's: output row i is the mean of rows floor(i h / out_h) to
 * ceil((i + 1) h / out_h), the last one excluded; columns likewise. */
void kas_ref_adaptive_pool_forward(int n, int c, int h, int w, int out_h, int out_w,
                                   const double *x, double *y);
void kas_ref_adaptive_pool_backward(int n, int c, int h, int w, int out_h, int out_w,
                                    const double *dy, double *dx);
void kas_ref_global_avg_pool_forward(int n, int c, int h, int w, const double *x, double *y);
void kas_ref_global_avg_pool_backward(int n, int c, int h, int w, const double *dy, double *dx);
/* Shortcut A (He et al. 2015): every stride-th pixel; the new channels are zero, half of them
 * before the old ones and half after. */
void kas_ref_shortcut_a_forward(int n, int c_in, int h, int w, int c_out, int stride,
                                const double *x, double *y);
void kas_ref_shortcut_a_backward(int n, int c_in, int h, int w, int c_out, int stride,
                                 const double *dy, double *dx);
/* The activations KAS_LAYER_RELU, RELU6, SILU, HARD_SWISH, HARD_SIGMOID, GELU and SIGMOID, and
 * their derivatives. At a kink the derivative is that of the flat side. */
double kas_ref_activation(kas_layer_op op, double x);
double kas_ref_activation_slope(kas_layer_op op, double x);
/* Layer norm over the channels of each pixel. */
void kas_ref_layer_norm_forward(int n, int c, int h, int w, double eps, const double *x,
                                const double *gamma, const double *beta, double *y);
void kas_ref_layer_norm_backward(int n, int c, int h, int w, double eps, const double *x,
                                 const double *gamma, const double *dy, double *dx, double *dgamma,
                                 double *dbeta);
/* Multiplies: y = x * other. `other` is [n][c][other_h][other_w], of x's size or 1 x 1. */
void kas_ref_multiply_forward(int n, int c, int h, int w, int other_h, int other_w, const double *x,
                              const double *other, double *y);
void kas_ref_multiply_backward(int n, int c, int h, int w, int other_h, int other_w,
                               const double *x, const double *other, const double *dy, double *dx,
                               double *dother);
/* Dropout: the forward pass over x, or the backward pass over dy. ops/ops.h, kas_dropout, defines
 * which values are dropped. */
void kas_ref_dropout(int n, int c, int h, int w, double probability, uint64_t seed, uint32_t layer,
                     uint32_t step, const double *x, double *y);
/* The bias of a convolution: y += bias; dbias = sums of dy. */
void kas_ref_bias_forward(int n, int c, int h, int w, const double *bias, double *y);
void kas_ref_bias_backward(int n, int c, int h, int w, const double *dy, double *dbias);
/* A linear layer. bias and dbias are NULL where it has no bias. */
void kas_ref_linear_forward(int n, int in, int out, const double *x, const double *weight,
                            const double *bias, double *y);
void kas_ref_linear_backward(int n, int in, int out, const double *x, const double *weight,
                             const double *dy, double *dx, double *dweight, double *dbias);
/* Returns the cross entropy with label smoothing, the mean over the batch, as PyTorch does; dlogits
 * may be NULL. */
double kas_ref_cross_entropy(int n, int classes, double smoothing, const double *logits,
                             const uint16_t *labels, double *dlogits);

/* A parameter of a network, named as in PyTorch's state_dict. */
typedef struct kas_ref_param {
    char name[96]; /* "layer1.0.conv1.weight" */
    int rank;
    uint64_t shape[4];
    size_t size;          /* product of the shape */
    double *value, *grad; /* [size]; grad is NULL for running statistics */
    int layer;
    kas_weight_init init; /* how a kernel's weight starts */
} kas_ref_param;
typedef struct kas_ref_net {
    const kas_net *net;
    const kas_replacement *replaced; /* NULL = the network as it is */
    /* Choose the values that dropout layers drop in kas_ref_net_step (ops/ops.h, kas_dropout);
     * 0 at first. */
    uint64_t dropout_seed;
    uint32_t dropout_step;
    int params;
    kas_ref_param *param; /* in the order of PyTorch's state_dict, num_batches_tracked left out */
} kas_ref_net;
/* Makes a network with all values 0, gamma and running_var 1. kas_ref_net_free frees it. */
kas_status kas_ref_net_create(const kas_net *net, kas_ref_net **out);
/* Makes a network with the kernels of `replacement` (NULL = none) in the place of its targets. A
 * replaced convolution has "<layer>.weight0", "<layer>.weight1", ... in place of "<layer>.weight",
 * one for each node with a weight, [instance][group][out][in], and "<layer>.gain" behind them if
 * any kernel's output is scaled. `replacement` must outlive the result. */
kas_status kas_ref_net_create_replaced(const kas_net *net, const kas_replacement *replacement,
                                       kas_ref_net **out);
void kas_ref_net_free(kas_ref_net *net);
/* Runs forward (training mode) and backward for one batch and fills every grad. images:
 * [n][c][h][w]. logits may be NULL. */
kas_status kas_ref_net_step(kas_ref_net *net, int n, const double *images, const uint16_t *labels,
                            double smoothing, double *loss, double *logits);
/* Runs forward in evaluation mode, with the running statistics; changes nothing. */
kas_status kas_ref_net_eval(kas_ref_net *net, int n, const double *images, double *logits);
/* Sets the running statistics to those of one batch, as a training step with momentum 1 would. */
kas_status kas_ref_net_calibrate(kas_ref_net *net, int n, const double *images);
/* Return a parameter of a layer by its place in the layer's state_dict, or any parameter by name;
 * NULL if there is none. */
kas_ref_param *kas_ref_net_param(const kas_ref_net *net, int layer, int which);
kas_ref_param *kas_ref_net_find(const kas_ref_net *net, const char *name);

#endif
