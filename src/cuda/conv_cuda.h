/* The three ways in which the CUDA device runs a pass of a convolution.
 *
 *     matmul   1x1, stride 1, no padding: cuBLASLt on the pixels as a matrix, groups as a batch
 *     cudnn    all others, as graphs of cuDNN 9 (dnn_graph.h); padded pixels are
 *              strides to it, which its engines take as they are or copy into the workspace
 *     direct   our own kernels (src/cuda/kernels/conv*.cu), for what both refuse; those of depthwise
 *              convolutions and those of groups on tensor cores are timed beside cuDNN's engines
 *
 * float32 means float32 products (TF32 only where the convolution allows it), so that the device
 * agrees with the reference. Only deterministic algorithms are taken, and the choice among them
 * is timed once and kept (tuning.h), so that the same GPU and library give the same bits in
 * every run. */
#ifndef KAS_CUDA_CONV_CUDA_H
#define KAS_CUDA_CONV_CUDA_H

#include "cuda/cuda.h"
#include "host/device/conv_loops.h"

/* What a library computes in the same call as a pass:
 *
 *     FORWARD            y = activation(conv(x, w) [+ residual] [+ bias])
 *     BACKWARD_WEIGHTS   dw, and bias = the sums of dy over all pixels
 *
 * A bias that is read has the convolution's dtype: cuBLASLt takes no other with an output of that
 * dtype, and of cuDNN 9.19's engines only those compiled at run time do. The residual is added
 * before the bias, because the engines that are not compiled at run time want it so. y is rounded
 * once. All zero: nothing. */
typedef struct kas_conv_beside {
    bool bias, residual;
    kas_activation activation;
} kas_conv_beside;

static inline bool kas_conv_has_beside(kas_conv_beside b)
{
    return b.bias || b.residual || b.activation != KAS_ACTIVATION_NONE;
}

/* The tensors of one call; NULL where there is none. */
typedef struct kas_conv_operands {
    void *x, *w, *y, *bias;
    const void *residual;
} kas_conv_operands;
/* In bytes; kas_pitch_of keeps to it, and both libraries are told so */
enum { KAS_CONV_ALIGNMENT = 16 };
/* Returns whether the operands are aligned so; NULL counts as aligned. */
bool kas_conv_operands_are_aligned(const kas_conv_operands *o);

/* A pass by cuBLASLt, and one by cuDNN. create returns KAS_UNSUPPORTED when the library is missing
 * or refuses the problem, and reserves the workspace; run does when the library refuses these
 * pointers after all. */
typedef struct kas_matmul kas_matmul;
kas_status kas_matmul_create(kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass,
                             kas_conv_beside beside, kas_matmul **out);
void kas_matmul_free(kas_cuda *cuda, kas_matmul *matmul); /* NULL is allowed */
kas_status kas_matmul_run(kas_cuda *cuda, const kas_matmul *matmul, const kas_conv_operands *o);

typedef struct kas_cudnn_conv kas_cudnn_conv;
kas_status kas_cudnn_conv_create(kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass,
                                 kas_conv_beside beside, kas_cudnn_conv **out);
void kas_cudnn_conv_free(kas_cuda *cuda, kas_cudnn_conv *conv); /* NULL is allowed */
kas_status kas_cudnn_conv_run(kas_cuda *cuda, const kas_cudnn_conv *conv,
                              const kas_conv_operands *o);

enum {
    KAS_ENOUGH_BLOCKS = 512, /* for any GPU */
    /* The most that our own kernels take of the workspace, which is at least as large on any GPU. */
    KAS_OWN_WORKSPACE = 256 << 20
};

/* Passes on tensor cores by our own kernels: several groups, of channels and pitches that are multiples
 * of 8, with weights that fit a block; float32 only where TF32 is allowed; from sm_80 on; pointers
 * aligned to KAS_CONV_ALIGNMENT. `parts` is that of kas_conv_args. */
typedef struct kas_mma_launch {
    kas_conv_launch launch;
    int parts;
} kas_mma_launch;
bool kas_mma_takes(const kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass);
const char *kas_mma_name(kas_conv_pass pass);
kas_mma_launch kas_mma_launch_of(const kas_conv_desc *desc, kas_conv_pass pass);

/* A convolution by our own kernels. create returns KAS_UNSUPPORTED for sizes that they do not take: more
 * than 65535 groups, channels of a group or taps, or weights that do not fit the workspace. */
typedef struct kas_direct {
    kas_function *weights, *loops[3],
        *mma[3];       /* mma: NULL where tensor cores do not take the pass */
    kas_function *sum; /* of the parts of a gradient of the weights, if several */
    int parts;         /* of the depthwise one by loops */
    size_t workspace_bytes;
} kas_direct;
kas_status kas_direct_create(kas_cuda *cuda, const kas_conv_desc *desc, kas_direct *out);
/* Returns whether our own kernels are worth a comparison with a library's: depthwise convolutions and
 * those on tensor cores. Beside a forward pass they compute a bias, a residual, ReLU and ReLU6. */
bool kas_direct_takes(const kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass,
                      kas_conv_beside beside);
/* `o` has a bias, or a residual, and there is an activation, only where kas_direct_takes said so; then
 * all are aligned. */
kas_status kas_direct_run(kas_cuda *cuda, const kas_direct *direct, const kas_conv_desc *desc,
                          kas_conv_pass pass, const kas_conv_operands *o,
                          kas_activation activation);

#endif
