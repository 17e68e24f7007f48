/* Float64 layers and a float64 training step of a whole network: the judge of the trainer.
 *
 * Tensors are plain [n][c][h][w] (PyTorch's order), weights in PyTorch's order too: convolution
 * [c_out][c_in/groups][kh][kw], linear [out][in]. Functions overwrite their outputs.  Other folders
 * include this header. */
#ifndef KAS_REFERENCE_NET_LAYERS_H
#define KAS_REFERENCE_NET_LAYERS_H

#include <stdbool.h>
#include <stdint.h>

#include "host/net/net.h"
#include "host/space/solve/replacement.h"
#include "host/space/weights.h"

void kas_ref_conv_forward(int n, int c_in, int h, int w, int c_out, int kh, int kw, int stride,
                          int pad_h, int pad_w, int groups, const double *x, const double *weight,
                          double *y);
void kas_ref_conv_backward(int n, int c_in, int h, int w, int c_out, int kh, int kw, int stride,
                           int pad_h, int pad_w, int groups, const double *x, const double *weight,
                           const double *dy, double *dx, double *dweight);
/* Training mode: batch statistics (biased variance); running_* updated with momentum 0.1 and the
 * unbiased variance, as PyTorch does; saved_mean, saved_rstd [c] for backward. */
void kas_ref_batch_norm_forward(int n, int c, int h, int w, double eps, double momentum,
                                const double *x, const double *gamma, const double *beta,
                                double *running_mean, double *running_var, double *saved_mean,
                                double *saved_rstd, double *y);
void kas_ref_batch_norm_backward(int n, int c, int h, int w, const double *x, const double *gamma,
                                 const double *saved_mean, const double *saved_rstd,
                                 const double *dy, double *dx, double *dgamma, double *dbeta);
/* Evaluation mode: running statistics, which stay as they are. */
void kas_ref_batch_norm_eval(int n, int c, int h, int w, double eps, const double *x,
                             const double *gamma, const double *beta, const double *running_mean,
                             const double *running_var, double *y);
/* Windows at multiples of the stride, minus the padding.  The mean is over the pixels inside the
 * image, or (count_include_pad) over the padding of the window too, but not over what lies beyond
 * the padding.  The first of equal maxima takes the gradient.  The output's size is the caller's.
 */
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
void kas_ref_adaptive_pool_forward(int n, int c, int h, int w, int out_h, int out_w,
                                   const double *x, double *y);
void kas_ref_adaptive_pool_backward(int n, int c, int h, int w, int out_h, int out_w,
                                    const double *dy, double *dx);
void kas_ref_global_avg_pool_forward(int n, int c, int h, int w, const double *x, double *y);
void kas_ref_global_avg_pool_backward(int n, int c, int h, int w, const double *dy, double *dx);
void kas_ref_shortcut_a_forward(int n, int c_in, int h, int w, int c_out, int stride,
                                const double *x, double *y);
void kas_ref_shortcut_a_backward(int n, int c_in, int h, int w, int c_out, int stride,
                                 const double *dy, double *dx);
/* KAS_LAYER_RELU, RELU6, SILU, HARD_SWISH, HARD_SIGMOID, GELU and SIGMOID, and their derivatives;
 * at a kink the derivative is that of the flat side. */
double kas_ref_activation(kas_layer_op op, double x);
double kas_ref_activation_slope(kas_layer_op op, double x);
/* Over the channels of each pixel. */
void kas_ref_layer_norm_forward(int n, int c, int h, int w, double eps, const double *x,
                                const double *gamma, const double *beta, double *y);
void kas_ref_layer_norm_backward(int n, int c, int h, int w, double eps, const double *x,
                                 const double *gamma, const double *dy, double *dx, double *dgamma,
                                 double *dbeta);
/* y = x * other; `other` is [n][c][other_h][other_w], of x's size or 1 x 1. */
void kas_ref_multiply_forward(int n, int c, int h, int w, int other_h, int other_w, const double *x,
                              const double *other, double *y);
void kas_ref_multiply_backward(int n, int c, int h, int w, int other_h, int other_w,
                               const double *x, const double *other, const double *dy, double *dx,
                               double *dother);
/* Forward, and (over dy) backward. Which values: ops/ops.h, kas_dropout. */
void kas_ref_dropout(int n, int c, int h, int w, double probability, uint64_t seed, uint32_t layer,
                     uint32_t step, const double *x, double *y);
/* A convolution's: y += bias; dbias = sums of dy. */
void kas_ref_bias_forward(int n, int c, int h, int w, const double *bias, double *y);
void kas_ref_bias_backward(int n, int c, int h, int w, const double *dy, double *dbias);
/* Without a bias, bias and dbias are NULL. */
void kas_ref_linear_forward(int n, int in, int out, const double *x, const double *weight,
                            const double *bias, double *y);
void kas_ref_linear_backward(int n, int in, int out, const double *x, const double *weight,
                             const double *dy, double *dx, double *dweight, double *dbias);
/* Cross entropy with label smoothing, mean over the batch, as PyTorch's; dlogits may be NULL. */
double kas_ref_cross_entropy(int n, int classes, double smoothing, const double *logits,
                             const uint16_t *labels, double *dlogits);

/* A whole network. Parameters are named as in PyTorch's state_dict. */
typedef struct kas_ref_param {
    char name[96]; /* "layer1.0.conv1.weight" */
    int rank;
    uint64_t shape[4];
    size_t size;          /* product of the shape */
    double *value, *grad; /* grad NULL for running statistics */
    int layer;
    kas_weight_init init; /* of a kernel's weight */
} kas_ref_param;
typedef struct kas_ref_net {
    const kas_net *net;
    const kas_replacement *replaced; /* NULL = the network as it is */
    /* which values dropout layers drop in kas_ref_net_step (ops/ops.h, kas_dropout); 0 at first
     */
    uint64_t dropout_seed;
    uint32_t dropout_step;
    int params;
    kas_ref_param *param; /* in the order of PyTorch's state_dict, num_batches_tracked left out */
} kas_ref_net;
kas_status kas_ref_net_create(const kas_net *net,
                              kas_ref_net **out); /* values zero, gamma and running_var 1 */
/* With the kernels of `replacement` (NULL = none) in the place of its targets: a replaced
 * convolution has "<layer>.weight0",
 * "<layer>.weight1", ... in place of "<layer>.weight", one for each node with a weight,
 * [instance][group][out][in]. `replacement` must outlive the result. */
kas_status kas_ref_net_create_replaced(const kas_net *net, const kas_replacement *replacement,
                                       kas_ref_net **out);
void kas_ref_net_free(kas_ref_net *net);
/* Forward (training mode) and backward of one batch: fills every grad; images [n][c][h][w]. logits
 * may be NULL. */
kas_status kas_ref_net_step(kas_ref_net *net, int n, const double *images, const uint16_t *labels,
                            double smoothing, double *loss, double *logits);
/* Forward in evaluation mode: running statistics, nothing is changed. */
kas_status kas_ref_net_eval(kas_ref_net *net, int n, const double *images, double *logits);
/* Sets the running statistics to those of one batch, as a training step with momentum 1 would. */
kas_status kas_ref_net_calibrate(kas_ref_net *net, int n, const double *images);
/* Parameter number `which` of a layer in the order of its state_dict, or by name; NULL if none. */
kas_ref_param *kas_ref_net_param(const kas_ref_net *net, int layer, int which);
kas_ref_param *kas_ref_net_find(const kas_ref_net *net, const char *name);

#endif
