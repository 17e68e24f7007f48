/* The images that scores look at: drawn from the training images by a seed, the same for all
 * kernels. */
#ifndef KAS_SCORE_UNTRAINED_MINIBATCH_H
#define KAS_SCORE_UNTRAINED_MINIBATCH_H

#include <stdint.h>

#include "host/data/dataset.h"

enum { KAS_SCORE_MINIBATCHES = 2, KAS_SCORE_LEAST_BATCH = 8, KAS_SCORE_MOST_BATCH = 1024 };

typedef struct kas_minibatch {
    int images;
    float *image;    /* [images][c][h][w], normalised, not augmented */
    uint16_t *label; /* [images] */
} kas_minibatch;

/* Draws the first `count` minibatches (0: none), of different images each; the others are left empty.
 * KAS_BAD_INPUT when the data set has too few images, an image is constant, or a minibatch has
 * images of one class only: scores would say nothing. The caller frees each, also after a
 * failure. */
kas_status kas_minibatches_draw(const kas_dataset *dataset, int images, int count, uint64_t seed,
                                kas_minibatch out[KAS_SCORE_MINIBATCHES]);
void kas_minibatch_free(kas_minibatch *minibatch);

/* Images whose values are standard normal, for scores without data. The caller frees *out. */
kas_status kas_normal_images(size_t elements, uint64_t seed, uint64_t stream, float **out);

#endif
