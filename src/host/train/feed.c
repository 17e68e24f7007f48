#include "host/train/feed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/random.h"
#include "host/train/schedule.h"

uint32_t kas_feed_steps(const kas_train_options *o)
{
    return o->train_count / (uint32_t)o->recipe.batch;
}

static kas_status check_index(const char *name, const uint32_t *index, uint32_t count,
                              uint32_t images)
{
    if (!index && count > images)
        return kas_fail(KAS_BAD_INPUT,
                        "%" PRIu32 " %s images asked for; the training set has %" PRIu32, count,
                        name, images);
    for (uint32_t i = 0; index && i < count; i++)
        if (index[i] >= images)
            return kas_fail(KAS_BAD_INPUT,
                            "%s index %" PRIu32 " is %" PRIu32 "; the training set has %" PRIu32
                            " images",
                            name, i, index[i], images);
    return KAS_OK;
}

static kas_status check_shape(const kas_train_options *o)
{
    const kas_layer *in = &o->net->layer[0];
    const kas_dataset *d = o->dataset;
    if (in->h != (int)d->h || in->w != (int)d->w || in->c != (int)d->c)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: images are %" PRIu32 "x%" PRIu32 "x%" PRIu32
                        "; network %s was made for %dx%dx%d (channels, height, width)",
                        d->path, d->c, d->h, d->w, o->net->name, in->c, in->h, in->w);
    if (o->net->classes < (int)d->classes)
        return kas_fail(KAS_BAD_INPUT, "%s: %" PRIu32 " classes; network %s was made for %d",
                        d->path, d->classes, o->net->name, o->net->classes);
    if (d->c > 4)
        return kas_fail(KAS_UNSUPPORTED, "%s: %" PRIu32 " channels; at most 4 are supported",
                        d->path, d->c);
    return KAS_OK;
}

kas_status kas_feed_check(const kas_train_options *o)
{
    KAS_TRY(kas_recipe_check(&o->recipe));
    KAS_TRY(check_shape(o));
    uint32_t images = o->dataset->train.count;
    KAS_TRY(check_index("training", o->train_index, o->train_count, images));
    KAS_TRY(check_index("validation", o->validation_index, o->validation_count, images));
    if (kas_feed_steps(o) == 0)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: %" PRIu32 " images to train on are fewer than one batch of %d; use a "
                        "smaller batch",
                        o->dataset->path, o->train_count, o->recipe.batch);
    if (o->evaluate_test ? o->dataset->test.count == 0 : o->validation_count == 0)
        return kas_fail(KAS_BAD_INPUT, "%s: no images to evaluate on", o->dataset->path);
    return KAS_OK;
}

kas_feed_layout kas_feed_plan(const kas_train_options *o)
{
    enum { ALIGN = 256 };
    const kas_dataset *d = o->dataset;
    kas_feed_layout l;
    size_t image = (size_t)d->h * d->w * d->c;
    size_t test = o->evaluate_test ? d->test.count : 0;
    size_t evaluated = o->evaluate_test ? test : o->validation_count;
    const size_t sizes[] = {
        image * d->train.count,
        sizeof(uint16_t) * d->train.count,
        image * test,
        sizeof(uint16_t) * test,
        sizeof(uint32_t) * o->train_count,
        sizeof(uint32_t) * evaluated,
        sizeof(kas_step_row) * kas_feed_steps(o) * (size_t)o->recipe.epochs,
    };
    size_t *const offsets[] = {&l.pixels, &l.labels,           &l.test_pixels, &l.test_labels,
                               &l.order,  &l.evaluation_order, &l.rows};
    size_t at = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        *offsets[i] = at;
        at += (sizes[i] + ALIGN - 1) / ALIGN * ALIGN;
    }
    l.total = at;
    return l;
}

static kas_status upload_images(kas_feed *f, const kas_images *images, size_t pixels, size_t labels)
{
    const kas_dataset *d = f->options->dataset;
    size_t image = (size_t)d->h * d->w * d->c;
    KAS_TRY(kas_mem_upload(f->device, f->memory + pixels, images->pixels, image * images->count));
    return kas_mem_upload(f->device, f->memory + labels, images->labels,
                          sizeof(uint16_t) * images->count);
}

static kas_status upload_rows(kas_feed *f)
{
    const kas_recipe *recipe = &f->options->recipe;
    uint64_t steps = kas_feed_steps(f->options), all = steps * (uint64_t)recipe->epochs;
    kas_step_row *rows = malloc(sizeof *rows * all);
    if (!rows)
        return kas_fail(KAS_NO_MEMORY, "no memory for the schedule of %" PRIu64 " steps", all);
    for (uint64_t i = 0; i < all; i++)
        rows[i] = kas_schedule_row(recipe, steps, i);
    kas_status status =
        kas_mem_upload(f->device, f->memory + f->layout.rows, rows, sizeof *rows * all);
    free(rows);
    return status;
}

static kas_status upload_evaluation_order(kas_feed *f)
{
    const kas_train_options *o = f->options;
    uint32_t count = f->evaluation_count;
    uint32_t *order = malloc(sizeof *order * count);
    if (!order)
        return kas_fail(KAS_NO_MEMORY, "no memory for the order of %" PRIu32 " images", count);
    for (uint32_t i = 0; i < count; i++)
        order[i] = !o->evaluate_test && o->validation_index ? o->validation_index[i] : i;
    kas_status status = kas_mem_upload(f->device, f->memory + f->layout.evaluation_order, order,
                                       sizeof *order * count);
    free(order);
    return status;
}

static kas_augment describe(const kas_feed *f, size_t pixels, size_t labels, size_t order,
                            uint32_t count)
{
    kas_augment a = {.pixels = (const uint8_t *)f->memory + pixels,
                     .labels = (const uint16_t *)(void *)(f->memory + labels),
                     .order = (const uint32_t *)(void *)(f->memory + order),
                     .count = count,
                     .seed = f->options->seed};
    memcpy(a.mean, f->options->dataset->mean, sizeof a.mean);
    memcpy(a.std, f->options->dataset->std, sizeof a.std);
    return a;
}

kas_status kas_feed_create(kas_device *device, const kas_train_options *o, kas_feed *out)
{
    bool test = o->evaluate_test;
    kas_status status = KAS_OK;
    void *memory = NULL;
    *out = (kas_feed){.device = device, .options = o, .layout = kas_feed_plan(o)};
    const kas_feed_layout *l = &out->layout;
    out->evaluation_count = test ? o->dataset->test.count : o->validation_count;
    out->host_order = malloc(sizeof *out->host_order * o->train_count);
    if (!out->host_order)
        return kas_fail(KAS_NO_MEMORY, "no memory for the order of %" PRIu32 " images",
                        o->train_count);
    KAS_TRY_GOTO(kas_mem_alloc(device, l->total, &memory), fail);
    out->memory = memory;
    KAS_TRY_GOTO(upload_images(out, &o->dataset->train, l->pixels, l->labels), fail);
    if (test)
        KAS_TRY_GOTO(upload_images(out, &o->dataset->test, l->test_pixels, l->test_labels), fail);
    KAS_TRY_GOTO(upload_rows(out), fail);
    KAS_TRY_GOTO(upload_evaluation_order(out), fail);
    out->rows = (const kas_step_row *)(void *)(out->memory + l->rows);
    out->train = describe(out, l->pixels, l->labels, l->order, o->train_count);
    out->train.crop_pad = o->recipe.crop_pad;
    out->train.flip = o->recipe.flip;
    out->evaluation =
        describe(out, test ? l->test_pixels : l->pixels, test ? l->test_labels : l->labels,
                 l->evaluation_order, out->evaluation_count);
    return KAS_OK;
fail:
    kas_feed_free(out);
    return status;
}

void kas_feed_free(kas_feed *feed)
{
    if (feed->memory)
        kas_mem_free(feed->device, feed->memory);
    free(feed->host_order);
    *feed = (kas_feed){0};
}

kas_status kas_feed_shuffle(kas_feed *f, int epoch)
{
    const kas_train_options *o = f->options;
    uint32_t *order = f->host_order;
    kas_rng rng = kas_rng_make(o->seed, KAS_PURPOSE_SHUFFLE, (uint64_t)epoch);
    for (uint32_t i = 0; i < o->train_count; i++)
        order[i] = o->train_index ? o->train_index[i] : i;
    for (uint32_t i = o->train_count; i > 1; i--) { /* Fisher and Yates */
        uint32_t k = kas_rng_below(&rng, i), moved = order[i - 1];
        order[i - 1] = order[k];
        order[k] = moved;
    }
    return kas_mem_upload(f->device, f->memory + f->layout.order, order,
                          sizeof *order * o->train_count);
}
