#include "host/bench/step_model.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "host/core/clock.h"
#include "host/core/random.h"

kas_status kas_bench_images(const kas_net *net, int count, kas_dataset **out)
{
    const kas_layer *in = &net->layer[0];
    kas_dataset *d;
    KAS_TRY(kas_dataset_create((uint32_t)in->h, (uint32_t)in->w, (uint32_t)in->c,
                               (uint32_t)net->classes, (uint32_t)count, 1, &d));
    kas_rng rng = kas_rng_make(0, KAS_PURPOSE_TEST, 0);
    size_t size = (size_t)count * (size_t)in->h * (size_t)in->w * (size_t)in->c;
    for (size_t i = 0; i < size; i++)
        d->train.pixels[i] = (uint8_t)kas_rng_u32(&rng);
    for (int i = 0; i < count; i++)
        d->train.labels[i] = (uint16_t)(i % net->classes);
    kas_dataset_finish(d);
    *out = d;
    return KAS_OK;
}

static kas_train_options options_for(const kas_net *net, const kas_dataset *images, int batch,
                                     kas_precision precision, const char *cache_dir)
{
    kas_recipe recipe = kas_recipe_default();
    recipe.batch = batch;
    recipe.precision = precision;
    recipe.epochs = 1;
    recipe.warmup_epochs = 0;
    recipe.lr = 1e-3;
    return (kas_train_options){.net = net,
                               .dataset = images,
                               .recipe = recipe,
                               .train_count = images->train.count,
                               .validation_count = images->train.count,
                               .cache_dir = cache_dir};
}

static kas_status make_marks(const kas_model *model, kas_tape_mode mode, int **out)
{
    const int operations = kas_model_operations(model, mode);
    *out = calloc((size_t)operations + 1, sizeof **out);
    return *out ? KAS_OK : kas_fail(KAS_NO_MEMORY, "no memory for %d operations", operations);
}

static kas_status create(kas_device *device, const kas_replacement *replacement, kas_bench_model *m)
{
    const kas_train_options *o = &m->options;
    const char *arch = kas_device_get_info(device)->arch;
    m->ahead = kas_device_get_info(device)->kind != KAS_DEVICE_CPU;
    kas_model_options model = {.net = o->net,
                               .programs = &m->programs,
                               .batch = o->recipe.batch,
                               .training = true,
                               .recipe = &o->recipe,
                               .precision = (kas_precision)o->recipe.precision,
                               .cache_dir = o->cache_dir};
    KAS_TRY(kas_feed_check(o));
    KAS_TRY(kas_model_build_programs(&model, replacement, arch, &m->programs));
    KAS_TRY(kas_model_create(device, &model, &m->model));
    model.programs = &m->inference_programs;
    model.training = false;
    model.recipe = NULL;
    KAS_TRY(kas_model_build_programs(&model, replacement, arch, &m->inference_programs));
    KAS_TRY(kas_model_create(device, &model, &m->inference));
    KAS_TRY(kas_feed_create(device, o, kas_model_memory(m->model) + kas_model_memory(m->inference),
                            &m->feed));
    KAS_TRY(kas_feed_begin_training(&m->feed, 0, 0));
    KAS_TRY(make_marks(m->model, KAS_TAPE_TRAIN, &m->train_mark));
    KAS_TRY(make_marks(m->inference, KAS_TAPE_INFER, &m->infer_mark));
    kas_step_options train = {.mode = KAS_TAPE_TRAIN,
                              .mark = m->train_mark,
                              .images = &m->feed.train,
                              .recipe = &o->recipe,
                              .rows = m->feed.rows};
    kas_step_options infer = {.mode = KAS_TAPE_INFER, .mark = m->infer_mark};
    KAS_TRY(kas_model_record(m->model, &train, &m->train));
    KAS_TRY(kas_model_record(m->inference, &infer, &m->infer));
    KAS_TRY(kas_timer_create(device, &m->timer));
    KAS_TRY(kas_model_init(m->inference, 0));
    return kas_model_init(m->model, 0);
}

kas_status kas_bench_model_create(kas_device *device, const kas_net *net,
                                  const kas_replacement *replacement, const kas_dataset *images,
                                  int batch, kas_precision precision, const char *cache_dir,
                                  kas_bench_model *out)
{
    *out = (kas_bench_model){.options = options_for(net, images, batch, precision, cache_dir)};
    kas_status status = create(device, replacement, out);
    if (status != KAS_OK)
        kas_bench_model_free(out);
    return status;
}

void kas_bench_model_free(kas_bench_model *m)
{
    kas_timer_free(m->timer);
    kas_plan_free(m->infer);
    kas_plan_free(m->train);
    free(m->train_mark);
    free(m->infer_mark);
    kas_feed_free(&m->feed);
    kas_model_free(m->inference);
    kas_model_free(m->model);
    kas_programs_free(&m->inference_programs);
    kas_programs_free(&m->programs);
    *m = (kas_bench_model){0};
}

kas_status kas_bench_model_begin(kas_bench_model *m, kas_tape_mode mode)
{
    const kas_metrics zero = {0};
    if (mode == KAS_TAPE_INFER)
        return kas_model_draw_images(m->inference);
    m->trained = 0;
    return kas_model_set_metrics(m->model, &zero);
}

/* Resets the model so that all runs begin at the same place. `trained` counts the step that is
 * enqueued ahead. */
static kas_status begin_run(kas_bench_model *m, kas_tape_mode mode)
{
    if (mode != KAS_TAPE_TRAIN)
        return KAS_OK;
    m->trained += m->ahead ? 2 : 1;
    return kas_model_set_state(m->model, (kas_step_state){0});
}

kas_status kas_bench_model_time_steps(kas_bench_model *m, kas_tape_mode mode, double *seconds)
{
    KAS_TRY(begin_run(m, mode));
    return kas_plan_time_steps(mode == KAS_TAPE_TRAIN ? m->train : m->infer, seconds);
}

kas_status kas_bench_model_run(kas_bench_model *m, kas_tape_mode mode, kas_bench_time *time)
{
    kas_plan *plan = mode == KAS_TAPE_TRAIN ? m->train : m->infer;
    KAS_TRY(begin_run(m, mode));
    if (m->ahead)
        KAS_TRY(kas_plan_run(plan));
    KAS_TRY(kas_timer_start(m->timer));
    const double begin = kas_monotonic();
    KAS_TRY(kas_plan_run(plan));
    time->host = m->ahead ? kas_monotonic() - begin : NAN;
    return kas_timer_stop(m->timer, &time->device);
}

kas_status kas_bench_model_train(kas_bench_model *m, int epoch, uint32_t steps, double *seconds)
{
    const uint32_t most = kas_feed_steps(&m->options);
    if (steps < 1 || steps > most)
        return kas_fail(KAS_BAD_INPUT, "%" PRIu32 " steps of an epoch, expected 1 to %" PRIu32,
                        steps, most);
    KAS_TRY(kas_feed_begin_training(&m->feed, epoch, 0));
    KAS_TRY(kas_model_set_state(m->model, (kas_step_state){.epoch = (uint32_t)epoch}));
    KAS_TRY(kas_timer_start(m->timer));
    for (uint32_t i = 0; i < steps; i++)
        KAS_TRY(kas_plan_run(m->train));
    m->trained += steps;
    return kas_timer_stop(m->timer, seconds);
}

static kas_status check_training(kas_bench_model *m)
{
    kas_metrics metrics;
    uint64_t expected = m->trained * (uint64_t)m->options.recipe.batch;
    KAS_TRY(kas_model_get_metrics(m->model, &metrics));
    if (metrics.counted != expected)
        return kas_fail(KAS_FAILURE, "the timed steps counted %" PRIu64 " images of %" PRIu64,
                        (uint64_t)metrics.counted, expected);
    if (!isfinite(metrics.loss_sum))
        return kas_fail(KAS_FAILURE, "the loss of the timed steps is not finite");
    return KAS_OK;
}

static kas_status check_logits(kas_bench_model *m)
{
    size_t count = (size_t)m->options.recipe.batch * (size_t)m->options.net->classes;
    float *logits = malloc(sizeof *logits * count);
    if (!logits)
        return kas_fail(KAS_NO_MEMORY, "no memory for %zu logits", count);
    kas_status status = kas_model_get_logits(m->inference, KAS_TAPE_INFER, logits);
    for (size_t i = 0; status == KAS_OK && i < count; i++)
        if (!isfinite(logits[i]))
            status = kas_fail(KAS_FAILURE, "a logit of the timed inference is not finite");
    free(logits);
    return status;
}

kas_status kas_bench_model_check(kas_bench_model *m, kas_tape_mode mode)
{
    return mode == KAS_TAPE_TRAIN ? check_training(m) : check_logits(m);
}
