/* Children of kernels: generations of them before the checker that was written a second time, and
 * before the steps of the sampler. KAS_TEST_CHILDREN is how many children there are (default
 * 1,200). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/check/recheck.h"
#include "host/net/targets.h"
#include "host/space/canvas/candidate_ops.h"
#include "host/space/evolve/evolve.h"
#include "host/space/evolve/rebuild.h"
#include "host/space/commute.h"
#include "host/space/file/kernel_json.h"
#include "host/space/name_set.h"
#include "host/space/sample/sampler.h"
#include "host/space/weights.h"
#include "support/build.h"

#define HW (KAS_AXIS_H | KAS_AXIS_W)

static const char *const known[] = {
    "bottleneck",      "canvas_figure6", "canvas_figure8", "canvas_kernel_a",
    "canvas_kernel_b", "conv",           "depthwise",      "depthwise_separable",
    "group_conv",      "involution",     "nas_pte_1",      "nas_pte_2",
    "nas_pte_3",       "residual",       "shift_conv",     "spatial_separable",
    "squeeze_excite"};
enum { KNOWN = sizeof known / sizeof *known, SAMPLES = 40, POPULATION = 120 };

static kas_net *net;
static kas_target *target;
static int targets;

static int find_targets(void **state)
{
    (void)state;
    return kas_net_build("resnet18", 32, 32, 3, 10, &net) != KAS_OK ||
           kas_net_targets(net, NULL, &target, &targets) != KAS_OK;
}

static int free_targets(void **state)
{
    (void)state;
    free(target);
    kas_net_free(net);
    return 0;
}

static kas_sample_options half_cost(void)
{
    kas_sample_options o = kas_sample_defaults();
    o.budget = (kas_budget){.max_flops_ratio = 0.5, .max_params_ratio = 1};
    return o;
}

static kas_kernel read_known(const char *name)
{
    char path[96];
    kas_kernel k;
    snprintf(path, sizeof path, "kernels/%s.json", name);
    if (kas_kernel_read_file(path, &k) != KAS_OK)
        fail_msg("%s", kas_error());
    return k;
}

/* Known kernels, then samples. */
static void first_generation(const kas_sample_options *o, kas_kernel out[KNOWN + SAMPLES])
{
    kas_sampler *sampler;
    for (int i = 0; i < KNOWN; i++)
        out[i] = read_known(known[i]);
    assert_int_equal(kas_sampler_create(o, target, targets, &sampler), KAS_OK);
    for (int i = 0; i < SAMPLES; i++) {
        kas_sample s;
        assert_int_equal(kas_sampler_next(sampler, 0, &s), KAS_OK);
        out[KNOWN + i] = *s.replacement.kernel;
        kas_sample_free(&s);
    }
    kas_sampler_free(sampler);
}

static void name_of(const kas_kernel *kernel, char name[KAS_NAME_SIZE])
{
    kas_kernel form;
    assert_int_equal(kas_kernel_canonicalize_unordered(kernel, &form), KAS_OK);
    assert_int_equal(kas_canonical_name(&form, name), KAS_OK);
}

/* ---- generations ---- */

typedef struct evolution {
    kas_sample_options options;
    kas_children *children;
    kas_recheck *recheck;
    kas_name_set names;
    kas_kernel population[POPULATION];
    int size, oldest;
    long found, tries, found_by[KAS_CHANGE_COUNT], tried_by[KAS_CHANGE_COUNT];
} evolution;

/* Makes the attempt again in a new context, with other attempts before it. */
static void assert_repeated(const evolution *e, uint64_t key, const kas_kernel *a,
                            const kas_kernel *b, const kas_replacement *child, kas_change what)
{
    kas_children *other;
    kas_replacement again;
    kas_attempt how;
    kas_change what_again;
    char name[2][KAS_NAME_SIZE];
    assert_int_equal(kas_children_create(&e->options, target, targets, &other), KAS_OK);
    assert_int_equal(kas_child_attempt(other, b, NULL, key + 1, &again, &how, &what_again), KAS_OK);
    if (how.why == KAS_REJECT_NONE)
        kas_replacement_free(&again);
    assert_int_equal(kas_child_attempt(other, a, b, key, &again, &how, &what_again), KAS_OK);
    assert_int_equal(how.why, KAS_REJECT_NONE);
    assert_int_equal(what_again, what);
    name_of(child->kernel, name[0]);
    name_of(again.kernel, name[1]);
    assert_string_equal(name[0], name[1]);
    assert_true(again.solution.flops == child->solution.flops);
    kas_replacement_free(&again);
    kas_children_free(other);
}

/* The child takes the place of the oldest kernel. */
static void take_child(evolution *e, uint64_t key, const kas_kernel *a, const kas_kernel *b,
                       kas_replacement *child, kas_change what)
{
    char name[KAS_NAME_SIZE];
    bool is_new;
    const kas_kernel kernel = *child->kernel;
    assert_int_equal(kas_canonical_name(&kernel, name), KAS_OK);
    assert_int_equal(kas_name_set_add(&e->names, name, &is_new), KAS_OK);
    if (is_new) {
        if (e->found % 50 == 0)
            assert_repeated(e, key, a, b, child, what);
        assert_in_range(kernel.nodes - 1, e->options.min_primitives, e->options.max_primitives);
        assert_int_equal(kas_recheck_add(e->recheck, name, &kernel, &child->solution), KAS_OK);
        e->found++;
        e->found_by[what]++;
        if (e->size < POPULATION)
            e->population[e->size++] = kernel;
        else
            e->population[e->oldest++ % POPULATION] = kernel;
    }
    kas_replacement_free(child);
}

static void evolve(evolution *e, long wanted)
{
    kas_recheck_report report;
    assert_int_equal(kas_children_create(&e->options, target, targets, &e->children), KAS_OK);
    assert_int_equal(kas_recheck_create(target, targets, &e->options, &e->recheck), KAS_OK);
    for (uint64_t key = 0; e->found < wanted && key < 20 * (uint64_t)wanted; key++) {
        int a, b;
        kas_replacement child;
        kas_attempt how;
        kas_change what;
        kas_child_parents(e->options.seed, key, e->size, &a, &b);
        if (kas_child_attempt(e->children, &e->population[a], &e->population[b], key, &child, &how,
                              &what) != KAS_OK)
            fail_msg("attempt %d: %s", (int)key, kas_error());
        e->tries += how.tries;
        e->tried_by[what] += how.tries;
        if (how.why == KAS_REJECT_NONE)
            take_child(e, key, &e->population[a], &e->population[b], &child, what);
    }
    assert_int_equal(kas_recheck_run(e->recheck, &report), KAS_OK);
    print_message("%ld children of %ld tries;", e->found, e->tries);
    for (int c = 0; c < KAS_CHANGE_COUNT; c++)
        print_message(" %s %ld of %ld", kas_change_name((kas_change)c), e->found_by[c],
                      e->tried_by[c]);
    print_message("\n%d checked again, %d findings\n", (int)report.kernels,
                  (int)kas_recheck_findings(&report));
    if (kas_recheck_findings(&report) || report.kernels != (uint64_t)wanted)
        fail_msg("%s", report.first);
}

static void close_evolution(evolution *e)
{
    kas_recheck_free(e->recheck);
    kas_children_free(e->children);
    kas_name_set_free(&e->names);
    free(e);
}

static evolution *open_evolution(void)
{
    evolution *e = calloc(1, sizeof *e);
    assert_non_null(e);
    e->options = half_cost();
    return e;
}

static void test_generations(void **state)
{
    (void)state;
    const char *count = getenv("KAS_TEST_CHILDREN");
    const long wanted = count ? atol(count) : 1200;
    evolution *e = open_evolution();
    first_generation(&e->options, e->population);
    e->size = KNOWN + SAMPLES;
    evolve(e, wanted);
    for (int c = 0; c < KAS_CHANGE_COUNT; c++)
        assert_true(e->found_by[c] >= wanted / 50);
    close_evolution(e);
}

/* ---- one change ---- */

/* What is outlined and rebuilt without a change is the same kernel. */
static void test_an_outline_keeps_the_kernel(void **state)
{
    (void)state;
    const kas_sample_options o = half_cost();
    kas_kernel *parents = calloc(KNOWN + SAMPLES, sizeof *parents);
    kas_growth *growth;
    kas_guided guided;
    kas_outline outline, tidy;
    assert_non_null(parents);
    first_generation(&o, parents);
    assert_int_equal(kas_growth_create(&o, target, targets, &growth), KAS_OK);
    assert_int_equal(kas_guided_create(&o, target, targets, growth, &guided), KAS_OK);
    for (int i = KNOWN; i < KNOWN + SAMPLES; i++) {
        char name[2][KAS_NAME_SIZE];
        guided.rng = kas_rng_make(1, KAS_PURPOSE_TEST, (uint64_t)i);
        kas_outline_begin(&guided, &parents[i], &outline);
        assert_true(kas_outline_tidy(&outline, outline.nodes - 1, &tidy));
        assert_int_equal(kas_rebuild(&guided, &tidy, tidy.nodes, tidy.nodes - 1, true),
                         KAS_REJECT_NONE);
        name_of(&parents[i], name[0]);
        name_of(&growth->kernel, name[1]);
        assert_string_equal(name[0], name[1]);
    }
    kas_guided_free(&guided);
    kas_growth_free(growth);
    free(parents);
}

/* Counts the children that some attempts give. */
static int count_children(const kas_sample_options *o, const kas_kernel *parent, int attempts)
{
    kas_children *children;
    int found = 0;
    assert_int_equal(kas_children_create(o, target, targets, &children), KAS_OK);
    for (int key = 0; key < attempts; key++) {
        kas_replacement child;
        kas_attempt how;
        kas_change what;
        assert_int_equal(
            kas_child_attempt(children, parent, NULL, (uint64_t)key, &child, &how, &what), KAS_OK);
        assert_int_not_equal(what, KAS_CHANGE_GRAFT);
        if (how.why == KAS_REJECT_NONE)
            kas_replacement_free(&child);
        found += how.why == KAS_REJECT_NONE;
    }
    kas_children_free(children);
    return found;
}

/* Known kernels have children whether a sampler would draw them or not: some have fewer primitives
 * than a sample, more, a map over the whole image, two group numbers, or cost too much. */
static void test_known_kernels_have_children(void **state)
{
    (void)state;
    const kas_sample_options o = half_cost();
    for (int i = 0; i < KNOWN; i++) {
        const kas_kernel parent = read_known(known[i]);
        const int found = count_children(&o, &parent, 50);
        print_message("%s: %d of 50 attempts\n", known[i], found);
        assert_true(found >= 5);
    }
}

/* With four branches at once, which samples do not have unless they are asked for. */
static void test_a_wide_kernel_has_children(void **state)
{
    (void)state;
    kas_sample_options o = half_cost();
    kas_kernel k = {.group_value = {4}};
    int part[4], narrow;
    const int split = kas_build_split(&k, "C", 4, 0);
    const int x = kas_build_unfold(&k, kas_build_group(&k, kas_build_input(&k), 0, 0), HW);
    for (int i = 0; i < 4; i++)
        part[i] = kas_build_fc(&k, x, true, "1/4*C");
    kas_build_concat(&k, part, 0, split);
    narrow = count_children(&o, &k, 100);
    o.max_width = 4;
    const int wide = count_children(&o, &k, 100);
    print_message("%d of 100 attempts, with --max-width 4: %d\n", narrow, wide);
    assert_true(narrow >= 5 && wide > narrow);
}

/* The options hold for children of kernels that break them. */
static void test_options_hold(void **state)
{
    (void)state;
    kas_sample_options o = half_cost();
    kas_children *children;
    const kas_kernel a = read_known("squeeze_excite"), b = read_known("involution");
    int found = 0;
    o.forbidden = KAS_OP_BIT(KAS_OP_RELU);
    o.required = KAS_OP_BIT(KAS_OP_MUL);
    o.kernels = (kas_int_list){.count = 2, .value = {0, 5}};
    o.max_weighted = 2;
    o.min_primitives = 6;
    o.max_primitives = 8;
    assert_int_equal(kas_children_create(&o, target, targets, &children), KAS_OK);
    for (uint64_t key = 0; key < 300; key++) {
        kas_replacement child;
        kas_attempt how;
        kas_change what;
        int muls = 0;
        assert_int_equal(kas_child_attempt(children, &a, &b, key, &child, &how, &what), KAS_OK);
        if (how.why != KAS_REJECT_NONE)
            continue;
        assert_in_range(child.kernel->nodes - 1, 6, 8);
        assert_true(kas_kernel_weights(child.kernel) <= 2);
        for (int i = 1; i < child.kernel->nodes; i++) {
            const kas_node *node = &child.kernel->node[i];
            assert_false(o.forbidden >> node->op & 1);
            muls += node->op == KAS_OP_MUL;
            if (node->op == KAS_OP_UNFOLD || kas_type_of(node->op) == KAS_TYPE_CONV)
                assert_true(node->kernel == 0 || node->kernel == 5);
        }
        assert_true(muls > 0);
        kas_replacement_free(&child);
        found++;
    }
    print_message("%d of 300 attempts\n", found);
    assert_true(found >= 10);
    kas_children_free(children);
}

static void test_other_samplers_have_no_children(void **state)
{
    (void)state;
    kas_sample_options o = half_cost();
    kas_children *children;
    o.sampler = KAS_SAMPLER_REJECTION;
    assert_int_equal(kas_children_create(&o, target, targets, &children), KAS_USAGE);
    assert_non_null(strstr(kas_error(), "--sampler rejection"));
    o = half_cost();
    o.space = KAS_SPACE_NAS_PTE;
    assert_int_equal(kas_children_create(&o, target, targets, &children), KAS_USAGE);
    assert_non_null(strstr(kas_error(), "--space nas-pte"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_outline_keeps_the_kernel),
        cmocka_unit_test(test_known_kernels_have_children),
        cmocka_unit_test(test_a_wide_kernel_has_children),
        cmocka_unit_test(test_options_hold),
        cmocka_unit_test(test_other_samplers_have_no_children),
        cmocka_unit_test(test_generations),
    };
    return cmocka_run_group_tests(tests, find_targets, free_targets);
}
