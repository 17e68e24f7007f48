/* mix: rules, weight, cost, files, values by hand, gradient. */
#include "primitive_fixture.h"

TEST(test_rules)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k), g = kas_build_group(&k, x, 0, 0);
    int u = kas_build_unfold(&k, g, KAS_AXIS_W); /* [G0, C/G0, K_W, H, W] */
    assert_shape(&k, kas_build_mix(&k, u, 0, 1, "x0"), "[x0, C/G0, K_W, H, W]");
    assert_shape(&k, kas_build_mix(&k, u, 1, 3, "C"), "[G0, C, H, W]");
    assert_shape(&k, kas_build_mix(&k, u, 0, 3, "C"), "[C, H, W]");
    int front = kas_build_mix(&k, u, 0, 1, "x0"), back = kas_build_mix(&k, u, 1, 3, "G0");
    assert_false(k.node[front].shape.is_group[0]); /* the new dim is none; the others keep marks */
    assert_true(k.node[back].shape.is_group[0]);
    assert_refused(kas_build_mix(&k, u, 2, 4, "C"), "3 channel dims");
    assert_refused(kas_build_mix(&k, u, 1, 1, "C"), "[1, 1)");
    assert_refused(kas_build_mix(&k, front, 1, 2, "x1"), "Theorem 1");
    assert_shape(&k, kas_build_mix(&k, front, 0, 2, "x1"), "[x1, K_W, H, W]"); /* x0 is gone */
}

TEST(test_weight_and_cost)
{
    kas_kernel k = {0};
    int g = kas_build_group(&k, kas_build_input(&k), 0, 0);
    int m = kas_build_mix(&k, g, 1, 2, "x0"); /* [2, 4, ..] -> [2, 6, ..] */
    assert_weight(&k, m, 1, 6, 4, KAS_WEIGHT_NORMAL);
    assert_cost(&k, 2 * 6 * 5 * 7 * 4, 24);
}

TEST(test_files)
{
    kas_kernel k = {0};
    int g = kas_build_group(&k, kas_build_input(&k), 0, 0);
    int m = kas_build_mix(&k, g, 1, 2, "x3");
    int y = kas_build_mix(&k, m, 0, 2, "C");
    k.group_value[0] = 2;
    assert_round_trip(&k, "input();group(0 dim=0 by=G0);mix(1 dim=1 dim_end=2 out=x0);"
                          "mix(2 dim=0 dim_end=2 out=C);G0=2;");
    assert_says(&k, m, "mix dim 1 (C/G0) to x3");
    assert_says(&k, y, "mix dims 0 to 1 to C");
    assert_python(&k, m, "self.weight0 @ n1.reshape(B, R, G0, C // G0, -1)");
    assert_python(&k, y, "self.weight0 @ n2.reshape(B, R, 1, G0 * x3, -1)");
}

/* [G0 = 2, C/G0 = 2, 1, 1]: the same matrix for both groups, or one across them. */
TEST(test_values)
{
    for (int dim = 0; dim < 2; dim++) {
        fixture f;
        fixture_target(&f, 4, 1, 1, 3, 3);
        int g = kas_build_group(&f.kernel, kas_build_input(&f.kernel), 0, 0);
        fixture_create(&f, kas_build_mix(&f.kernel, g, dim, dim + 1, dim ? "C/G0" : "G0"));
        memcpy(f.x, (double[]){1, 2, 3, 4}, 4 * sizeof *f.x);
        memcpy(f.weight[0], (double[]){1, 10, 0, -1}, 4 * sizeof *f.x);
        fixture_forward(&f);
        assert_values("mix", f.y, dim ? (double[]){21, -2, 43, -4} : (double[]){31, 42, -3, -4}, 4);
        fixture_free(&f);
    }
}

static int k_mix(kas_kernel *k, int x)
{
    int u = kas_build_unfold(k, kas_build_group(k, x, 0, 0), KAS_AXIS_H);
    int m = kas_build_elementwise(k, KAS_OP_TANH, kas_build_mix(k, u, 1, 3, "x0"));
    return kas_build_mix(k, kas_build_mix(k, m, 0, 1, "G0"), 1, 2, "C/G0");
}

TEST(test_gradients)
{
    assert_differentiates("mix", k_mix);
}

RUN_TESTS()
