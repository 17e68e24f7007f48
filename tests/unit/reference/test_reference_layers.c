/* Float64 layers: small examples worked out by hand, and finite differences of every layer. */
#include "support/test.h"

#include <string.h>

#include "host/reference/net/layers.h"
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
    fd_array arrays[] = {{r.x, dx, layer->x_size},
                         {r.weight, dweight, layer->weight_size},
                         {r.bias, dbias, layer->bias_size}};
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
    kas_ref_avg_pool_forward(&(kas_ref_pool){2, 2, 2, 0, 0, false}, 2, 3, 5, 4, 3, 2, x, y);
}
static void pool_b(const double *x, const double *w, const double *dy, double *dx, double *dw,
                   double *db)
{
    (void)x, (void)w, (void)dw, (void)db;
    kas_ref_avg_pool_backward(&(kas_ref_pool){2, 2, 2, 0, 0, false}, 2, 3, 5, 4, 3, 2, dy, dx);
}
/* Windows that overlap, padding that counts, and a last window beyond the padding (ceil mode). */
static const kas_ref_pool overlapping = {3, 2, 2, 1, 1, true};
static void counted_f(const double *x, const double *w, const double *b, double *y)
{
    (void)w, (void)b;
    kas_ref_avg_pool_forward(&overlapping, 2, 3, 6, 5, 4, 3, x, y);
}
static void counted_b(const double *x, const double *w, const double *dy, double *dx, double *dw,
                      double *db)
{
    (void)x, (void)w, (void)dw, (void)db;
    kas_ref_avg_pool_backward(&overlapping, 2, 3, 6, 5, 4, 3, dy, dx);
}
static void max_f(const double *x, const double *w, const double *b, double *y)
{
    (void)w, (void)b;
    kas_ref_max_pool_forward(&overlapping, 2, 3, 6, 5, 4, 3, x, y);
}
static void max_b(const double *x, const double *w, const double *dy, double *dx, double *dw,
                  double *db)
{
    (void)w, (void)dw, (void)db;
    kas_ref_max_pool_backward(&overlapping, 2, 3, 6, 5, 4, 3, x, dy, dx);
}
static void adaptive_f(const double *x, const double *w, const double *b, double *y)
{
    (void)w, (void)b;
    kas_ref_adaptive_pool_forward(2, 3, 5, 4, 3, 6, x, y);
}
static void adaptive_b(const double *x, const double *w, const double *dy, double *dx, double *dw,
                       double *db)
{
    (void)x, (void)w, (void)dw, (void)db;
    kas_ref_adaptive_pool_backward(2, 3, 5, 4, 3, 6, dy, dx);
}
static void layer_norm_f(const double *x, const double *w, const double *b, double *y)
{
    kas_ref_layer_norm_forward(2, 6, 2, 3, 1e-6, x, w, b, y);
}
static void layer_norm_b(const double *x, const double *w, const double *dy, double *dx, double *dw,
                         double *db)
{
    kas_ref_layer_norm_backward(2, 6, 2, 3, 1e-6, x, w, dy, dx, dw, db);
}
/* The "weight" is the other factor. */
static void gate_f(const double *x, const double *w, const double *b, double *y)
{
    (void)b;
    kas_ref_multiply_forward(2, 3, 4, 2, 1, 1, x, w, y);
}
static void gate_b(const double *x, const double *w, const double *dy, double *dx, double *dw,
                   double *db)
{
    (void)db;
    kas_ref_multiply_backward(2, 3, 4, 2, 1, 1, x, w, dy, dx, dw);
}
static void product_f(const double *x, const double *w, const double *b, double *y)
{
    (void)b;
    kas_ref_multiply_forward(2, 3, 4, 2, 4, 2, x, w, y);
}
static void product_b(const double *x, const double *w, const double *dy, double *dx, double *dw,
                      double *db)
{
    (void)db;
    kas_ref_multiply_backward(2, 3, 4, 2, 4, 2, x, w, dy, dx, dw);
}
static void dropout_f(const double *x, const double *w, const double *b, double *y)
{
    (void)w, (void)b;
    kas_ref_dropout(2, 3, 4, 2, 0.4, 11, 5, 7, x, y);
}
static void dropout_b(const double *x, const double *w, const double *dy, double *dx, double *dw,
                      double *db)
{
    (void)x, (void)w, (void)dw, (void)db;
    kas_ref_dropout(2, 3, 4, 2, 0.4, 11, 5, 7, dy, dx);
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
    {"average pool, padding counts", 180, 0, 0, 72, counted_f, counted_b},
    {"max pool", 180, 0, 0, 72, max_f, max_b},
    {"adaptive average pool", 120, 0, 0, 108, adaptive_f, adaptive_b},
    {"layer norm", 72, 6, 6, 72, layer_norm_f, layer_norm_b},
    {"product with a gate", 48, 6, 0, 48, gate_f, gate_b},
    {"product", 48, 48, 0, 48, product_f, product_b},
    {"dropout", 48, 0, 0, 48, dropout_f, dropout_b},
    {"linear", 15, 20, 4, 12, linear_f, linear_b},
};

TEST(test_gradients)
{
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

TEST(test_check_can_fail)
{
    layer_case wrong = layers[sizeof layers / sizeof *layers - 1],
               missing = layers[sizeof layers / sizeof *layers - 1];
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
TEST(test_conv_by_hand)
{
    const double x[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, weight[9] = {0, 1, 0, 0, 2, 3, 0, 5, 0};
    double y[4];
    fd_nan(y, 4);
    kas_ref_conv_forward(1, 1, 3, 3, 1, 3, 3, 2, 1, 1, 1, x, weight, y);
    assert_close(y, (double[]){2 + 6 + 20, 6 + 30, 4 + 14 + 24, 6 + 18}, 4);
}

/* Two values 1 and 5: mean 3, biased variance 4, unbiased 8. */
TEST(test_batch_norm_by_hand)
{
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

TEST(test_pool_by_hand)
{
    const double x[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    double y[4];
    fd_nan(y, 4);
    kas_ref_avg_pool_forward(&(kas_ref_pool){2, 2, 2, 0, 0, false}, 1, 1, 3, 3, 2, 2, x, y);
    assert_close(y, (double[]){3, 4.5, 7.5, 9}, 4);
    fd_nan(y, 1);
    kas_ref_global_avg_pool_forward(1, 1, 3, 3, x, y);
    assert_close(y, (double[]){5}, 1);
    double s[16]; /* one channel becomes four: (4 - 1) / 2 = 1 in front, 2 behind */
    fd_nan(s, 16);
    kas_ref_shortcut_a_forward(1, 1, 3, 3, 4, 2, x, s);
    assert_close(s, (double[]){0, 0, 0, 0, 1, 3, 7, 9, 0, 0, 0, 0, 0, 0, 0, 0}, 16);
}

/* 1 5 2        windows of 2x2, padding 1, stride 2, at (-1,-1), (-1,1), (1,-1), (1,1); of equal
 * 4 3 3        maxima the first takes the gradient, and a pixel may win none */
TEST(test_max_pool_by_hand)
{
    const double x[6] = {1, 5, 2, 4, 3, 3}, dy[4] = {1, 2, 4, 8};
    const kas_ref_pool pool = {2, 2, 2, 1, 1, true};
    double y[4], dx[6];
    fd_nan(y, 4);
    fd_nan(dx, 6);
    kas_ref_max_pool_forward(&pool, 1, 1, 2, 3, 2, 2, x, y);
    assert_close(y, (double[]){1, 5, 4, 3}, 4);
    kas_ref_max_pool_backward(&pool, 1, 1, 2, 3, 2, 2, x, dy, dx);
    assert_close(dx, (double[]){1, 2, 0, 4, 8, 0}, 6);
    kas_ref_avg_pool_forward(&pool, 1, 1, 2, 3, 2, 2, x, y); /* padding counts */
    assert_close(y, (double[]){0.25, 1.75, 1, 1.5}, 4);
    kas_ref_adaptive_pool_forward(1, 1, 2, 3, 1, 2, x, y); /* columns 0..1 and 1..2 */
    assert_close(y, (double[]){3.25, 3.25}, 2);
}

/* Known values: PyTorch 1.13 prints them for x = -4, -1, 0.5, 7. */
TEST(test_activations_by_hand)
{
    static const struct {
        kas_layer_op op;
        double y[4];
    } cases[] = {
        {KAS_LAYER_RELU, {0, 0, 0.5, 7}},
        {KAS_LAYER_RELU6, {0, 0, 0.5, 6}},
        {KAS_LAYER_HARD_SIGMOID, {0, 1.0 / 3, 3.5 / 6, 1}},
        {KAS_LAYER_HARD_SWISH, {0, -1.0 / 3, 1.75 / 6, 7}},
        {KAS_LAYER_SIGMOID,
         {0.01798620996209156, 0.2689414213699951, 0.6224593312018546, 0.9990889488055994}},
        {KAS_LAYER_SILU,
         {-0.07194483984836624, -0.2689414213699951, 0.3112296656009273, 6.993622641639196}},
        {KAS_LAYER_GELU,
         {-0.00012668496733247, -0.15865525393145707, 0.34573123063700656, 6.99999999999104}},
    };
    const double x[4] = {-4, -1, 0.5, 7};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double y[4], worst = 0;
        for (int k = 0; k < 4; k++)
            y[k] = kas_ref_activation(cases[i].op, x[k]);
        assert_close(y, cases[i].y, 4);
        for (double at = -8.05; at < 8; at += 0.1) { /* between the kinks */
            double up = kas_ref_activation(cases[i].op, at + 1e-5);
            double down = kas_ref_activation(cases[i].op, at - 1e-5);
            double slope = kas_ref_activation_slope(cases[i].op, at);
            worst = fd_larger(worst, fabs((up - down) / 2e-5 - slope));
        }
        assert_true(fd_within(kas_layer_op_name(cases[i].op), worst, TOLERANCE));
    }
}

/* A share of 0.4 is dropped, the rest keeps the mean; another layer or step drops others. */
TEST(test_dropout_share)
{
    enum { SIZE = 16 * 8 * 8 * 8 };
    static double x[SIZE], y[SIZE], other[SIZE];
    int dropped = 0, both = 0;
    for (int i = 0; i < SIZE; i++)
        x[i] = 1;
    kas_ref_dropout(16, 8, 8, 8, 0.4, 1, 2, 3, x, y);
    kas_ref_dropout(16, 8, 8, 8, 0.4, 1, 2, 4, x, other);
    for (int i = 0; i < SIZE; i++) {
        assert_true(y[i] == 0 || fabs(y[i] - 1 / 0.6) < 1e-15);
        dropped += y[i] == 0;
        both += y[i] == 0 && other[i] == 0;
    }
    double spread = sqrt(SIZE * 0.4 * 0.6);
    printf("dropped %d of %d, expected %.0f; both %d, expected %.0f\n", dropped, SIZE, 0.4 * SIZE,
           both, 0.16 * SIZE);
    assert_true(fabs(dropped - 0.4 * SIZE) <= 4 * spread);
    assert_true(fabs(both - 0.16 * SIZE) <= 4 * spread);
}

/* Logits (0, ln 3): p = (1/4, 3/4). Label 1, no smoothing: -ln 3/4. Smoothing 0.2: q = (0.1, 0.9).
 */
TEST(test_cross_entropy_by_hand)
{
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

TEST(test_cross_entropy_gradient)
{
    loss_run r = {.smoothing = 0.1};
    double d[12];
    fd_random(r.logits, 12, 5);
    fd_nan(d, 12);
    kas_ref_cross_entropy(3, 4, r.smoothing, r.logits, (const uint16_t[]){1, 3, 0}, d);
    assert_true(fd_within("cross entropy", fd_worst(loss_of, &r, &(fd_array){r.logits, d, 12}, 1),
                          TOLERANCE));
}

RUN_TESTS()
