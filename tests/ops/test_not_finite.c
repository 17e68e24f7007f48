/* Numbers that are not finite, one in each place where they can be: the word that the device sets
 * agrees with the float64 reference's own verdict on its own results. */
#include "op_case.h"

#include <float.h>

#include "host/reference/net/layers.h"
#include "support/reference_update.h"

static const double planted[] = {0, NAN, -INFINITY}; /* 0: nothing is */
#define EACH_PLANTED(p) for (size_t p = 0; p < sizeof planted / sizeof *planted; p++)

static uint32_t *new_word(void)
{
    const uint32_t zero = 0;
    return upload(&zero, sizeof zero);
}

static uint32_t word(const uint32_t *memory)
{
    uint32_t value;
    OK(kas_mem_download(the_device, &value, memory, sizeof value));
    return value;
}

/* Both verdicts; what is planted must show, or neither would prove anything. */
static void agree(const char *what, uint32_t found, size_t wrong, bool expected)
{
    if (found != (wrong > 0) || (wrong > 0) != expected)
        fail_msg("%s: the device says %u, the reference finds %zu, expected %s", what, found, wrong,
                 expected ? "some" : "none");
}

/* ---- optimisers ------------------------------------------------------------------------------ */

enum { IN_PARAMETER, IN_GRADIENT, IN_MOMENT, PLACES };

typedef struct step_case {
    int optimiser;
    size_t count, at; /* where it is planted */
    int place;
    double value;
    bool skipped; /* over float16 */
} step_case;

static void reference_step(const step_case *c, const kas_recipe *r, double *param, double *first,
                           double *second, const double *grad)
{
    const kas_ref_adamw adamw = {r->lr, r->beta1, r->beta2, r->epsilon, 0.01, 1};
    if (c->skipped)
        return;
    if (c->optimiser == KAS_ADAMW)
        kas_ref_adamw_step(&adamw, c->count, grad, first, second, param);
    else
        kas_ref_sgd(c->count, r->lr, r->momentum, c->optimiser == KAS_NESTEROV, 0.01, grad, first,
                    param);
}

static void run_step(const step_case *c)
{
    const kas_recipe recipe = {.optimiser = c->optimiser,
                               .momentum = 0.9,
                               .beta1 = 0.9,
                               .beta2 = 0.99,
                               .epsilon = 1e-6,
                               .lr = 0.1};
    const kas_step_row row = {.lr = 0.1f, .correction1 = 10, .correction2 = 10, .renew = 0.5f};
    const kas_step_state begin = {0};
    const double factor = c->skipped ? 0 : 1;
    double *param = random_values(c->count, 1), *first = random_values(c->count, 2),
           *second = random_values(c->count, 3), *grad = random_values(c->count, 4),
           *average = random_values(c->count, 5), *decay = random_values(c->count / 64, 6);
    for (size_t i = 0; i < c->count; i++) {
        second[i] = fabs(second[i]);
        decay[i / KAS_UPDATE_GROUP] = 0.01;
    }
    double *const in[PLACES] = {param, grad, first};
    if (c->value != 0)
        in[c->place][c->at] = c->value;
    kas_update u = {
        .recipe = &recipe,
        .param = array_to_device(param, c->count),
        .first = array_to_device(first, c->count),
        .second = array_to_device(second, c->count),
        .grad = array_to_device(grad, c->count),
        .decay = array_to_device(decay, c->count / KAS_UPDATE_GROUP),
        .grad_scale = array_to_device(&factor, 1),
        .count = c->count,
        .rows = upload(&row, sizeof row),
        .state = upload(&begin, sizeof begin),
        .dtype = the_dtype,
        .copy = the_dtype ? numbers_to_device(the_dtype, NULL, 1, 1, 1, (int)c->count, 1) : NULL,
        .watch = new_word()};
    const kas_average a = {
        array_to_device(average, c->count), u.param, c->count, u.rows, u.state, new_word()};
    kas_plan *plan = new_plan();
    OK(kas_op_update(the_ops, plan, &u));
    OK(kas_op_average(the_ops, plan, &a));
    run_plan();
    reference_step(c, &recipe, param, first, second, grad);
    for (size_t i = 0; i < c->count; i++)
        average[i] += 0.5 * (param[i] - average[i]);
    const bool seen = c->value != 0 && !c->skipped;
    agree("parameters", word(u.watch), kas_ref_not_finite(c->count, param), seen);
    agree("average", word(a.watch), kas_ref_not_finite(c->count, average), seen);
    FREE(u.param, u.first, u.second, (void *)u.grad, (void *)u.decay, (void *)u.grad_scale,
         (void *)u.rows, (void *)u.state, u.copy, u.watch, a.average, a.watch);
    free(param), free(first), free(second), free(grad), free(average), free(decay);
}

/* Several blocks with a short last one; the first number and the last. */
TEST(parameters_are_watched)
{
    const size_t count = 1024 * 2 + 192;
    EACH_ORDER(order)
    EACH_PLANTED(p)
    for (int optimiser = KAS_NESTEROV; optimiser <= KAS_ADAMW; optimiser++)
        for (int place = 0; place < (planted[p] != 0 ? PLACES : 1); place++)
            for (int last = 0; last < (planted[p] != 0 ? 2 : 1); last++)
                run_step(
                    &(step_case){optimiser, count, last ? count - 1 : 0, place, planted[p], false});
}

/* Over float16 a factor of 0 stands for a gradient that was not finite: nothing is written. */
TEST(skipped_steps_do_not_count)
{
    if (the_dtype != KAS_F16)
        return;
    EACH_ORDER(order)
    EACH_PLANTED(p)
    for (int optimiser = KAS_NESTEROV; optimiser <= KAS_ADAMW; optimiser++)
        run_step(&(step_case){optimiser, 1088, 1087, IN_GRADIENT, planted[p], true});
}

/* The largest float is a number; twice as much is not. */
TEST(an_overflow_is_seen)
{
    const kas_step_row row = {.lr = 1, .correction1 = 1, .correction2 = 1};
    const kas_recipe recipe = {.optimiser = KAS_SGD};
    const kas_step_state begin = {0};
    for (int twice = 0; twice < 2; twice++) {
        double param[64] = {[63] = twice ? FLT_MAX : 0}, zero[64] = {0}, grad[64] = {0};
        grad[63] = -FLT_MAX;
        kas_update u = {.recipe = &recipe,
                        .param = array_to_device(param, 64),
                        .first = array_to_device(zero, 64),
                        .grad = array_to_device(grad, 64),
                        .decay = array_to_device(zero, 1),
                        .count = 64,
                        .rows = upload(&row, sizeof row),
                        .state = upload(&begin, sizeof begin),
                        .dtype = the_dtype,
                        .copy =
                            the_dtype ? numbers_to_device(the_dtype, NULL, 1, 1, 1, 64, 1) : NULL,
                        .watch = new_word()};
        kas_plan *plan = new_plan();
        OK(kas_op_update(the_ops, plan, &u));
        run_plan();
        kas_ref_sgd(64, 1, 0, false, 0, grad, zero, param);
        agree("overflow", word(u.watch), kas_ref_not_finite(64, param), twice);
        FREE(u.param, u.first, (void *)u.grad, (void *)u.decay, (void *)u.rows, (void *)u.state,
             u.copy, u.watch);
    }
}

/* ---- running statistics ---------------------------------------------------------------------- */

enum { IN_MEAN, IN_VARIANCE, IN_IMAGE, STATISTICS_PLACES };

static void run_norm(int channels, int at, int place, double value)
{
    const int n = 2, h = 5, w = 7;
    const size_t size = (size_t)n * channels * h * w;
    double *x = random_values(size, 1), *y = nan_values(size), *gamma = random_values(channels, 2),
           *mean = random_values(channels, 3), *var = random_values(channels, 4),
           *saved_mean = nan_values(channels), *saved_rstd = nan_values(channels);
    for (int k = 0; k < channels; k++)
        var[k] = fabs(var[k]);
    double *const in[STATISTICS_PLACES] = {mean + at, var + at, x + (size_t)at * h * w};
    if (value != 0)
        *in[place] = value;
    kas_batch_norm norm = {.x = make_tensor(x, n, channels, h, w),
                           .y = make_tensor(NULL, n, channels, h, w),
                           .activation = KAS_ACTIVATION_RELU,
                           .eps = 1e-5f,
                           .momentum = 0.1f,
                           .gamma = array_to_device(gamma, channels),
                           .beta = array_to_device(gamma, channels),
                           .running_mean = array_to_device(mean, channels),
                           .running_var = array_to_device(var, channels),
                           .saved_mean = array_to_device(NULL, channels),
                           .saved_rstd = array_to_device(NULL, channels),
                           .watch = new_word()};
    norm.scratch = array_to_device(NULL, kas_batch_norm_scratch(&norm.x));
    kas_plan *plan = new_plan();
    OK(kas_op_batch_norm_forward(the_ops, plan, &norm));
    run_plan();
    kas_ref_batch_norm_forward(n, channels, h, w, 1e-5, 0.1, x, gamma, gamma, mean, var, saved_mean,
                               saved_rstd, y);
    agree("running statistics", word(norm.watch),
          kas_ref_not_finite(channels, mean) + kas_ref_not_finite(channels, var), value != 0);
    FREE(norm.x.data, norm.y.data, (void *)norm.gamma, (void *)norm.beta, norm.running_mean,
         norm.running_var, norm.saved_mean, norm.saved_rstd, norm.scratch, norm.watch);
    free(x), free(y), free(gamma), free(mean), free(var), free(saved_mean), free(saved_rstd);
}

TEST(running_statistics_are_watched)
{
    static const int channels[] = {3, 130};
    EACH_OF_CHANNELS(c, channels)
    EACH_ORDER(order)
    EACH_PLANTED(p)
    for (int place = 0; place < STATISTICS_PLACES; place++) {
        run_norm((int)c, 0, place, planted[p]);
        run_norm((int)c, (int)c - 1, place, planted[p]);
    }
}

/* ---- logits ---------------------------------------------------------------------------------- */

typedef struct logits_case {
    int classes, image, at;
    double value;
    bool padding, training; /* then nobody asks */
} logits_case;

static void run_logits(const logits_case *c)
{
    const int n = 3;
    const size_t count = (size_t)n * c->classes;
    double *logits = random_values(count, 1);
    uint16_t labels[3] = {0, 1, 1};
    if (c->padding)
        labels[c->image] = KAS_NO_LABEL;
    if (c->value != 0)
        logits[(size_t)c->image * c->classes + c->at] = c->value;
    const kas_metrics zero = {0};
    kas_metrics *metrics = upload(&zero, sizeof zero), got;
    const kas_dtype dtype = the_dtype;
    the_dtype = KAS_F32;
    kas_tensor z = make_tensor(logits, n, c->classes, 1, 1), dz = {0};
    if (c->training)
        dz = make_tensor(NULL, n, c->classes, 1, 1);
    the_dtype = dtype;
    uint16_t *on_device = upload(labels, sizeof labels);
    float *scratch = array_to_device(NULL, 2 * (size_t)n);
    kas_plan *plan = new_plan();
    OK(kas_op_cross_entropy(the_ops, plan, z, on_device, 0.1, NULL, dz, NULL, metrics, scratch));
    run_plan();
    OK(kas_mem_download(the_device, &got, metrics, sizeof got));
    const size_t wrong = kas_ref_not_finite(count, logits);
    const bool asked = !c->padding && !c->training;
    agree("logits", got.not_finite.logits, asked ? wrong : 0, asked && !isfinite(c->value));
    assert_int_equal(got.not_finite.parameters + got.not_finite.statistics, 0);
    FREE(z.data, dz.data, on_device, metrics, scratch);
    free(logits);
}

TEST(logits_are_watched)
{
    static const int classes[] = {5, 300};
    EACH_ORDER(order)
    EACH_PLANTED(p)
    for (int i = 0; i < 4; i++) {
        const int last = classes[i / 2] - 1;
        logits_case c = {classes[i / 2], i % 2 ? 2 : 0, i % 2 ? last : 0, planted[p], false, false};
        run_logits(&c);
        c.padding = true;
        run_logits(&c);
        c.padding = false, c.training = true;
        run_logits(&c);
    }
}

/* Their sum, their difference and the loss overflow; they themselves are numbers. */
TEST(large_logits_are_finite)
{
    static const double large[] = {FLT_MAX, -FLT_MAX};
    EACH_ORDER(order)
    for (int i = 0; i < 2; i++)
        run_logits(&(logits_case){5, 1, 4, large[i], false, false});
}

RUN_FOR_EACH_DTYPE(open_the_ops, close_the_ops)
