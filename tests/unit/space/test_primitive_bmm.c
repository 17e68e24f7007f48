/* bmm: shapes of all transposes, rules, cost, files, values by hand, gradients. */
#include "primitive_fixture.h"

enum { LHS = KAS_TRANSPOSE_LHS, RHS = KAS_TRANSPOSE_RHS };

TEST(test_shapes)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k), y = kas_build_fc(&k, x, false, "x0");
    int positions = kas_build_bmm(&k, x, x, LHS, true),
        channels = kas_build_bmm(&k, y, x, RHS, false);
    assert_shape(&k, positions, "[H, W, H, W]");
    assert_shape(&k, channels, "[x0, C]"); /* neither H nor W */
    assert_shape(&k, kas_build_bmm(&k, y, positions, 0, false), "[x0, H, W]");
    assert_shape(&k, kas_build_bmm(&k, y, positions, RHS, false), "[x0, H, W]"); /* pixels again */
    assert_shape(&k, kas_build_bmm(&k, positions, y, RHS, false), "[H, W, x0]");
    assert_shape(&k, kas_build_bmm(&k, positions, y, LHS | RHS, false), "[H, W, x0]");
    assert_shape(&k, kas_build_bmm(&k, channels, x, 0, false), "[x0, H, W]");
    assert_shape(&k, kas_build_bmm(&k, channels, y, LHS, false), "[C, H, W]");
    int row = kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 1); /* [C, W] */
    assert_shape(&k, kas_build_bmm(&k, x, row, LHS, false), "[H, W, W]");
}

TEST(test_batch)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k), g = kas_build_group(&k, x, 0, 0), h = kas_build_group(&k, x, 0, 1);
    int scores = kas_build_bmm(&k, g, g, RHS, true);
    assert_shape(&k, scores, "[G0, C/G0, C/G0]");
    assert_true(k.node[scores].shape.is_group[0]);
    assert_shape(&k, kas_build_bmm(&k, scores, g, 0, false), "[G0, C/G0, H, W]");
    /* other groups are no batch: [G0, C/G0] against [G1, C/G1] over positions */
    assert_shape(&k, kas_build_bmm(&k, g, h, RHS, false), "[G0, C/G0, G1, C/G1]");
    assert_shape(&k, kas_build_bmm(&k, g, h, LHS, false), "[H, W, H, W]");
}

TEST(test_refusals)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k), y = kas_build_fc(&k, x, false, "x0"),
        z = kas_build_fc(&k, x, false, "x1");
    int row = kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 1);
    assert_refused(kas_build_bmm(&k, x, y, LHS, false), "different sizes");
    assert_refused(kas_build_bmm(&k, x, row, RHS, false), "different sizes");
    assert_refused(kas_build_bmm(&k, y, z, RHS, false), "Theorem 1");
    int scores = kas_build_bmm(&k, y, x, RHS, false); /* [x0, C] */
    assert_refused(kas_build_bmm(&k, scores, scores, 0, false), "neither");
    assert_refused(kas_build_bmm(&k, scores, z, 0, false), "last dims");
    int all = kas_build_fold(&k, KAS_OP_FOLD_AVG, kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 0), 0);
    assert_refused(kas_build_bmm(&k, all, all, LHS, false), "no channel dims");
    int two = kas_build_bmm(&k, y, y, LHS, false); /* x0 is contracted by both: gone */
    assert_shape(&k, two, "[H, W, H, W]");
}

/* Pixels that are channel dims make weights of one image size. */
TEST(test_maps_of_pixels)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k), scores = kas_build_bmm(&k, x, x, LHS, false); /* [H, W, H, W] */
    assert_true(kas_weight_spans_image(&k, kas_build_fc(&k, scores, false, "C")));
    assert_true(kas_weight_spans_image(&k, kas_build_mix(&k, scores, 1, 2, "C")));
    assert_true(kas_weight_spans_image(&k, kas_build_along(&k, KAS_OP_SCALE, scores, 0, 1)));
    int map = kas_build_fc(&k, x, false, "C");
    assert_false(kas_weight_spans_image(&k, map));
    assert_false(kas_weight_spans_image(&k, scores));
}

TEST(test_cost)
{
    kas_kernel k = {0}, soft = {0};
    int x = kas_build_input(&k);
    kas_build_bmm(&k, x, x, LHS, false);
    assert_cost(&k, 35. * 35 * 8, 0);
    x = kas_build_input(&soft);
    kas_build_bmm(&soft, x, x, RHS, true);
    assert_cost(&soft, 64. * 35 + 64, 0);
}

TEST(test_files)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k);
    int scores = kas_build_bmm(&k, x, x, RHS, true), y = kas_build_bmm(&k, scores, x, 0, false);
    assert_round_trip(&k, "input();bmm(0,0 rhs^T softmax);bmm(1,0);");
    assert_says(&k, scores, "bmm LHS RHS^T over H*W, softmax");
    assert_says(&k, y, "bmm LHS RHS over C");
    assert_python(&k, scores,
                  "n1 = n0.reshape(B, R, 1, C, H * W) @ n0.reshape(B, R, 1, C, H * W).mT"
                  " / math.sqrt(H * W)");
    assert_python(&k, scores, "n1 = torch.softmax(n1, 4)");
    assert_python(&k, y, "n2 = n1.reshape(B, R, 1, C, C) @ n0.reshape(B, R, 1, C, H * W)");
}

/* [C = 2, H = 1, W = 2]: x = (1 2 / 3 4), so x x^T = (5 11 / 11 25), x^T x = (10 14 / 14 20). */
TEST(test_values)
{
    const double r = sqrt(0.5);
    fixture f;
    fixture_target(&f, 2, 1, 2, 3, 3);
    int x = kas_build_input(&f.kernel);
    int over_pixels = kas_build_bmm(&f.kernel, x, x, RHS, false);
    int over_channels = kas_build_bmm(&f.kernel, x, x, LHS, false);
    int soft = kas_build_bmm(&f.kernel, x, x, LHS, true);
    int back = kas_build_bmm(&f.kernel, over_pixels, x, 0, false);
    int turned = kas_build_bmm(&f.kernel, x, soft, RHS, false);
    int both = kas_build_bmm(&f.kernel, x, over_channels, RHS, false);
    int sum = kas_build_broadcast(&f.kernel, KAS_OP_ADD, back, turned);
    fixture_create(&f, kas_build_broadcast(&f.kernel, KAS_OP_ADD, both, sum));
    memcpy(f.x, (double[]){1, 2, 3, 4}, 4 * sizeof *f.x);
    fixture_forward(&f);
    assert_node(&f, over_pixels, VALUES(5 * r, 11 * r, 11 * r, 25 * r));
    assert_node(&f, over_channels, VALUES(10 * r, 14 * r, 14 * r, 20 * r));
    const double a = 1 / (1 + exp(4 * r)), b = 1 / (1 + exp(6 * r)); /* share of the first key */
    assert_node(&f, soft, VALUES(a, 1 - a, b, 1 - b));
    assert_node(&f, back, VALUES(19, 27, 43, 61)); /* (5 11 / 11 25) (1 2 / 3 4) / 2 */
    assert_node(&f, turned,
                VALUES((a + 2 * (1 - a)) * r, (b + 2 * (1 - b)) * r, (3 * a + 4 * (1 - a)) * r,
                       (3 * b + 4 * (1 - b)) * r));
    assert_node(&f, both, VALUES(19, 27, 43, 61)); /* x (x^T x)^T / 2: the same */
    fixture_free(&f);
}

static int k_positions(kas_kernel *k, int x)
{
    int query = kas_build_fc(k, x, false, "x0"), key = kas_build_fc(k, x, false, "x0");
    int scores = kas_build_bmm(k, query, key, LHS, true);
    return kas_build_bmm(k, x, scores, RHS, false);
}
static int k_channels(kas_kernel *k, int x)
{
    int g = kas_build_group(k, kas_build_fc(k, x, false, "C"), 0, 0);
    return kas_build_bmm(k, kas_build_bmm(k, g, g, RHS, true), g, LHS, false);
}
static int k_plain(kas_kernel *k, int x)
{
    int pixels = kas_build_bmm(k, x, kas_build_fc(k, x, false, "C"), LHS, false);
    return kas_build_bmm(k, x, pixels, 0, false);
}

TEST(test_gradients)
{
    assert_differentiates("attention over positions", k_positions);
    assert_differentiates("attention over channels", k_channels);
    assert_differentiates("products", k_plain);
}

RUN_TESTS()
