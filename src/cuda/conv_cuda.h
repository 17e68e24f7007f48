/* The three ways in which the CUDA device runs a pass of a convolution.
 *
 *     matmul   1x1, stride 1, no padding: cuBLASLt on the pixels as a matrix, groups as a batch
 *     cudnn    all others, as one-operation graphs of cuDNN 9 (dnn_graph.h); padded pixels are
 *              strides to it, which its engines take as they are or copy into the workspace
 *     direct   our own kernels (src/device_code/conv.kc), for what both refuse
 *
 * float32 means float32 products (TF32 only where the convolution allows it), so that the device
 * agrees with the reference; only deterministic algorithms are taken, and the choice among them is
 * timed once and kept (tuning.h), so that the same GPU and library give the same bits in every
 * run. */
#ifndef KAS_CUDA_CONV_CUDA_H
#define KAS_CUDA_CONV_CUDA_H

#include "cuda/cuda.h"

/* create: KAS_UNSUPPORTED when the library is missing or refuses; run: when it refuses these
 * pointers after all.  Workspace is reserved by create. */
typedef struct kas_matmul kas_matmul;
kas_status kas_matmul_create(kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass,
                             bool bias, kas_matmul **out);
void kas_matmul_free(kas_cuda *cuda, kas_matmul *matmul); /* NULL is allowed */
/* `bias` where it was created with one: read by the forward pass, written by backward weights. */
kas_status kas_matmul_run(kas_cuda *cuda, const kas_matmul *matmul, void *x, void *w, void *y,
                          void *bias);
/* Are these pointers aligned as the products want them? NULL is. */
bool kas_matmul_takes(const void *x, const void *w, const void *y, const void *bias);

typedef struct kas_cudnn_conv kas_cudnn_conv;
kas_status kas_cudnn_conv_create(kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass,
                                 kas_cudnn_conv **out);
void kas_cudnn_conv_free(kas_cuda *cuda, kas_cudnn_conv *conv); /* NULL is allowed */
kas_status kas_cudnn_conv_run(kas_cuda *cuda, const kas_cudnn_conv *conv, void *x, void *w,
                              void *y);

/* create fails only where a kernel cannot be had at all. */
typedef struct kas_direct {
    kas_function *weights, *pass[3];
} kas_direct;
kas_status kas_direct_create(kas_cuda *cuda, const kas_conv_desc *desc, kas_direct *out);
kas_status kas_direct_run(kas_cuda *cuda, const kas_direct *direct, const kas_conv_desc *desc,
                          kas_conv_pass pass, void *x, void *w, void *y);

#endif
