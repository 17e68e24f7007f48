/* Children of kernels: 20,000 of them in generations before the pruning rules and before the checker
 * that was written a second time, and what single parents and options give. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/check/recheck.h"
#include "host/core/sha256.h"
#include "host/space/canvas/candidate_ops.h"
#include "host/space/canvas/prune.h"
#include "host/space/evolve/evolve.h"
#include "host/space/evolve/rebuild.h"
#include "host/space/commute.h"
#include "host/space/file/kernel_json.h"
#include "host/space/name_set.h"
#include "host/space/sample/sampler.h"
#include "host/space/weights.h"
#include "resnet18.h"
#include "support/build.h"
#include "support/sanitized.h"

#define HW (KAS_AXIS_H | KAS_AXIS_W)

static const char *const known[] = {
    "bottleneck",      "canvas_figure6", "canvas_figure8",  "canvas_kernel_a",
    "canvas_kernel_b", "conv",           "depthwise",       "depthwise_separable",
    "group_conv",      "involution",     "nas_pte_1_bands", "nas_pte_2",
    "nas_pte_3",       "residual",       "shift_conv",      "spatial_separable",
    "squeeze_excite"};
enum {
    KNOWN = sizeof known / sizeof *known,
    SAMPLES = 40,
    POPULATION = 120,
    CHILDREN = FEWER_IF_SANITIZED(20000)
};

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
    OK(kas_kernel_read_file(path, &k));
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

/* Looks for the pruning rules in the finished kernel, whichever steps made it. One of them is about
 * the numbers that nodes had while the kernel grew: of two operands of one shape the older comes
 * first. */
static void assert_nothing_redundant(const kas_kernel *kernel)
{
    kas_kernel k = *kernel;
    for (int i = 1; i < k.nodes; i++) {
        kas_node *n = &k.node[i];
        if (kas_op_has_trait(n->op, KAS_TRAIT_COMMUTES) && n->in[0] > n->in[1] &&
            kas_shape_equal(&k.node[n->in[0]].shape, &k.node[n->in[1]].shape)) {
            const uint8_t first = n->in[1];
            n->in[1] = n->in[0];
            n->in[0] = first;
        }
        if (kas_prune_node(&k, i)) {
            kas_buf text = {0};
            kas_kernel_canonical_text(kernel, &text);
            fail_msg("node %d is redundant: %s", i, kas_buf_text(&text));
        }
    }
    assert_false(kas_prune_output(&k) || kas_prune_groups(&k, 0));
}

/* The child takes the place of the oldest kernel that is not known: each of those stays a parent. */
static void take_child(evolution *e, uint64_t key, const kas_kernel *a, const kas_kernel *b,
                       kas_replacement *child, kas_change what)
{
    char name[KAS_NAME_SIZE];
    bool is_new;
    const kas_kernel kernel = *child->kernel;
    assert_int_equal(kas_canonical_name(&kernel, name), KAS_OK);
    assert_int_equal(kas_name_set_add(&e->names, name, &is_new), KAS_OK);
    if (is_new) {
        assert_nothing_redundant(&kernel);
        if (e->found % 10 == 0)
            assert_repeated(e, key, a, b, child, what);
        assert_in_range(kernel.nodes - 1, e->options.min_primitives, e->options.max_primitives);
        assert_int_equal(kas_recheck_add(e->recheck, name, &kernel, &child->solution), KAS_OK);
        e->found++;
        e->found_by[what]++;
        if (e->size < POPULATION)
            e->population[e->size++] = kernel;
        else
            e->population[KNOWN + e->oldest++ % (POPULATION - KNOWN)] = kernel;
    }
    kas_replacement_free(child);
}

static void evolve(evolution *e)
{
    kas_recheck_report report;
    assert_int_equal(kas_children_create(&e->options, target, targets, &e->children), KAS_OK);
    assert_int_equal(kas_recheck_create(target, targets, &e->options, &e->recheck), KAS_OK);
    for (uint64_t key = 0; e->found < CHILDREN && key < 20 * CHILDREN; key++) {
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
    if (kas_recheck_findings(&report) || report.kernels != CHILDREN)
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

TEST(test_generations)
{
    evolution *e = open_evolution();
    first_generation(&e->options, e->population);
    e->size = KNOWN + SAMPLES;
    evolve(e);
    for (int c = 0; c < KAS_CHANGE_COUNT; c++)
        assert_true(e->found_by[c] >= CHILDREN / 20);
    close_evolution(e);
}

/* ---- one change ---- */

/* What is outlined and rebuilt without a change is the same kernel. */
TEST(test_an_outline_keeps_the_kernel)
{
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
TEST(test_known_kernels_have_children)
{
    const kas_sample_options o = half_cost();
    for (int i = 0; i < KNOWN; i++) {
        const kas_kernel parent = read_known(known[i]);
        const int found = count_children(&o, &parent, 50);
        print_message("%s: %d of 50 attempts\n", known[i], found);
        assert_true(found >= 5);
    }
}

/* With four branches at once, which samples do not have unless they are asked for. */
TEST(test_a_wide_kernel_has_children)
{
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

/* A size may be the rest of a split that no longer has one after a change. Such a child is not legal,
 * and the attempt that draws it is not a failure. */
TEST(test_the_rest_of_a_changed_split)
{
    static const char text[] =
        "{\"format\": \"kas-gpu kernel\", \"version\": 1, \"nodes\": [{\"op\": \"input\"},"
        "{\"op\": \"scale\", \"in\": [0], \"dim\": 0, \"dim_end\": 1},"
        "{\"op\": \"shuffle\", \"in\": [1], \"dim\": 0, \"by\": \"G0\"},"
        "{\"op\": \"min\", \"in\": [2, 1]},"
        "{\"op\": \"fold_max\", \"in\": [3], \"dim\": 1},"
        "{\"op\": \"softmax\", \"in\": [4], \"dim\": 0, \"dim_end\": 2},"
        "{\"op\": \"norm\", \"in\": [5], \"dim\": 0, \"dim_end\": 1},"
        "{\"op\": \"shift\", \"in\": [3], \"axes\": \"w\", \"offset\": -3},"
        "{\"op\": \"slice\", \"in\": [7], \"dim\": 0, \"split\": \"S0\", \"segment\": 1},"
        "{\"op\": \"fc\", \"in\": [8], \"out\": \"R0\"},"
        "{\"op\": \"conv\", \"in\": [9], \"axes\": \"h\", \"out\": \"C\"},"
        "{\"op\": \"group_all\", \"in\": [10], \"dim\": 0},"
        "{\"op\": \"min\", \"in\": [6, 11]}],"
        "\"groups\": {\"G0\": 8}, \"splits\": {\"S0\": {\"whole\": \"C\", \"first\": 16}}}";
    const kas_sample_options o = half_cost();
    kas_kernel k;
    assert_int_equal(kas_kernel_read_json("a parent", text, sizeof text - 1, &k), KAS_OK);
    const int found = count_children(&o, &k, 30000);
    print_message("%d of 30000 attempts\n", found);
    assert_true(found >= 1000);
}

static bool allows(const kas_int_list *list, int value)
{
    bool found = list->count == 0;
    for (int i = 0; i < list->count; i++)
        found = found || list->value[i] == value;
    return found;
}

static void assert_within(const kas_sample_options *o, const kas_kernel *k)
{
    uint64_t ops = 0;
    assert_in_range(k->nodes - 1, o->min_primitives, o->max_primitives);
    assert_in_range(kas_kernel_weights(k), o->min_weighted, o->max_weighted);
    for (int i = 1; i < k->nodes; i++) {
        const kas_node *node = &k->node[i];
        const kas_type type = kas_type_of(node->op);
        ops |= KAS_OP_BIT(node->op);
        if (type == KAS_TYPE_UNFOLD || type == KAS_TYPE_CONV || type == KAS_TYPE_POOL)
            assert_true(allows(&o->kernels, node->kernel));
        if (type == KAS_TYPE_UNFOLD || type == KAS_TYPE_CONV)
            assert_true(allows(&o->dilations, kas_node_dilation(node)));
        if (type == KAS_TYPE_SHIFT)
            assert_true(allows(&o->shifts, node->offset));
    }
    assert_true((ops & o->required) == o->required && (ops & o->forbidden) == 0);
}

static void assert_options_hold(const kas_sample_options *o, const char *what)
{
    kas_kernel *parents = calloc(KNOWN, sizeof *parents);
    kas_children *children;
    int found = 0;
    assert_non_null(parents);
    for (int i = 0; i < KNOWN; i++)
        parents[i] = read_known(known[i]);
    assert_int_equal(kas_children_create(o, target, targets, &children), KAS_OK);
    for (uint64_t key = 0; key < 1000; key++) {
        kas_replacement child;
        kas_attempt how;
        kas_change change;
        int a, b;
        kas_child_parents(o->seed, key, KNOWN, &a, &b);
        assert_int_equal(
            kas_child_attempt(children, &parents[a], &parents[b], key, &child, &how, &change),
            KAS_OK);
        if (how.why != KAS_REJECT_NONE)
            continue;
        assert_within(o, child.kernel);
        kas_replacement_free(&child);
        found++;
    }
    print_message("%s: %d of 1000 attempts\n", what, found);
    assert_true(found >= 50);
    kas_children_free(children);
    free(parents);
}

/* The options hold for children, although most of the parents break them. */
TEST(test_options_hold)
{
    kas_sample_options o = half_cost();
    o.forbidden = KAS_OP_BIT(KAS_OP_RELU) | KAS_OP_BIT(KAS_OP_GROUP_ALL);
    assert_options_hold(&o, "forbidden primitives");
    o = half_cost();
    o.required = KAS_OP_BIT(KAS_OP_MUL);
    assert_options_hold(&o, "a required primitive");
    o = half_cost();
    o.min_weighted = o.max_weighted = 2;
    assert_options_hold(&o, "two weights");
    o = half_cost();
    o.kernels = (kas_int_list){.count = 1, .value = {5}};
    o.dilations = (kas_int_list){.count = 1, .value = {2}};
    o.shifts = (kas_int_list){.count = 1, .value = {-1}};
    assert_options_hold(&o, "windows and shifts");
    o = half_cost();
    o.min_primitives = 6;
    o.max_primitives = 7;
    assert_options_hold(&o, "6 or 7 primitives");
}

/* What attempts give is part of every study that had children: a change here needs a new
 * KAS_CHILDREN_VERSION. No parent is among what its sampler gives. */
TEST(test_the_version_is_fixed)
{
    const kas_sample_options o = half_cost();
    kas_kernel *parents = calloc(KNOWN, sizeof *parents);
    kas_sampler *sampler;
    kas_buf names = {0};
    char hex[65], parent[KNOWN][KAS_NAME_SIZE];
    assert_non_null(parents);
    for (int i = 0; i < KNOWN; i++) {
        parents[i] = read_known(known[i]);
        name_of(&parents[i], parent[i]);
    }
    assert_int_equal(kas_sampler_create(&o, target, targets, &sampler), KAS_OK);
    assert_int_equal(kas_sampler_set_parents(sampler, parents, KNOWN), KAS_OK);
    for (int k = 0; k < 300; k++) {
        kas_sample s;
        assert_int_equal(kas_sampler_next(sampler, 0, &s), KAS_OK);
        for (int i = 0; i < KNOWN; i++)
            assert_string_not_equal(s.name, parent[i]);
        kas_buf_printf(&names, "%s:%.0f:%s\n", s.name, s.replacement.solution.flops, s.change);
        kas_sample_free(&s);
    }
    assert_int_equal(kas_buf_status(&names), KAS_OK);
    kas_sha256_hex(names.data, names.size, hex);
    assert_string_equal(hex, "4fe5f845075ebc5e13d85ce7571eb48cf15393210ea6d93cc0e2dd6b92a00836");
    kas_buf_free(&names);
    kas_sampler_free(sampler);
    free(parents);
}

TEST(test_other_samplers_have_no_children)
{
    kas_sample_options o = half_cost();
    kas_children *children;
    o.space = KAS_SPACE_NAS_PTE;
    assert_int_equal(kas_children_create(&o, target, targets, &children), KAS_USAGE);
    assert_non_null(strstr(kas_error(), "--space nas-pte"));
}

RUN_TESTS(find_targets, free_targets)
