/* Folds batch norms into the convolution or linear layer in front of them, or into the library's
 * convolution with which a kernel in its place ends, in models whose parameters stay fixed.
 *
 *     s = gamma / sqrt(var + eps)
 *     y = activation((conv(x, w) + b - mean) s + beta          [+ residual])
 *       = activation(conv(x, w s) + (beta + (b - mean) s)      [+ residual])
 *
 * where w includes the gain of a kernel,
 *
 * so that one call of a library's convolution writes the output of the whole group behind it
 * (device.h), as a kernel in the convolution's place does. Where the device has no such
 * call, or the tensors have gaps, the passes stay separate and read the parameters
 * themselves (record_layers.c).
 *
 * The products are computed on the host in float64 whenever a parameter is set, and then rounded: w
 * s to the dtype of the activations, the bias to float32. In float32 the rounding error is that of
 * any other order of the same operations. In 16 bits it is smaller than that of separate passes: w
 * s is as far from its value as w is from its own, and the convolution's result, which is large
 * where a channel's mean is large beside its deviation, is no longer rounded in between.  In
 * float16 a product below 6e-5 loses digits, and one above 65504 is infinite: but only a channel
 * with almost no variance has such a factor. */
#ifndef KAS_MODEL_FOLD_H
#define KAS_MODEL_FOLD_H

#include "host/model/tape.h"
#include "host/net/epilogues.h"

typedef struct kas_model kas_model;

typedef struct kas_fold {
    int layer; /* CONV or LINEAR, or replaced */
    kas_norm_group group;
    kas_conv_epilogue epilogue;
    /* A kernel of ours computes the group (jit/lower/epilogue.h) and has a use for `rstd` alone */
    bool own;
    /* Offsets in bytes from the beginning of the model's folded part: w s as the convolution reads
     * its weights; the bias in float32; the bias in the dtype of the activations, which for float32
     * is the same one; 1 / sqrt(var + eps) in float32. */
    size_t weights, bias, bias_rounded, rstd;
} kas_fold;

typedef struct kas_folds {
    int count;
    kas_fold *fold; /* [count] by layer */
} kas_folds;

/* Finds the layers of a tape into which a batch norm is folded, or whose kernels compute it, and lays
 * out what these read from offset 0 on. *bytes gets the size of all of them. The caller frees *out
 * with kas_folds_free. */
kas_status kas_folds_build(const kas_model *model, const kas_tape *tape, kas_folds *out,
                           size_t *bytes);
void kas_folds_free(kas_folds *folds);
/* Returns the fold of a layer; NULL when the layer includes no batch norm. */
const kas_fold *kas_folds_find(const kas_folds *folds, int layer);

/* Returns the prepared convolution that computes the folded call of a layer. */
struct kas_conv *kas_folded_conv(const kas_model *model, int layer);

/* Computes the folded parameters of `layer` (-1: of all layers) again after its parameters
 * were set, and tells the device that the weights, those of kernels too, now stay fixed. Does nothing
 * in a model that trains. */
kas_status kas_model_refold(kas_model *model, int layer);

#endif
