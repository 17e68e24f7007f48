#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "support/build.h"
#include "host/space/file/kernel_json.h"
#include "host/space/solve/solve.h"
#include "support/sizes.h"

#define HW (KAS_AXIS_H | KAS_AXIS_W)

/* ---- 6.2 ---- */

static kas_shape shape(const char *const *dims)
{
    kas_shape s = {.spatial = {kas_dim_symbol(KAS_SYM_H), kas_dim_symbol(KAS_SYM_W)}};
    for (; *dims; dims++)
        assert_true(kas_dim_parse(*dims, &s.channel[s.channels++]));
    return s;
}
#define SHAPE(...) shape((const char *const[]){__VA_ARGS__, NULL})

static void assert_substitutions(kas_shape lhs, kas_shape rhs, int var, const char *const *wanted)
{
    kas_dim list[KAS_MAX_SUBSTITUTIONS];
    int count, found_var, expected = 0;
    OK(kas_match_substitutions(&lhs, &rhs, list, &count, &found_var));
    assert_int_equal(found_var, var);
    for (; wanted[expected]; expected++) {
        kas_dim dim;
        int hits = 0;
        assert_true(kas_dim_parse(wanted[expected], &dim));
        for (int i = 0; i < count; i++)
            hits += kas_dim_equal(&list[i], &dim);
        if (hits != 1)
            fail_msg("%s was found %d times", wanted[expected], hits);
    }
    assert_int_equal(count, expected);
}
#define SET(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(test_paper_substitution_sets)
{
    assert_substitutions(SHAPE("x1", "K_H"), SHAPE("G0", "x2/G0", "K_H", "K_W"), 1,
                         SET("1", "x2", "K_W", "K_W*x2"));
    /* The paper's set and 1: a factor of C*K_H as it is one of x2*K_W. */
    assert_substitutions(SHAPE("x1"), SHAPE("C", "K_H"), 1,
                         SET("1", "C", "K_H", "G0", "C/G0", "C*K_H", "G0*K_H", "C/G0*K_H"));
}

TEST(test_involution)
{
    kas_shape lhs = SHAPE("G0", "x2/G0"), rhs = SHAPE("G0", "C/G0", "K_H", "K_W");
    kas_dim list[KAS_MAX_SUBSTITUTIONS], wanted;
    int count, var, hits = 0;
    assert_int_equal(kas_match_substitutions(&lhs, &rhs, list, &count, &var), KAS_OK);
    assert_int_equal(var, 2);
    assert_true(kas_dim_parse("G0*K_H*K_W", &wanted));
    for (int i = 0; i < count; i++)
        hits += kas_dim_equal(&list[i], &wanted);
    assert_int_equal(hits, 1);
    kas_broadcast parts; /* K*K taps are tiled over the C/G channels of a group */
    assert_true(kas_dim_substitute(&lhs.channel[1], 2, &wanted, &lhs.channel[1]));
    assert_int_equal(kas_broadcast_align(&lhs, &rhs, &parts), KAS_OK);
    assert_int_equal(parts.prefix, 1);
    assert_true(kas_dim_div(&parts.rhs, &parts.lhs, &wanted));
    kas_dim repetitions;
    assert_true(kas_dim_parse("C/G0", &repetitions));
    assert_true(kas_dim_equal(&wanted, &repetitions));
}

TEST(test_other_substitutions)
{
    assert_substitutions(SHAPE("C"), SHAPE("x0"), -1, SET(NULL)); /* RHS is the solver's business */
    assert_substitutions(SHAPE("x0", "K_H"), SHAPE("x0", "K_W"), -1, SET(NULL)); /* stripped */
    assert_substitutions(SHAPE("K_H", "x0"), SHAPE("x0", "K_W"), -1, SET(NULL)); /* cancels */
    assert_substitutions(SHAPE("x0"), SHAPE("C/G0"), 0, SET("1", "C/G0"));
    assert_substitutions(SHAPE("x0/G0"), SHAPE("C/G0"), 0, SET("1", "G0", "C/G0", "C"));
    assert_substitutions(SHAPE("x0"), SHAPE("6"), 0, SET("1", "2", "3", "6"));
    assert_substitutions(SHAPE("x0", "K_H"), SHAPE("x1", "K_W"), 0, SET("1", "K_W*x1/K_H"));
    kas_dim list[KAS_MAX_SUBSTITUTIONS];
    int count, var;
    kas_shape lhs = SHAPE("x0", "K_H"), rhs = SHAPE("C");
    assert_int_equal(kas_match_substitutions(&lhs, &rhs, list, &count, &var), KAS_ILLEGAL);
}

/* ---- 6.3 ---- */

static kas_target target(uint32_t c_in, uint32_t c_out, uint32_t c, uint32_t h, uint32_t k,
                         uint32_t stride)
{
    kas_target t = TARGET_OF("", c_in, c_out, c, h, h, k, stride);
    snprintf(t.name, sizeof t.name, "conv%u-%u", c_in, c_out);
    return t;
}

TEST(test_group_numbers)
{
    kas_target t[2] = {target(32, 32, 32, 8, 3, 1), target(48, 48, 48, 8, 3, 1)};
    const uint32_t expected[] = {2, 4, 8, 16};
    uint32_t found[64];
    assert_int_equal(kas_group_numbers(t, 2, found), 4);
    assert_memory_equal(found, expected, sizeof expected);
    t[1].c = 27;
    assert_int_equal(kas_group_numbers(t, 2, found), 0);
}

/* Figure 3: broadcast of [G*K_H, H, W] to [x, H, W]; G = 4, K_H = 3 and 5, C_i = 4 C_1. */
static kas_kernel figure3(void)
{
    kas_kernel k = {.group_value = {4}};
    int x = kas_build_input(&k);
    int lhs = kas_build_fc(&k, x, false, "G0*K_H"), rhs = kas_build_fc(&k, x, false, "x0");
    kas_build_fc(&k, kas_build_broadcast(&k, KAS_OP_ADD, lhs, rhs), false, "C");
    assert_int_equal(kas_kernel_infer(&k), KAS_OK);
    return k;
}

static void assert_figure3(const kas_budget *budget, uint32_t first, uint32_t other)
{
    kas_kernel k = figure3();
    kas_target t[2] = {target(16, 16, 16, 8, 3, 1), target(64, 64, 64, 8, 5, 1)};
    kas_solution s;
    OK(kas_solve(&k, t, 2, budget, &s));
    assert_int_equal(s.binding[0].value[KAS_SYM_X0], first);
    assert_int_equal(s.binding[1].value[KAS_SYM_X0], other);
    kas_solution_free(&s);
    kas_target swapped[2] = {t[1], t[0]}; /* the layer with the fewest channels leads */
    assert_int_equal(kas_solve(&k, swapped, 2, budget, &s), KAS_OK);
    assert_int_equal(s.binding[0].value[KAS_SYM_X0], other);
    assert_int_equal(s.binding[1].value[KAS_SYM_X0], first);
    kas_solution_free(&s);
}

/* Parameters of figure3 with x = x1 at the first layer and xi at the other. */
static double figure3_params(double x1, double xi)
{
    return 16 * 12 + 2 * 16 * x1 + 64 * 20 + 2 * 64 * xi;
}

TEST(test_figure_3)
{
    const double conv = 16 * 16 * 9 + 64 * 64 * 25, none = 1e6;
    kas_budget budget = {.max_flops_ratio = none,
                         .max_params_ratio = figure3_params(12, 60) / conv};
    assert_figure3(&budget, 12, 60);
    budget.max_params_ratio = figure3_params(48, 240) / conv; /* admits exactly two doublings */
    assert_figure3(&budget, 48, 240);
    /* Room for one doubling of the wide layer, 7680: the cheap layer is served first. */
    budget.max_params_ratio = (figure3_params(12, 60) + 2 * 64 * 60) / conv;
    assert_figure3(&budget, 192, 60);
    budget.max_params_ratio = figure3_params(12, 60) / conv - 1e-6;
    kas_kernel k = figure3();
    kas_target t[2] = {target(16, 16, 16, 8, 3, 1), target(64, 64, 64, 8, 5, 1)};
    kas_solution s;
    assert_int_equal(kas_solve(&k, t, 2, &budget, &s), KAS_OVER_BUDGET);
    /* The same with FLOPs: the maps and one addition an element. */
    double pixels = 64, conv_flops = conv * pixels;
    budget.max_params_ratio = none;
    budget.max_flops_ratio = (figure3_params(48, 240) + 48 + 240) * pixels / conv_flops;
    assert_figure3(&budget, 48, 240);
}

TEST(test_conditions)
{
    /* x0 is grouped by 4, and shared out among 4 groups of a grouped map: multiples of 4. */
    kas_kernel k = {.group_value = {4}};
    int f = kas_build_fc(&k, kas_build_input(&k), false, "x0");
    int g = kas_build_fc(&k, kas_build_group(&k, f, 0, 0), true, "x1");
    kas_build_fc(&k, g, false, "C");
    kas_target t[3] = {target(12, 12, 12, 8, 3, 1), target(32, 32, 32, 4, 3, 1),
                       target(12, 12, 12, 8, 3, 1)};
    kas_budget budget = {.max_flops_ratio = 0.5, .max_params_ratio = 1};
    kas_solution s;
    assert_int_equal(kas_kernel_infer(&k), KAS_OK);
    assert_int_equal(kas_solve(&k, t, 3, &budget, &s), KAS_OK);
    double flops = 0, params = 0;
    for (int i = 0; i < 3; i++) {
        kas_cost cost;
        assert_int_equal(kas_kernel_check_binding(&k, &s.binding[i]), KAS_OK);
        assert_int_equal(s.binding[i].value[KAS_SYM_X0] % 4, 0);
        assert_int_equal(s.binding[i].value[KAS_SYM_X0 + 1] % 4, 0);
        assert_int_equal(kas_layer_cost(&k, &t[i], &s.binding[i], &cost), KAS_OK);
        flops += cost.flops;
        params += cost.params;
    }
    assert_true(flops == s.flops && params == s.params);
    assert_true(s.flops <= 0.5 * s.conv_flops && s.params <= s.conv_params);
    assert_memory_equal(&s.binding[0], &s.binding[2], sizeof s.binding[0]); /* alike */
    kas_solution_free(&s);
}

TEST(test_refusals)
{
    kas_kernel k = {.group_value = {4}};
    int x = kas_build_input(&k), f = kas_build_fc(&k, x, false, "x0");
    kas_build_broadcast(&k, KAS_OP_MUL, f, x); /* x0 would have to divide C */
    kas_target t = target(16, 16, 16, 8, 3, 1);
    kas_budget none = {0};
    kas_solution s;
    assert_int_equal(kas_kernel_infer(&k), KAS_OK);
    assert_int_equal(kas_solve(&k, &t, 1, &none, &s), KAS_ILLEGAL);
    assert_non_null(strstr(kas_error(), "x0"));
    k = (kas_kernel){.group_value = {3}}; /* 3 does not divide 16 */
    kas_build_fc(&k, kas_build_group(&k, kas_build_input(&k), 0, 0), true, "C");
    assert_int_equal(kas_solve(&k, &t, 1, &none, &s), KAS_ILLEGAL);
    assert_non_null(strstr(kas_error(), "(group): the size C/G0 = 16/3 is not an integer at"));
    k = figure3();
    kas_budget small = {.max_tensor = 12 * 64};
    assert_int_equal(kas_solve(&k, &t, 1, &small, &s), KAS_UNSUPPORTED); /* the input has 16*64 */
    assert_non_null(strstr(kas_error(), "a tensor has 1024 elements an image, more than the limit "
                                        "of 768"));
    small = (kas_budget){.max_weight = 16 * 12};
    assert_int_equal(kas_solve(&k, &t, 1, &small, &s), KAS_OK); /* fits, and is never exceeded */
    assert_int_equal(s.binding[0].value[KAS_SYM_X0], 12);
    kas_solution_free(&s);
}

/* Cost of a layer: instances, the sum of parts and the pool of a stride. */
TEST(test_layer_cost)
{
    kas_kernel k = {0};
    kas_build_fc(&k, kas_build_unfold(&k, kas_build_input(&k), HW), false, "C");
    kas_target t = target(24, 16, 8, 5, 3, 2); /* gcd 8: 3 parts in, 2 parts out */
    kas_binding b = kas_target_binding(&k, &t);
    kas_cost cost;
    assert_int_equal(kas_layer_cost(&k, &t, &b, &cost), KAS_OK);
    assert_true(cost.params == 24 * 16 * 9);
    assert_true(cost.flops == 24 * 16 * 9 * 25 + 3 * 16 * 25 + 24 * 10 * 10);
    assert_true(cost.largest_tensor == 6 * 8 * 9 * 25);
    t.stride = 1;
    t.parts_in = 1;
    t.c_in = 8;
    assert_int_equal(kas_layer_cost(&k, &t, &b, &cost), KAS_OK);
    assert_true(cost.flops == kas_target_conv_flops(&t));
}

/* The known kernels at the shapes of ResNet-18: legal, and a convolution costs a convolution. */
TEST(test_known_kernels)
{
    static const char *const names[] = {
        "conv",       "depthwise_separable", "group_conv",        "shift_conv",
        "involution", "squeeze_excite",      "spatial_separable", "residual"};
    kas_target t[] = {target(64, 64, 64, 32, 3, 1),    target(64, 128, 64, 16, 3, 2),
                      target(128, 128, 128, 16, 3, 1), target(128, 256, 128, 8, 3, 2),
                      target(64, 128, 64, 16, 1, 2),   target(512, 512, 512, 4, 3, 1)};
    kas_budget budget = {.max_flops_ratio = 1.5, .max_params_ratio = 1.5};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[96];
        kas_kernel k;
        kas_solution s;
        snprintf(path, sizeof path, "kernels/%s.json", names[i]);
        if (kas_kernel_read_file(path, &k) != KAS_OK ||
            kas_solve(&k, t, sizeof t / sizeof *t, &budget, &s) != KAS_OK)
            fail_msg("%s: %s", path, kas_error());
        print_message("%-20s %.3f x FLOPs, %.3f x parameters\n", names[i], s.flops / s.conv_flops,
                      s.params / s.conv_params);
        if (i == 0)
            assert_true(s.params == s.conv_params);
        kas_solution_free(&s);
    }
}

RUN_TESTS()
