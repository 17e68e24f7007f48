#include "host/score/untrained/minibatch.h"

#include <stdlib.h>
#include <string.h>

#include "host/core/random.h"
#include "host/data/reader.h"

/* The first `wanted` of the image numbers in an order drawn at random. */
static kas_status choose(uint32_t count, uint32_t wanted, uint64_t seed, uint32_t **out)
{
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_SHUFFLE, 0);
    *out = malloc(sizeof **out * count);
    if (!*out)
        return kas_fail(KAS_NO_MEMORY, "no memory for an order of %u images", count);
    for (uint32_t i = 0; i < count; i++)
        (*out)[i] = i;
    for (uint32_t i = 0; i < wanted; i++) {
        const uint32_t other = i + kas_rng_below(&rng, count - i), kept = (*out)[i];
        (*out)[i] = (*out)[other];
        (*out)[other] = kept;
    }
    return KAS_OK;
}

/* Checks the images of a minibatch, whose numbers are in `order`. */
static kas_status check(const kas_dataset *d, uint32_t count, const uint8_t *pixels,
                        const uint16_t *label, const uint32_t *order)
{
    const size_t size = (size_t)d->h * d->w * d->c;
    bool same_class = true;
    for (uint32_t n = 0; n < count; n++) {
        const uint8_t *image = pixels + n * size;
        bool constant = true;
        for (size_t i = d->c; i < size; i++)
            constant &= image[i] == image[i % d->c];
        if (constant)
            return kas_fail(
                KAS_BAD_INPUT,
                "%s: train/images: image %u of the training set is constant: scores say "
                "nothing of it; choose others with --seed",
                d->path, order[n]);
        same_class &= label[n] == label[0];
    }
    return !same_class
               ? KAS_OK
               : kas_fail(KAS_BAD_INPUT,
                          "%s: train/labels: all %u images of the minibatch are of class %u, so "
                          "its loss says nothing; choose others with --seed, or more with "
                          "--batch of kas-gpu score",
                          d->path, count, label[0]);
}

kas_status kas_minibatches_draw(const kas_dataset *d, int images, int count, uint64_t seed,
                                kas_minibatch out[KAS_SCORE_MINIBATCHES])
{
    const size_t n = (size_t)images, size = (size_t)d->h * d->w * d->c;
    const uint32_t wanted = (uint32_t)images * (uint32_t)count;
    kas_status status = KAS_OK;
    uint32_t *order = NULL;
    uint8_t *pixels = NULL;
    uint16_t *labels = NULL;
    for (int m = 0; m < KAS_SCORE_MINIBATCHES; m++)
        out[m] = (kas_minibatch){0};
    if (count == 0)
        return KAS_OK;
    if (d->train.count < wanted)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: train/images: %u images are too few for %d minibatch%s of %d; give a "
                        "data set with more",
                        d->path, d->train.count, count, count > 1 ? "es" : "", images);
    KAS_TRY_GOTO(choose(d->train.count, wanted, seed, &order), out);
    KAS_TRY_GOTO(kas_read_images(d, order, wanted, &pixels, &labels), out);
    for (size_t m = 0; m < (size_t)count; m++) {
        const uint8_t *own = pixels + m * n * size;
        KAS_TRY_GOTO(check(d, (uint32_t)images, own, labels + m * n, order + m * n), out);
        out[m] = (kas_minibatch){.images = images,
                                 .image = malloc(sizeof(float) * n * size),
                                 .label = malloc(sizeof(uint16_t) * n)};
        if (!out[m].image || !out[m].label) {
            status = kas_fail(KAS_NO_MEMORY, "no memory for minibatches of %d images", images);
            goto out;
        }
        memcpy(out[m].label, labels + m * n, sizeof(uint16_t) * n);
        kas_normalise_images(d, (uint32_t)images, own, out[m].image);
    }
out:
    free(order);
    free(pixels);
    free(labels);
    return status;
}

void kas_minibatch_free(kas_minibatch *minibatch)
{
    free(minibatch->image);
    free(minibatch->label);
    *minibatch = (kas_minibatch){0};
}

kas_status kas_normal_images(size_t elements, uint64_t seed, uint64_t stream, float **out)
{
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_TEST, stream);
    *out = malloc(sizeof **out * elements);
    if (!*out)
        return kas_fail(KAS_NO_MEMORY, "no memory for %zu pixels", elements);
    for (size_t i = 0; i < elements; i++)
        (*out)[i] = (float)kas_rng_normal(&rng);
    return KAS_OK;
}
