#include "host/train/imitate.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "host/core/clock.h"
#include "host/data/order.h"
#include "host/model/model.h"
#include "host/net/twins.h"
#include "host/train/feed.h"
#include "host/train/trained_on.h"

enum { REPORT_STEPS = 16 };

/* Batches after which less than a hundredth of a batch norm's running statistics, which a batch
 * moves by a tenth or more, is what they were. */
enum { SETTLE_STEPS = 50 };
static const float settle_momentum = 0.1f;

typedef struct run {
    const kas_imitate_options *o;
    kas_train_options train; /* with the images that are used */
    kas_device *device;
    uint32_t *index; /* the images of training, in random order */
    char trained_on[KAS_TRAINED_ON_SIZE];
    kas_twins twins;
    kas_programs twin_programs; /* borrows all from the options' programs */
    kas_model *twin, *model;    /* the network with twins; the one that is wanted */
    kas_feed feed;
    kas_imitated *imitated; /* [twins.count] scratch */
    double missed;          /* mean share at the last report */
} run;

/* ---- parts ----------------------------------------------------------------------------------- */

kas_status kas_imitate_check(const kas_imitate_options *options)
{
    const kas_train_options *t = &options->train;
    const uint32_t batch = (uint32_t)t->recipe.batch;
    const kas_precision precision = (kas_precision)t->recipe.precision;
    if (options->images > t->train_count)
        return kas_fail(KAS_BAD_INPUT,
                        "--images: %" PRIu32 " asked for; %s has %" PRIu32 " to train on",
                        options->images, t->dataset->path, t->train_count);
    KAS_TRY(kas_feed_check(t));
    if (options->images && options->images < batch)
        return kas_fail(KAS_BAD_INPUT,
                        "--images: %" PRIu32 " are fewer than one batch of %" PRIu32
                        "; use a smaller --batch or more --images",
                        options->images, batch);
    if (precision != KAS_PRECISION_FP32 && precision != KAS_PRECISION_TF32)
        return kas_fail(KAS_BAD_INPUT, "--precision: imitation works in fp32 or tf32");
    if (!options->unscored && t->validation_count < batch)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: %" PRIu32 " validation images are fewer than one batch of %" PRIu32
                        "; use a smaller --batch or a larger --validation",
                        t->dataset->path, t->validation_count, batch);
    return KAS_OK;
}

static kas_status check_replaced(const kas_train_options *t)
{
    return kas_replacement_replaced(t->programs->replacement)
               ? KAS_OK
               : kas_fail(KAS_BAD_INPUT,
                          "no convolution of network %s is replaced; expected kernels "
                          "that imitate at least one",
                          t->net->file);
}

static kas_status choose_images(run *r)
{
    kas_train_options *t = &r->train;
    if (!r->o->images)
        return KAS_OK;
    r->index = malloc(sizeof *r->index * t->train_count);
    if (!r->index)
        return kas_fail(KAS_NO_MEMORY, "no memory for the order of %" PRIu32 " images",
                        t->train_count);
    KAS_TRY(kas_epoch_order(t->seed, UINT32_MAX, KAS_SHUFFLE_FULL, t->train_index, t->train_count,
                            r->index));
    t->train_index = r->index;
    t->train_count = r->o->images;
    return KAS_OK;
}

static kas_model_options model_options(const run *r)
{
    return (kas_model_options){.net = r->train.net,
                               .programs = r->train.programs,
                               .batch = r->train.recipe.batch,
                               .training = true,
                               .recipe = &r->train.recipe,
                               .precision = (kas_precision)r->train.recipe.precision,
                               .cache_dir = r->train.cache_dir};
}

static kas_status create_models(run *r, double *compile_seconds)
{
    kas_model_options options = model_options(r);
    KAS_TRY(kas_programs_load(r->train.programs, r->device, r->train.cache_dir, compile_seconds));
    KAS_TRY(kas_model_create(r->device, &options, &r->model));
    KAS_TRY(kas_twins_create(r->train.net, r->train.programs->replacement, &r->twins));
    r->twin_programs = *r->train.programs;
    r->twin_programs.replacement = &r->twins.replacement;
    options.net = r->twins.net;
    options.programs = &r->twin_programs;
    options.twin = r->twins.twin;
    KAS_TRY(kas_model_create(r->device, &options, &r->twin));
    KAS_TRY(kas_model_init(r->twin, r->train.seed));
    const kas_status status = kas_model_load(r->twin, r->train.weights_in, false);
    return status == KAS_OK
               ? KAS_OK
               : kas_fail_context(status, "a trained network without kernels is needed");
}

/* Records a step of training images. */
static kas_status record_training(run *r, kas_model *model, kas_step_options options,
                                  kas_plan **plan)
{
    options.images = &r->feed.train;
    options.recipe = &r->train.recipe;
    options.dropout_seed = r->train.seed;
    return kas_model_record(model, &options, plan);
}

/* Begins pass number `pass` over the training images. There are rows for the recipe's epochs. */
static kas_status begin_pass(run *r, kas_model *model, int pass)
{
    const uint32_t first = (uint32_t)(pass % r->train.recipe.epochs) * kas_feed_steps(&r->train);
    const kas_step_state state = {.step = first, .epoch = (uint32_t)pass};
    KAS_TRY(kas_feed_begin_training(&r->feed, pass, 0));
    return kas_model_set_state(model, state);
}

/* ---- learning -------------------------------------------------------------------------------- */

static double share(const kas_imitated *i)
{
    return i->wanted > 0 ? i->missed / i->wanted : i->wanted == 0 ? 0 : NAN;
}

static double mean_share(const run *r)
{
    double sum = 0;
    for (int i = 0; i < r->twins.count; i++)
        sum += share(&r->imitated[i]);
    return sum / r->twins.count;
}

/* Looks at what was missed since the last report, and whether it and the kernels are finite. */
static kas_status report(run *r, uint64_t step, uint64_t steps)
{
    const kas_train_options *t = &r->train;
    kas_metrics metrics;
    KAS_TRY(kas_model_get_imitated(r->twin, r->imitated));
    KAS_TRY(kas_model_forget_imitated(r->twin));
    KAS_TRY(kas_model_get_metrics(r->twin, &metrics));
    r->missed = mean_share(r);
    if (metrics.not_finite.parameters || !isfinite(r->missed))
        return kas_fail(KAS_NOTHING_VALID,
                        "a kernel's weights or output were not finite after %" PRIu64 " of %" PRIu64
                        " steps: the imitation diverged; try a smaller --lr than %g",
                        step, steps, t->recipe.lr);
    if (t->on_progress && t->on_progress(t->context, step, steps, r->missed) != KAS_CONTINUE)
        return kas_fail(KAS_INTERRUPTED, "%s", "");
    return KAS_OK;
}

static kas_status learn_with(run *r, kas_plan *plan)
{
    const uint32_t each = kas_feed_steps(&r->train);
    const uint32_t steps = each * (uint32_t)r->train.recipe.epochs;
    const kas_metrics zero = {0};
    KAS_TRY(kas_model_set_metrics(r->twin, &zero));
    KAS_TRY(kas_model_forget_imitated(r->twin));
    for (uint32_t step = 0; step < steps; step++) {
        if (step % each == 0)
            KAS_TRY(begin_pass(r, r->twin, (int)(step / each)));
        KAS_TRY(kas_feed_run(&r->feed, plan));
        if ((step + 1) % REPORT_STEPS == 0 || step + 1 == steps)
            KAS_TRY(report(r, step + 1, steps));
    }
    return KAS_OK;
}

static kas_status learn(run *r, kas_imitate_result *out)
{
    kas_plan *plan = NULL;
    const kas_step_options options = {.mode = KAS_TAPE_IMITATE, .rows = r->feed.rows};
    const double start = kas_monotonic();
    kas_status status = record_training(r, r->twin, options, &plan);
    if (status == KAS_OK)
        status = learn_with(r, plan);
    kas_plan_free(plan);
    out->steps = kas_feed_steps(&r->train) * (uint32_t)r->train.recipe.epochs;
    out->seconds = kas_monotonic() - start;
    out->mean = r->missed;
    return status;
}

/* ---- validation ------------------------------------------------------------------------------ */

/* Runs the validation images; *accuracy is the share of right answers. What the twins missed is
 * taken before the last batch if that one has padding. */
static kas_status validate_with(run *r, kas_model *model, kas_plan *plan, double *accuracy)
{
    const uint32_t batch = (uint32_t)r->train.recipe.batch, count = r->feed.evaluation_count[0];
    const kas_metrics zero = {0};
    kas_metrics seen;
    KAS_TRY(kas_model_set_state(model, (kas_step_state){0}));
    KAS_TRY(kas_model_set_metrics(model, &zero));
    KAS_TRY(kas_feed_begin_evaluation(&r->feed, 0));
    for (uint32_t at = 0; at < count; at += batch) {
        KAS_TRY(kas_feed_run(&r->feed, plan));
        if (model == r->twin && at + batch <= count)
            KAS_TRY(kas_model_get_imitated(model, r->imitated));
    }
    KAS_TRY(kas_model_get_metrics(model, &seen));
    if (seen.counted != count)
        return kas_fail(KAS_FAILURE, "evaluation counted %" PRIu64 " of %" PRIu32 " images",
                        (uint64_t)seen.counted, count);
    *accuracy = (double)seen.correct / (double)seen.counted;
    return KAS_OK;
}

static kas_status validate(run *r, kas_model *model, double *accuracy)
{
    kas_plan *plan = NULL;
    const kas_step_options options = {.mode = KAS_TAPE_EVALUATE, .images = &r->feed.evaluation[0]};
    KAS_TRY(kas_model_record(model, &options, &plan));
    const kas_status status = validate_with(r, model, plan, accuracy);
    kas_plan_free(plan);
    return status;
}

static kas_status score_twins(run *r, kas_imitate_result *out)
{
    KAS_TRY(kas_model_forget_imitated(r->twin));
    KAS_TRY(validate(r, r->twin, &out->trained_accuracy));
    const kas_replacement *replacement = r->train.programs->replacement;
    for (int t = 0; t < replacement->solution.targets; t++)
        if (kas_replacement_kernel(replacement, t)) {
            out->target[out->targets] = &replacement->target[t];
            out->missed[out->targets] = share(&r->imitated[out->targets]);
            out->targets++;
        }
    out->mean = mean_share(r);
    return KAS_OK;
}

/* ---- the network with kernels ---------------------------------------------------------------- */

/* Copies every parameter and running statistic, which the twins' network has under the same
 * name. */
static kas_status take_weights(run *r)
{
    const kas_params *from = kas_model_params(r->twin), *to = kas_model_params(r->model);
    for (int i = 0; i < to->count; i++) {
        float *values = malloc(sizeof *values * to->param[i].size);
        if (!values)
            return kas_fail(KAS_NO_MEMORY, "no memory for a copy of %s", to->param[i].name);
        kas_status status =
            kas_model_get(r->twin, kas_params_find_name(from, to->param[i].name), values);
        if (status == KAS_OK)
            status = kas_model_set(r->model, i, values);
        free(values);
        KAS_TRY(status);
    }
    return KAS_OK;
}

static kas_status settle_with(run *r, kas_plan *plan)
{
    const uint32_t each = kas_feed_steps(&r->train);
    for (uint32_t step = 0; step < SETTLE_STEPS; step++) {
        if (step % each == 0)
            KAS_TRY(begin_pass(r, r->model, (int)(step / each)));
        KAS_TRY(kas_feed_run(&r->feed, plan));
    }
    return KAS_OK;
}

/* Estimates the running statistics of batch norms again. */
static kas_status settle(run *r)
{
    kas_plan *plan = NULL;
    const kas_step_options options = {
        .mode = KAS_TAPE_TRAIN, .forward_only = true, .least_momentum = settle_momentum};
    KAS_TRY(record_training(r, r->model, options, &plan));
    const kas_status status = settle_with(r, plan);
    kas_plan_free(plan);
    return status;
}

static kas_status assemble(run *r, kas_imitate_result *out)
{
    KAS_TRY(take_weights(r));
    KAS_TRY(settle(r));
    if (!r->o->unscored)
        KAS_TRY(validate(r, r->model, &out->accuracy));
    return kas_trained_save(r->model, &r->train, r->trained_on);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static kas_status allocate(run *r, kas_imitate_result *out)
{
    const size_t twins = (size_t)r->twins.count;
    r->imitated = calloc(twins, sizeof *r->imitated);
    out->target = calloc(twins, sizeof *out->target);
    out->missed = calloc(twins, sizeof *out->missed);
    return r->imitated && out->target && out->missed
               ? KAS_OK
               : kas_fail(KAS_NO_MEMORY, "no memory for %zu targets", twins);
}

kas_status kas_imitate(kas_device *device, const kas_imitate_options *options,
                       kas_imitate_result *out)
{
    run r = {.o = options, .device = device, .train = options->train};
    kas_status status = KAS_OK;
    *out = (kas_imitate_result){0};
    r.train.recipe.ema = 0;
    KAS_TRY(kas_imitate_check(options));
    KAS_TRY(check_replaced(&r.train));
    KAS_TRY_GOTO(kas_trained_on(&r.train, r.trained_on), out); /* all that it may choose from */
    KAS_TRY_GOTO(choose_images(&r), out);
    KAS_TRY_GOTO(create_models(&r, &out->compile_seconds), out);
    out->memory = kas_model_memory(r.twin) + kas_model_memory(r.model);
    KAS_TRY_GOTO(kas_feed_create(device, &r.train, out->memory, &r.feed), out);
    out->memory += r.feed.layout.total;
    KAS_TRY_GOTO(allocate(&r, out), out);
    KAS_TRY_GOTO(learn(&r, out), out);
    if (!options->unscored)
        KAS_TRY_GOTO(score_twins(&r, out), out);
    status = assemble(&r, out);
out:
    kas_feed_free(&r.feed);
    kas_model_free(r.twin);
    kas_model_free(r.model);
    kas_twins_free(&r.twins);
    free(r.imitated);
    free(r.index);
    return status;
}

void kas_imitate_result_free(kas_imitate_result *result)
{
    free(result->target);
    free(result->missed);
    *result = (kas_imitate_result){0};
}
