/* The space of NAS-PTE: what sequences mean, cost and leave alone. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/check/recheck.h"
#include "host/reference/kernel/reference.h"
#include "host/space/file/kernel_json.h"
#include "host/space/nas_pte/nas_pte.h"
#include "host/space/nas_pte/nas_pte_tree.h"
#include "host/space/sample/sampler.h"
#include "support/build.h"

static const kas_target layer = KAS_TARGET_PLAIN("a", 64, 8, 8, 3);

static kas_kernel kernel_of(const char *text)
{
    kas_pte_sequence sequence;
    kas_kernel kernel;
    if (kas_pte_parse(text, &sequence) != KAS_OK || kas_pte_kernel(&sequence, &kernel) != KAS_OK)
        fail_msg("%s: %s", text, kas_error());
    return kernel;
}

TEST(test_named_sequences_are_the_files)
{
    static const char *const names[][2] = {
        {"1", "1"}, {"1_bands", "1-bands"}, {"2", "2"}, {"3", "3"}};
    for (int n = 0; n < 4; n++) {
        char name[2][KAS_NAME_SIZE], text[64];
        kas_kernel file;
        snprintf(text, sizeof text, "kernels/nas_pte_%s.json", names[n][0]);
        assert_int_equal(kas_kernel_read_file(text, &file), KAS_OK);
        snprintf(text, sizeof text, "pte-%s", names[n][1]);
        const kas_kernel made = kernel_of(text);
        assert_int_equal(kas_kernel_name(&file, name[0]), KAS_OK);
        assert_int_equal(kas_kernel_name(&made, name[1]), KAS_OK);
        assert_string_equal(name[0], name[1]);
    }
}

/* Relative to the convolution, as the paper's equations 1 to 3 have it. */
TEST(test_costs)
{
    static const struct {
        const char *sequence;
        double flops, params;
    } cases[] = {
        {"", 1, 1},
        {"group(4)", 1.0 / 4, 1.0 / 4},
        {"depthwise", 1.0 / 64, 1.0 / 64},
        {"bottleneck_in(2)", 1.0 / 2, 1.0 / 2},
        {"bottleneck_out(4)", 1.0 / 4, 1.0 / 4},
        {"bottleneck_space(2)", 1.0 / 4, 1},
        {"bottleneck_in(4) bottleneck_out(4) depthwise", 1.0 / 256, 1.0 / 256},
        {"split(2)", 1, 1},
        {"split(2) group(2)@0 group(4)@1", 3.0 / 8, 3.0 / 8},
        {"unroll(16)", (16 * 64 + 48 * 48) / 4096.0, (16 * 64 + 48 * 48) / 4096.0},
        {"bands_h(4)", 1, 4},
        {"pte-1", 1.0 / 2, 1},
        {"group_h(2)", 1.0 / 2, 1},
        {"group(2) interchange(g,ci) group(4)", 1.0 / 8, 1.0 / 8},
        {"bottleneck_h(8)", 1.0 / 8, 1},
        {"bottleneck_w(2)", 1.0 / 2, 1},
        {"bottleneck_kh(3)", 1.0 / 3, 1.0 / 3},
        {"bottleneck_kh(3) bottleneck_kw(3)", 1.0 / 9, 1.0 / 9},
        {"bottleneck_out(16)", 1.0 / 16, 1.0 / 16},
        {"bottleneck_in(8)", 1.0 / 8, 1.0 / 8},
        {"bands_w(2) depthwise@1", 0.5 + 1.0 / 128, 1 + 1.0 / 64},
        {"bands_h(2) bands_w(2)@1 group(8)@2", 0.5 + 0.25 + 0.25 / 8, 1 + 1 + 1.0 / 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kas_kernel kernel = kernel_of(cases[i].sequence);
        const kas_binding binding = kas_target_binding(&kernel, &layer);
        kas_cost cost;
        assert_int_equal(kas_kernel_cost(&kernel, &binding, &cost), KAS_OK);
        const double flops = cost.flops / kas_target_conv_flops(&layer);
        const double params = cost.params / kas_target_conv_params(&layer);
        if (fabs(flops - cases[i].flops) > 1e-12 || fabs(params - cases[i].params) > 1e-12)
            fail_msg("%s: %g of the FLOPs, %g of the parameters", cases[i].sequence, flops, params);
    }
}

enum { C = 64, SIDE = 8, SIZE = C * SIDE * SIDE };

/* Runs a kernel in the reference with random numbers. */
static void evaluate(const kas_kernel *kernel, double x[SIZE], double y[SIZE])
{
    const kas_binding binding = kas_target_binding(kernel, &layer);
    kas_reference *reference;
    kas_rng rng = kas_rng_make(3, KAS_PURPOSE_TEST, 0);
    assert_int_equal(kas_reference_create(kernel, &layer, &binding, 1, &reference), KAS_OK);
    const int weights = kas_reference_weights(reference);
    double *weight[KAS_MAX_NODES];
    for (int i = 0; i < SIZE; i++)
        x[i] = kas_rng_normal(&rng);
    for (int i = 0; i < weights; i++) {
        const size_t size = kas_reference_weight_size(reference, i);
        weight[i] = calloc(size, sizeof *weight[i]);
        assert_non_null(weight[i]);
        for (size_t k = 0; k < size; k++)
            weight[i][k] = kas_rng_normal(&rng);
    }
    assert_int_equal(kas_reference_forward(reference, x, (const double *const *)weight, y), KAS_OK);
    for (int i = 0; i < weights; i++)
        free(weight[i]);
    kas_reference_free(reference);
}

/* What a bottleneck does not compute keeps the input's value, and nothing else does. */
TEST(test_shapes_are_restored_from_the_input)
{
    static const struct {
        const char *sequence;
        int channels, rows, columns; /* that are computed: the first ones */
    } cases[] = {{"bottleneck_out(4)", C / 4, SIDE, SIDE},
                 {"bottleneck_space(2)", C, SIDE / 2, SIDE / 2},
                 {"bottleneck_out(2) bottleneck_space(4)", C / 2, SIDE / 4, SIDE / 4},
                 {"bottleneck_in(2)", C, SIDE, SIDE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static double x[SIZE], y[SIZE];
        const kas_kernel kernel = kernel_of(cases[i].sequence);
        evaluate(&kernel, x, y);
        for (int k = 0; k < SIZE; k++) {
            const bool computed = k / (SIDE * SIDE) < cases[i].channels &&
                                  k / SIDE % SIDE < cases[i].rows && k % SIDE < cases[i].columns;
            if ((x[k] != y[k]) != computed)
                fail_msg("%s: element %d", cases[i].sequence, k);
        }
    }
}

TEST(test_what_does_not_fit)
{
    static const struct {
        const char *sequence, *words;
    } cases[] = {
        {"group(2) group(4)", "step 1, group of leaf 0: one of its two outermost loops is a group"},
        {"split(2) depthwise", "does not read as many channels as it makes"},
        {"depthwise split(2)", "no loop left over channels"},
        {"bottleneck_in(2) depthwise", "does not read as many"},
        {"split(2) group(2)@2", "step 1, group: there is no leaf 2 of 2"},
        {"unroll(16) group(2)@1", "there is no leaf 1 of 1"},
        {"bottleneck_in(2) unroll(8)", "does not read and make the same channels"},
        {"bands_h(2) bands_h(2) bands_w(2) bands_w(2) split(4)", "at most 4 splits"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kas_pte_sequence sequence;
        kas_kernel kernel;
        assert_int_equal(kas_pte_parse(cases[i].sequence, &sequence), KAS_OK);
        if (kas_pte_kernel(&sequence, &kernel) != KAS_ILLEGAL ||
            !strstr(kas_error(), cases[i].words))
            fail_msg("%s: \"%s\"", cases[i].sequence, kas_error());
    }
}

TEST(test_reading)
{
    static const struct {
        const char *text, *words;
    } bad[] = {{"blur(2)", "transformation \"blur(2)\": expected interchange, fuse"},
               {"pte-4", "\"pte-4\""},
               {"group", "expected a factor from (2) to (4096)"},
               {"group(1)", "expected a factor from (2)"},
               {"group(5000)", "expected a factor from (2)"},
               {"bands_h(5)", "expected a factor from (2) to (4)"},
               {"bottleneck_kh(2)", "expected a factor from (3) to (7)"},
               {"split(2", "expected a factor"},
               {"interchange(co)", "expected two loops"},
               {"interchange(co,x)", "expected two loops"},
               {"fuse(g,g2", "expected two loops"},
               {"split(2)group(2)", "a space"},
               {"split(2)@", "number of a leaf"},
               {"split(2)@999999999999999999999", "number of a leaf"},
               {"depthwise(1)", "a space"},
               {"bands_h(2) bands_h(2) bands_h(2) bands_h(2) bands_h(2) bands_h(2) bands_h(2) "
                "bands_h(2) bands_h(2) bands_h(2) bands_h(2) bands_h(2) bands_h(2) bands_h(2) "
                "bands_h(2) bands_h(2) bands_h(2)",
                "at most 16"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        kas_pte_sequence sequence;
        if (kas_pte_parse(bad[i].text, &sequence) != KAS_BAD_INPUT ||
            !strstr(kas_error(), bad[i].words))
            fail_msg("%s: \"%s\"", bad[i].text, kas_error());
    }
}

/* Three groups of 4096 are more than a number of groups can hold. */
TEST(test_too_many_groups)
{
    kas_pte_sequence sequence;
    kas_kernel kernel;
    assert_int_equal(
        kas_pte_parse("group(4096) interchange(g,ci) group(4096) interchange(g2,co) group(4096)",
                      &sequence),
        KAS_OK);
    assert_int_equal(kas_pte_kernel(&sequence, &kernel), KAS_ILLEGAL);
    assert_non_null(strstr(kas_error(), "more than 65535"));
}

/* Appends the text of a step as kas_pte_parse reads it. */
static void print_step(const kas_pte_step *step, kas_buf *out)
{
    kas_buf_puts(out, kas_pte_kind_name((kas_pte_kind)step->kind));
    if (step->kind == KAS_PTE_INTERCHANGE || step->kind == KAS_PTE_FUSE)
        kas_buf_printf(out, "(%s,%s)", kas_pte_loop_name((kas_pte_loop)step->loop[0]),
                       kas_pte_loop_name((kas_pte_loop)step->loop[1]));
    else if (step->factor > 1)
        kas_buf_printf(out, "(%d)", step->factor);
    if (step->leaf)
        kas_buf_printf(out, "@%d", step->leaf);
}

static void print(const kas_pte_sequence *sequence, kas_buf *out)
{
    for (int i = 0; i < sequence->steps; i++) {
        kas_buf_puts(out, i ? " " : "");
        print_step(&sequence->step[i], out);
    }
}

TEST(test_drawn_sequences)
{
    int length[KAS_PTE_DRAWN_STEPS + 1] = {0}, kind[KAS_PTE_KINDS] = {0};
    bool three = false, five = false; /* factors that only some sizes have */
    const kas_pte_fit fit = {.sizes = {60, 8, 8, 3, 3}};
    enum { DRAWS = 1200 };
    for (int n = 0; n < DRAWS; n++) {
        kas_rng rng = kas_rng_make(1, KAS_PURPOSE_TEST, (uint64_t)n);
        kas_pte_sequence drawn, read;
        kas_kernel kernel, again;
        kas_buf text = {0};
        assert_true(kas_pte_draw(&rng, &fit, 1, &drawn, &kernel));
        assert_in_range(drawn.steps, 1, KAS_PTE_DRAWN_STEPS);
        length[drawn.steps]++;
        for (int s = 0; s < drawn.steps; s++)
            kind[drawn.step[s].kind]++;
        for (int s = 0; s < drawn.steps; s++) {
            three |= drawn.step[s].kind == KAS_PTE_GROUP && drawn.step[s].factor == 3;
            five |= drawn.step[s].kind == KAS_PTE_BOTTLENECK_OUT && drawn.step[s].factor == 5;
        }
        print(&drawn, &text);
        assert_int_equal(kas_pte_parse(kas_buf_text(&text), &read), KAS_OK);
        assert_memory_equal(&drawn, &read, sizeof drawn);
        assert_int_equal(kas_pte_kernel(&read, &again), KAS_OK);
        assert_true(kas_build_same(&kernel, &again));
        kas_buf_free(&text);
    }
    for (int steps = 1; steps <= KAS_PTE_DRAWN_STEPS; steps++) /* 200 expected, 13 deviation */
        assert_in_range(length[steps], 120, 290);
    for (int k = 0; k < KAS_PTE_DRAWN_KINDS; k++)
        assert_true(kind[k] > 50);
    assert_true(three && five);
}

TEST(test_idle_splits_are_not_drawn)
{
    static const struct {
        const char *sequence;
        bool redundant;
    } cases[] = {{"split(2)", true},
                 {"bottleneck_in(2) split(4)", true},
                 {"split(2) group(2)@1", false},
                 {"split(2) split(2)@1", true},
                 {"bottleneck_out(2) split(2)", false},
                 {"bands_h(2)", false},
                 {"split(2) bands_h(2) bands_h(2)@2", true}, /* the bands alone */
                 {"split(2) bands_h(2) bands_h(2)@2 bands_w(2)@1 bands_w(2)@4", true},
                 {"split(2) group_w(2) group_w(2)@2 bottleneck_h(2)@1 bottleneck_h(2)@3", true},
                 {"split(2) bands_h(2) bands_h(2)@2 bottleneck_in(2)", false},
                 {"split(2) bands_h(2) bands_h(4)@2", false},
                 {"split(2) bands_h(2) bands_w(2)@2", false},
                 {"split(2) bands_h(2)", false},
                 /* The outputs come in another order than without the first split. */
                 {"split(2) split(2) split(2)@2 bottleneck_in(2) bottleneck_in(2)@2", false},
                 {"unroll(8)", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kas_pte_sequence sequence;
        bool redundant;
        assert_int_equal(kas_pte_parse(cases[i].sequence, &sequence), KAS_OK);
        assert_int_equal(kas_pte_is_redundant(&sequence, &redundant), KAS_OK);
        if (redundant != cases[i].redundant)
            fail_msg("%s", cases[i].sequence);
    }
}

/* Kernels of this space take the stride, so no pool stands between them and a small budget. */
TEST(test_budget_below_the_pools)
{
    kas_target downsample = kas_target_plain(64, 8, 8, 1);
    kas_sample_options options = kas_sample_defaults();
    kas_sampler *sampler;
    kas_sample s;
    downsample.stride = 2; /* a pool would have 1/16 of the FLOPs */
    options.space = KAS_SPACE_NAS_PTE;
    options.per_layer = KAS_PER_LAYER_NO;
    options.budget.max_flops_ratio = 0.05;
    OK(kas_sampler_create(&options, &downsample, 1, &sampler));
    OK(kas_sampler_next(sampler, 0, &s));
    assert_true(s.replacement.solution.flops <= 0.05 * kas_target_conv_flops(&downsample));
    kas_sample_free(&s);
    kas_sampler_free(sampler);
}

TEST(test_sampling)
{
    kas_target targets[2] = {layer, layer};
    targets[1].c_out = 128;
    targets[1].parts_out = 2;
    targets[1].h = targets[1].w = 4;
    targets[1].stride = 2;
    kas_sample_options options = kas_sample_defaults();
    options.space = KAS_SPACE_NAS_PTE;
    options.per_layer = KAS_PER_LAYER_NO;
    options.budget = (kas_budget){.max_flops_ratio = 0.5, .max_params_ratio = 1};
    kas_sampler *sampler;
    kas_recheck *recheck;
    kas_recheck_report report;
    assert_int_equal(kas_sampler_create(&options, targets, 2, &sampler), KAS_OK);
    assert_int_equal(kas_recheck_create(targets, 2, &options, &recheck), KAS_OK);
    for (int n = 0; n < 500; n++) {
        kas_sample s;
        assert_int_equal(kas_sampler_next(sampler, 0, &s), KAS_OK);
        assert_int_equal(
            kas_recheck_add(recheck, s.name, s.replacement.kernel, &s.replacement.solution),
            KAS_OK);
        kas_sample_free(&s);
    }
    assert_int_equal(kas_recheck_run(recheck, &report), KAS_OK);
    if (kas_recheck_findings(&report))
        fail_msg("%s", report.first);
    kas_recheck_free(recheck);
    kas_sampler_free(sampler);
}

RUN_TESTS()
