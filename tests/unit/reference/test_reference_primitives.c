/* Every primitive in float64 against examples worked out by hand from docs/primitives.md.
 *
 * A kernel must end in [C, H, W]; where the primitive's own result is something else, a broadcast
 * brings it back and the primitive's node is looked at. */
#include "reference_fixture.h"

/* Appends a broadcast that gives the input's shape back. */
static int back_to_input(fixture *f, int node)
{
    return kas_build_broadcast(&f->kernel, KAS_OP_ADD, node, 0);
}

static void set(double *to, const double *from, size_t size)
{
    memcpy(to, from, size * sizeof *to);
}

TEST(test_shift)
{
    fixture f;
    fixture_target(&f, 1, 3, 2, 3, 3);
    int x = kas_build_input(&f.kernel);
    int down = kas_build_shift(&f.kernel, x, KAS_AXIS_H, 1);
    int left = kas_build_shift(&f.kernel, x, KAS_AXIS_W, -1);
    fixture_create(&f, kas_build_broadcast(&f.kernel, KAS_OP_ADD, down, left));
    set(f.x, VALUES(1, 2, 3, 4, 5, 6));
    fixture_forward(&f);
    assert_node(&f, down, VALUES(3, 4, 5, 6, 1, 2));
    assert_node(&f, left, VALUES(2, 1, 4, 3, 6, 5));
    assert_values("output", f.y, VALUES(5, 5, 9, 9, 7, 7));
    fixture_free(&f);
}

TEST(test_unfold)
{
    fixture f;
    fixture_target(&f, 1, 2, 2, 3, 3);
    int x = kas_build_input(&f.kernel);
    int both = kas_build_unfold(&f.kernel, x, KAS_AXIS_H | KAS_AXIS_W);
    int only_w = kas_build_unfold(&f.kernel, x, KAS_AXIS_W);
    int sum = kas_build_broadcast(&f.kernel, KAS_OP_ADD, x, both);
    int small = kas_build_fold(&f.kernel, KAS_OP_FOLD_AVG, sum, 1);
    int merged = kas_build_broadcast(&f.kernel, KAS_OP_ADD, small, only_w);
    fixture_create(&f, kas_build_fold(&f.kernel, KAS_OP_FOLD_AVG, merged, 1));
    set(f.x, VALUES(1, 2, 3, 4));
    fixture_forward(&f);
    /* tap (a, b) at (h, w) reads (h + a - 1, w + b - 1) of  1 2 / 3 4 */
    assert_node(&f, both,
                VALUES(/* row above */ 0, 0, 0, 1, 0, 0, 1, 2, 0, 0, 2, 0,
                       /* same row */ 0, 1, 0, 3, 1, 2, 3, 4, 2, 0, 4, 0,
                       /* row below */ 0, 3, 0, 0, 3, 4, 0, 0, 4, 0, 0, 0));
    assert_node(&f, only_w, VALUES(0, 1, 0, 3, 1, 2, 3, 4, 2, 0, 4, 0));
    fixture_free(&f);
}

/* Three taps two rows apart; five taps that reach beyond a row of two on either side. */
TEST(test_unfold_windows)
{
    fixture f;
    fixture_target(&f, 1, 4, 2, 1, 1);
    int x = kas_build_input(&f.kernel);
    int apart = kas_build_unfold_window(&f.kernel, x, KAS_AXIS_H, 3, 2);
    int wide = kas_build_unfold_window(&f.kernel, x, KAS_AXIS_W, 5, 0);
    int sum = kas_build_broadcast(&f.kernel, KAS_OP_ADD,
                                  kas_build_fold(&f.kernel, KAS_OP_FOLD_AVG, apart, 1),
                                  kas_build_fold(&f.kernel, KAS_OP_FOLD_AVG, wide, 1));
    fixture_create(&f, sum);
    set(f.x, VALUES(1, 2, 3, 4, 5, 6, 7, 8));
    fixture_forward(&f);
    assert_node(&f, apart,
                VALUES(/* two rows up */ 0, 0, 0, 0, 1, 2, 3, 4,
                       /* here */ 1, 2, 3, 4, 5, 6, 7, 8,
                       /* two rows down */ 5, 6, 7, 8, 0, 0, 0, 0));
    assert_node(&f, wide,
                VALUES(0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 3, 0, 5, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8, 2, 0,
                       4, 0, 6, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    fixture_free(&f);
}

/* An axis that was folded away leaves the other one; K_W = 2 is even: K_W/2 = 1 reaches left. */
TEST(test_unfold_after_fold)
{
    fixture f;
    fixture_target(&f, 2, 2, 3, 3, 2);
    int x = kas_build_input(&f.kernel);
    int row = kas_build_fold(&f.kernel, KAS_OP_FOLD_AVG, x, 1);
    int taps = kas_build_unfold(&f.kernel, row, KAS_AXIS_W);
    int best = kas_build_fold(&f.kernel, KAS_OP_FOLD_MAX, taps, 1);
    fixture_create(&f, kas_build_broadcast(&f.kernel, KAS_OP_SUB, best, x));
    set(f.x, VALUES(1, 2, 3, 5, 6, 7, -1, -2, -3, -3, -4, -5));
    fixture_forward(&f);
    assert_node(&f, row, VALUES(3, 4, 5, -2, -3, -4));
    assert_node(&f, taps, VALUES(0, 3, 4, 3, 4, 5, 0, -2, -3, -2, -3, -4));
    assert_node(&f, best, VALUES(3, 4, 5, 0, -2, -3));
    assert_values("output", f.y, VALUES(2, 2, 2, -2, -2, -2, 1, 0, 0, 3, 2, 2));
    fixture_free(&f);
}

TEST(test_fc)
{
    fixture f;
    fixture_target(&f, 2, 1, 2, 3, 3);
    int x = kas_build_input(&f.kernel);
    fixture_create(&f, kas_build_fc(&f.kernel, x, false, "C"));
    assert_int_equal(kas_reference_weight_size(f.ref, 0), 4);
    set(f.x, VALUES(1, 2, 10, 20));
    set(f.weight[0], VALUES(1, 2, 3, 4));
    fixture_forward(&f);
    assert_values("fc", f.y, VALUES(21, 42, 43, 86));
    fixture_free(&f);
}

/* [4] -> group by 2 -> [2, 2]: channels 0, 1 give outputs 0, 1; channels 2, 3 give outputs 2, 3. */
TEST(test_group_and_grouped_fc)
{
    fixture f;
    fixture_target(&f, 4, 1, 1, 3, 3);
    int x = kas_build_input(&f.kernel);
    int g = kas_build_group(&f.kernel, x, 0, 0);
    fixture_create(&f, kas_build_fc(&f.kernel, g, true, "C"));
    set(f.x, VALUES(1, 2, 3, 4));
    set(f.weight[0], VALUES(1, 10, 2, 20, 3, 30, 4, 40));
    fixture_forward(&f);
    assert_node(&f, g, VALUES(1, 2, 3, 4));
    assert_values("fc", f.y, VALUES(21, 42, 129, 172));
    fixture_free(&f);
}

/* [C, K_W] -> group_all on K_W -> [C, K_W, 1]: the group dim stands behind a contracted one. Each
 * of the 3 taps has its own map from C = 2 to one output. */
TEST(test_group_all_in_the_middle)
{
    fixture f;
    fixture_target(&f, 2, 1, 2, 3, 3);
    int x = kas_build_input(&f.kernel);
    int taps = kas_build_unfold(&f.kernel, x, KAS_AXIS_W);
    int all = kas_build_group_all(&f.kernel, taps, 1);
    int map = kas_build_fc(&f.kernel, all, true, "K_W");
    int mean = kas_build_fold(&f.kernel, KAS_OP_FOLD_AVG, map, 0);
    fixture_create(&f, back_to_input(&f, mean));
    assert_int_equal(kas_reference_weight_size(f.ref, 0), 6);
    set(f.x, VALUES(1, 2, 10, 20));
    set(f.weight[0], VALUES(1, 2, 3, 4, 5, 6)); /* [tap][1][channel] */
    fixture_forward(&f);
    /* taps of (1 2): (0 1) (1 2) (2 0); of (10 20): (0 10) (10 20) (20 0) */
    assert_node(&f, map, VALUES(0, 21, 43, 86, 130, 0));
    assert_node(&f, mean, VALUES(173. / 3, 107. / 3));
    fixture_free(&f);
}

TEST(test_fc_without_channels)
{
    fixture f;
    fixture_target(&f, 2, 1, 2, 3, 3);
    int x = kas_build_input(&f.kernel);
    int one = kas_build_fold(&f.kernel, KAS_OP_FOLD_AVG, x, 0);
    fixture_create(&f, kas_build_fc(&f.kernel, one, false, "C"));
    set(f.x, VALUES(1, 2, 3, 8));
    set(f.weight[0], VALUES(7, -1));
    fixture_forward(&f);
    assert_node(&f, one, VALUES(2, 5));
    assert_values("fc", f.y, VALUES(14, 35, -2, -5));
    fixture_free(&f);
}

/* Values from tables of the functions, at x = -1, 0, 1 and beyond the limits. */
TEST(test_unary)
{
    const struct {
        kas_op op;
        double y[6];
    } cases[] = {
        {KAS_OP_RELU, {0, 0, 1, 8.5, 0, 120}},
        {KAS_OP_GELU, {-0.15865525393145705, 0, 0.84134474606854293, 8.5, 0, 120}},
        {KAS_OP_SIGMOID, {0.2689414213699951, 0.5, 0.7310585786300049, 0.9997965730219448, 0, 1}},
        {KAS_OP_TANH, {-0.76159415595576489, 0, 0.76159415595576489, 0.999999917201249, -1, 1}},
        {KAS_OP_ABS, {1, 0, 1, 8.5, 110, 120}},
        {KAS_OP_EXP,
         {0.36787944117144233, 1, 2.7182818284590452, 2980.9579870417283, 0, 2980.9579870417283}},
        {KAS_OP_NEG, {1, 0, -1, -8.5, 110, -120}},
        {KAS_OP_SIN,
         {-0.8414709848078965, 0, 0.8414709848078965, 0.79848711262349026, 0.044242678085070965,
          0.58061118421231428}},
        {KAS_OP_SQRT, {0.1, 0.1, 1.0049875621120890, 2.9171904291629644, 0.1, 10.954907576059234}},
        {KAS_OP_SQUARE, {1, 0, 1, 72.25, 10000, 10000}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f;
        fixture_target(&f, 1, 2, 3, 3, 3);
        fixture_create(&f,
                       kas_build_elementwise(&f.kernel, cases[i].op, kas_build_input(&f.kernel)));
        set(f.x, VALUES(-1, 0, 1, 8.5, -110, 120));
        fixture_forward(&f);
        assert_values(kas_op_get(cases[i].op)->name, f.y, cases[i].y, 6);
        fixture_free(&f);
    }
}

TEST(test_folds)
{
    fixture f;
    fixture_target(&f, 2, 2, 2, 3, 3);
    int x = kas_build_input(&f.kernel);
    int over_c = kas_build_fold(&f.kernel, KAS_OP_FOLD_AVG, x, 0);
    int over_h = kas_build_fold(&f.kernel, KAS_OP_FOLD_MAX, x, 1);
    int over_w = kas_build_fold(&f.kernel, KAS_OP_FOLD_MAX, x, 2);
    int sum = kas_build_broadcast(&f.kernel, KAS_OP_ADD, over_c, x);
    int more = kas_build_broadcast(&f.kernel, KAS_OP_ADD, over_h, sum);
    fixture_create(&f, kas_build_broadcast(&f.kernel, KAS_OP_ADD, over_w, more));
    set(f.x, VALUES(1, 2, 3, 4, -5, 6, 7, -8));
    fixture_forward(&f);
    assert_node(&f, over_c, VALUES(-2, 4, 5, -2));
    assert_node(&f, over_h, VALUES(3, 4, 7, 6));
    assert_node(&f, over_w, VALUES(2, 4, 6, 7));
    assert_values("output", f.y,
                  VALUES(1 - 2 + 3 + 2, 2 + 4 + 4 + 2, 3 + 5 + 3 + 4, 4 - 2 + 4 + 4, -5 - 2 + 7 + 6,
                         6 + 4 + 6 + 6, 7 + 5 + 7 + 7, -8 - 2 + 6 + 7));
    fixture_free(&f);
}

TEST(test_softmax)
{
    const double l2 = 0.69314718055994531, l3 = 1.0986122886681098, l4 = 2 * l2;
    fixture f;
    fixture_target(&f, 2, 1, 2, 3, 3);
    int x = kas_build_input(&f.kernel);
    int over_c = kas_build_softmax(&f.kernel, x, 0, 1);
    int over_all = kas_build_softmax(&f.kernel, x, 0, 3);
    fixture_create(&f, kas_build_broadcast(&f.kernel, KAS_OP_ADD, over_c, over_all));
    set(f.x, VALUES(0, l2, l3, l4)); /* exponentials 1 2 / 3 4 */
    fixture_forward(&f);
    assert_node(&f, over_c, VALUES(1. / 4, 1. / 3, 3. / 4, 2. / 3));
    assert_node(&f, over_all, VALUES(0.1, 0.2, 0.3, 0.4));
    for (int i = 0; i < 4; i++)
        f.x[i] += 5000; /* only differences count: nothing overflows */
    fixture_forward(&f);
    assert_true(fabs(f.y[3] - (2. / 3 + 0.4)) <= 1e-10);
    fixture_free(&f);
}

/* LHS [G0, H, W] over RHS [C, H, W], C = 4, G0 = 2: channel c reads c mod 2. */
TEST(test_broadcast_tiles)
{
    const struct {
        kas_op op;
        double y[8];
    } cases[] = {{KAS_OP_ADD, {2, 4, 10, -2, 2, 3, 9, -2}},
                 {KAS_OP_SUB, {0, 0, 0, 0, 0, 1, 1, 0}},
                 {KAS_OP_MUL, {1, 4, 25, 1, 1, 2, 20, 1}},
                 {KAS_OP_MIN, {1, 2, 5, -1, 1, 1, 4, -1}},
                 {KAS_OP_MAX, {1, 2, 5, -1, 1, 2, 5, -1}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f;
        fixture_target(&f, 4, 1, 2, 3, 3);
        int x = kas_build_input(&f.kernel);
        int two = kas_build_fc(&f.kernel, x, false, "G0");
        fixture_create(&f, kas_build_broadcast(&f.kernel, cases[i].op, two, x));
        set(f.x, VALUES(1, 2, 5, -1, 1, 1, 4, -1));
        set(f.weight[0], VALUES(1, 0, 0, 0, 0, 1, 0, 0)); /* the first two channels */
        fixture_forward(&f);
        assert_node(&f, two, VALUES(1, 2, 5, -1));
        assert_values(kas_op_get(cases[i].op)->name, f.y, cases[i].y, 8);
        fixture_free(&f);
    }
}

/* One channel, two parts in, two out: a 2 x 2 matrix divided by sqrt(2). Instance (q, p) has weight
 * number 2q + p. */
TEST(test_instances)
{
    const double r = 0.70710678118654752;
    fixture f;
    fixture_target(&f, 1, 1, 1, 3, 3);
    fixture_parts(&f, 2, 2);
    f.batch = 2;
    fixture_create(&f, kas_build_fc(&f.kernel, kas_build_input(&f.kernel), false, "C"));
    assert_int_equal(kas_reference_weight_size(f.ref, 0), 4);
    set(f.x, VALUES(1, 10, -2, 5));
    set(f.weight[0], VALUES(1, 2, 3, 4));
    fixture_forward(&f);
    assert_values("instances", f.y, VALUES(21 * r, 43 * r, 8 * r, 14 * r));
    fixture_free(&f);
}

RUN_TESTS()
