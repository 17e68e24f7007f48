/* The plain checker: it agrees with the space where that is right, and catches each kind of fault.
 */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "host/check/plain.h"
#include "host/check/recheck.h"
#include "support/build.h"
#include "host/space/file/kernel_json.h"
#include "host/space/sample/sampler.h"
#include "support/sizes.h"

enum { TARGETS = 3 };
static const kas_target targets[TARGETS] = {KAS_TARGET_PLAIN("a", 64, 56, 56, 3),
                                            TARGET_OF("b", 64, 128, 64, 28, 28, 3, 2),
                                            TARGET_OF("c", 96, 64, 32, 7, 5, 5, 1)};
static const kas_budget half = {.max_flops_ratio = 0.5, .max_params_ratio = 1};

static kas_kernel involution(void)
{
    kas_kernel k = {.group_value = {4}};
    int x = kas_build_input(&k);
    int f =
        kas_build_fc(&k, kas_build_elementwise(&k, KAS_OP_RELU, kas_build_fc(&k, x, false, "x0")),
                     false, "G0*K_H*K_W");
    int filter = kas_build_group(&k, f, 0, 0), parts = kas_build_group(&k, x, 0, 0);
    int taps = kas_build_unfold(&k, parts, KAS_AXIS_H | KAS_AXIS_W);
    int y = kas_build_broadcast(&k, KAS_OP_MUL, filter, taps);
    kas_build_fold(&k, KAS_OP_FOLD_AVG, kas_build_fold(&k, KAS_OP_FOLD_AVG, y, 3), 2);
    assert_int_equal(kas_kernel_infer(&k), KAS_OK);
    return k;
}

static void expect(kas_status status, const kas_kernel *kernel, const kas_solution *solution,
                   const char *words)
{
    const kas_status found = kas_plain_check(kernel, targets, TARGETS, &half, solution);
    if (found != status || (words && !strstr(kas_error(), words)))
        fail_msg("status %d \"%s\"; wanted %d \"%s\"", (int)found, kas_error(), (int)status,
                 words ? words : "");
}

/* By hand: x0 = 8 at 64 channels of 56 x 56. */
TEST(test_costs_of_an_involution)
{
    const kas_kernel k = involution();
    kas_plain_layer layer = {{[KAS_SYM_C] = 64,
                              [KAS_SYM_H] = 56,
                              [KAS_SYM_W] = 56,
                              [KAS_SYM_KH] = 3,
                              [KAS_SYM_KW] = 3,
                              [KAS_SYM_G0] = 4,
                              [KAS_SYM_X0] = 8}};
    kas_plain_tensor tensor[KAS_MAX_NODES];
    kas_plain_cost cost;
    assert_int_equal(kas_plain_nodes(&k, &layer, tensor, &cost), KAS_OK);
    const double pixel = 64 * 8 + 8 + 8 * 36 + 64 * 9 /* mul */ + 64 * 9 + 64 * 3 /* folds */;
    assert_true(cost.flops == pixel * 56 * 56);
    assert_true(cost.params == 64 * 8 + 8 * 36);
    assert_true(cost.largest_tensor == 64 * 9 * 56 * 56);
    assert_true(cost.largest_weight == 64 * 8);
    assert_int_equal(tensor[k.nodes - 1].channels, 2);
    assert_int_equal(tensor[k.nodes - 1].channel[1], 16);
}

/* Pools and shuffles keep shapes; windows of 3 x 3, and of 5 along W. */
TEST(test_pools_and_shuffles)
{
    kas_kernel k = {.group_value = {4}};
    int x = kas_build_pool(&k, KAS_OP_POOL_MAX, kas_build_input(&k), KAS_AXIS_H | KAS_AXIS_W, 0);
    x = kas_build_shuffle(&k, kas_build_pool(&k, KAS_OP_POOL_AVG, x, KAS_AXIS_W, 5), 0, 0);
    kas_build_fc(&k, kas_build_group(&k, x, 0, 0), true, "C");
    assert_int_equal(kas_kernel_infer(&k), KAS_OK);
    kas_plain_layer layer = {{[KAS_SYM_C] = 64,
                              [KAS_SYM_H] = 7,
                              [KAS_SYM_W] = 5,
                              [KAS_SYM_KH] = 3,
                              [KAS_SYM_KW] = 3,
                              [KAS_SYM_G0] = 4}};
    kas_plain_tensor tensor[KAS_MAX_NODES];
    kas_plain_cost cost;
    assert_int_equal(kas_plain_nodes(&k, &layer, tensor, &cost), KAS_OK);
    assert_true(cost.flops == 64 * 7 * 5 * (9 + 5 + 16));
    assert_int_equal(tensor[3].channel[0], 64);
    layer.value[KAS_SYM_G0] = 3;
    assert_int_equal(kas_plain_nodes(&k, &layer, tensor, &cost), KAS_ILLEGAL);
    assert_non_null(strstr(kas_error(), "node 3: 3 groups do not divide a dim of size 64"));
    layer.value[KAS_SYM_G0] = 4;
    kas_kernel bad = k;
    bad.node[2].kernel = 4;
    assert_int_equal(kas_plain_nodes(&bad, &layer, tensor, &cost), KAS_ILLEGAL);
    assert_non_null(strstr(kas_error(), "of size 4"));
}

/* By hand: each primitive alone on [4, 16, 8, 8]. */
TEST(test_costs_of_other_primitives)
{
    static const struct {
        kas_node node;
        double flops, params; /* flops per pixel */
        int channels;
        uint64_t last; /* size of the last channel dim */
    } cases[] = {
        {{.op = KAS_OP_CONV, .axes = 3, .kernel = 5, .grouped = 1},
         64 * 16 * 25,
         64 * 16 * 25,
         1,
         64},
        {{.op = KAS_OP_CONV, .axes = 1}, 64 * 64 * 3, 64 * 64 * 3, 1, 64},
        {{.op = KAS_OP_CONV_DEPTHWISE, .axes = 2, .kernel = 7}, 64 * 7, 64 * 7, 2, 16},
        {{.op = KAS_OP_MIX, .dim = 1, .dim_end = 2}, 4 * 64 * 16, 64 * 16, 2, 64},
        {{.op = KAS_OP_MIX, .dim = 0, .dim_end = 1}, 64 * 4 * 16, 64 * 4, 2, 16},
        {{.op = KAS_OP_SCALE, .dim = 0, .dim_end = 1}, 64, 4, 2, 16},
        {{.op = KAS_OP_NORM, .dim = 1, .dim_end = 4}, 64, 0, 2, 16},
        {{.op = KAS_OP_POOL_MAX, .axes = 3}, 64 * 9, 0, 2, 16},
        {{.op = KAS_OP_POOL_AVG, .axes = 1, .kernel = 5}, 64 * 5, 0, 2, 16},
        {{.op = KAS_OP_SHUFFLE, .dim = 1}, 0, 0, 2, 16},
        {{.op = KAS_OP_SLICE, .dim = 1, .segment = 1}, 0, 0, 2, 11},
    };
    const kas_plain_layer layer = {{[KAS_SYM_C] = 64,
                                    [KAS_SYM_H] = 8,
                                    [KAS_SYM_W] = 8,
                                    [KAS_SYM_KH] = 3,
                                    [KAS_SYM_KW] = 3,
                                    [KAS_SYM_R0] = 11,
                                    [KAS_SYM_G0] = 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kas_kernel k = {.nodes = 3, .group_value = {4}};
        kas_plain_tensor tensor[KAS_MAX_NODES];
        kas_plain_cost cost;
        assert_true(kas_dim_parse("1/4*C", &k.split[0].whole));
        k.split[0].first = 5;
        k.node[0] = (kas_node){.op = KAS_OP_INPUT};
        k.node[1] = (kas_node){.op = KAS_OP_GROUP, .inputs = 1};
        k.node[2] = cases[i].node;
        k.node[2].inputs = 1;
        k.node[2].in[0] = 1;
        k.node[2].out = kas_dim_symbol(KAS_SYM_C);
        assert_int_equal(kas_plain_nodes(&k, &layer, tensor, &cost), KAS_OK);
        if (cost.flops != 64 * cases[i].flops || cost.params != cases[i].params ||
            tensor[2].channels != cases[i].channels ||
            tensor[2].channel[tensor[2].channels - 1] != cases[i].last)
            fail_msg("case %zu: %g FLOPs, %g parameters", i, cost.flops, cost.params);
    }
}

TEST(test_each_fault_is_caught)
{
    const kas_kernel k = involution();
    kas_kernel bad;
    kas_solution s;
    assert_int_equal(kas_solve(&k, targets, TARGETS, &half, &s), KAS_OK);
    expect(KAS_OK, &k, &s, NULL);

    s.flops *= 1.001;
    expect(KAS_ILLEGAL, &k, &s, "FLOPs, but the solution says");
    s.flops /= 1.001;
    const double params = s.params;
    s.params = NAN;
    expect(KAS_ILLEGAL, &k, &s, "parameters, but the solution says");
    s.params = params;
    s.binding[1].value[KAS_SYM_X0]++;
    expect(KAS_ILLEGAL, &k, &s, "but the solution says");
    s.binding[1].value[KAS_SYM_X0] *= 1000;
    expect(KAS_UNSUPPORTED, &k, &s, "target 1 (b): a tensor of");
    s.binding[1].value[KAS_SYM_X0] = 0;
    expect(KAS_ILLEGAL, &k, &s,
           "target 1 (b): node 1: a size is not a whole number up to 2^40, or has no value");
    s.binding[1].value[KAS_SYM_X0] = s.binding[0].value[KAS_SYM_X0];
    s.binding[2].value[KAS_SYM_H]++;
    expect(KAS_ILLEGAL, &k, &s, "target 2 (c): H is 8 in the solution");
    kas_solution_free(&s);

    assert_int_equal(kas_solve(&k, targets, TARGETS, &half, &s), KAS_OK);
    bad = k;
    bad.node[8].dim = 4; /* folds H instead of a tap */
    expect(KAS_ILLEGAL, &bad, &s, "the output has");
    bad = k;
    bad.node[3].out.exp[KAS_SYM_G0] = 0; /* 9 outputs in 4 groups */
    expect(KAS_ILLEGAL, &bad, &s, "node 4: 4 groups do not divide a dim of size 9");
    bad = k;
    bad.node[3].out.num = 5; /* 5 * G * K * K values over C * K * K */
    expect(KAS_ILLEGAL, &bad, &s, "do not tile");
    bad = k;
    bad.node[6].axes = 0;
    expect(KAS_ILLEGAL, &bad, &s, "node 6: a window along axes 0");
    bad = k;
    bad.node[1].in[0] = 5;
    expect(KAS_ILLEGAL, &bad, &s, "node 1 reads node 5");
    bad = k;
    bad.node[3].in[0] = 0; /* nobody reads the bottleneck any more */
    expect(KAS_ILLEGAL, &bad, &s, "node 2: nothing reads it");
    bad = k;
    bad.group_value[0] = 3;
    expect(KAS_ILLEGAL, &bad, &s, "G0 is 4 in the solution");
    kas_solution_free(&s);
}

TEST(test_budget_and_limits)
{
    const kas_kernel k = involution();
    const kas_budget wide = {0}, small = {.max_tensor = 1000}, thin = {.max_weight = 100};
    const kas_budget few = {.max_params_ratio = 0.0001};
    kas_solution s;
    assert_int_equal(kas_solve(&k, targets, TARGETS, &wide, &s), KAS_OK);
    assert_int_equal(kas_plain_check(&k, targets, TARGETS, &wide, &s), KAS_OK);
    assert_int_equal(kas_plain_check(&k, targets, TARGETS, &small, &s), KAS_UNSUPPORTED);
    assert_int_equal(kas_plain_check(&k, targets, TARGETS, &thin, &s), KAS_UNSUPPORTED);
    assert_int_equal(kas_plain_check(&k, targets, TARGETS, &few, &s), KAS_OVER_BUDGET);
    assert_non_null(strstr(kas_error(), "parameters"));
    kas_solution_free(&s);
}

/* Kernels that the space itself refuses, given with the sizes that would go with them. */
TEST(test_theorem_1)
{
    static const char *const out[] = {"C/x0", "x0*x1", "x0^2"};
    for (size_t n = 0; n < sizeof out / sizeof *out; n++) {
        kas_kernel k = {0};
        kas_build_fc(&k, kas_build_fc(&k, kas_build_input(&k), false, "x0"), false, "C");
        assert_int_equal(k.nodes, 3);
        assert_true(kas_dim_parse(out[n], &k.node[1].out));
        kas_binding binding[TARGETS] = {{{0}}};
        for (int t = 0; t < TARGETS; t++) {
            binding[t] = kas_target_binding(&k, &targets[t]);
            binding[t].value[KAS_SYM_X0] = 4;
            if (n == 1)
                binding[t].value[KAS_SYM_X0 + 1] = 4;
        }
        const kas_solution s = {.targets = TARGETS, .binding = binding};
        expect(KAS_ILLEGAL, &k, &s, "Theorem 1");
    }
    kas_kernel k = {0}; /* the groups of a map must not depend on a variable */
    int x = kas_build_fc(&k, kas_build_input(&k), false, "C");
    kas_build_fc(&k, kas_build_group_all(&k, x, 0), true, "C");
    assert_int_equal(k.nodes, 4);
    assert_true(kas_dim_parse("x0", &k.node[1].out));
    kas_binding binding[TARGETS];
    for (int t = 0; t < TARGETS; t++) {
        binding[t] = kas_target_binding(&k, &targets[t]);
        binding[t].value[KAS_SYM_X0] = 4;
    }
    const kas_solution s = {.targets = TARGETS, .binding = binding};
    expect(KAS_ILLEGAL, &k, &s, "the number of groups has a variable");
}

/* relu(x) + sin(x) of a map of the input, in either order of nodes and of operands. */
static kas_kernel sum(bool swapped, bool sin_first, kas_op op)
{
    kas_kernel k = {0};
    int x = kas_build_fc(&k, kas_build_input(&k), false, "C");
    int s = sin_first ? kas_build_elementwise(&k, KAS_OP_SIN, x) : -1;
    int r = kas_build_elementwise(&k, KAS_OP_RELU, x);
    s = s < 0 ? kas_build_elementwise(&k, KAS_OP_SIN, x) : s;
    kas_build_broadcast(&k, op, swapped ? s : r, swapped ? r : s);
    assert_int_equal(kas_kernel_infer(&k), KAS_OK);
    return k;
}

static void same(bool wanted, const kas_kernel *a, const kas_kernel *b)
{
    assert_int_equal(kas_plain_same(a, b), wanted);
    assert_int_equal(kas_plain_same(b, a), wanted);
    if (wanted)
        assert_true(kas_plain_hash(a) == kas_plain_hash(b));
}

TEST(test_sameness)
{
    const kas_kernel a = sum(false, false, KAS_OP_ADD), b = sum(false, true, KAS_OP_ADD);
    const kas_kernel c = sum(true, true, KAS_OP_ADD), d = sum(false, false, KAS_OP_SUB);
    const kas_kernel e = sum(true, false, KAS_OP_SUB), f = sum(false, true, KAS_OP_SUB);
    same(true, &a, &b);
    same(true, &a, &c);
    same(false, &a, &d);
    same(false, &d, &e);
    same(true, &d, &f);
    kas_kernel k = involution(), l = k;
    l.node[1].out = kas_dim_symbol(KAS_SYM_X0 + 7); /* another name */
    l.node[4].symbol = l.node[5].symbol = 2;
    assert_true(kas_dim_parse("G2*K_H*K_W", &l.node[3].out));
    l.group_value[2] = 4;
    l.group_value[0] = 0;
    assert_int_equal(kas_kernel_infer(&l), KAS_OK);
    same(true, &k, &l);
    l.group_value[2] = 8;
    same(false, &k, &l);
    l = k;
    l.node[5].symbol = 1; /* two groupings of one number each are not one grouping */
    l.group_value[1] = 4;
    same(false, &k, &l);
    l = k;
    l.node[6].dilation = 1; /* what nothing said means */
    same(true, &k, &l);
    l.node[6].dilation = 2;
    same(false, &k, &l);
    kas_kernel shuffled[2] = {{.group_value = {4, 8}}, {.group_value = {4, 8}}};
    for (int g = 0; g < 2; g++) {
        int x = kas_build_group(&shuffled[g], kas_build_input(&shuffled[g]), 0, 0);
        kas_build_shuffle(&shuffled[g], kas_build_fc(&shuffled[g], x, true, "C"), 0, g);
        assert_int_equal(kas_kernel_infer(&shuffled[g]), KAS_OK);
    }
    same(false, &shuffled[0], &shuffled[1]);
}

/* Two maps with one free size each, or with the same one. */
TEST(test_variables_pair_one_to_one)
{
    kas_kernel k[2] = {{0}, {0}};
    for (int n = 0; n < 2; n++) {
        int x = kas_build_input(&k[n]), a = kas_build_fc(&k[n], x, false, "x0");
        int b = kas_build_elementwise(&k[n], KAS_OP_RELU, a);
        kas_build_fc(&k[n], kas_build_fc(&k[n], b, false, n ? "x1" : "x0"), false, "C");
        assert_int_equal(kas_kernel_infer(&k[n]), KAS_OK);
    }
    same(false, &k[0], &k[1]);
}

/* A map to W sizes: legal, and its weights fit images of that width only. */
TEST(test_sizes_of_one_image)
{
    const kas_sample_options wanted[] = {{.spatial_weights = false}, {.spatial_weights = true}};
    const kas_budget wide = {0};
    kas_kernel k[2] = {{0}, {0}};
    for (int n = 0; n < 2; n++) {
        int x = kas_build_fc(&k[n], kas_build_input(&k[n]), false, n ? "W" : "K_W");
        kas_build_fc(&k[n], kas_build_elementwise(&k[n], KAS_OP_RELU, x), false, "C");
        assert_int_equal(kas_kernel_infer(&k[n]), KAS_OK);
        kas_solution s;
        assert_int_equal(kas_solve(&k[n], targets, TARGETS, &wide, &s), KAS_OK);
        assert_int_equal(kas_plain_check(&k[n], targets, TARGETS, &wide, &s), KAS_OK);
        assert_int_equal(kas_plain_any_image(&k[n], targets, TARGETS, &s),
                         n ? KAS_ILLEGAL : KAS_OK);
        assert_true(n == 0 || strstr(kas_error(), "target 0 (a), with W doubled: node 1: "));
        for (int w = 0; w < 2; w++) {
            kas_recheck *recheck;
            kas_recheck_report report;
            assert_int_equal(kas_recheck_create(targets, TARGETS, &wanted[w], &recheck), KAS_OK);
            assert_int_equal(kas_recheck_add(recheck, "0123456789abcdef", &k[n], &s), KAS_OK);
            assert_int_equal(kas_recheck_run(recheck, &report), KAS_OK);
            assert_int_equal(report.one_image, n == 1 && w == 0);
            assert_int_equal(kas_recheck_findings(&report), report.one_image);
            kas_recheck_free(recheck);
        }
        kas_solution_free(&s);
    }
}

/* Weights of a size that follows the image although no size is written down: a map over what was
 * pixels. */
TEST(test_weights_of_one_image)
{
    const kas_budget wide = {.max_weight = 1e12, .max_tensor = 1e12};
    kas_kernel k;
    kas_solution s;
    assert_int_equal(kas_kernel_read_file("kernels/canvas_kernel_a.json", &k), KAS_OK);
    assert_int_equal(kas_solve(&k, targets, 1, &wide, &s), KAS_OK);
    assert_int_equal(kas_plain_check(&k, targets, 1, &wide, &s), KAS_OK);
    assert_int_equal(kas_plain_any_image(&k, targets, 1, &s), KAS_ILLEGAL);
    kas_solution_free(&s);
}

TEST(test_recheck)
{
    kas_sample_options options = kas_sample_defaults();
    options.budget = half;
    kas_sampler *sampler;
    kas_recheck *recheck;
    kas_recheck_report report;
    assert_int_equal(kas_sampler_create(&options, targets, TARGETS, &sampler), KAS_OK);
    assert_int_equal(kas_recheck_create(targets, TARGETS, &options, &recheck), KAS_OK);
    kas_sample s;
    for (int n = 0; n < 400; n++) {
        assert_int_equal(kas_sampler_next(sampler, 0, &s), KAS_OK);
        assert_int_equal(
            kas_recheck_add(recheck, s.name, s.replacement.kernel, &s.replacement.solution),
            KAS_OK);
        if (n < 399)
            kas_sample_free(&s);
    }
    assert_int_equal(kas_recheck_run(recheck, &report), KAS_OK);
    if (kas_recheck_findings(&report))
        fail_msg("%s", report.first);
    assert_int_equal(report.kernels, 400);
    /* the last again under its own and under another name, and with false costs */
    assert_int_equal(
        kas_recheck_add(recheck, s.name, s.replacement.kernel, &s.replacement.solution), KAS_OK);
    assert_int_equal(
        kas_recheck_add(recheck, "0123456789abcdef", s.replacement.kernel, &s.replacement.solution),
        KAS_OK);
    s.replacement.solution.params += 1;
    assert_int_equal(
        kas_recheck_add(recheck, "fedcba9876543210", s.replacement.kernel, &s.replacement.solution),
        KAS_OK);
    assert_int_equal(kas_recheck_run(recheck, &report), KAS_OK);
    assert_int_equal(report.kernels, 403);
    assert_int_equal(report.same_name, 1);
    assert_int_equal(report.same_kernel, 3);
    assert_int_equal(report.illegal, 1);
    assert_int_equal(report.over_budget, 0);
    assert_non_null(strstr(report.first, "kernel fedcba9876543210: "));
    kas_sample_free(&s);
    kas_recheck_free(recheck);
    kas_sampler_free(sampler);
}

RUN_TESTS()
