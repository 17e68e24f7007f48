/* The hand-written operations of a training step: each function appends its launches to a plan.
 *
 * Tensors are channels-last: [n][h][w] pixels of `pitch` numbers, the first c used; the padding of
 * a pixel is neither read nor written (augmentation alone writes it: zero).  The tensors of an
 * operation are all of one dtype; arithmetic is float32, and each result is rounded once.
 * Parameters, their gradients, statistics and logits are float32 always.  Whatever
 * varies from step to step lies in device memory (kas_step_state, the order of images, the table of
 * rows), so that a plan is recorded once and run for every step.
 *
 * Everything is deterministic: no atomics, sums in one fixed order, the same bits in every run and
 * in every order of blocks.  The kernels are in src/cuda/kernels, one file for each operation.
 *
 * In place: an output may be one of the inputs where "in place" is said, and nowhere else.
 * Shapes are checked when the launch is appended; KAS_BAD_INPUT names what does not fit.  Other
 * folders include this header. */
#ifndef KAS_OPS_OPS_H
#define KAS_OPS_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/kernels/prelude.h"

#include "cuda/kernels/args.h"
#include "host/device/device.h"
#include "host/net/net.h"
#include "host/recipe/recipe.h"

typedef struct kas_tensor {
    void *data; /* device memory */
    int n, h, w, c, pitch;
    kas_dtype dtype;
} kas_tensor;

static inline kas_dtype kas_precision_number(kas_precision precision)
{
    return precision == KAS_PRECISION_BF16   ? KAS_BF16
           : precision == KAS_PRECISION_FP16 ? KAS_F16
                                             : KAS_F32;
}

/* Numbers of a tensor, padding included. */
static inline size_t kas_tensor_size(const kas_tensor *t)
{
    return (size_t)t->n * (size_t)t->h * (size_t)t->w * (size_t)t->pitch;
}

/* The kernels of a device, looked up once: those over float32, and those over another dtype once
 * kas_ops_use was called for it. Freed before the device. */
typedef struct kas_ops kas_ops;
kas_status kas_ops_create(kas_device *device, kas_ops **out);
kas_status kas_ops_use(kas_ops *ops, kas_dtype dtype);
void kas_ops_free(kas_ops *ops); /* NULL is allowed */

/* ---- what varies from step to step, in device memory ----------------------------------------- */

/* What the host and the kernels both read and write is declared once, in the kernels' args.h. */
typedef kas_dev_state kas_step_state;
typedef kas_dev_row kas_step_row;
typedef kas_dev_metrics kas_metrics;
typedef kas_dev_scale kas_loss_scale;

/* step += 1, cursor += batch. The last launch of a step. */
kas_status kas_op_advance(kas_ops *ops, kas_plan *plan, kas_step_state *state, int batch);

/* ---- data ------------------------------------------------------------------------------------ */

enum { KAS_NO_LABEL = KAS_DEV_NO_LABEL }; /* padding of the last batch of an evaluation */

typedef struct kas_augment {
    const uint8_t *pixels;  /* device [images][h][w][c] */
    const uint16_t *labels; /* device [images] */
    const uint32_t *order;  /* device [count]: image numbers in the order of this epoch */
    uint32_t count;         /* length of `order`; positions from there on are padding */
    kas_step_state *state;  /* device; cursor and epoch are read */
    float mean[4], std[4];  /* of pixels scaled to 0..1 */
    int crop_pad;           /* crop at random from the image with this border of zeros; 0 = none */
    bool flip;              /* mirror every other image, at random */
    int cutout;             /* side of a square that is erased; 0 = none */
    double erase;           /* probability that a rectangle is erased */
    const kas_step_row *rows; /* device: how images are mixed; NULL = they are not */
    uint64_t seed;            /* key: (seed, KAS_PURPOSE_AUGMENT), counter (position, use, epoch) */
} kas_augment;

/* images: c <= 4 channels, h and w those of the data set; (pixel/255 - mean)/std, then crop (the
 * border is zero after normalisation), then flip. Padding lanes and padding images are zero.
 * labels: device [images.n]. Evaluation: everything off.
 *
 * Then parts are erased, which become 0, the mean colour, as the border is:
 *     cutout    (DeVries and Taylor 2017) a square around a random pixel, cut off at the border
 *     erase     (Zhong et al. 2017, torchvision's RandomErasing) a rectangle of 2% to 33% of the
 *               image, height / width from 0.3 to 3.3 (logarithmically), inside the image
 * and last, with `rows`, every image is mixed with the next of its batch, the last with the first:
 *     pixel = the next image's inside the step's rectangle (CutMix, Yun et al. 2019),
 *             blend * own + (1 - blend) * next's elsewhere (mixup, Zhang et al. 2018)
 * where "next" is as finished as "own".  Labels stay; kas_op_cross_entropy takes both.
 *
 * The numbers of the image at position p of epoch e are those of kas_philox4x32 with the key of
 * kas_rng_make(seed, KAS_PURPOSE_AUGMENT, 0) and the counter (p, use, e, 0).  use 0: row offset
 * from the first, column offset from the second, flip from the top bit of the third, erase when the
 * fourth is below erase * 2^32; 1: row and column of cutout's pixel; 2 to 11: share, ratio, place
 * of an attempt to erase. */
kas_status kas_op_augment(kas_ops *ops, kas_plan *plan, const kas_augment *augment,
                          kas_tensor images, uint16_t *labels);

/* ---- element by element ---------------------------------------------------------------------- */

kas_status kas_op_add(kas_ops *ops, kas_plan *plan, kas_tensor a, kas_tensor b,
                      kas_tensor sum); /* in place */
kas_status kas_op_copy(kas_ops *ops, kas_plan *plan, kas_tensor x, kas_tensor y);
/* y = x in another dtype; one of the two is float32. */
kas_status kas_op_cast(kas_ops *ops, kas_plan *plan, kas_tensor x, kas_tensor y);
/* product = a * b; b has the shape of a, or is [n][1][1][c] and holds for every pixel. In place of
 * a, and of a b of the same shape. */
kas_status kas_op_multiply(kas_ops *ops, kas_plan *plan, kas_tensor a, kas_tensor b,
                           kas_tensor product);
/* sum [n][1][1][c] of a * b over the pixels of each image: the gradient of such a b. */
kas_status kas_op_multiply_sum(kas_ops *ops, kas_plan *plan, kas_tensor a, kas_tensor b,
                               kas_tensor sum);
/* y += bias, [c]. In place by nature. */
kas_status kas_op_bias_forward(kas_ops *ops, kas_plan *plan, kas_tensor y, const float *bias);
/* dbias = sum of dy over pixels. `scratch`: kas_bias_scratch floats. */
size_t kas_bias_scratch(const kas_tensor *dy);
kas_status kas_op_bias_backward(kas_ops *ops, kas_plan *plan, kas_tensor dy, float *dbias,
                                float *scratch);
/* [n][h][w][c] <-> [n][1][1][c h w] in PyTorch's order of a flattened [c][h][w]. */
kas_status kas_op_flatten_forward(kas_ops *ops, kas_plan *plan, kas_tensor x, kas_tensor y);
kas_status kas_op_flatten_backward(kas_ops *ops, kas_plan *plan, kas_tensor dy, kas_tensor dx);

/* What the derivative is computed from: the output (true), or the input. */
static inline bool kas_activation_keeps_output(kas_activation kind)
{
    return kind <= KAS_ACTIVATION_HARD_SIGMOID;
}
/* In place, if nobody keeps x. */
kas_status kas_op_activation_forward(kas_ops *ops, kas_plan *plan, kas_activation kind,
                                     kas_tensor x, kas_tensor y);
/* dx = dy * derivative; `kept`: the output or the input. In place of dy. */
kas_status kas_op_activation_backward(kas_ops *ops, kas_plan *plan, kas_activation kind,
                                      kas_tensor kept, kas_tensor dy, kas_tensor dx);

/* Dropout: y = 0 with `probability`, else x / (1 - probability).  The value of channel c of row r
 * (image and pixel) at step s is dropped when the first number of Philox with the key of
 * kas_rng_make(seed, KAS_PURPOSE_DROPOUT, 0) and the counter (c, r, s, layer) is below
 * probability * 2^32. The backward pass is the same operation over dy. In place. */
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
    float *saved_mean, *saved_rstd;    /* [c]; training: written forward, read backward;
                                          inference: saved_rstd is scratch */
    float *scratch;                    /* kas_batch_norm_scratch floats; within one call */
    uint32_t *watch; /* device; training: set to 1 where a running statistic is not finite; or NULL
                      */
} kas_batch_norm;

size_t kas_batch_norm_scratch(const kas_tensor *x); /* floats */
kas_status kas_op_batch_norm_forward(kas_ops *ops, kas_plan *plan, const kas_batch_norm *norm);
/* With the running statistics, which are not changed. y in place of x or residual. */
kas_status kas_op_batch_norm_inference(kas_ops *ops, kas_plan *plan, const kas_batch_norm *norm);
/* rstd = 1/sqrt(running_var + eps), [c]: for what takes the place of kas_op_batch_norm_inference.
 */
kas_status kas_op_batch_norm_rstd(kas_ops *ops, kas_plan *plan, int c, const float *running_var,
                                  float eps, float *rstd);
/* The output of kas_op_batch_norm_forward once more, to the same bits, from the saved statistics;
 * without a residual. */
kas_status kas_op_batch_norm_again(kas_ops *ops, kas_plan *plan, const kas_batch_norm *norm);
/* Tensors of one call; those without data are not there. */
typedef struct kas_batch_norm_gradient {
    kas_tensor y;   /* with a residual and a ReLU, whose derivative is then taken from it; otherwise
                       it is taken from x */
    kas_tensor dy;  /* gradient of y */
    kas_tensor dy1; /* another one, added to it. Activation none or ReLU */
    kas_tensor g;   /* written: the gradient behind the activation, which is that of the residual.
                       There with y or dy1 and not otherwise: then it is dy, or nobody wants it */
    kas_tensor dx;
    kas_tensor base; /* dx is added to it. Activation none or ReLU */
    float *dgamma, *dbeta;
} kas_batch_norm_gradient;
/* Reads norm's x, gamma, beta, saved_*. In place: g of dy or dy1; dx of base, dy, dy1, or of a g
 * that nobody else reads. */
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
    bool count_include_pad; /* average: divide by padding too, but not by what lies beyond it */
    bool adaptive;          /* average: windows from the sizes of x and y alone (net.h) */
} kas_pool;
/* Average pool before a kernel: windows of s x s, y has ceil(h/s) x ceil(w/s). */
static inline kas_pool kas_pool_of_stride(int s)
{
    return (kas_pool){.kernel_h = s, .kernel_w = s, .stride = s};
}
kas_status kas_op_avg_pool_forward(kas_ops *ops, kas_plan *plan, const kas_pool *pool, kas_tensor x,
                                   kas_tensor y);
kas_status kas_op_avg_pool_backward(kas_ops *ops, kas_plan *plan, const kas_pool *pool,
                                    kas_tensor dy, kas_tensor dx);
/* `index` keeps which pixel of each window won: a byte for each number of a tensor like y whose
 * pixels are kas_pitch(c) apart. */
kas_status kas_op_max_pool_forward(kas_ops *ops, kas_plan *plan, const kas_pool *pool, kas_tensor x,
                                   kas_tensor y, uint8_t *index);
kas_status kas_op_max_pool_backward(kas_ops *ops, kas_plan *plan, const kas_pool *pool,
                                    const uint8_t *index, kas_tensor dy, kas_tensor dx);
kas_status kas_op_global_pool_forward(kas_ops *ops, kas_plan *plan, kas_tensor x, kas_tensor y);
kas_status kas_op_global_pool_backward(kas_ops *ops, kas_plan *plan, kas_tensor dy, kas_tensor dx);
/* Shortcut option A (He et al. 2015): every stride-th pixel, channels zero-padded, (c_out - c_in)/2
 * in front. y has ceil(h/stride) x ceil(w/stride). */
kas_status kas_op_shortcut_a_forward(kas_ops *ops, kas_plan *plan, int stride, kas_tensor x,
                                     kas_tensor y);
kas_status kas_op_shortcut_a_backward(kas_ops *ops, kas_plan *plan, int stride, kas_tensor dy,
                                      kas_tensor dx);

/* ---- loss ---------------------------------------------------------------------------------------
 *
 * Cross entropy with label smoothing (PyTorch's): float32 logits [n][1][1][classes]. Adds to
 * `metrics`. With `mix` (images mixed by kas_op_augment; NULL: none) the loss is share * that of
 * the image's own label + (1 - share) * that of the next image's, and correct is the label of the
 * larger share. dlogits is of the mean over all n images (a training batch is always full); rows
 * without a label are 0 and count nowhere. dlogits.data NULL: evaluation. `scale` (device; NULL =
 * 1) multiplies dlogits. `scratch`: 2 n floats. */
typedef struct kas_mix {
    const kas_step_row *rows; /* device */
    const kas_step_state *state;
} kas_mix;
kas_status kas_op_cross_entropy(kas_ops *ops, kas_plan *plan, kas_tensor logits,
                                const uint16_t *labels, double smoothing, const kas_mix *mix,
                                kas_tensor dlogits, const kas_loss_scale *scale,
                                kas_metrics *metrics, float *scratch);

/* ---- optimiser ----------------------------------------------------------------------------------
 *
 * Over one flat buffer of all parameters in one launch, by PyTorch's formulas:
 *
 *     SGD     g += decay*p;  v = momentum*v + g;  p -= lr*v, with Nesterov lr*(g + momentum*v)
 *     AdamW   p -= lr*decay*p;  m = beta1*m + (1 - beta1)*g;  v = beta2*v + (1 - beta2)*g^2;
 *             p -= lr * correction1*m / (correction2*sqrt(v) + epsilon)
 *
 * All begin on multiples of 16 bytes.  The buffer is made of segments that start at multiples of
 * KAS_UPDATE_GROUP floats; each group of that many floats has its own weight decay (device [count /
 * KAS_UPDATE_GROUP]).  The padding between segments is updated too: keep its gradient zero (zero
 * the buffers once).  The rate and the corrections are those of rows[state->step] (device; as long
 * as the run has steps). */
enum { KAS_UPDATE_GROUP = 1 << KAS_UPDATE_SHIFT };
typedef struct kas_update {
    const kas_recipe *recipe; /* optimiser and its numbers */
    float *param;             /* [count], as are: */
    float *first, *second;    /* v of SGD, m of AdamW; v of AdamW, else NULL */
    const float *grad;
    const float *decay;      /* [count / KAS_UPDATE_GROUP] */
    size_t count;            /* a multiple of KAS_UPDATE_GROUP */
    const float *grad_scale; /* device: factor of the gradient, see kas_op_clip; NULL = 1 */
    kas_dtype dtype;         /* of the copy */
    void *copy; /* [count]: the new parameters rounded to `dtype`, which is not float32; or NULL */
    const kas_step_row *rows;
    const kas_step_state *state;
    uint32_t *watch; /* device: set to 1 where a new parameter is not finite; or NULL */
} kas_update;
kas_status kas_op_update(kas_ops *ops, kas_plan *plan, const kas_update *update);

/* average += rows[state->step].renew * (value - average): a moving average of what was trained. */
typedef struct kas_average {
    float *average;     /* [count] */
    const float *value; /* [count] */
    size_t count;       /* a multiple of KAS_UPDATE_GROUP */
    const kas_step_row *rows;
    const kas_step_state *state;
    uint32_t *watch; /* device: set to 1 where a new average is not finite; or NULL */
} kas_average;
kas_status kas_op_average(kas_ops *ops, kas_plan *plan, const kas_average *average);

/* *scale = min(1, limit / (length of grad + 1e-6)), as PyTorch's clip_grad_norm_; the gradient
 * itself stays, kas_op_update scales it. `scratch`: kas_clip_scratch floats. */
size_t kas_clip_scratch(size_t count);
kas_status kas_op_clip(kas_ops *ops, kas_plan *plan, const float *grad, size_t count, double limit,
                       float *scratch, float *scale);

/* ---- loss scale ---------------------------------------------------------------------------------
 *
 * float16 has no numbers below 6e-8, where many gradients are.  The gradient of the loss is
 * multiplied by a scale, and with it every gradient; the optimiser divides by it.  A gradient that
 * is not finite (the scale was too large) skips the step: parameters and moments stay, the scale is
 * halved.  After `patience` steps without one it is doubled.  All of it is on the device, which the
 * host never asks. The scale stays between 2^-16 and 2^24. */
enum { KAS_SCALE_FIRST = 65536, KAS_SCALE_PATIENCE = 2000 };
typedef struct kas_scaling {
    kas_loss_scale *scale; /* device; read and renewed */
    const float *grad;     /* [count]: multiplied by the scale */
    size_t count;          /* a multiple of KAS_UPDATE_GROUP */
    double limit;          /* as kas_op_clip's, of the gradient itself; 0 = none */
    uint32_t patience;
    float *scratch; /* kas_clip_scratch floats */
    float *factor;  /* device: for kas_op_update; 0 skips the step over float16 */
} kas_scaling;
kas_status kas_op_loss_scale(kas_ops *ops, kas_plan *plan, const kas_scaling *scaling);

#endif
