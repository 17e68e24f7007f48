/* pool_avg, pool_max and shuffle: rules, cost, files, values by hand, gradients, export. */
#include "primitive_fixture.h"

enum { HW = KAS_AXIS_H | KAS_AXIS_W };

TEST(test_rules)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k), g = kas_build_group(&k, x, 0, 0);
    const int p = kas_build_pool(&k, KAS_OP_POOL_MAX, g, HW, 5);
    assert_true(kas_shape_equal(&k.node[p].shape, &k.node[g].shape));
    assert_true(k.node[p].shape.is_group[0]); /* marks stay */
    assert_refused(kas_build_pool(&k, KAS_OP_POOL_AVG, x, 0, 0), "axes");
    assert_refused(kas_build_pool(&k, KAS_OP_POOL_AVG, x, HW, 4), "kernel 4");
    const int row = kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 1);
    assert_refused(kas_build_pool(&k, KAS_OP_POOL_AVG, row, KAS_AXIS_H, 0), "axis");
    assert_true(kas_build_pool(&k, KAS_OP_POOL_AVG, row, KAS_AXIS_W, 0) > 0);
    const int s = kas_build_shuffle(&k, g, 1, 1);
    assert_true(kas_shape_equal(&k.node[s].shape, &k.node[g].shape));
    assert_refused(kas_build_shuffle(&k, x, 1, 0), "dim 1");
    assert_refused(kas_build_shuffle(&k, x, 0, 4), "G3");
    assert_refused(kas_build_shuffle(&k, g, 0, 0), "nothing to shuffle"); /* one channel a group */
    const int map = kas_build_fc(&k, x, false, "x0");
    assert_true(kas_build_shuffle(&k, map, 0, 0) > 0);
}

TEST(test_cost_and_integers)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k);
    const int p = kas_build_pool(&k, KAS_OP_POOL_AVG, x, KAS_AXIS_W, 0);
    assert_cost(&k, 8 * 5 * 7 * 5, 0); /* K_W = 5 */
    kas_build_pool(&k, KAS_OP_POOL_MAX, p, HW, 3);
    assert_cost(&k, 8 * 5 * 7 * (5 + 9), 0);
    kas_build_shuffle(&k, x, 0, 0);
    assert_cost(&k, 8 * 5 * 7 * (5 + 9), 0);
    kas_binding b = primitive_binding();
    assert_int_equal(kas_kernel_check_binding(&k, &b), KAS_OK);
    b.value[KAS_SYM_G0] = 3;
    assert_int_equal(kas_kernel_check_binding(&k, &b), KAS_ILLEGAL);
    assert_non_null(strstr(kas_error(), "node 3 (shuffle): the number of channels in a group"));
}

TEST(test_files)
{
    kas_kernel k = {0};
    int x = kas_build_pool(&k, KAS_OP_POOL_AVG, kas_build_input(&k), KAS_AXIS_H, 7);
    x = kas_build_shuffle(&k, kas_build_pool(&k, KAS_OP_POOL_MAX, x, HW, 0), 0, 2);
    k.group_value[2] = 4;
    assert_round_trip(&k, "input();pool_avg(0 axes=h kernel=7);pool_max(1 axes=hw);"
                          "shuffle(2 dim=0 by=G0);G0=4;");
    assert_says(&k, 1, "mean of neighbours along H, 7 taps");
    assert_says(&k, 2, "maximum of neighbours along H and W");
    assert_says(&k, 3, "shuffle dim 0 (C) in G2 groups");
    assert_python(&k, 1, "n1 = pool(n0, (H, W), (7, 1), largest=False)");
    assert_python(&k, 2, "n2 = pool(n1, (H, W), (K_H, K_W), largest=True)");
    assert_python(&k, 3, "n3 = n2.unflatten(2, (G2, -1)).transpose(2, 3).flatten(2, 3)");
    const int s = kas_build_split(&k, "W", 2, 0), row = kas_build_fold(&k, KAS_OP_FOLD_MAX, x, 1);
    const int half = kas_build_slice(&k, row, 1, s, 0);
    const int pooled = kas_build_pool(&k, KAS_OP_POOL_AVG, half, KAS_AXIS_W, 3);
    assert_python(&k, pooled, "pool(n5, (1, W // 2), (1, 3), largest=False)");
}

/* What lies outside counts neither for the mean nor, all values being negative, for the maximum. */
TEST(test_pool_values)
{
    fixture f;
    fixture_target(&f, 1, 3, 2, 1, 3);
    int x = kas_build_input(&f.kernel);
    const int mean = kas_build_pool(&f.kernel, KAS_OP_POOL_AVG, x, KAS_AXIS_H, 3);
    const int both = kas_build_pool(&f.kernel, KAS_OP_POOL_AVG, x, HW, 3);
    const int own = kas_build_pool(&f.kernel, KAS_OP_POOL_MAX, x, HW, 0); /* 1 x 3 */
    const int wide = kas_build_pool(&f.kernel, KAS_OP_POOL_MAX, x, KAS_AXIS_H, 7);
    x = kas_build_broadcast(&f.kernel, KAS_OP_ADD, mean, both);
    x = kas_build_broadcast(&f.kernel, KAS_OP_ADD, own, x);
    fixture_create(&f, kas_build_broadcast(&f.kernel, KAS_OP_ADD, wide, x));
    memcpy(f.x, (double[]){-1, -2, -3, -8, -7, -6}, 6 * sizeof *f.x);
    fixture_forward(&f);
    assert_node(&f, mean, VALUES(-2, -5, -11. / 3, -16. / 3, -5, -7));
    assert_node(&f, both, VALUES(-3.5, -3.5, -4.5, -4.5, -6, -6));
    assert_node(&f, own, VALUES(-1, -1, -3, -3, -6, -6));
    assert_node(&f, wide, VALUES(-1, -2, -1, -2, -1, -2));
    fixture_free(&f);
}

/* The first of equal neighbours, row by row, takes all of the gradient. */
TEST(test_pool_ties)
{
    fixture f;
    fixture_target(&f, 1, 2, 3, 3, 3);
    fixture_create(&f,
                   kas_build_pool(&f.kernel, KAS_OP_POOL_MAX, kas_build_input(&f.kernel), HW, 3));
    memcpy(f.x, (double[]){0, 5, 1, 5, 0, 5}, 6 * sizeof *f.x);
    memcpy(f.dy, (double[]){1, 10, 100, 1000, 10000, 100000}, 6 * sizeof *f.x);
    fixture_forward(&f);
    fixture_backward(&f);
    assert_values("maximum", f.y, VALUES(5, 5, 5, 5, 5, 5));
    assert_values("ties", f.dx, VALUES(0, 111111, 0, 0, 0, 0));
    fixture_free(&f);
}

/* Six channels in two groups: 0 1 2 | 3 4 5 become 0 3 1 4 2 5. */
TEST(test_shuffle_values)
{
    fixture f;
    fixture_target(&f, 6, 1, 1, 3, 3);
    fixture_create(&f, kas_build_shuffle(&f.kernel, kas_build_input(&f.kernel), 0, 0));
    memcpy(f.x, (double[]){0, 1, 2, 3, 4, 5}, 6 * sizeof *f.x);
    memcpy(f.dy, (double[]){0, 1, 2, 3, 4, 5}, 6 * sizeof *f.x);
    fixture_forward(&f);
    fixture_backward(&f);
    assert_values("shuffle", f.y, VALUES(0, 3, 1, 4, 2, 5));
    assert_values("and back", f.dx, VALUES(0, 2, 4, 1, 3, 5));
    fixture_free(&f);
}

TEST(test_redundant)
{
    const kas_op avg = KAS_OP_POOL_AVG, max = KAS_OP_POOL_MAX;
    kas_kernel k = {0};
    const int x = kas_build_input(&k), h = kas_build_pool(&k, max, x, KAS_AXIS_H, 3);
    const int w = kas_build_pool(&k, max, x, KAS_AXIS_W, 3);
    assert_redundant(&k, kas_build_pool(&k, max, h, KAS_AXIS_W, 3), true); /* both at once */
    assert_redundant(&k, kas_build_pool(&k, max, h, KAS_AXIS_W, 5), false);
    assert_redundant(&k, kas_build_pool(&k, max, w, KAS_AXIS_H, 5), true); /* H first */
    assert_redundant(&k, kas_build_pool(&k, max, h, KAS_AXIS_H, 3), false);
    assert_redundant(&k, kas_build_pool(&k, avg, h, KAS_AXIS_W, 3), false);
    const int relu = kas_build_elementwise(&k, KAS_OP_RELU, x);
    const int mean = kas_build_pool(&k, avg, relu, HW, 0);
    assert_redundant(&k, kas_build_elementwise(&k, KAS_OP_ABS, mean), true);
    const int map = kas_build_fc(&k, x, false, "C"), g = kas_build_group(&k, x, 0, 0);
    assert_redundant(&k, kas_build_shuffle(&k, map, 0, 0), true);
    const int grouped = kas_build_fc(&k, g, true, "C");
    const int shuffled = kas_build_shuffle(&k, grouped, 0, 0);
    assert_redundant(&k, shuffled, false);
    assert_redundant(&k, kas_build_fc(&k, shuffled, false, "x0"), true);
    const int again = kas_build_group(&k, shuffled, 0, 1);
    assert_redundant(&k, kas_build_fc(&k, again, true, "C"), false);
}

static int k_pool_avg(kas_kernel *k, int x)
{
    const int both = kas_build_pool(k, KAS_OP_POOL_AVG, kas_build_fc(k, x, false, "C"), HW, 5);
    return kas_build_broadcast(k, KAS_OP_MUL, kas_build_pool(k, KAS_OP_POOL_AVG, x, KAS_AXIS_W, 0),
                               both);
}
static int k_pool_max(kas_kernel *k, int x)
{
    const int both = kas_build_pool(k, KAS_OP_POOL_MAX, kas_build_fc(k, x, false, "C"), HW, 3);
    return kas_build_broadcast(k, KAS_OP_MUL, kas_build_pool(k, KAS_OP_POOL_MAX, x, KAS_AXIS_H, 0),
                               both);
}
static int k_shuffle(kas_kernel *k, int x)
{
    const int g = kas_build_group(k, kas_build_shuffle(k, x, 0, 0), 0, 0);
    return kas_build_shuffle(k, kas_build_fc(k, g, true, "C"), 0, 0);
}

TEST(test_gradients)
{
    assert_differentiates("pool_avg", k_pool_avg);
    assert_differentiates("pool_max", k_pool_max);
    assert_differentiates("shuffle", k_shuffle);
}

RUN_TESTS()
