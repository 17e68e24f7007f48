/* The hand-written operations of a training step: each function appends its launches to a plan.
 *
 * Tensors are channels-last: [n][h][w] pixels of `pitch` elements, of which the first c are used;
 * the padding of a pixel is neither read nor written (only augmentation writes it, with zeros). All
 * tensors of an operation have one dtype; arithmetic is float32, and each result is rounded once.
 * Parameters, their gradients, statistics and logits are always float32. Everything that varies
 * from step to step lies in device memory (kas_step_state, the order of images, the table of rows),
 * so that a plan is recorded once and run for every step.
 *
 * Everything is deterministic: there are no atomics and sums have one fixed order, so the bits are
 * the same in every run and for every order of blocks.  The kernels are in src/cuda/kernels, one
 * file for each operation.
 *
 * An output may be one of the inputs only where a comment says "in place". Shapes are checked when
 * the launch is appended: KAS_BAD_INPUT names the tensor that does not fit.  Other folders include
 * this header. */
#ifndef KAS_OPS_OPS_H
#define KAS_OPS_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/kernels/prelude.h"

#include "cuda/kernels/args.h"
#include "host/device/device.h"
#include "host/device/group.h"
#include "host/net/net.h"
#include "host/recipe/recipe.h"

typedef struct kas_tensor {
    void *data; /* device memory */
    int n, h, w, c, pitch;
    kas_dtype dtype;
} kas_tensor;

/* Returns the dtype of activations in a precision. */
static inline kas_dtype kas_precision_dtype(kas_precision precision)
{
    return precision == KAS_PRECISION_BF16   ? KAS_BF16
           : precision == KAS_PRECISION_FP16 ? KAS_F16
                                             : KAS_F32;
}

/* Returns the elements of a tensor, padding included. */
static inline size_t kas_tensor_size(const kas_tensor *t)
{
    return (size_t)t->n * (size_t)t->h * (size_t)t->w * (size_t)t->pitch;
}

/* The kernels of a device, looked up once. kas_ops_create loads those for float32, and kas_ops_use
 * adds those for another dtype. Free them before the device. */
typedef struct kas_ops kas_ops;
kas_status kas_ops_create(kas_device *device, kas_ops **out);
kas_status kas_ops_use(kas_ops *ops, kas_dtype dtype);
void kas_ops_free(kas_ops *ops); /* NULL is allowed */

/* ---- state that varies from step to step, in device memory ----------------------------------- */

/* What the host and the kernels both read and write is declared once, in the kernels' args.h. */
typedef kas_dev_state kas_step_state;
typedef kas_dev_row kas_step_row;
typedef kas_dev_metrics kas_metrics;
typedef kas_dev_scale kas_loss_scale;
typedef kas_dev_imitated kas_imitated;

/* Adds 1 to `step` and `batch`, the images of all ranks, to `cursor`. It is the last launch of a
 * step. */
kas_status kas_op_advance(kas_ops *ops, kas_plan *plan, kas_step_state *state, int batch);

/* ---- data ------------------------------------------------------------------------------------ */

enum { KAS_NO_LABEL = KAS_DEV_NO_LABEL }; /* padding of the last batch of an evaluation */

typedef struct kas_augment {
    const uint8_t *pixels;    /* device [images][h][w][c] */
    const uint16_t *labels;   /* device [images] */
    const uint32_t *order;    /* device [count]: image numbers in the order of this epoch */
    uint32_t count;           /* length of `order`; later positions are padding */
    kas_step_state *state;    /* device; cursor and epoch are read */
    float mean[4], std[4];    /* of pixels scaled to 0..1 */
    int crop_pad;             /* border of zeros from which the crop is taken at random; 0 = none */
    bool flip;                /* mirror every other image, at random */
    int cutout;               /* side of a square that is erased; 0 = none */
    double erase;             /* probability that a rectangle is erased */
    const kas_step_row *rows; /* device: how images are mixed; NULL = not at all */
    uint64_t seed;            /* key: (seed, KAS_PURPOSE_AUGMENT), counter (position, use, epoch) */
} kas_augment;

/* Loads and augments a batch. `images` has c <= 4 channels, and h and w of the data set: (pixel/255
 * - mean)/std, then crop (the border is zero after normalisation), then flip. Padding lanes and
 * padding images are zero. `labels` is device memory [images.n]. An evaluation turns crop, flip,
 * erasing and mixing off in `augment`.
 *
 * Then parts are erased: they become 0, the mean colour, as the border is:
 *     cutout    (DeVries and Taylor 2017) a square around a random pixel, cut off at the border
 *     erase     (Zhong et al. 2017, torchvision's RandomErasing) a rectangle of 2% to 33% of the
 *               image, height / width from 0.3 to 3.3 (logarithmically), inside the image
 * Last, with `rows`, every image is mixed with the next of its batch, and the last with the first:
 *     pixel = the next image's inside the step's rectangle (CutMix, Yun et al. 2019),
 *             blend * own + (1 - blend) * next's elsewhere (mixup, Zhang et al. 2018)
 * where "next" has been augmented like "own". Labels stay; kas_op_cross_entropy uses both.
 *
 * The random numbers of the image at position p of epoch e are those of kas_philox4x32 with the key
 * of kas_rng_make(seed, KAS_PURPOSE_AUGMENT, 0) and the counter (p, use, e, 0). With use 0, the row
 * offset comes from the first number, the column offset from the second and the flip from the top
 * bit of the third, and the image is erased when the fourth is below erase * 2^32. Use 1 gives row
 * and column of cutout's pixel. Uses 2 to 11 give share, ratio and place of an attempt to erase. */
kas_status kas_op_augment(kas_ops *ops, kas_plan *plan, const kas_augment *augment,
                          kas_tensor images, uint16_t *labels);

/* ---- element by element ---------------------------------------------------------------------- */

/* sum = a + b. In place. */
kas_status kas_op_add(kas_ops *ops, kas_plan *plan, kas_tensor a, kas_tensor b, kas_tensor sum);
/* difference = a - b. In place. */
kas_status kas_op_subtract(kas_ops *ops, kas_plan *plan, kas_tensor a, kas_tensor b,
                           kas_tensor difference);
kas_status kas_op_copy(kas_ops *ops, kas_plan *plan, kas_tensor x, kas_tensor y);
/* y = x in another dtype, where one of the two is float32. */
kas_status kas_op_cast(kas_ops *ops, kas_plan *plan, kas_tensor x, kas_tensor y);
/* product = a * b, where b has the shape of a, or is [n][1][1][c] and applies to every pixel. In
 * place of a, and of a b of the same shape. */
kas_status kas_op_multiply(kas_ops *ops, kas_plan *plan, kas_tensor a, kas_tensor b,
                           kas_tensor product);
/* sum = the sum [n][1][1][c] of a * b over the pixels of each image: the gradient of a b of
 * that shape. */
kas_status kas_op_multiply_sum(kas_ops *ops, kas_plan *plan, kas_tensor a, kas_tensor b,
                               kas_tensor sum);
/* y += bias, [c]. In place by definition. */
kas_status kas_op_bias_forward(kas_ops *ops, kas_plan *plan, kas_tensor y, const float *bias);
/* dbias = the sum of dy over pixels. `scratch` has kas_bias_scratch floats. */
size_t kas_bias_scratch(const kas_tensor *dy);
kas_status kas_op_bias_backward(kas_ops *ops, kas_plan *plan, kas_tensor dy, float *dbias,
                                float *scratch);
/* Convert [n][h][w][c] to [n][1][1][c h w] and back, in PyTorch's order of a
 * flattened [c][h][w]. */
kas_status kas_op_flatten_forward(kas_ops *ops, kas_plan *plan, kas_tensor x, kas_tensor y);
kas_status kas_op_flatten_backward(kas_ops *ops, kas_plan *plan, kas_tensor dy, kas_tensor dx);

/* Returns whether the derivative is computed from the output (true) or from the input (false). */
static inline bool kas_activation_keeps_output(kas_activation kind)
{
    return kind <= KAS_ACTIVATION_HARD_SIGMOID;
}
/* y = activation(x). In place, if x is not needed later. */
kas_status kas_op_activation_forward(kas_ops *ops, kas_plan *plan, kas_activation kind,
                                     kas_tensor x, kas_tensor y);
/* dx = dy * derivative, where `kept` is the output or the input (kas_activation_keeps_output). In
 * place of dy. */
kas_status kas_op_activation_backward(kas_ops *ops, kas_plan *plan, kas_activation kind,
                                      kas_tensor kept, kas_tensor dy, kas_tensor dx);

/* Dropout: y = 0 with `probability`, else x / (1 - probability).  The value of channel c of row r
 * (image and pixel) at step s is dropped when the first number of Philox with the key of
 * kas_rng_make(seed, KAS_PURPOSE_DROPOUT, 0) and the counter (c, r, s, layer) is below
 * probability * 2^32, where rows count on from rank to rank. The backward pass is the same
 * operation over dy. In place. */
typedef struct kas_dropout {
    double probability; /* [0, 1) */
    uint64_t seed;
    uint32_t layer;
    const kas_step_state *state; /* device; the step is read */
} kas_dropout;
kas_status kas_op_dropout(kas_ops *ops, kas_plan *plan, const kas_dropout *dropout, kas_tensor x,
                          kas_tensor y);

/* ---- batch norm ---------------------------------------------------------------------------------
 *
 *     y = activation((x - mean) * rstd * gamma + beta  [+ residual])
 *
 * With a residual the activation is none or ReLU.
 *
 * Statistics: chunks of rows are reduced in two passes each (mean, then squared deviations, the
 * second from cache), and the chunks are combined in order by Chan's formula: sound for any mean.
 * rstd = 1/sqrt(var + eps) with the biased variance; the running variance takes the unbiased one,
 * as PyTorch does. */
typedef struct kas_batch_norm {
    kas_tensor x, y;
    kas_tensor residual; /* data NULL: none */
    kas_activation activation;
    float eps, momentum;               /* share of the batch in the running statistics */
    const float *gamma, *beta;         /* [c] */
    float *running_mean, *running_var; /* [c] */
    float *saved_mean, *saved_rstd;    /* [c]; training: written forward, read
                                          backward; inference: saved_rstd is scratch */
    float *scratch;                    /* kas_batch_norm_scratch floats; within one call */
    uint32_t *watch;  /* device; training: set to 1 when a running statistic is not finite; may be
                        NULL */
    kas_group *group; /* training: statistics and their gradient are those of all ranks together;
                         NULL: of x alone */
} kas_batch_norm;

size_t kas_batch_norm_scratch(const kas_tensor *x); /* floats */
/* Returns the floats where `ranks` ranks share statistics (1: none do). They have the bits of one
 * rank with all images where the chunks of its rows do not reach over the border of two ranks. */
size_t kas_batch_norm_shared_scratch(const kas_tensor *x, int ranks);
kas_status kas_op_batch_norm_forward(kas_ops *ops, kas_plan *plan, const kas_batch_norm *norm);
/* Does the first half of it: saved_mean and saved_rstd, and the running statistics. y, gamma and
 * beta are not used. */
kas_status kas_op_batch_norm_statistics(kas_ops *ops, kas_plan *plan, const kas_batch_norm *norm);
/* Normalises with the running statistics, which do not change. y in place of x or residual. */
kas_status kas_op_batch_norm_inference(kas_ops *ops, kas_plan *plan, const kas_batch_norm *norm);
/* Computes the output of kas_op_batch_norm_forward again, with the same bits, from the saved
 * statistics. There must be no residual. */
kas_status kas_op_batch_norm_again(kas_ops *ops, kas_plan *plan, const kas_batch_norm *norm);
/* Tensors of one backward call. Tensors without data are absent. */
typedef struct kas_batch_norm_gradient {
    kas_tensor y;   /* given with a residual and a ReLU, whose derivative then comes from y;
                       otherwise from x */
    kas_tensor dy;  /* gradient of y */
    kas_tensor dy1; /* a second gradient of y, added to dy. Activation none or ReLU */
    kas_tensor g;   /* output: the gradient behind the activation, which is that of the residual.
                       Given with y or dy1 only: otherwise it equals dy, or is not needed */
    kas_tensor dx;
    kas_tensor base; /* a gradient to which dx is added. Activation none or ReLU */
    float *dgamma, *dbeta;
} kas_batch_norm_gradient;
/* Reads norm's x, gamma, beta and the saved statistics. In place: g of dy or dy1; dx of base, dy,
 * dy1, or of a g that no other operation reads. */
kas_status kas_op_batch_norm_backward(kas_ops *ops, kas_plan *plan, const kas_batch_norm *norm,
                                      const kas_batch_norm_gradient *gradient);

/* ---- layer norm ---------------------------------------------------------------------------------
 *
 * y = (x - mean) * rstd * gamma + beta with the statistics of each pixel's channels. */
typedef struct kas_layer_norm {
    kas_tensor x, y; /* backward: y is not used */
    float eps;
    const float *gamma, *beta;      /* [c] */
    float *saved_mean, *saved_rstd; /* [pixels of all images]: written forward, read backward */
    float *scratch;                 /* backward: kas_batch_norm_scratch floats */
} kas_layer_norm;
kas_status kas_op_layer_norm_forward(kas_ops *ops, kas_plan *plan, const kas_layer_norm *norm);
/* dx in place of dy. */
kas_status kas_op_layer_norm_backward(kas_ops *ops, kas_plan *plan, const kas_layer_norm *norm,
                                      kas_tensor dy, kas_tensor dx, float *dgamma, float *dbeta);

/* ---- pooling and shortcut -----------------------------------------------------------------------
 *
 * The size of y is the caller's choice (floor or ceil mode), as long as each window holds a pixel
 * of the image.  The global pool's y is 1 x 1. */
typedef struct kas_pool {
    int kernel_h, kernel_w, stride, pad_h, pad_w;
    bool count_include_pad; /* average: padding counts in the divisor, what lies beyond it does
                               not */
    bool adaptive;          /* average: windows from the sizes of x and y alone (net.h) */
} kas_pool;
/* Returns the average pool in front of a kernel: windows of s x s, so that y has ceil(h/s)
 * x ceil(w/s). */
static inline kas_pool kas_pool_of_stride(int s)
{
    return (kas_pool){.kernel_h = s, .kernel_w = s, .stride = s};
}
kas_status kas_op_avg_pool_forward(kas_ops *ops, kas_plan *plan, const kas_pool *pool, kas_tensor x,
                                   kas_tensor y);
kas_status kas_op_avg_pool_backward(kas_ops *ops, kas_plan *plan, const kas_pool *pool,
                                    kas_tensor dy, kas_tensor dx);
/* `index` records which pixel of each window won: one byte for each element of a tensor like y
 * whose pixels are kas_pitch(c) apart. */
kas_status kas_op_max_pool_forward(kas_ops *ops, kas_plan *plan, const kas_pool *pool, kas_tensor x,
                                   kas_tensor y, uint8_t *index);
kas_status kas_op_max_pool_backward(kas_ops *ops, kas_plan *plan, const kas_pool *pool,
                                    const uint8_t *index, kas_tensor dy, kas_tensor dx);
kas_status kas_op_global_pool_forward(kas_ops *ops, kas_plan *plan, kas_tensor x, kas_tensor y);
kas_status kas_op_global_pool_backward(kas_ops *ops, kas_plan *plan, kas_tensor dy, kas_tensor dx);
/* Shortcut option A (He et al. 2015): takes every stride-th pixel and pads the channels with zeros,
 * (c_out - c_in)/2 in front. y has ceil(h/stride) x ceil(w/stride). */
kas_status kas_op_shortcut_a_forward(kas_ops *ops, kas_plan *plan, int stride, kas_tensor x,
                                     kas_tensor y);
kas_status kas_op_shortcut_a_backward(kas_ops *ops, kas_plan *plan, int stride, kas_tensor dy,
                                      kas_tensor dx);

/* ---- loss ---------------------------------------------------------------------------------------
 *
 * Cross entropy with label smoothing, as in PyTorch, of float32 logits [n][1][1][classes]. The
 * sums are added to `metrics`. With `mix` (images mixed by kas_op_augment; NULL: none) the loss is
 * share * that of the image's own label + (1 - share) * that of the next image's label, and the
 * label with the larger share is the correct one. dlogits is the gradient of the mean over all n
 * images (a training batch is always full); rows without a label are 0 and count nowhere. An
 * evaluation has dlogits.data NULL. `scale` (device; NULL = 1) multiplies dlogits. `scratch` has 2
 * n floats: behind the n losses, 1 for each image that is classified correctly and 0 for others. */
typedef struct kas_mix {
    const kas_step_row *rows; /* device */
    const kas_step_state *state;
} kas_mix;
kas_status kas_op_cross_entropy(kas_ops *ops, kas_plan *plan, kas_tensor logits,
                                const uint16_t *labels, double smoothing, const kas_mix *mix,
                                kas_tensor dlogits, const kas_loss_scale *scale,
                                kas_metrics *metrics, float *scratch);

/* ---- imitation ----------------------------------------------------------------------------------
 *
 * A kernel learns to give the output of the convolution that it replaces. With e = output - target,
 * and the variance of each channel over the pixels of all images, it misses this share of
 * the target's variance:
 *
 *     sum over channels of weight * var(e)  /  sum over channels of weight * var(target)
 *
 * where weight = gamma^2 / (running_var + eps) of the batch norm behind the convolution, and 1
 * where there is none. So the share is that of the batch norm's output: a channel that the batch
 * norm scales down counts as little as it does to the network, and a constant in a channel, which
 * the batch norm takes away, counts nothing. */
typedef struct kas_imitation {
    kas_tensor output; /* replaced by e, or by its gradient */
    kas_tensor target;
    const float *gamma, *running_var; /* [c]; NULL: there is no batch norm */
    float eps;
    bool gradient;     /* replace `output` by the gradient of the share, else by e */
    float *scratch;    /* kas_imitation_scratch floats */
    kas_imitated *sum; /* device; both variances are added to it */
} kas_imitation;
size_t kas_imitation_scratch(const kas_tensor *target); /* floats */
kas_status kas_op_imitation(kas_ops *ops, kas_plan *plan, const kas_imitation *imitation);

/* ---- optimiser ----------------------------------------------------------------------------------
 *
 * One launch updates one flat buffer of all parameters by PyTorch's formulas:
 *
 *     SGD     g += decay*p;  v = momentum*v + g;  p -= lr*v, with Nesterov lr*(g + momentum*v)
 *     AdamW   p -= lr*decay*p;  m = beta1*m + (1 - beta1)*g;  v = beta2*v + (1 - beta2)*g^2;
 *             p -= lr * correction1*m / (correction2*sqrt(v) + epsilon)
 *
 * All buffers are aligned to 16 bytes. They consist of segments that start at multiples of
 * KAS_UPDATE_GROUP floats; each group of that many floats has its own weight decay (device [count /
 * KAS_UPDATE_GROUP]). The padding between segments is updated too, so its gradient must stay zero
 * (zero the buffers once). The rate and the corrections are those of rows[state->step] (device; one
 * row for each step of the run). */
enum { KAS_UPDATE_GROUP = 1 << KAS_UPDATE_SHIFT };
typedef struct kas_update {
    const kas_recipe *recipe; /* optimiser and its numbers */
    float *param;             /* [count], like the following: */
    float *first, *second;    /* v of SGD, m of AdamW; v of AdamW, else NULL */
    const float *grad;
    const float *decay;      /* [count / KAS_UPDATE_GROUP] */
    size_t count;            /* a multiple of KAS_UPDATE_GROUP */
    const float *grad_scale; /* device: factor of the gradient, see kas_op_clip; NULL = 1 */
    kas_dtype dtype;         /* of `copy` */
    void *copy; /* [count]: the new parameters rounded to `dtype`, which is not float32; may be
                   NULL */
    const kas_step_row *rows;
    const kas_step_state *state;
    uint32_t *watch; /* device: set to 1 when a new parameter is not finite; may be NULL */
} kas_update;
kas_status kas_op_update(kas_ops *ops, kas_plan *plan, const kas_update *update);

/* average += rows[state->step].renew * (value - average): the moving average of the parameters. */
typedef struct kas_average {
    float *average;     /* [count] */
    const float *value; /* [count] */
    size_t count;       /* a multiple of KAS_UPDATE_GROUP */
    const kas_step_row *rows;
    const kas_step_state *state;
    uint32_t *watch; /* device: set to 1 when a new average is not finite; may be NULL */
} kas_average;
kas_status kas_op_average(kas_ops *ops, kas_plan *plan, const kas_average *average);

/* *scale = min(1, limit / (length of grad + 1e-6)), as PyTorch's clip_grad_norm_. The gradient
 * itself does not change: kas_op_update scales it. `scratch` has kas_clip_scratch floats. */
size_t kas_clip_scratch(size_t count);
kas_status kas_op_clip(kas_ops *ops, kas_plan *plan, const float *grad, size_t count, double limit,
                       float *scratch, float *scale);

/* ---- loss scale ---------------------------------------------------------------------------------
 *
 * float16 has no numbers below 6e-8, where many gradients lie. Therefore the gradient of the
 * loss, and with it every gradient, is multiplied by a scale, and the optimiser divides by it.
 * When a gradient is not finite, the scale was too large: the step is skipped, so that parameters
 * and moments stay, and the scale is halved. After `patience` steps without a skip it is doubled.
 * All of this happens on the device; the host never waits for it. The scale stays between 2^-16
 * and 2^24. */
enum { KAS_SCALE_FIRST = 65536, KAS_SCALE_PATIENCE = 2000 };
typedef struct kas_scaling {
    kas_loss_scale *scale; /* device; read and updated */
    const float *grad;     /* [count]: multiplied by the scale */
    size_t count;          /* a multiple of KAS_UPDATE_GROUP */
    double limit;          /* as for kas_op_clip, of the unscaled gradient; 0 = none */
    uint32_t patience;
    float *scratch; /* kas_clip_scratch floats */
    float *factor;  /* device: grad_scale of kas_op_update; 0 skips a float16 step */
} kas_scaling;
kas_status kas_op_loss_scale(kas_ops *ops, kas_plan *plan, const kas_scaling *scaling);

#endif
