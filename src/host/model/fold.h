/* Batch norms folded into what stands in front of them, in models whose parameters stay.
 *
 *     s = gamma / sqrt(var + eps)
 *     y = activation((conv(x, w) + b - mean) s + beta          [+ residual])
 *       = activation(conv(x, w s) + (beta + (b - mean) s)      [+ residual])
 *
 * so that a library's convolution writes what the group behind it is, in one call (device.h), as a
 * kernel in its place does.  Where the device has no such call, or the tensors have gaps, the
 * passes are what they are without it, over the parameters themselves (record_layers.c).
 *
 * The products are made on the host in float64 whenever a parameter is set, and rounded: w s to the
 * number of activations, the bias to float32.  In float32 that loses what any other order of
 * the same operations does.  In 16 bits it loses less than the passes do: w s is as far from its
 * value as w is from its own, and the convolution's result, which is large where a channel's mean
 * is large beside its deviation, is no longer rounded in between.  In float16 a product below
 * 6e-5 loses digits, and one above 65504 is infinite: a channel with such a factor has had next to
 * no variance. */
#ifndef KAS_MODEL_FOLD_H
#define KAS_MODEL_FOLD_H

#include "host/model/tape.h"
#include "host/net/epilogues.h"

typedef struct kas_model kas_model;

typedef struct kas_fold {
    int layer; /* CONV or LINEAR */
    kas_norm_group group;
    kas_conv_epilogue epilogue;
    /* Bytes from the beginning of the model's folded part: w s as the convolution reads weights;
     * the bias in float32, and in the number of activations (of float32 the same). */
    size_t weights, bias, bias_rounded;
} kas_fold;

typedef struct kas_folds {
    int count;
    kas_fold *fold; /* [count] by layer */
} kas_folds;

/* Those of a tape; places count from 0 on: *bytes in all. */
kas_status kas_folds_build(const kas_model *model, const kas_tape *tape, kas_folds *out,
                           size_t *bytes);
void kas_folds_free(kas_folds *folds);
/* NULL: the layer is computed alone. */
const kas_fold *kas_folds_find(const kas_folds *folds, int layer);

/* Of a layer's parameters, which were just set (-1: of all): what is folded from them is made anew,
 * and the device told that weights hold still.  Nothing to do in a model that trains. */
kas_status kas_model_refold(kas_model *model, int layer);

#endif
