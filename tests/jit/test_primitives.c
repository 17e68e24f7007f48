/* The lowering of the primitives beyond the paper's Table 1, against the float64 reference. */
#include "agree_fixture.h"

/* Factors of one channel dim, of several, in front of a map and behind one; tiled over all q. */
static void test_scale(void **state)
{
    (void)state;
    kas_kernel plain = {0}, behind = {0}, part = {0};
    kas_build_along(&plain, KAS_OP_SCALE, kas_build_input(&plain), 0, 1);
    agree_large("scale", &plain);
    const int map = kas_build_fc(&behind, kas_build_input(&behind), false, "C");
    kas_build_along(&behind, KAS_OP_SCALE, kas_build_unary(&behind, KAS_OP_TANH, map), 0, 1);
    agree("scale behind a map", &behind);
    int x = kas_build_input(&part);
    int y = kas_build_unfold(&part, kas_build_group(&part, x, 0, 0), KAS_AXIS_W);
    y = kas_build_along(&part, KAS_OP_SCALE, y, 1, 3); /* [C/G0, K_W] of [G0, C/G0, K_W, H, W] */
    y = kas_build_along(&part, KAS_OP_SCALE, kas_build_fold(&part, KAS_OP_FOLD_MAX, y, 2), 0, 1);
    kas_build_blend(&part, KAS_OP_ADD, y, y);
    agree("scale of part of the dims", &part);
}

static void test_norm(void **state)
{
    (void)state;
    for (int from = 0; from < 3; from++)
        for (int to = from + 1; to <= 3; to += 2) {
            kas_kernel k = {0};
            const int x = kas_build_input(&k);
            kas_build_blend(&k, KAS_OP_MUL, kas_build_along(&k, KAS_OP_NORM, x, from, to), x);
            agree("norm", &k);
        }
    kas_kernel group = {0};
    int y =
        kas_build_group(&group, kas_build_fc(&group, kas_build_input(&group), false, "C"), 0, 1);
    y = kas_build_along(&group, KAS_OP_NORM, y, 1, 4);
    kas_build_along(&group, KAS_OP_SCALE, y, 0, 2);
    agree_large("group norm", &group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_norm),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
