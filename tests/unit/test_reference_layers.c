/* Float64 layers: small examples worked out by hand, and finite differences of every layer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "host/reference/layers.h"
#include "finite_difference.h"

#define TOLERANCE 1e-8
#define MOST 512

/* loss = sum(dy * layer(x, weight, bias)): enough for every layer that has one output. */
typedef struct layer_case {
    const char *name;
    int x_size, weight_size, bias_size, y_size;
    void (*forward)(const double *x, const double *weight, const double *bias, double *y);
    void (*backward)(const double *x, const double *weight, const double *dy, double *dx,
                     double *dweight, double *dbias);
} layer_case;

typedef struct run {
    const layer_case *layer;
    double x[MOST], weight[MOST], bias[MOST], dy[MOST];
} run;

static double weighted_sum(void *context)
{
    run *r = context;
    double y[MOST];
    fd_nan(y, MOST);
    r->layer->forward(r->x, r->weight, r->bias, y);
    return fd_dot(y, r->dy, r->layer->y_size);
}

static double layer_error(const layer_case *layer)
{
    static run r;
    double dx[MOST], dweight[MOST], dbias[MOST];
    r.layer = layer;
    fd_random(r.x, MOST, 1);
    fd_random(r.weight, MOST, 2);
    fd_random(r.bias, MOST, 3);
    fd_random(r.dy, MOST, 4);
    fd_nan(dx, MOST);
    fd_nan(dweight, MOST);
    fd_nan(dbias, MOST);
    layer->backward(r.x, r.weight, r.dy, dx, dweight, dbias);
    fd_array arrays[] = {{"x", r.x, dx, layer->x_size},
                         {"weight", r.weight, dweight, layer->weight_size},
                         {"bias", r.bias, dbias, layer->bias_size}};
    return fd_worst(weighted_sum, &r, arrays, 3);
}

static void conv_f(const double *x, const double *w, const double *b, double *y)
{
    (void)b;
    kas_ref_conv_forward(2, 4, 5, 4, 6, 3, 3, 2, 1, 1, 2, x, w, y);
}
static void conv_b(const double *x, const double *w, const double *dy, double *dx, double *dw,
                   double *db)
{
    (void)db;
    kas_ref_conv_backward(2, 4, 5, 4, 6, 3, 3, 2, 1, 1, 2, x, w, dy, dx, dw);
}
static void narrow_f(const double *x, const double *w, const double *b, double *y)
{
    (void)b;
    kas_ref_conv_forward(1, 2, 4, 7, 3, 1, 5, 1, 0, 2, 1, x, w, y);
}
static void narrow_b(const double *x, const double *w, const double *dy, double *dx, double *dw,
                     double *db)
{
    (void)db;
    kas_ref_conv_backward(1, 2, 4, 7, 3, 1, 5, 1, 0, 2, 1, x, w, dy, dx, dw);
}
static void norm_f(const double *x, const double *w, const double *b, double *y)
{
    double mean[3] = {0}, var[3] = {1, 1, 1}, saved_mean[3], saved_rstd[3];
    kas_ref_batch_norm_forward(2, 3, 4, 2, 1e-5, 0.1, x, w, b, mean, var, saved_mean, saved_rstd,
                               y);
}
static void norm_b(const double *x, const double *w, const double *dy, double *dx, double *dw,
                   double *db)
{
    double mean[3] = {0}, var[3] = {1, 1, 1}, saved_mean[3], saved_rstd[3], y[48];
    kas_ref_batch_norm_forward(2, 3, 4, 2, 1e-5, 0.1, x, w, w, mean, var, saved_mean, saved_rstd,
                               y);
    kas_ref_batch_norm_backward(2, 3, 4, 2, x, w, saved_mean, saved_rstd, dy, dx, dw, db);
}
static void pool_f(const double *x, const double *w, const double *b, double *y)
{
    (void)w, (void)b;
    kas_ref_avg_pool_forward(2, 3, 5, 4, 2, x, y);
}
static void pool_b(const double *x, const double *w, const double *dy, double *dx, double *dw,
                   double *db)
{
    (void)x, (void)w, (void)dw, (void)db;
    kas_ref_avg_pool_backward(2, 3, 5, 4, 2, dy, dx);
}
static void global_f(const double *x, const double *w, const double *b, double *y)
{
    (void)w, (void)b;
    kas_ref_global_avg_pool_forward(2, 3, 5, 4, x, y);
}
static void global_b(const double *x, const double *w, const double *dy, double *dx, double *dw,
                     double *db)
{
    (void)x, (void)w, (void)dw, (void)db;
    kas_ref_global_avg_pool_backward(2, 3, 5, 4, dy, dx);
}
static void shortcut_f(const double *x, const double *w, const double *b, double *y)
{
    (void)w, (void)b;
    kas_ref_shortcut_a_forward(2, 2, 5, 4, 6, 2, x, y);
}
static void shortcut_b(const double *x, const double *w, const double *dy, double *dx, double *dw,
                       double *db)
{
    (void)x, (void)w, (void)dw, (void)db;
    kas_ref_shortcut_a_backward(2, 2, 5, 4, 6, 2, dy, dx);
}
static void linear_f(const double *x, const double *w, const double *b, double *y)
{
    kas_ref_linear_forward(3, 5, 4, x, w, b, y);
}
static void linear_b(const double *x, const double *w, const double *dy, double *dx, double *dw,
                     double *db)
{
    kas_ref_linear_backward(3, 5, 4, x, w, dy, dx, dw, db);
}

static const layer_case layers[] = {
    {"conv 3x3 stride 2 groups 2", 160, 108, 0, 72, conv_f, conv_b},
    {"conv 1x5", 56, 30, 0, 84, narrow_f, narrow_b},
    {"batch norm", 48, 3, 3, 48, norm_f, norm_b},
    {"average pool, ceil mode", 120, 0, 0, 36, pool_f, pool_b},
    {"global average pool", 120, 0, 0, 6, global_f, global_b},
    {"shortcut A", 80, 0, 0, 72, shortcut_f, shortcut_b},
    {"linear", 15, 20, 4, 12, linear_f, linear_b},
};

static void test_gradients(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        assert_true(fd_within(layers[i].name, layer_error(&layers[i]), TOLERANCE));
}

/* A gradient with one wrong element must not pass. */
static void wrong_b(const double *x, const double *w, const double *dy, double *dx, double *dw,
                    double *db)
{
    linear_b(x, w, dy, dx, dw, db);
    dw[7] *= 1.001;
}
static void missing_b(const double *x, const double *w, const double *dy, double *dx, double *dw,
                      double *db)
{
    linear_b(x, w, dy, dx, dw, db);
    dx[3] = NAN;
}

static void test_check_can_fail(void **state)
{
    (void)state;
    layer_case wrong = layers[6], missing = layers[6];
    wrong.backward = wrong_b;
    missing.backward = missing_b;
    assert_false(fd_within("one wrong element (must fail)", layer_error(&wrong), TOLERANCE));
    assert_false(
        fd_within("one element not written (must fail)", layer_error(&missing), TOLERANCE));
}

static void assert_close(const double *found, const double *expected, int size)
{
    for (int i = 0; i < size; i++)
        if (!(fabs(found[i] - expected[i]) <= 1e-12))
            fail_msg("element %d: found %.17g, expected %.17g", i, found[i], expected[i]);
}

/* 1 2 3        the 3x3 filter 0 1 0      at the corner (0,0): 2 * 1 + 3 * 2 + 5 * 4 = 28;
 * 4 5 6                       0 2 3      stride 2 gives the corners (0,0), (0,2), (2,0), (2,2) */
static void test_conv_by_hand(void **state)
{
    (void)state;
    const double x[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, weight[9] = {0, 1, 0, 0, 2, 3, 0, 5, 0};
    double y[4];
    fd_nan(y, 4);
    kas_ref_conv_forward(1, 1, 3, 3, 1, 3, 3, 2, 1, 1, 1, x, weight, y);
    assert_close(y, (double[]){2 + 6 + 20, 6 + 30, 4 + 14 + 24, 6 + 18}, 4);
}

/* Two values 1 and 5: mean 3, biased variance 4, unbiased 8. */
static void test_batch_norm_by_hand(void **state)
{
    (void)state;
    const double x[2] = {1, 5}, gamma = 2, beta = 1;
    double mean = 1, var = 1, saved_mean, saved_rstd, y[2];
    fd_nan(y, 2);
    kas_ref_batch_norm_forward(2, 1, 1, 1, 0, 0.1, x, &gamma, &beta, &mean, &var, &saved_mean,
                               &saved_rstd, y);
    assert_close(y, (double[]){-1, 3}, 2);
    assert_close(&mean, (double[]){0.9 + 0.3}, 1);
    assert_close(&var, (double[]){0.9 + 0.8}, 1);
    assert_close(&saved_rstd, (double[]){0.5}, 1);
    kas_ref_batch_norm_eval(2, 1, 1, 1, 0, x, &gamma, &beta, (double[]){1}, (double[]){4}, y);
    assert_close(y, (double[]){1, 5}, 2);
}

static void test_pool_by_hand(void **state)
{
    (void)state;
    const double x[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    double y[4];
    fd_nan(y, 4);
    kas_ref_avg_pool_forward(1, 1, 3, 3, 2, x, y);
    assert_close(y, (double[]){3, 4.5, 7.5, 9}, 4);
    fd_nan(y, 1);
    kas_ref_global_avg_pool_forward(1, 1, 3, 3, x, y);
    assert_close(y, (double[]){5}, 1);
    double s[16]; /* one channel becomes four: (4 - 1) / 2 = 1 in front, 2 behind */
    fd_nan(s, 16);
    kas_ref_shortcut_a_forward(1, 1, 3, 3, 4, 2, x, s);
    assert_close(s, (double[]){0, 0, 0, 0, 1, 3, 7, 9, 0, 0, 0, 0, 0, 0, 0, 0}, 16);
}

/* Logits (0, ln 3): p = (1/4, 3/4). Label 1, no smoothing: -ln 3/4. Smoothing 0.2: q = (0.1, 0.9).
 */
static void test_cross_entropy_by_hand(void **state)
{
    (void)state;
    const double logits[2] = {1000, 1000 + log(3)};
    const uint16_t label = 1;
    double d[2], loss = kas_ref_cross_entropy(1, 2, 0, logits, &label, d);
    assert_close(&loss, (double[]){-log(0.75)}, 1);
    assert_close(d, (double[]){0.25, -0.25}, 2);
    loss = kas_ref_cross_entropy(1, 2, 0.2, logits, &label, d);
    assert_close(&loss, (double[]){-0.1 * log(0.25) - 0.9 * log(0.75)}, 1);
    assert_close(d, (double[]){0.15, -0.15}, 2);
}

typedef struct loss_run {
    double logits[12], smoothing;
} loss_run;

static double loss_of(void *context)
{
    loss_run *r = context;
    return kas_ref_cross_entropy(3, 4, r->smoothing, r->logits, (const uint16_t[]){1, 3, 0}, NULL);
}

static void test_cross_entropy_gradient(void **state)
{
    (void)state;
    loss_run r = {.smoothing = 0.1};
    double d[12];
    fd_random(r.logits, 12, 5);
    fd_nan(d, 12);
    kas_ref_cross_entropy(3, 4, r.smoothing, r.logits, (const uint16_t[]){1, 3, 0}, d);
    assert_true(fd_within("cross entropy",
                          fd_worst(loss_of, &r, &(fd_array){"logits", r.logits, d, 12}, 1),
                          TOLERANCE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_check_can_fail),
        cmocka_unit_test(test_conv_by_hand),
        cmocka_unit_test(test_batch_norm_by_hand),
        cmocka_unit_test(test_pool_by_hand),
        cmocka_unit_test(test_cross_entropy_by_hand),
        cmocka_unit_test(test_cross_entropy_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
