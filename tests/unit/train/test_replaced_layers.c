/* Kernels chosen for each layer: sizes within one budget, one training step against the float64
 * reference, and what a run's digest holds. */
#include "unit/model/model_fixture.h"

#include "host/net/targets.h"
#include "host/space/file/kernel_json.h"
#include "host/train/digest.h"

enum { KERNELS = 3 };
/* The first and the last have the same sizes everywhere: only the kernel tells them apart. */
static const char *const files[KERNELS] = {"kernels/depthwise_separable.json",
                                           "kernels/involution.json", "kernels/depthwise.json"};

typedef struct layers {
    kas_net *net;
    kas_kernel kernel[KERNELS];
    kas_target *target;
    int count, kernel_of[64];
    kas_replacement replacement;
} layers;

static kas_status solve(const layers *l, const kas_budget *budget, kas_replacement *out)
{
    return kas_replacement_solve(l->kernel, KERNELS, l->kernel_of, l->target, l->count, budget,
                                 out);
}

/* Target t has kernel t mod 4, number 3 being the convolution itself. */
static layers *make_layers(const char *net, double ratio)
{
    const kas_budget budget = {.max_flops_ratio = ratio, .max_params_ratio = ratio};
    layers *l = calloc(1, sizeof *l);
    assert_non_null(l);
    assert_int_equal(kas_net_build(net, 8, 8, 3, 10, &l->net), KAS_OK);
    assert_int_equal(kas_net_targets(l->net, NULL, &l->target, &l->count), KAS_OK);
    for (int k = 0; k < KERNELS; k++)
        assert_int_equal(kas_kernel_read_file(files[k], &l->kernel[k]), KAS_OK);
    for (int t = 0; t < l->count; t++)
        l->kernel_of[t] = t % 4 == KERNELS ? KAS_KEPT : t % 4;
    OK(solve(l, &budget, &l->replacement));
    return l;
}

static void free_layers(layers *l)
{
    kas_replacement_free(&l->replacement);
    free(l->target);
    kas_net_free(l->net);
    free(l);
}

TEST(a_step_agrees_with_the_reference)
{
    layers *l = make_layers("resnet20", 1);
    pair p = make_pair_of(l->net, &l->replacement, 4);
    l->net = NULL;                                                      /* the pair's */
    assert_non_null(kas_ref_net_find(p.ref, "layer1.0.conv1.weight1")); /* two weights */
    assert_null(kas_ref_net_find(p.ref, "layer1.1.conv1.weight1"));     /* one */
    assert_non_null(kas_ref_net_find(p.ref, "layer1.1.conv2.weight"));  /* kept */
    check_step(&p, "four kinds of layer in resnet20", 1e-3);
    free_pair(&p);
    free_layers(l);
}

/* Equal shapes share a program where they have the same kernel, and only there. */
TEST(programs_are_one_for_each_kernel_and_shape)
{
    layers *l = make_layers("resnet20", 1);
    kas_programs built;
    int expected = 0;
    assert_int_equal(kas_programs_build(&l->replacement,
                                        &(kas_program_options){.batch = 2, .training = true},
                                        &built),
                     KAS_OK);
    for (int t = 0; t < l->count; t++) {
        bool is_new = l->kernel_of[t] != KAS_KEPT;
        assert_int_equal(built.program_of[t] >= 0, is_new);
        for (int u = 0; u < t; u++) {
            const bool same = l->target[u].c_in == l->target[t].c_in &&
                              l->target[u].c_out == l->target[t].c_out &&
                              l->kernel_of[u] == l->kernel_of[t];
            is_new = is_new && !same;
            if (l->kernel_of[u] != KAS_KEPT && l->kernel_of[t] != KAS_KEPT)
                assert_int_equal(built.program_of[u] == built.program_of[t], same);
        }
        expected += is_new;
    }
    assert_int_equal(built.count, expected);
    assert_int_equal(kas_programs_of_layer(&built, l->target[3].layer), -1);
    kas_programs_free(&built);
    free_layers(l);
}

TEST(totals_are_those_of_the_layers)
{
    layers *l = make_layers("resnet20", 1);
    const kas_solution *solution = &l->replacement.solution;
    double flops = 0, params = 0;
    for (int t = 0; t < l->count; t++) {
        const kas_kernel *kernel = kas_replacement_kernel(&l->replacement, t);
        kas_cost cost = {.flops = kas_target_conv_flops(&l->target[t]),
                         .params = kas_target_conv_params(&l->target[t])};
        if (kernel)
            assert_int_equal(kas_layer_cost(kernel, &l->target[t], &solution->binding[t], &cost),
                             KAS_OK);
        flops += cost.flops;
        params += cost.params;
    }
    print_message("FLOPs %.0f, of the layers %.0f\n", solution->flops, flops);
    assert_true(flops == solution->flops && params == solution->params);
    assert_true(flops < solution->conv_flops);
    free_layers(l);
}

/* One kernel at all layers is the same question as before, whoever asks it. */
TEST(one_kernel_has_the_sizes_that_it_always_had)
{
    const kas_budget budget = {.max_flops_ratio = 0.7, .max_params_ratio = 0.9};
    layers *l = make_layers("resnet20", 1);
    const int none[64] = {0};
    kas_replacement plain, each;
    for (int k = 0; k < KERNELS; k++) {
        assert_int_equal(
            kas_replacement_solve(&l->kernel[k], 1, NULL, l->target, l->count, &budget, &plain),
            KAS_OK);
        assert_int_equal(
            kas_replacement_solve(&l->kernel[k], 1, none, l->target, l->count, &budget, &each),
            KAS_OK);
        const kas_solution *a = &plain.solution, *b = &each.solution;
        assert_memory_equal(a->binding, b->binding, sizeof *a->binding * (size_t)l->count);
        assert_true(a->flops == b->flops && a->params == b->params &&
                    a->conv_flops == b->conv_flops);
        kas_replacement_free(&plain);
        kas_replacement_free(&each);
    }
    free_layers(l);
}

TEST(the_budget_is_one_for_all_layers)
{
    layers *l = make_layers("resnet20", 1);
    const double ratio = l->replacement.solution.flops / l->replacement.solution.conv_flops;
    kas_budget budget = {.max_flops_ratio = 0.25};
    kas_replacement out;
    assert_true(ratio > 0.25); /* every fourth is kept */
    assert_int_equal(solve(l, &budget, &out), KAS_OVER_BUDGET);
    budget.max_flops_ratio = 0.6;
    assert_int_equal(solve(l, &budget, &out), KAS_OK);
    assert_true(out.solution.flops <= 0.6 * out.solution.conv_flops);
    kas_replacement_free(&out);
    free_layers(l);
}

static void digest_of(const kas_train_options *o, uint8_t digest[32])
{
    OK(kas_train_digest(o, digest));
}

TEST(a_digest_holds_which_layer_has_which)
{
    layers *l = make_layers("resnet20", 1);
    kas_dataset data = {.digest = "none"};
    kas_programs programs = {.replacement = &l->replacement};
    kas_train_options o = {
        .net = l->net, .dataset = &data, .programs = &programs, .recipe = kas_recipe_default()};
    uint8_t first[32], other[32];
    digest_of(&o, first);
    digest_of(&o, other);
    assert_memory_equal(first, other, 32);
    l->replacement.kernel_of[1] = 2; /* layers of one shape: a difference that no size tells */
    digest_of(&o, other);
    assert_memory_not_equal(first, other, 32);
    l->replacement.kernel_of[1] = KAS_KEPT;
    digest_of(&o, other);
    assert_memory_not_equal(first, other, 32);
    free_layers(l);
}

RUN_TESTS(open_device, close_device)
