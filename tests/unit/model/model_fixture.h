/* A model on a device and the float64 reference with the same parameters and the same batch, and
 * the comparison of one training step.  DEVICE chooses the device (cpu). */
#ifndef KAS_TESTS_UNIT_MODEL_MODEL_FIXTURE_H
#define KAS_TESTS_UNIT_MODEL_MODEL_FIXTURE_H

#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/core/random.h"
#include "host/model/model.h"
#include "host/reference/net/layers.h"
#include "ops/dtype.h"

static kas_device *device;
/* The dtype of the models that are made. */
static kas_precision the_precision;

static int open_device(void **state)
{
    (void)state;
    const char *spec = getenv("DEVICE");
    return kas_device_open(spec ? spec : "cpu", 1, &device) == KAS_OK ? 0 : -1;
}

static int close_device(void **state)
{
    (void)state;
    kas_device_close(device);
    return 0;
}

/* A model, the reference with the same parameters, and a batch for both. */
typedef struct pair {
    kas_net *net;
    kas_programs *programs; /* the model points to them */
    kas_model *model;
    kas_ref_net *ref;
    int n;
    float *images;
    double *images64;
    uint16_t *labels;
} pair;

static double *as_double(const float *x, size_t n)
{
    double *y = malloc(sizeof *y * n);
    assert_non_null(y);
    for (size_t i = 0; i < n; i++)
        y[i] = x[i];
    return y;
}

/* Sets the same values on both sides; not the initial ones of batch norm, whose gradients
 * would be special. */
static void set_parameters(pair *p, uint64_t seed)
{
    const kas_params *params = kas_model_params(p->model);
    assert_int_equal(params->count, p->ref->params);
    for (int i = 0; i < params->count; i++) {
        const kas_param *param = &params->param[i];
        kas_ref_param *ref = &p->ref->param[i];
        assert_string_equal(param->name, ref->name); /* PyTorch's names in PyTorch's order */
        assert_int_equal(param->size, ref->size);
        float *values = malloc(sizeof *values * param->size);
        assert_non_null(values);
        kas_param_init(param, seed, values);
        kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_TEST, 1000 + (uint64_t)i);
        for (size_t k = 0; k < param->size && param->init == KAS_INIT_CONSTANT; k++)
            values[k] += (float)(0.4 * (kas_rng_unit(&rng) - 0.5));
        assert_int_equal(kas_model_set(p->model, i, values), KAS_OK);
        for (size_t k = 0; k < param->size; k++)
            ref->value[k] = values[k];
        free(values);
    }
}

/* Gives `options` the programs of `replacement` on `arch`; free_programs frees them. */
static inline kas_programs *give_programs(kas_model_options *options,
                                          const kas_replacement *replacement, const char *arch)
{
    kas_programs *programs = calloc(1, sizeof *programs);
    assert_non_null(programs);
    OK(kas_model_build_programs(options, replacement, arch, programs));
    return options->programs = programs;
}

/* Frees what give_programs returned; NULL where a test gave its model none. */
static inline void free_programs(kas_programs *programs)
{
    if (programs)
        kas_programs_free(programs);
    free(programs);
}

/* Makes a pair; it takes over `net`. */
static pair make_pair_with(kas_net *net, const kas_replacement *replacement, int n,
                           const kas_recipe *recipe, bool recompute)
{
    pair p = {.n = n, .net = net};
    int h = net->layer[0].h, w = net->layer[0].w, c = net->layer[0].c;
    kas_model_options options = {.net = p.net,
                                 .batch = n,
                                 .training = true,
                                 .recipe = recipe,
                                 .recompute = recompute,
                                 .precision = the_precision};
    p.programs = give_programs(&options, replacement, kas_device_get_info(device)->arch);
    OK(kas_model_create(device, &options, &p.model));
    assert_int_equal(kas_ref_net_create_replaced(p.net, replacement, &p.ref), KAS_OK);
    set_parameters(&p, 3);
    p.ref->dropout_seed = 17;
    size_t size = (size_t)n * (size_t)c * (size_t)h * (size_t)w;
    /* These images bring no activation so near a kink that float32 takes the other branch: of five
     * seeds three do, in one network or another, and then a gradient is off by up to 1e-2. */
    kas_rng rng = kas_rng_make(6, KAS_PURPOSE_TEST, 0);
    p.images = malloc(sizeof *p.images * size);
    p.labels = malloc(sizeof *p.labels * (size_t)n);
    assert_true(p.images && p.labels);
    for (size_t i = 0; i < size; i++)
        p.images[i] = (float)kas_rng_normal(&rng);
    for (int i = 0; i < n; i++)
        p.labels[i] = (uint16_t)kas_rng_below(&rng, (uint32_t)net->classes);
    p.images64 = as_double(p.images, size);
    return p;
}

static inline pair make_pair_of(kas_net *net, const kas_replacement *replacement, int n)
{
    return make_pair_with(net, replacement, n, NULL, false);
}

static inline void free_pair(pair *p)
{
    kas_model_free(p->model);
    free_programs(p->programs);
    kas_ref_net_free(p->ref);
    kas_net_free(p->net);
    free(p->images);
    free(p->images64);
    free(p->labels);
}

/* Returns the length of the difference divided by that of the reference, which counts as at least
 * `floor`; NaN when anything is not finite. */
static double relative_to(const float *x, const double *ref, size_t n, double floor)
{
    double difference = 0, length = 0;
    for (size_t i = 0; i < n; i++) {
        difference += (x[i] - ref[i]) * (x[i] - ref[i]);
        length += ref[i] * ref[i];
    }
    return sqrt(difference) / fmax(sqrt(length), floor);
}

static double relative(const float *x, const double *ref, size_t n)
{
    return relative_to(x, ref, n, 1e-12);
}

/* Returns the length of all gradients together. A bias before a batch norm has a gradient of
 * nothing but rounding: compared with itself its error would be anything, so it is compared with a
 * ten-thousandth of this length. */
static double length_of_gradients(const kas_ref_net *net)
{
    double squares = 0;
    for (int i = 0; i < net->params; i++)
        for (size_t k = 0; net->param[i].grad && k < net->param[i].size; k++)
            squares += net->param[i].grad[k] * net->param[i].grad[k];
    return sqrt(squares);
}

/* The recipe with which the tests train, unless they say otherwise. */
static const kas_recipe usual_recipe = {
    .label_smoothing = 0.1, .momentum = 0.9, .weight_decay = 0.05};

static kas_plan *record_with(pair *p, kas_tape_mode mode, const kas_recipe *recipe,
                             const kas_step_row *rows)
{
    kas_step_options options = {
        .mode = mode, .recipe = recipe, .dropout_seed = p->ref->dropout_seed, .rows = rows};
    kas_plan *plan = NULL;
    OK(kas_model_record(p->model, &options, &plan));
    return plan;
}

static kas_plan *record(pair *p, kas_tape_mode mode)
{
    return record_with(p, mode, &usual_recipe, NULL);
}

static void check_gradients(pair *p, const char *name, double tolerance)
{
    const kas_params *params = kas_model_params(p->model);
    double worst = 0, floor = 1e-4 * length_of_gradients(p->ref);
    const char *which = "";
    for (int i = 0; i < params->count; i++) {
        const kas_param *param = &params->param[i];
        if (param->kind == KAS_PARAM_STATISTIC)
            continue;
        float *gradient = malloc(sizeof *gradient * param->size);
        assert_non_null(gradient);
        for (size_t k = 0; k < param->size; k++)
            gradient[k] = NAN;
        assert_int_equal(kas_model_get_gradient(p->model, i, gradient), KAS_OK);
        double error = relative_to(gradient, p->ref->param[i].grad, param->size, floor);
        if (!(error <= worst)) {
            worst = error;
            which = param->name;
        }
        free(gradient);
    }
    print_message("%s: largest relative error of a gradient %.2e (%s), tolerance %.0e\n", name,
                  worst, which, tolerance);
    assert_true(worst <= tolerance);
}

static void check_running(pair *p, const char *name, double tolerance)
{
    const kas_params *params = kas_model_params(p->model);
    double worst = 0;
    for (int i = 0; i < params->count; i++) {
        const kas_param *param = &params->param[i];
        float values[1024];
        if (param->kind != KAS_PARAM_STATISTIC)
            continue;
        assert_true(param->size <= 1024);
        assert_int_equal(kas_model_get(p->model, i, values), KAS_OK);
        double error = relative(values, p->ref->param[i].value, param->size);
        worst = error <= worst ? worst : error;
    }
    print_message("%s: largest relative error of running statistics %.2e, tolerance %.0e\n", name,
                  worst, tolerance);
    assert_true(worst <= tolerance);
}

/* Compares one training step of both sides: loss, logits, every gradient, running
 * statistics. `tolerance` is that of the gradients; logits have a tenth of it, loss and
 * statistics a hundredth. */
static inline void check_step(pair *q, const char *name, double tolerance)
{
    pair p = *q;
    int n = p.n;
    double *logits64 = malloc(sizeof *logits64 * (size_t)n * 10), loss;
    float *logits = malloc(sizeof *logits * (size_t)n * 10);
    const kas_metrics zero = {0};
    kas_metrics metrics;
    assert_true(logits64 && logits);
    assert_int_equal(kas_ref_net_step(p.ref, n, p.images64, p.labels, 0.1, &loss, logits64),
                     KAS_OK);
    kas_plan *plan = record(&p, KAS_TAPE_TRAIN);
    assert_int_equal(kas_model_set_metrics(p.model, &zero), KAS_OK);
    assert_int_equal(kas_model_set_batch(p.model, KAS_TAPE_TRAIN, p.images, p.labels), KAS_OK);
    assert_int_equal(kas_plan_run(plan), KAS_OK);
    assert_int_equal(kas_model_get_metrics(p.model, &metrics), KAS_OK);
    assert_int_equal(kas_model_get_logits(p.model, KAS_TAPE_TRAIN, logits), KAS_OK);
    double error = fabs(metrics.batch_loss - loss),
           wrong = relative(logits, logits64, 10 * (size_t)n);
    print_message("%s: loss %.6f, error %.2e, tolerance %.0e; logits %.2e, tolerance %.0e\n", name,
                  loss, error, tolerance / 100, wrong, tolerance / 10);
    assert_true(error <= tolerance / 100);
    assert_true(wrong <= tolerance / 10);
    assert_int_equal(metrics.counted, n);
    check_gradients(&p, name, tolerance);
    check_running(&p, name, tolerance / 100);
    kas_plan_free(plan);
    free(logits);
    free(logits64);
}

/* ---- 16 bits --------------------------------------------------------------------------------- */

/* Returns the length of the error of all gradients divided by the length of all
 * gradients; NaN stays. */
static inline double error_of_gradients(pair *p)
{
    const kas_params *params = kas_model_params(p->model);
    double squares = 0;
    for (int i = 0; i < params->count; i++) {
        const kas_param *param = &params->param[i];
        if (param->kind == KAS_PARAM_STATISTIC)
            continue;
        float *gradient = malloc(sizeof *gradient * param->size);
        assert_non_null(gradient);
        assert_int_equal(kas_model_get_gradient(p->model, i, gradient), KAS_OK);
        for (size_t k = 0; k < param->size; k++) {
            const double off = gradient[k] - p->ref->param[i].grad[k];
            squares += off * off;
        }
        free(gradient);
    }
    return sqrt(squares) / length_of_gradients(p->ref);
}

/* Compares one step of both sides. `most` is the allowed error of loss, logits and gradients, in
 * roundings of the dtype; each layer rounds a few times, and a ReLU near its kink may take the
 * other branch. */
static inline void check_small(pair *p, const char *name, double most)
{
    const double epsilon = number_epsilon(kas_precision_dtype(the_precision));
    const size_t count = 10 * (size_t)p->n;
    double *logits64 = malloc(sizeof *logits64 * count), loss;
    float *logits = malloc(sizeof *logits * count);
    const kas_metrics zero = {0};
    kas_metrics metrics;
    assert_true(logits64 && logits);
    assert_int_equal(kas_ref_net_step(p->ref, p->n, p->images64, p->labels, 0.1, &loss, logits64),
                     KAS_OK);
    kas_plan *plan = record(p, KAS_TAPE_TRAIN);
    /* As it is after a few steps: libraries write gradients of weights in float16, where 65536
     * times those of so few images may be infinite. */
    if (the_precision == KAS_PRECISION_FP16)
        assert_int_equal(kas_model_set_scale(p->model, (kas_loss_scale){.scale = 1024}), KAS_OK);
    assert_int_equal(kas_model_set_metrics(p->model, &zero), KAS_OK);
    assert_int_equal(kas_model_set_batch(p->model, KAS_TAPE_TRAIN, p->images, p->labels), KAS_OK);
    assert_int_equal(kas_plan_run(plan), KAS_OK);
    assert_int_equal(kas_model_get_metrics(p->model, &metrics), KAS_OK);
    assert_int_equal(kas_model_get_logits(p->model, KAS_TAPE_TRAIN, logits), KAS_OK);
    const double off[3] = {fabs(metrics.batch_loss - loss), relative(logits, logits64, count),
                           error_of_gradients(p)};
    print_message(
        "%s in %s: loss off by %.2f roundings of %.1e, logits by %.1f, at most 10; gradients "
        "by %.3f, at most %.3f\n",
        name, kas_dtype_names[kas_precision_dtype(the_precision)], off[0] / epsilon, epsilon,
        off[1] / epsilon, off[2], most);
    assert_true(off[0] <= 10 * epsilon);
    assert_true(off[1] <= 10 * epsilon);
    assert_true(off[2] <= most);
    kas_plan_free(plan);
    free(logits);
    free(logits64);
}

/* Makes a network of twenty layers with ReLU. */
static inline double through_kinks(void)
{
    return 4 * sqrt(number_epsilon(kas_precision_dtype(the_precision)));
}

#endif
