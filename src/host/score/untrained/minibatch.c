#include "host/score/untrained/minibatch.h"

#include <math.h>
#include <stdlib.h>

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

static kas_status check(const kas_dataset *d, const kas_batch *batch, const uint32_t *order)
{
    const size_t size = (size_t)d->h * d->w * d->c;
    bool same_class = true;
    for (uint32_t n = 0; n < batch->count; n++) {
        const uint8_t *image = batch->pixels + n * size;
        bool constant = true;
        for (size_t i = d->c; i < size; i++)
            constant &= image[i] == image[i % d->c];
        if (constant)
            return kas_fail(
                KAS_BAD_INPUT,
                "%s: train/images: image %u of the training set is constant: scores say "
                "nothing of it; choose others with --seed",
                d->path, order[n]);
        same_class &= batch->labels[n] == batch->labels[0];
    }
    return !same_class
               ? KAS_OK
               : kas_fail(KAS_BAD_INPUT,
                          "%s: train/labels: all %u images of the minibatch are of class %u, so "
                          "its loss says nothing; choose others with --seed, or more with "
                          "--batch of kas-gpu score",
                          d->path, batch->count, batch->labels[0]);
}

static void normalise(const kas_dataset *d, const kas_batch *batch, kas_minibatch *out)
{
    const size_t area = (size_t)d->h * d->w, c = d->c;
    for (size_t n = 0; n < batch->count; n++) {
        out->label[n] = batch->labels[n];
        for (size_t p = 0; p < area; p++)
            for (size_t k = 0; k < c; k++)
                out->image[(n * c + k) * area + p] =
                    ((float)batch->pixels[(n * area + p) * c + k] / 255 - d->mean[k]) / d->std[k];
    }
}

static kas_status read_all(const kas_reader_options *options, const uint32_t *order,
                           kas_minibatch out[KAS_SCORE_MINIBATCHES])
{
    const kas_dataset *d = options->dataset;
    const kas_pass pass = {
        .images = &d->train, .order = order, .count = options->batch * KAS_SCORE_MINIBATCHES};
    kas_reader *reader = NULL;
    kas_status status = kas_reader_create(options, &reader);
    if (status == KAS_OK)
        status = kas_reader_begin(reader, &pass);
    for (int m = 0; m < KAS_SCORE_MINIBATCHES && status == KAS_OK; m++) {
        kas_batch batch;
        status = kas_reader_next(reader, &batch);
        if (status == KAS_OK)
            status = check(d, &batch, order + (uint32_t)m * options->batch);
        if (status != KAS_OK)
            break;
        normalise(d, &batch, &out[m]);
        kas_reader_release(reader);
    }
    kas_reader_free(reader);
    return status;
}

kas_status kas_minibatches_draw(const kas_dataset *d, int images, uint64_t seed,
                                kas_minibatch out[KAS_SCORE_MINIBATCHES])
{
    enum { SLOTS = 2 };
    const size_t n = (size_t)images, size = (size_t)d->h * d->w * d->c;
    const uint32_t wanted = (uint32_t)images * KAS_SCORE_MINIBATCHES;
    kas_status status = KAS_OK;
    uint32_t *order = NULL;
    for (int m = 0; m < KAS_SCORE_MINIBATCHES; m++)
        out[m] = (kas_minibatch){0};
    if (d->train.count < wanted)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: train/images: %u images are too few for %d minibatches of %d; give a "
                        "data set with more",
                        d->path, d->train.count, KAS_SCORE_MINIBATCHES, images);
    uint8_t *pixels = malloc(SLOTS * n * size);
    uint16_t *labels = malloc(sizeof *labels * SLOTS * n);
    bool memory = pixels && labels;
    for (int m = 0; m < KAS_SCORE_MINIBATCHES; m++) {
        out[m] = (kas_minibatch){.images = images,
                                 .image = malloc(sizeof(float) * n * size),
                                 .label = malloc(sizeof(uint16_t) * n)};
        memory = memory && out[m].image && out[m].label;
    }
    if (!memory) {
        status = kas_fail(KAS_NO_MEMORY, "no memory for minibatches of %d images", images);
        goto out;
    }
    const kas_reader_options options = {.dataset = d,
                                        .batch = (uint32_t)images,
                                        .slots = SLOTS,
                                        .threads = 1,
                                        .pixels = pixels,
                                        .labels = labels};
    KAS_TRY_GOTO(choose(d->train.count, wanted, seed, &order), out);
    KAS_TRY_GOTO(read_all(&options, order, out), out);
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
