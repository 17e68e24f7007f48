#include "host/assemble/fbnet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/assemble/supernet.h"
#include "host/core/file/files.h"
#include "host/core/random.h"
#include "host/data/order.h"
#include "host/model/model.h"
#include "host/train/feed.h"

/* theta's Adam, as FBNet has it. */
static const double rate = 0.01, decay = 5e-4, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
static const double share_of_weights = 0.8, last_tau = 0.01742237; /* exp(-0.045 * 90) */

typedef struct saved {
    uint64_t size; /* of the whole file */

    uint32_t epochs, steps; /* done: of all, of Adam */
} saved;

typedef struct run {
    const kas_fbnet_options *o;
    kas_device *device;
    kas_supernet net;
    kas_programs programs;
    kas_model *model;
    kas_train_options train[2]; /* of the weights, of theta */
    kas_feed feed[2];
    kas_plan *plan[2];
    uint32_t *index;               /* the images of both, in random order */
    int count;                     /* targets * options */
    double *theta, *mean, *square; /* [count]: theta, and Adam's moments */
    double *weight, *slope;        /* [count] of the present step */
    int *param;                    /* [count] of the gates; -1 = none */
    float *values;                 /* scratch: a gate */
    double latency;                /* microseconds, of the present weights */
    saved done;
} run;

/* ---- the relaxed choice ---------------------------------------------------------------------- */

void kas_fbnet_softmax(const double *theta, const double *noise, int options, double tau,
                       double *weight)
{
    double most = -INFINITY, sum = 0;
    for (int i = 0; i < options; i++) {
        weight[i] = isfinite(theta[i]) ? (theta[i] + (noise ? noise[i] : 0)) / tau : -INFINITY;
        most = fmax(most, weight[i]);
    }
    for (int i = 0; i < options; i++)
        sum += weight[i] = exp(weight[i] - most);
    for (int i = 0; i < options; i++)
        weight[i] /= sum;
}

void kas_fbnet_through_softmax(const double *weight, const double *slope, int options, double tau,
                               double *gradient)
{
    double mean = 0;
    for (int i = 0; i < options; i++)
        mean += weight[i] * slope[i];
    for (int i = 0; i < options; i++)
        gradient[i] = weight[i] * (slope[i] - mean) / tau;
}

static double cost_at(const run *r, int i)
{
    return r->param[i] < 0 ? 0 : 1e6 * r->o->option[i].cost;
}

/* Draws the weights of a step, gives them to the gates, and adds up the latency. `stream` numbers
 * the steps. */
static kas_status draw_weights(run *r, uint32_t stream, double tau)
{
    const int options = r->net.options;
    kas_rng rng = kas_rng_make(r->o->train.seed, KAS_PURPOSE_BLOCK, (uint64_t)stream + 1);
    double noise[KAS_CHOICES_KERNELS + 1];
    r->latency = 1e6 * r->o->unmodified;
    for (int i = 0; i < r->count; i++) {
        noise[i % options] = -log(-log(fmax(kas_rng_unit(&rng), 1e-12)));
        if (i % options == options - 1) {
            const int first = i - options + 1;
            kas_fbnet_softmax(&r->theta[first], noise, options, tau, &r->weight[first]);
        }
    }
    for (int i = 0; i < r->count; i++) {
        if (r->param[i] < 0)
            continue;
        const size_t size = kas_model_params(r->model)->param[r->param[i]].size;
        for (size_t k = 0; k < size; k++)
            r->values[k] = (float)r->weight[i];
        r->latency += r->weight[i] * cost_at(r, i);
        KAS_TRY(kas_model_set(r->model, r->param[i], r->values));
    }
    return KAS_OK;
}

static double tau_of(const run *r, uint32_t epoch)
{
    const int epochs = r->o->train.recipe.epochs;
    return KAS_FBNET_TAU * pow(last_tau, epochs > 1 ? (double)epoch / (epochs - 1) : 0);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static kas_status run_step(run *r, int which, uint32_t step, double *loss)
{
    const kas_train_options *t = &r->train[0];
    kas_metrics metrics;
    KAS_TRY(kas_feed_run(&r->feed[which], r->plan[which]));
    KAS_TRY(kas_model_get_metrics(r->model, &metrics));
    *loss = metrics.batch_loss;
    if (!isfinite(*loss) || metrics.not_finite.parameters)
        return kas_fail(KAS_NOTHING_VALID,
                        "FBNet: the supernet diverged in epoch %u; try a smaller --lr than %g",
                        r->done.epochs + 1, t->recipe.lr);
    const uint32_t first = kas_feed_steps(&r->train[0]),
                   each = first + kas_feed_steps(&r->train[1]);
    const uint64_t done = (uint64_t)r->done.epochs * each + (which ? first : 0) + step;
    if (t->on_progress &&
        t->on_progress(t->context, done, (uint64_t)t->recipe.epochs * each, *loss) != KAS_CONTINUE)
        return kas_fail(KAS_INTERRUPTED, "%s", "");
    return KAS_OK;
}

/* Gets the slope of the loss over the weight of each option. */
static kas_status get_slopes(run *r, double ce)
{
    const double log_latency = log(r->latency);
    const double factor = KAS_FBNET_ALPHA * pow(log_latency, KAS_FBNET_BETA);
    const double by_latency = ce * factor * KAS_FBNET_BETA / (log_latency * r->latency);
    for (int i = 0; i < r->count; i++) {
        double sum = 0;
        r->slope[i] = 0;
        if (r->param[i] < 0)
            continue;
        const size_t size = kas_model_params(r->model)->param[r->param[i]].size;
        KAS_TRY(kas_model_get_gradient(r->model, r->param[i], r->values));
        for (size_t k = 0; k < size; k++)
            sum += (double)r->values[k];
        r->slope[i] = factor * sum + by_latency * cost_at(r, i);
    }
    return KAS_OK;
}

static bool slopes_are_finite(const run *r)
{
    for (int i = 0; i < r->count; i++)
        if (!isfinite(r->slope[i]))
            return false;
    return true;
}

static void step_theta(run *r, double tau)
{
    const int options = r->net.options;
    double gradient[KAS_CHOICES_KERNELS + 1];
    const double n = ++r->done.steps;
    for (int first = 0; first < r->count; first += options) {
        kas_fbnet_through_softmax(&r->weight[first], &r->slope[first], options, tau, gradient);
        for (int i = first; i < first + options; i++) {
            if (r->param[i] < 0)
                continue;
            const double g = gradient[i - first] + decay * r->theta[i];
            r->mean[i] = beta1 * r->mean[i] + (1 - beta1) * g;
            r->square[i] = beta2 * r->square[i] + (1 - beta2) * g * g;
            r->theta[i] -= rate * r->mean[i] / (1 - pow(beta1, n)) /
                           (sqrt(r->square[i] / (1 - pow(beta2, n))) + epsilon);
        }
    }
}

/* Runs one epoch of the weights (0) or of theta (1). */
static kas_status run_phase(run *r, int which)
{
    const uint32_t epoch = r->done.epochs, steps = kas_feed_steps(&r->train[which]);
    const double tau = tau_of(r, epoch);
    const kas_step_state state = {.step = epoch * steps, .epoch = epoch};
    KAS_TRY(kas_feed_begin_training(&r->feed[which], (int)epoch, 0));
    KAS_TRY(kas_model_set_state(r->model, state));
    for (uint32_t s = 0; s < steps; s++) {
        double loss;
        KAS_TRY(draw_weights(r, (epoch * steps + s) * 2 + (uint32_t)which, tau));
        KAS_TRY(run_step(r, which, s, &loss));
        if (which == 0)
            continue;
        KAS_TRY(get_slopes(r, loss));
        if (slopes_are_finite(r)) /* in float16 the loss's scale overflows now and then */
            step_theta(r, tau);
    }
    return KAS_OK;
}

/* ---- what is saved --------------------------------------------------------------------------- */

static kas_status save(run *r)
{
    const size_t kept = kas_model_kept(r->model), numbers = sizeof(double) * 3 * (size_t)r->count;
    char *file = malloc(sizeof r->done + numbers + kept);
    if (!r->o->train.checkpoint || !file) {
        free(file);
        return file ? KAS_OK : kas_fail(KAS_NO_MEMORY, "no memory for a checkpoint");
    }
    r->done.size = sizeof r->done + numbers + kept;
    memcpy(file, &r->done, sizeof r->done);
    memcpy(file + sizeof r->done, r->theta, numbers);
    kas_status status = kas_model_download(r->model, file + sizeof r->done + numbers);
    if (status == KAS_OK)
        status = kas_file_write_atomic(r->o->train.checkpoint, file, r->done.size);
    free(file);
    return status;
}

/* Goes on from the file if there is one. */
static kas_status restore(run *r)
{
    const size_t numbers = sizeof(double) * 3 * (size_t)r->count,
                 size = sizeof r->done + numbers + kas_model_kept(r->model);
    const char *path = r->o->train.checkpoint;
    kas_buf file = {0};
    if (!path || !kas_file_exists(path))
        return KAS_OK;
    kas_status status = kas_file_read(path, size, &file);
    saved found = {0};
    if (status == KAS_OK && file.size == size)
        memcpy(&found, file.data, sizeof found);
    if (status == KAS_OK && found.size != size)
        status = kas_fail(KAS_BAD_INPUT,
                          "%s: this is not the checkpoint of this supernet; remove it", path);
    if (status == KAS_OK) {
        r->done = found;
        memcpy(r->theta, file.data + sizeof r->done, numbers);
        status = kas_model_upload(r->model, file.data + sizeof r->done + numbers);
    }
    kas_buf_free(&file);
    return status;
}

/* ---- all ------------------------------------------------------------------------------------- */

static kas_status split_images(run *r)
{
    const kas_train_options *t = &r->o->train;
    const uint32_t weights = (uint32_t)(share_of_weights * t->train_count);
    r->index = malloc(sizeof *r->index * ((size_t)t->train_count + 1));
    if (!r->index)
        return kas_fail(KAS_NO_MEMORY, "no memory for the order of %u images", t->train_count);
    KAS_TRY(kas_epoch_order(t->seed, UINT32_MAX, KAS_SHUFFLE_FULL, t->train_index, t->train_count,
                            r->index));
    for (int which = 0; which < 2; which++) {
        r->train[which] = *t;
        r->train[which].net = r->net.net;
        r->train[which].programs = &r->programs;
        r->train[which].recipe.ema = 0;
        r->train[which].train_index = r->index + (which ? weights : 0);
        r->train[which].train_count = which ? t->train_count - weights : weights;
        KAS_TRY(kas_feed_check(&r->train[which]));
    }
    return KAS_OK;
}

static kas_status allocate(run *r)
{
    r->count = r->net.targets * r->net.options;
    r->theta = calloc((size_t)r->count * 5, sizeof *r->theta);
    r->param = malloc(sizeof *r->param * (size_t)r->count);
    if (!r->theta || !r->param)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d options", r->count);
    r->mean = r->theta + r->count;
    r->square = r->mean + r->count;
    r->weight = r->square + r->count;
    r->slope = r->weight + r->count;
    size_t most = 1;
    for (int i = 0; i < r->count; i++) {
        const kas_params *params = kas_model_params(r->model);
        r->param[i] = r->net.gate[i] < 0 ? -1 : kas_params_find(params, r->net.gate[i], 0);
        if (r->param[i] < 0)
            r->theta[i] = NAN;
        else if (params->param[r->param[i]].size > most)
            most = params->param[r->param[i]].size;
    }
    r->values = malloc(sizeof *r->values * most);
    return r->values ? KAS_OK : kas_fail(KAS_NO_MEMORY, "no memory for a gate");
}

static kas_status create(run *r)
{
    const kas_recipe *recipe = &r->train[0].recipe;
    const kas_precision precision = (kas_precision)recipe->precision;
    kas_model_options options = {.batch = recipe->batch, .training = true, .precision = precision};
    KAS_TRY(kas_model_build_programs(&options, &r->net.replacement,
                                     kas_device_get_info(r->device)->arch, &r->programs));
    options.net = r->net.net;
    options.programs = &r->programs;
    options.recipe = recipe;
    options.cache_dir = r->o->train.cache_dir;
    KAS_TRY(kas_model_create(r->device, &options, &r->model));
    KAS_TRY(kas_model_init(r->model, r->o->train.seed));
    if (r->o->train.weights_in)
        KAS_TRY(kas_model_load(r->model, r->o->train.weights_in, true));
    KAS_TRY(allocate(r));
    size_t beside = kas_model_memory(r->model);
    for (int which = 0; which < 2; which++) {
        KAS_TRY(kas_feed_create(r->device, &r->train[which], beside, &r->feed[which]));
        beside += r->feed[which].layout.total;
        if (which)
            r->feed[which].train.rows = NULL; /* theta learns from images that are not mixed */
        const kas_step_options step = {.mode = KAS_TAPE_TRAIN,
                                       .images = &r->feed[which].train,
                                       .recipe = recipe,
                                       .rows = which ? NULL : r->feed[which].rows,
                                       .dropout_seed = r->o->train.seed};
        KAS_TRY(kas_model_record(r->model, &step, &r->plan[which]));
    }
    return KAS_OK;
}

static kas_status learn(run *r)
{
    const uint32_t epochs = (uint32_t)r->o->train.recipe.epochs;
    const kas_metrics zero = {0};
    KAS_TRY(kas_model_set_metrics(r->model, &zero));
    while (r->done.epochs < epochs) {
        KAS_TRY(run_phase(r, 0));
        if (10 * (r->done.epochs + 1) > epochs)
            KAS_TRY(run_phase(r, 1));
        r->done.epochs++;
        KAS_TRY(save(r));
    }
    return KAS_OK;
}

static void release(run *r)
{
    for (int which = 0; which < 2; which++) {
        kas_plan_free(r->plan[which]);
        kas_feed_free(&r->feed[which]);
    }
    kas_model_free(r->model);
    kas_programs_free(&r->programs);
    kas_supernet_free(&r->net);
    free(r->theta);
    free(r->param);
    free(r->values);
    free(r->index);
}

kas_status kas_fbnet(kas_device *device, const kas_fbnet_options *options, double *theta)
{
    run r = {.o = options, .device = device};
    kas_status status = KAS_OK;
    KAS_TRY_GOTO(kas_supernet_create(options->choices, &r.net), out);
    KAS_TRY_GOTO(split_images(&r), out);
    KAS_TRY_GOTO(create(&r), out);
    KAS_TRY_GOTO(restore(&r), out);
    KAS_TRY_GOTO(learn(&r), out);
    memcpy(theta, r.theta, sizeof *theta * (size_t)r.count);
out:
    release(&r);
    return status;
}
