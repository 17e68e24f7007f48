#include "host/train/feed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/log.h"
#include "host/data/order.h"
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
                        d->path, d->c, d->h, d->w, o->net->file, in->c, in->h, in->w);
    if (o->net->classes < (int)d->classes)
        return kas_fail(KAS_BAD_INPUT, "%s: %" PRIu32 " classes; network %s was made for %d",
                        d->path, d->classes, o->net->file, o->net->classes);
    if (d->c > 4)
        return kas_fail(KAS_UNSUPPORTED, "%s: %" PRIu32 " channels; at most 4 are supported",
                        d->path, d->c);
    return KAS_OK;
}

kas_status kas_feed_check(const kas_train_options *o)
{
    KAS_TRY(kas_recipe_check(&o->recipe));
    if (o->recipe.batch % kas_train_ranks(o) != 0)
        return kas_fail(KAS_BAD_INPUT,
                        "batch %d cannot be shared by %d ranks; use a multiple of %d",
                        o->recipe.batch, kas_train_ranks(o), kas_train_ranks(o));
    KAS_TRY(check_shape(o));
    uint32_t images = o->dataset->train.count;
    KAS_TRY(check_index("training", o->train_index, o->train_count, images));
    KAS_TRY(check_index("validation", o->validation_index, o->validation_count + o->confirm_count,
                        images));
    if (kas_feed_steps(o) == 0)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: %" PRIu32 " images to train on are fewer than one batch of %d; use a "
                        "smaller batch",
                        o->dataset->path, o->train_count, o->recipe.batch);
    if (o->evaluate_test ? o->dataset->test.count == 0 : o->validation_count == 0)
        return kas_fail(KAS_BAD_INPUT, "%s: no images to evaluate on", o->dataset->path);
    return KAS_OK;
}

bool kas_feed_must_stream(const kas_train_options *o)
{
    return o->stream || !o->dataset->train.pixels || !o->dataset->test.pixels;
}

static uint32_t evaluation_count(const kas_train_options *o)
{
    return o->evaluate_test ? o->dataset->test.count : o->validation_count + o->confirm_count;
}

kas_feed_layout kas_feed_plan(const kas_train_options *o, bool streamed)
{
    enum { ALIGN = 256 };
    const kas_dataset *d = o->dataset;
    kas_feed_layout l;
    size_t image = (size_t)d->h * d->w * d->c, train = d->train.count;
    size_t test = o->evaluate_test ? d->test.count : 0;
    size_t order = o->train_count, evaluated = evaluation_count(o);
    if (streamed) { /* the ring, and one order for training and evaluation */
        train = (size_t)KAS_STREAM_RING * (size_t)kas_train_batch(o);
        test = 0;
        order = order > evaluated ? order : evaluated;
        evaluated = 0;
    }
    const size_t sizes[] = {
        image * train,
        sizeof(uint16_t) * train,
        image * test,
        sizeof(uint16_t) * test,
        sizeof(uint32_t) * order,
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

/* Returns whether the images fit. A tenth of the device is left for libraries, compiled kernels and
 * other processes. */
static bool fits(const kas_device *device, const kas_train_options *o, size_t beside)
{
    size_t memory = kas_device_get_info(device)->memory;
    return memory == 0 || kas_feed_plan(o, false).total + beside <= memory / 10 * 9;
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
    const kas_train_options *o = f->options;
    const kas_run_plan plan = {.recipe = &o->recipe,
                               .steps_per_epoch = kas_feed_steps(o),
                               .seed = o->seed,
                               .h = (int)o->dataset->h,
                               .w = (int)o->dataset->w};
    uint64_t all = plan.steps_per_epoch * (uint64_t)o->recipe.epochs;
    kas_step_row *rows = malloc(sizeof *rows * all);
    if (!rows)
        return kas_fail(KAS_NO_MEMORY, "no memory for the schedule of %" PRIu64 " steps", all);
    for (uint64_t i = 0; i < all; i++)
        rows[i] = kas_schedule_row(&plan, i);
    kas_status status =
        kas_mem_upload(f->device, f->memory + f->layout.rows, rows, sizeof *rows * all);
    free(rows);
    return status;
}

static void fill_evaluation_order(kas_feed *f)
{
    const kas_train_options *o = f->options;
    for (uint32_t i = 0; i < evaluation_count(o); i++)
        f->evaluation_order[i] =
            !o->evaluate_test && o->validation_index ? o->validation_index[i] : i;
}

static kas_status make_evaluation_order(kas_feed *f)
{
    const kas_train_options *o = f->options;
    uint32_t count = evaluation_count(o);
    f->host_order = malloc(sizeof *f->host_order * o->train_count);
    f->evaluation_order = malloc(sizeof *f->evaluation_order * count);
    if (!f->host_order || !f->evaluation_order)
        return kas_fail(KAS_NO_MEMORY, "no memory for the order of %" PRIu32 " images",
                        o->train_count + count);
    fill_evaluation_order(f);
    return KAS_OK;
}

/* Uploads everything except the order of an epoch. */
static kas_status upload_resident(kas_feed *f)
{
    const kas_train_options *o = f->options;
    const kas_feed_layout *l = &f->layout;
    KAS_TRY(upload_images(f, &o->dataset->train, l->pixels, l->labels));
    if (o->evaluate_test)
        KAS_TRY(upload_images(f, &o->dataset->test, l->test_pixels, l->test_labels));
    return kas_mem_upload(f->device, f->memory + l->evaluation_order, f->evaluation_order,
                          sizeof *f->evaluation_order * evaluation_count(o));
}

static kas_status start_stream(kas_feed *f)
{
    const kas_train_options *o = f->options;
    const kas_feed_layout *l = &f->layout;
    const uint32_t batch = (uint32_t)kas_train_batch(o);
    const uint32_t evaluated = evaluation_count(o);
    uint32_t count = o->train_count > evaluated ? o->train_count : evaluated;
    uint32_t *order = malloc(sizeof *order * count);
    if (!order)
        return kas_fail(KAS_NO_MEMORY, "no memory for the order of %" PRIu32 " images", count);
    kas_stream_fill_order(batch, (uint32_t)kas_train_ranks(o), count, order);
    kas_status status =
        kas_mem_upload(f->device, f->memory + l->order, order, sizeof *order * count);
    free(order);
    KAS_TRY(status);
    return kas_stream_create(f->device, o->dataset, batch, o->read_threads,
                             (uint8_t *)f->memory + l->pixels,
                             (uint16_t *)(void *)(f->memory + l->labels), &f->stream);
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

static void describe_both(kas_feed *f)
{
    const kas_train_options *o = f->options;
    const kas_feed_layout *l = &f->layout;
    bool test = o->evaluate_test && !f->stream;
    f->rows = (const kas_step_row *)(void *)(f->memory + l->rows);
    f->train = describe(f, l->pixels, l->labels, l->order, o->train_count);
    if (!o->dataset->encoded) {
        f->train.crop_pad = o->recipe.crop_pad;
        f->train.flip = o->recipe.flip;
    }
    f->train.cutout = o->recipe.cutout;
    f->train.erase = o->recipe.erase;
    f->train.rows = kas_recipe_mixes(&o->recipe) ? f->rows : NULL;
    for (int part = 0; part < 2; part++) {
        const size_t before = part ? sizeof *f->evaluation_order * f->evaluation_count[0] : 0;
        f->evaluation[part] = describe(
            f, test ? l->test_pixels : l->pixels, test ? l->test_labels : l->labels,
            f->stream ? l->order : l->evaluation_order + before, f->evaluation_count[part]);
    }
}

kas_status kas_feed_create(kas_device *device, const kas_train_options *o, size_t beside,
                           kas_feed *out)
{
    kas_status status = KAS_OK;
    void *memory = NULL;
    bool must = kas_feed_must_stream(o), streamed = must || !fits(device, o, beside);
    const uint32_t confirm = o->evaluate_test ? 0 : o->confirm_count;
    *out = (kas_feed){.device = device,
                      .options = o,
                      .layout = kas_feed_plan(o, streamed),
                      .evaluation_count = {evaluation_count(o) - confirm, confirm}};
    if (streamed)
        kas_info("%s: images are streamed%s", o->dataset->path,
                 must ? "" : ": they do not fit on the device");
    KAS_TRY_GOTO(make_evaluation_order(out), fail);
    KAS_TRY_GOTO(kas_mem_alloc(device, out->layout.total, &memory), fail);
    out->memory = memory;
    KAS_TRY_GOTO(streamed ? start_stream(out) : upload_resident(out), fail);
    KAS_TRY_GOTO(upload_rows(out), fail);
    describe_both(out);
    return KAS_OK;
fail:
    kas_feed_free(out);
    return status;
}

void kas_feed_free(kas_feed *feed)
{
    kas_stream_free(feed->stream);
    if (feed->memory)
        kas_mem_free(feed->device, feed->memory);
    free(feed->host_order);
    free(feed->evaluation_order);
    *feed = (kas_feed){0};
}

/* Moves this rank's images of order[count] to its front, and begins a pass over them. */
static kas_status begin_stream(kas_feed *f, kas_pass pass, uint32_t *order)
{
    const uint32_t batch = (uint32_t)kas_train_batch(f->options), all = pass.count;
    pass.rank = (uint32_t)kas_group_rank(f->options->group);
    pass.ranks = (uint32_t)kas_train_ranks(f->options);
    pass.count = 0;
    for (uint32_t p = 0, at; p < all; p++) {
        at = kas_shared_position(p, batch, pass.rank, pass.ranks);
        if (at >= all)
            break;
        order[pass.count++] = order[at];
    }
    pass.order = order;
    f->streamed = (pass.count - pass.first + batch - 1) / batch;
    return f->streamed ? kas_stream_begin(f->stream, &pass) : KAS_OK;
}

kas_status kas_feed_begin_training(kas_feed *f, int epoch, uint32_t step)
{
    const kas_train_options *o = f->options;
    KAS_TRY(kas_epoch_order(o->seed, (uint32_t)epoch, (kas_shuffle)o->recipe.shuffle,
                            o->train_index, o->train_count, f->host_order));
    if (!f->stream)
        return kas_mem_upload(f->device, f->memory + f->layout.order, f->host_order,
                              sizeof *f->host_order * o->train_count);
    const kas_pass pass = {.images = &o->dataset->train,
                           .count = kas_feed_steps(o) * (uint32_t)o->recipe.batch,
                           .first = step * (uint32_t)kas_train_batch(o),
                           .shuffle = (kas_shuffle)o->recipe.shuffle,
                           .view = {.training = true,
                                    .flip = o->recipe.flip,
                                    .least_area = o->recipe.crop_area,
                                    .seed = o->seed,
                                    .epoch = (uint32_t)epoch}};
    return begin_stream(f, pass, f->host_order);
}

/* The order of an evaluation is made again each time, because begin_stream changes it. */
kas_status kas_feed_begin_evaluation(kas_feed *f, int part)
{
    const kas_dataset *d = f->options->dataset;
    if (!f->stream)
        return KAS_OK;
    fill_evaluation_order(f);
    const kas_pass pass = {.images = f->options->evaluate_test ? &d->test : &d->train,
                           .count = f->evaluation_count[part]};
    return begin_stream(f, pass, f->evaluation_order + (part ? f->evaluation_count[0] : 0));
}

/* A rank may have no image in the last step of an evaluation. */
kas_status kas_feed_run(kas_feed *f, kas_plan *plan)
{
    if (!f->stream || !f->streamed)
        return kas_plan_run(plan);
    KAS_TRY(kas_stream_next(f->stream));
    KAS_TRY(kas_plan_run(plan));
    f->streamed--;
    return kas_stream_done(f->stream);
}
