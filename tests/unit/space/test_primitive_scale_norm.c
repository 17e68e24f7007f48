/* scale and norm: rules, weights, cost, files, values by hand, gradients, export. */
#include "primitive_fixture.h"

TEST(test_rules)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k), g = kas_build_group(&k, x, 0, 0);
    int s = kas_build_along(&k, KAS_OP_SCALE, g, 0, 2);
    assert_int_equal(k.node[s].shape.channels, 2);
    assert_true(k.node[s].shape.is_group[0]); /* marks stay */
    assert_refused(kas_build_along(&k, KAS_OP_SCALE, g, 1, 3), "2 channel dims");
    assert_refused(kas_build_along(&k, KAS_OP_SCALE, g, 1, 1), "[1, 1)");
    assert_true(kas_build_along(&k, KAS_OP_NORM, g, 1, 4) > 0);
    assert_refused(kas_build_along(&k, KAS_OP_NORM, g, 1, 5), "4 dims");
    int v = kas_build_along(&k, KAS_OP_SCALE, kas_build_fc(&k, x, false, "x0"), 0, 1);
    assert_true(v > 0); /* a variable in the weight: Theorem 1 is about tensors */
}

TEST(test_weight_and_cost)
{
    kas_kernel k = {0};
    int s = kas_build_along(&k, KAS_OP_SCALE, kas_build_group(&k, kas_build_input(&k), 0, 0), 1, 2);
    assert_weight(&k, s, 4, 1, 1, KAS_WEIGHT_ONES); /* C/G0 = 8/2 */
    int n = kas_build_along(&k, KAS_OP_NORM, s, 1, 4);
    assert_cost(&k, 2 * 8 * 5 * 7, 4); /* one FLOP an element, for each of the two */
    assert_false(kas_op_has_weight((kas_op)k.node[n].op));
}

TEST(test_files)
{
    kas_kernel k = {0};
    int s = kas_build_along(&k, KAS_OP_SCALE, kas_build_input(&k), 0, 1);
    kas_build_along(&k, KAS_OP_NORM, s, 0, 3);
    assert_round_trip(&k, "input();scale(0 dim=0 dim_end=1);norm(1 dim=0 dim_end=3);");
    assert_says(&k, 1, "scale over dim 0 (C)");
    assert_says(&k, 2, "norm over dims 0 to 2");
    assert_python(&k, 1, "n1 = n0 * self.weight0.reshape(R, C, 1, 1)");
    assert_python(&k, 2, "n2 = normalise(n1, [2, 3, 4])");
}

TEST(test_values)
{
    fixture f;
    fixture_target(&f, 2, 1, 2, 3, 3);
    int x = kas_build_input(&f.kernel);
    int s = kas_build_along(&f.kernel, KAS_OP_SCALE, x, 0, 1);
    fixture_create(&f, kas_build_along(&f.kernel, KAS_OP_NORM, s, 2, 3));
    memcpy(f.x, (double[]){1, 3, 5, 5}, 4 * sizeof *f.x);
    memcpy(f.weight[0], (double[]){2, -1}, 2 * sizeof *f.x);
    fixture_forward(&f);
    assert_node(&f, s, VALUES(2, 6, -5, -5));
    const double r = 2 / sqrt(4 + 1e-5); /* mean 4, variance 4 */
    assert_values("norm over W", f.y, VALUES(-r, r, 0, 0));
    fixture_free(&f);
}

static int k_scale(kas_kernel *k, int x)
{
    int all = kas_build_along(k, KAS_OP_SCALE, kas_build_group(k, x, 0, 0), 0, 2);
    return kas_build_fc(k, kas_build_along(k, KAS_OP_SCALE, all, 1, 2), false, "C");
}
static int k_norm(kas_kernel *k, int x)
{
    int rows = kas_build_along(k, KAS_OP_NORM, kas_build_fc(k, x, false, "C"), 0, 2);
    return kas_build_broadcast(k, KAS_OP_MUL, kas_build_along(k, KAS_OP_NORM, x, 1, 3), rows);
}

TEST(test_gradients)
{
    assert_differentiates("scale", k_scale);
    assert_differentiates("norm", k_norm);
}

RUN_TESTS()
