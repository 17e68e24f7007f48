#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "host/space/canonical.h"
#include "host/space/canvas/guided.h"
#include "host/space/weights.h"

/* No kernel that every rule accepts is cut off: every way of growing one is tried without the
 * guide, which is asked beside it.  A use that the guide leaves out or refuses must lead to no
 * kernel within the budget. */

enum { TARGETS = 2 };

static void shapes(kas_target out[TARGETS])
{
    for (int i = 0; i < TARGETS; i++) {
        const uint32_t c = 16u << i, h = 8u >> i;
        out[i] = kas_target_plain(c, h, h, 3);
    }
}

typedef struct walk {
    kas_guided guided;
    kas_growth *g;
    kas_target target[TARGETS];
    kas_sample_options options;
    kas_solver *solver;
    kas_kernel canonical;
    kas_candidate_op *use[KAS_MAX_NODES]; /* [KAS_MAX_CANDIDATE_OPS] by nodes, made when needed */
    long tried, complete, refused;
} walk;

static void open_walk(walk *w)
{
    shapes(w->target);
    assert_int_equal(kas_growth_create(&w->options, w->target, TARGETS, &w->g), KAS_OK);
    assert_int_equal(kas_guided_create(&w->options, w->target, TARGETS, w->g, &w->guided), KAS_OK);
    assert_int_equal(kas_solver_create(w->target, TARGETS, &w->solver), KAS_OK);
}

static void close_walk(walk *w)
{
    for (int i = 0; i < KAS_MAX_NODES; i++)
        free(w->use[i]);
    kas_guided_free(&w->guided);
    kas_growth_free(w->g);
    kas_solver_free(w->solver);
}

/* Takes value number *context. */
static int pick(void *context, const kas_candidate_op *use, int var, const kas_value *const *value,
                int count)
{
    (void)use;
    (void)var;
    (void)value;
    return *(int *)context < count ? *(int *)context : -1;
}

/* Is the complete kernel one that the options allow? */
static bool is_kernel(walk *w)
{
    const kas_kernel *k = &w->g->kernel;
    if (kas_growth_finish(w->g) != KAS_REJECT_NONE ||
        kas_kernel_weights(k) < w->options.min_weighted)
        return false;
    assert_int_equal(kas_kernel_canonicalize(k, &w->canonical), KAS_OK);
    return kas_solver_run(w->solver, &w->canonical, &w->options.budget) == KAS_OK;
}

/* The last primitive is there. What the guide finishes is finished already, which it does not mind.
 */
static void check_complete(walk *w, bool admitted)
{
    if (!is_kernel(w))
        return;
    w->complete++;
    if (admitted && kas_guide_finish(&w->guided.guide) == KAS_REJECT_NONE)
        return;
    kas_buf text = {0};
    kas_kernel_canonical_text(&w->canonical, &text);
    fail_msg("the guide cuts off %s", kas_buf_text(&text));
}

static void grow(walk *w, bool admitted);

/* Appends the use with each value of a free size. */
static void grow_by(walk *w, const kas_candidate_op *use, bool offered)
{
    kas_growth *g = w->g;
    for (int value = 0; value < KAS_MAX_SUBSTITUTIONS; value++) {
        w->tried++;
        if (!kas_growth_try(g, use, pick, &value)) {
            if (g->refused == KAS_REFUSED_WIDTH || !g->step[g->kernel.nodes].changed)
                return; /* not for the value's sake, or there are no more */
            continue;
        }
        const bool by_value = g->step[g->kernel.nodes - 1].saved > 0;
        const bool admitted = offered && kas_guide_admits(&w->guided.guide) == KAS_REJECT_NONE;
        w->refused += !admitted;
        if (g->kernel.nodes > g->primitives)
            check_complete(w, admitted);
        else
            grow(w, admitted);
        kas_growth_undo(g);
        if (!by_value)
            return;
    }
}

static void grow_by_pairs(walk *w, kas_type type, const kas_op_filter *filter, bool admitted)
{
    const int nodes = w->g->kernel.nodes;
    for (int a = 0; a < nodes; a++)
        for (int b = 0; b < nodes; b++) {
            const kas_operands pair = {.lhs = (uint8_t)a, .rhs = (uint8_t)b};
            if (a == b && type != KAS_TYPE_BMM)
                continue;
            const uint8_t serve = admitted ? kas_pair_serves(w->g, type, filter, &pair) : 0;
            for (int k = 0; k < kas_ops_of_a_pair(type); k++) {
                const kas_candidate_op use = kas_pair_op(type, &pair, k);
                if (w->guided.guide.filter.ops & KAS_OP_BIT(use.op))
                    grow_by(w, &use, serve >> k & 1);
            }
        }
}

/* All uses of a type that the options allow, whether the guide offers them or not. */
static void grow_by_type(walk *w, kas_type type, const kas_op_filter *filter, bool admitted)
{
    kas_candidate_op **list = &w->use[w->g->kernel.nodes], *use = *list;
    if (!use)
        *list = use = malloc(KAS_MAX_CANDIDATE_OPS * sizeof *use);
    assert_non_null(use);
    const int count = kas_list_candidate_ops(&w->g->kernel, type, &w->guided.guide.filter, use);
    for (int u = 0; u < count; u++)
        grow_by(w, &use[u],
                admitted && (filter->ops & KAS_OP_BIT(use[u].op)) &&
                    kas_candidate_op_has_leaves(filter, &use[u]));
}

static void grow(walk *w, bool admitted)
{
    kas_op_filter filter = {0};
    if (admitted)
        kas_guide_next(&w->guided.guide, &filter);
    for (int type = 0; type < KAS_TYPE_COUNT; type++)
        if (kas_type_is_of_pairs((kas_type)type))
            grow_by_pairs(w, (kas_type)type, &filter, admitted);
        else
            grow_by_type(w, (kas_type)type, &filter, admitted);
}

static uint64_t ops(const kas_op *op, int count)
{
    uint64_t bits = 0;
    for (int i = 0; i < count; i++)
        bits |= KAS_OP_BIT(op[i]);
    return bits;
}

/* Every kernel of so many primitives out of a few. */
static void check_space(uint64_t allowed, int primitives, uint32_t group, kas_split first_split,
                        double flops)
{
    walk w = {.options = kas_sample_defaults()};
    const kas_split split[KAS_MAX_SPLITS] = {first_split};
    w.options.allowed = allowed;
    w.options.min_receptive = 1;
    w.options.budget.max_flops_ratio = flops;
    w.options.budget.max_params_ratio = 1;
    w.options.min_primitives = w.options.max_primitives = primitives;
    w.options.kernels = (kas_int_list){.count = 1, .value = {0}};
    w.options.dilations = (kas_int_list){.count = 1, .value = {1}};
    w.options.shifts = (kas_int_list){.count = 1, .value = {1}};
    open_walk(&w);
    kas_growth_begin(w.g, primitives, group, split);
    kas_guide_begin(&w.guided.guide);
    grow(&w, true);
    print_message("%ld uses tried, %ld refused, %ld kernels\n", w.tried, w.refused, w.complete);
    assert_true(w.complete > 20 && w.refused > 10);
    close_walk(&w);
}

TEST(test_no_kernel_is_cut_off)
{
    static const kas_op maps[] = {KAS_OP_FC,  KAS_OP_UNFOLD, KAS_OP_FOLD_AVG,
                                  KAS_OP_ADD, KAS_OP_BMM,    KAS_OP_GROUP};
    static const kas_op cuts[] = {KAS_OP_SLICE, KAS_OP_CONCAT, KAS_OP_CONV, KAS_OP_MUL, KAS_OP_MIX};
    static const kas_op few[] = {KAS_OP_FC, KAS_OP_BMM, KAS_OP_ADD};
    static const kas_op split[] = {KAS_OP_SLICE, KAS_OP_CONCAT, KAS_OP_FC};
    static const kas_op keys[] = {KAS_OP_FC, KAS_OP_FOLD_AVG, KAS_OP_BMM}; /* pooled */
    const kas_split none = {0};
    const kas_split halves = {.whole = kas_dim_symbol(KAS_SYM_C), .shares = 2};
    const kas_split bands = {.whole = kas_dim_symbol(KAS_SYM_H), .shares = 4};
    const kas_split rest = {.whole = kas_dim_symbol(KAS_SYM_C), .first = 8};
    const bool quiet = kas_quiet(true);
    check_space(ops(maps, 6), 3, 4, none, 0.5);
    check_space(ops(cuts, 5), 3, 0, halves, 0.5);
    check_space(ops(cuts, 5), 3, 0, rest, 1);
    check_space(ops(few, 3), 4, 0, none, 0.3);
    check_space(ops(split, 3), 5, 0, bands, 0.5);
    check_space(ops(keys, 3), 4, 0, none, 1);
    kas_quiet(quiet);
}

/* The last two primitives of kernels of the sampler, in every way. */
TEST(test_no_end_is_cut_off)
{
    walk w = {.options = kas_sample_defaults()};
    w.options.min_receptive = 1;
    w.options.min_primitives = 5;
    w.options.max_primitives = 8;
    w.options.budget.max_flops_ratio = 0.5;
    w.options.budget.max_params_ratio = 1;
    w.options.kernels = (kas_int_list){.count = 2, .value = {0, 5}};
    w.options.dilations = (kas_int_list){.count = 1, .value = {1}};
    w.options.shifts = (kas_int_list){.count = 1, .value = {1}};
    open_walk(&w);
    const bool quiet = kas_quiet(true);
    for (uint64_t attempt = 0; attempt < 24; attempt++) {
        kas_guided_begin(&w.guided, attempt);
        if (kas_guided_try(&w.guided) != KAS_REJECT_NONE)
            continue;
        kas_growth_undo(w.g);
        kas_growth_undo(w.g);
        grow(&w, true);
    }
    kas_quiet(quiet);
    print_message("%ld uses tried, %ld refused, %ld kernels\n", w.tried, w.refused, w.complete);
    assert_true(w.complete > 100 && w.refused > 1000);
    close_walk(&w);
}

/* Leaves [C, H/2, W] three times and [x0, H, W], which none of the others can be merged with before
 * two of them are the halves of a concat. */
TEST(test_no_merge_of_four_leaves_is_cut_off)
{
    static const kas_op allowed[] = {KAS_OP_SLICE, KAS_OP_CONCAT, KAS_OP_FC,
                                     KAS_OP_RELU,  KAS_OP_ABS,    KAS_OP_MUL};
    static const kas_candidate_op first[] = {
        {.op = KAS_OP_SLICE, .inputs = 1, .dim = 1, .segment = 0},
        {.op = KAS_OP_SLICE, .inputs = 1, .dim = 1, .segment = 1},
        {.op = KAS_OP_RELU, .inputs = 1, .in = {1}},
        {.op = KAS_OP_ABS, .inputs = 1, .in = {1}},
        {.op = KAS_OP_FC, .inputs = 1}};
    const kas_split split[KAS_MAX_SPLITS] = {{.whole = kas_dim_symbol(KAS_SYM_H), .shares = 2}};
    walk w = {.options = kas_sample_defaults()};
    bool admitted = true;
    w.options.allowed = ops(allowed, 6);
    w.options.max_width = 4;
    w.options.min_receptive = 1;
    w.options.min_primitives = w.options.max_primitives = 8;
    w.options.budget.max_flops_ratio = w.options.budget.max_params_ratio = 1;
    open_walk(&w);
    const bool quiet = kas_quiet(true);
    kas_growth_begin(w.g, 8, 0, split);
    kas_guide_begin(&w.guided.guide);
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        int value = 0;
        assert_true(kas_growth_try(w.g, &first[i], pick, &value));
        admitted = kas_guide_admits(&w.guided.guide) == KAS_REJECT_NONE && admitted;
    }
    assert_int_equal(w.g->width, 4);
    grow(&w, admitted);
    kas_quiet(quiet);
    print_message("%ld uses tried, %ld refused, %ld kernels\n", w.tried, w.refused, w.complete);
    assert_true(w.complete > 0 && w.refused > 0);
    close_walk(&w);
}

RUN_TESTS()
