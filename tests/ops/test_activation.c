/* Activations, both passes, and dropout, against the float64 reference. */
#include "op_case.h"

#include "host/reference/net/layers.h"

static const struct {
    kas_activation kind;
    kas_layer_op op;
} kinds[] = {
    {KAS_ACTIVATION_RELU, KAS_LAYER_RELU},
    {KAS_ACTIVATION_RELU6, KAS_LAYER_RELU6},
    {KAS_ACTIVATION_SIGMOID, KAS_LAYER_SIGMOID},
    {KAS_ACTIVATION_HARD_SIGMOID, KAS_LAYER_HARD_SIGMOID},
    {KAS_ACTIVATION_SILU, KAS_LAYER_SILU},
    {KAS_ACTIVATION_HARD_SWISH, KAS_LAYER_HARD_SWISH},
    {KAS_ACTIVATION_GELU, KAS_LAYER_GELU},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Normal numbers three wide, so that both ends of every function are met, and the ends of float. */
static double *wide_values(size_t size)
{
    static const double ends[] = {0, -100, 100, -1e-30, 88, -88};
    double *x = random_values(size, 1);
    for (size_t i = 0; i < size; i++)
        x[i] = number_round(the_dtype, i < sizeof ends / sizeof *ends ? (float)ends[i] : 3 * x[i]);
    return x;
}

static void run_kind(int k, int c)
{
    const int n = 3, h = 5, w = 7;
    const size_t size = (size_t)n * c * h * w;
    const char *name = kas_layer_op_name(kinds[k].op);
    const bool output = kas_activation_keeps_output(kinds[k].kind);
    /* y (1 - y) where y is near 1 */
    const double slope = 1e-6 + (output ? 8 * rounding() : 0);
    double *vx = wide_values(size), *vdy = random_values(size, 2);
    double *vy = nan_values(size), *vdx = nan_values(size);
    for (size_t i = 0; i < size; i++) {
        vy[i] = kas_ref_activation(kinds[k].op, vx[i]);
        vdx[i] = vdy[i] * kas_ref_activation_slope(kinds[k].op, vx[i]);
        if (output && rounds_to_kink(kinds[k].op, vy[i]))
            vdx[i] = 0;
    }
    kas_tensor x = make_tensor(vx, n, c, h, w), y = make_tensor(NULL, n, c, h, w);
    kas_tensor dy = make_tensor(vdy, n, c, h, w), dx = make_tensor(NULL, n, c, h, w);
    kas_plan *plan = new_plan();
    OK(kas_op_activation_forward(the_ops, plan, kinds[k].kind, x, y));
    OK(kas_op_activation_backward(the_ops, plan, kinds[k].kind, output ? y : x, dy, dx));
    OK(kas_op_activation_backward(the_ops, plan, kinds[k].kind, output ? y : x, dy, dy));
    OK(kas_op_activation_forward(the_ops, plan, kinds[k].kind, x, x)); /* in place */
    run_plan();
    check_tensor(name, &y, vy, 1e-6);
    check_tensor(name, &dx, vdx, slope);
    check_tensor(name, &x, vy, 1e-6);
    check_tensor(name, &dy, vdx, slope);
    FREE(x.data, y.data, dy.data, dx.data);
    free(vx), free(vy), free(vdy), free(vdx);
}

TEST(test_activations)
{
    EACH_CHANNELS(c)
    EACH_ORDER(order)
    for (int k = 0; k < KINDS; k++)
        run_kind(k, (int)c);
    print_worst("activations");
}

/* NaN, infinities and numbers side by side.  The backward passes start from zeros, so that one that
 * writes nothing does not pass. */
static void run_special(int k, int c)
{
    const int n = 2, h = 3, w = 5;
    const size_t size = (size_t)n * c * h * w;
    const char *name = kas_layer_op_name(kinds[k].op);
    const bool output = kas_activation_keeps_output(kinds[k].kind);
    double *vx = random_values(size, 1), *vdy = random_values(size, 2);
    double *vy = nan_values(size), *vdx = nan_values(size), *zero = calloc(size, sizeof *zero);
    put_special(vx, size);
    for (size_t i = 0; i < size; i++) {
        vy[i] = kas_ref_activation(kinds[k].op, vx[i]);
        vdx[i] = vdy[i] * kas_ref_activation_slope(kinds[k].op, vx[i]);
        if (output && rounds_to_kink(kinds[k].op, vy[i]))
            vdx[i] = 0;
    }
    kas_tensor x = make_tensor(vx, n, c, h, w), y = make_tensor(zero, n, c, h, w);
    kas_tensor dy = make_tensor(vdy, n, c, h, w), dx = make_tensor(zero, n, c, h, w);
    kas_plan *plan = new_plan();
    OK(kas_op_activation_forward(the_ops, plan, kinds[k].kind, x, y));
    OK(kas_op_activation_backward(the_ops, plan, kinds[k].kind, output ? y : x, dy, dx));
    run_plan();
    check_special(name, &y, vy, 1e-6);
    check_special(name, &dx, vdx, 1e-6 + (output ? 8 * rounding() : 0));
    FREE(x.data, y.data, dy.data, dx.data);
    free(vx), free(vy), free(vdy), free(vdx), free(zero);
}

TEST(test_special)
{
    EACH_CHANNELS(c)
    EACH_ORDER(order)
    for (int k = 0; k < KINDS; k++)
        run_special(k, (int)c);
}

/* The same values are dropped as in the reference, at this step and at no other. */
TEST(test_dropout)
{
    const kas_step_state now = {.step = 7};
    kas_step_state *device;
    OK(kas_mem_alloc(the_device, sizeof now, (void **)&device));
    OK(kas_mem_upload(the_device, device, &now, sizeof now));
    EACH_CHANNELS(c)
    EACH_ORDER(order)
    {
        const int n = 3, h = 4, w = 3;
        const size_t size = (size_t)n * c * h * w;
        const kas_dropout dropout = {
            .probability = 0.3, .seed = 0x123456789abcdefu, .layer = 5, .state = device};
        double *vx = random_values(size, 1), *vy = nan_values(size);
        kas_ref_dropout(n, (int)c, h, w, 0.3, dropout.seed, 5, 7, vx, vy);
        kas_tensor x = make_tensor(vx, n, c, h, w), y = make_tensor(NULL, n, c, h, w);
        kas_plan *plan = new_plan();
        OK(kas_op_dropout(the_ops, plan, &dropout, x, y));
        OK(kas_op_dropout(the_ops, plan, &dropout, x, x)); /* in place */
        run_plan();
        check_tensor("dropout", &y, vy, 2e-7);
        check_tensor("dropout in place", &x, vy, 2e-7);
        FREE(x.data, y.data);
        free(vx), free(vy);
    }
    FREE(device);
    print_worst("dropout");
}

/* One operand off a multiple of 16 bytes. */
TEST(test_crooked)
{
    EACH_CROOKED(4)
    {
        test_activations(state);
        test_dropout(state);
    }
}

TEST(test_refusals)
{
    kas_tensor a = make_tensor(NULL, 2, 3, 4, 4), b = a;
    kas_dropout all = {.probability = 1};
    b.h = 3;
    kas_plan *plan = new_plan();
    assert_int_equal(kas_op_activation_forward(the_ops, plan, KAS_ACTIVATION_NONE, a, a),
                     KAS_BAD_INPUT);
    assert_int_equal(kas_op_activation_forward(the_ops, plan, KAS_ACTIVATION_GELU, a, b),
                     KAS_BAD_INPUT);
    assert_int_equal(kas_op_activation_backward(the_ops, plan, KAS_ACTIVATION_GELU, a, b, a),
                     KAS_BAD_INPUT);
    assert_int_equal(kas_op_dropout(the_ops, plan, &all, a, a), KAS_BAD_INPUT);
    run_plan();
    FREE(a.data);
}

RUN_FOR_EACH_DTYPE(open_the_ops, close_the_ops)
