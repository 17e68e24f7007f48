/* Gradients of the kernel IR in float64: ties and limits by hand, every primitive by finite
 * differences, and proof that the comparison can fail. */
#include "reference_fixture.h"

#define TOLERANCE 1e-6

static void set(double *to, const double *from, size_t size)
{
    memcpy(to, from, size * sizeof *to);
}

/* dx by hand where a function has a branch: y' at x = -1, 0, 1, 8.5, -110, 120, with dy = 1. */
TEST(test_unary_limits)
{
    const struct {
        kas_op op;
        double slope[6];
    } cases[] = {
        {KAS_OP_RELU, {0, 0, 1, 1, 0, 1}},
        {KAS_OP_ABS, {-1, 0, 1, 1, -1, 1}},
        {KAS_OP_EXP, {0.36787944117144233, 1, 2.7182818284590452, 0, 0, 0}},
        {KAS_OP_SQRT, {0, 0, 0.49751859510499463, 0.17139779254776524, 0, 0.045641644763183206}},
        {KAS_OP_SQUARE, {-2, 0, 2, 17, 0, 0}},
        {KAS_OP_NEG, {-1, -1, -1, -1, -1, -1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f;
        fixture_target(&f, 1, 2, 3, 3, 3);
        fixture_create(&f,
                       kas_build_elementwise(&f.kernel, cases[i].op, kas_build_input(&f.kernel)));
        set(f.x, VALUES(-1, 0, 1, 8.5, -110, 120));
        set(f.dy, VALUES(1, 1, 1, 1, 1, 1));
        fixture_forward(&f);
        fixture_backward(&f);
        assert_values(kas_op_get(cases[i].op)->name, f.dx, cases[i].slope, 6);
        fixture_free(&f);
    }
}

/* Ties: the first index of a max-fold takes all; min and max give half to each side. */
TEST(test_ties)
{
    fixture f;
    fixture_target(&f, 3, 1, 1, 3, 3);
    int x = kas_build_input(&f.kernel);
    int top = kas_build_fold(&f.kernel, KAS_OP_FOLD_MAX, x, 0);
    fixture_create(&f, kas_build_broadcast(&f.kernel, KAS_OP_MIN, top, x));
    set(f.x, VALUES(2, 5, 5));
    set(f.dy, VALUES(1, 10, 100));
    fixture_forward(&f);
    fixture_backward(&f);
    assert_values("output", f.y, VALUES(2, 5, 5));
    /* top = 5 ties with both 5s: half of 10 and of 100 stay, the other halves go to the first 5 */
    assert_values("ties", f.dx, VALUES(1, 5 + 5 + 50, 50));
    fixture_free(&f);
}

/* y = (w00 a + w01 b, ...)/sqrt 2: dx = W^T dy / sqrt 2, dw = dy x^T / sqrt 2. */
TEST(test_instances)
{
    const double r = 0.70710678118654752;
    fixture f;
    fixture_target(&f, 1, 1, 1, 3, 3);
    fixture_parts(&f, 2, 2);
    fixture_create(&f, kas_build_fc(&f.kernel, kas_build_input(&f.kernel), false, "C"));
    set(f.x, VALUES(1, 10));
    set(f.weight[0], VALUES(1, 2, 3, 4));
    set(f.dy, VALUES(5, 7));
    fixture_forward(&f);
    fixture_backward(&f);
    assert_values("dx", f.dx, VALUES((5 + 21) * r, (10 + 28) * r));
    assert_values("dweight", f.dweight[0], VALUES(5 * r, 50 * r, 7 * r, 70 * r));
    fixture_free(&f);
}

/* ---- finite differences: one small kernel for each primitive --------------------------------- */

static int k_group(kas_kernel *k, int x)
{
    return kas_build_fc(k, kas_build_group(k, x, 0, 0), true, "C");
}
static int k_group_all(kas_kernel *k, int x)
{
    int taps = kas_build_group_all(k, kas_build_unfold(k, x, KAS_AXIS_H), 1);
    int map = kas_build_fc(k, taps, true, "x0*K_H");
    return kas_build_fc(k, map, false, "C");
}
static int k_shift(kas_kernel *k, int x)
{
    int both = kas_build_shift(k, kas_build_shift(k, x, KAS_AXIS_H, 1), KAS_AXIS_W, -2);
    return kas_build_broadcast(k, KAS_OP_MUL, both, x);
}
static int k_unfold(kas_kernel *k, int x)
{
    return kas_build_fc(k, kas_build_unfold(k, x, KAS_AXIS_H | KAS_AXIS_W), false, "C");
}
static int k_windows(kas_kernel *k, int x)
{
    int apart = kas_build_unfold_window(k, x, KAS_AXIS_H | KAS_AXIS_W, 3, 2);
    return kas_build_fc(k, kas_build_unfold_window(k, apart, KAS_AXIS_W, 5, 0), false, "C");
}
static int k_fold_avg(kas_kernel *k, int x)
{
    int row = kas_build_fold(k, KAS_OP_FOLD_AVG, x, 2);
    return kas_build_broadcast(k, KAS_OP_MUL, kas_build_fold(k, KAS_OP_FOLD_AVG, row, 1), x);
}
static int k_fold_max(kas_kernel *k, int x)
{
    int taps = kas_build_unfold(k, x, KAS_AXIS_H | KAS_AXIS_W);
    return kas_build_fold(k, KAS_OP_FOLD_MAX, kas_build_fold(k, KAS_OP_FOLD_MAX, taps, 2), 1);
}
static int k_softmax(kas_kernel *k, int x)
{
    int both = kas_build_softmax(k, kas_build_fc(k, x, false, "C"), 1, 3);
    return kas_build_broadcast(k, KAS_OP_MUL, both, kas_build_softmax(k, x, 0, 1));
}
static int unary(kas_kernel *k, int x, kas_op op)
{
    return kas_build_fc(k, kas_build_elementwise(k, op, kas_build_fc(k, x, false, "C")), false,
                        "C");
}
static int broadcast(kas_kernel *k, int x, kas_op op)
{
    return kas_build_broadcast(k, op, kas_build_fc(k, x, false, "G0"),
                               kas_build_fc(k, x, false, "C"));
}
/* Involution-like: weights from the input, tiled over the unfolded input. */
static int k_composite(kas_kernel *k, int x)
{
    int taps = kas_build_unfold(k, x, KAS_AXIS_H | KAS_AXIS_W);
    int map = kas_build_fc(k, kas_build_elementwise(k, KAS_OP_GELU, x), false, "G0*K_H*K_W");
    int mixed =
        kas_build_broadcast(k, KAS_OP_MUL, kas_build_elementwise(k, KAS_OP_TANH, map), taps);
    int less = kas_build_fold(k, KAS_OP_FOLD_AVG, mixed, 2);
    return kas_build_fold(k, KAS_OP_FOLD_MAX, less, 1);
}
/* Mathematically constant: all gradients are rounding, which must not count as an error. */
static int k_constant(kas_kernel *k, int x)
{
    int sum = kas_build_fold(k, KAS_OP_FOLD_AVG, kas_build_softmax(k, x, 0, 1), 0);
    int map = kas_build_fc(k, sum, false, "C");
    return kas_build_elementwise(k, KAS_OP_SQUARE, map);
}

typedef int (*builder)(kas_kernel *kernel, int input);

static void random_point(fixture *f, uint64_t stream)
{
    fd_random(f->x, f->x_size, stream);
    fd_random(f->dy, f->y_size, stream + 1);
    for (int i = 0; i < kas_reference_weights(f->ref); i++)
        fd_random(f->weight[i], kas_reference_weight_size(f->ref, i), stream + 2 + i);
}

static void make(fixture *f, builder build, int op)
{
    fixture_target(f, 4, 3, 4, 3, 3);
    fixture_parts(f, 2, 1);
    f->batch = 2;
    int x = kas_build_input(&f->kernel);
    int last = op < 0 ? build(&f->kernel, x)
                      : (op >= KAS_OP_ADD ? broadcast : unary)(&f->kernel, x, (kas_op)op);
    fixture_create(f, last);
    random_point(f, 50);
}

static double difference_error(fixture *f)
{
    const double *weight[FIXTURE_WEIGHTS] = {f->weight[0], f->weight[1], f->weight[2],
                                             f->weight[3]};
    double worst = NAN;
    assert_int_equal(kas_reference_check_gradient(f->ref, f->x, weight, f->dy, 4, 3, &worst),
                     KAS_OK);
    return worst;
}

TEST(test_finite_differences)
{
    const struct {
        const char *name;
        builder build;
    } cases[] = {
        {"group, grouped fc", k_group}, {"group_all", k_group_all}, {"shift", k_shift},
        {"unfold, fc", k_unfold},       {"windows, fc", k_windows}, {"fold_avg", k_fold_avg},
        {"fold_max", k_fold_max},       {"softmax", k_softmax},     {"composite", k_composite},
        {"constant", k_constant}};
    static fixture f;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make(&f, cases[i].build, -1);
        assert_true(fd_within(cases[i].name, difference_error(&f), TOLERANCE));
        fixture_free(&f);
    }
    for (int op = KAS_OP_RELU; op < KAS_OP_COUNT; op++) {
        if (kas_type_of(op) != KAS_TYPE_ELEMENTWISE && op < KAS_OP_ADD)
            continue;
        make(&f, NULL, op);
        assert_true(fd_within(kas_op_get((kas_op)op)->name, difference_error(&f), TOLERANCE));
        fixture_free(&f);
    }
}

/* exp, sqrt and square of large numbers: the limits hold, values and differences stay finite. */
TEST(test_beyond_limits)
{
    const kas_op ops[] = {KAS_OP_EXP, KAS_OP_SQRT, KAS_OP_SQUARE, KAS_OP_RELU, KAS_OP_ABS};
    static fixture f;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        make(&f, NULL, ops[i]);
        for (size_t k = 0; k < f.x_size; k++)
            f.x[k] *= 60;
        assert_true(fd_within(kas_op_get(ops[i])->name, difference_error(&f), TOLERANCE));
        fixture_free(&f);
    }
}

static double given_error(fixture *f)
{
    const double *weight[FIXTURE_WEIGHTS] = {f->weight[0], f->weight[1], f->weight[2],
                                             f->weight[3]};
    const double *dweight[FIXTURE_WEIGHTS] = {f->dweight[0], f->dweight[1], f->dweight[2],
                                              f->dweight[3]};
    double worst = NAN;
    assert_int_equal(
        kas_reference_compare_gradient(f->ref, f->x, weight, f->dy, f->dx, dweight, 4, 3, &worst),
        KAS_OK);
    return worst;
}

TEST(test_check_can_fail)
{
    static fixture f;
    make(&f, k_composite, -1);
    fixture_forward(&f);
    fixture_backward(&f);
    assert_true(fd_within("as it is", given_error(&f), TOLERANCE));
    double saved = f.dx[17];
    f.dx[17] *= 1.01;
    assert_false(fd_within("one element 1% off (must fail)", given_error(&f), TOLERANCE));
    f.dx[17] = NAN;
    assert_false(fd_within("one element not written (must fail)", given_error(&f), TOLERANCE));
    f.dx[17] = saved;
    f.dweight[0][3] *= 1.01;
    assert_false(fd_within("one weight 1% off (must fail)", given_error(&f), TOLERANCE));
    fixture_free(&f);
}

RUN_TESTS()
