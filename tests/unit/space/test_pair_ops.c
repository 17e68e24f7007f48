#include "support/test.h"

#include <string.h>

#include "host/space/canvas/guided.h"
#include "host/space/canvas/pair_ops.h"

/* ResNet-18's four shapes. */
static void shapes(kas_target out[4])
{
    for (int i = 0; i < 4; i++) {
        uint32_t c = 64u << i, h = 56u >> i;
        out[i] = kas_target_plain(c, h, h, 3);
    }
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

typedef struct counts {
    long offered, left_out, possible;
} counts;

/* Does any value make the use possible?  Leaves the growth as it was. */
static bool is_possible(kas_guided *d, const kas_candidate_op *use)
{
    kas_growth *g = d->growth;
    for (int value = 0; value < KAS_MAX_SUBSTITUTIONS; value++) {
        if (!kas_growth_try(g, use, pick, &value)) {
            if (!g->step[g->kernel.nodes].changed)
                return false; /* not for the value's sake, or there are no more */
            continue;
        }
        const bool by_value = g->step[g->kernel.nodes - 1].saved > 0;
        bool fits =
            kas_guide_admits(&d->guide) == KAS_REJECT_NONE &&
            (g->kernel.nodes <= g->primitives || kas_guide_finish(&d->guide) == KAS_REJECT_NONE);
        kas_growth_undo(g);
        if (fits || !by_value)
            return fits;
    }
    return false;
}

/* Use k of a pair, which serves or not. */
static void check_use(kas_guided *d, kas_type type, const kas_operands *pair, int k, bool serves,
                      counts *n)
{
    const kas_candidate_op use = kas_pair_op(type, pair, k);
    kas_op_filter filter;
    kas_guide_next(&d->guide, &filter);
    if (!(filter.ops & KAS_OP_BIT(use.op)) || !kas_candidate_op_has_leaves(&filter, &use)) {
        assert_false(serves);
        return;
    }
    const bool possible = is_possible(d, &use);
    n->offered += serves;
    n->left_out += !serves;
    n->possible += possible;
    if (possible && !serves)
        fail_msg("op %d of nodes %d and %d is left out and could be used", use.op, use.in[0],
                 use.in[1]);
}

static bool is_listed(const kas_operands *list, int count, const kas_operands *pair)
{
    for (int i = 0; i < count; i++)
        if (list[i].lhs == pair->lhs && list[i].rhs == pair->rhs)
            return true;
    return false;
}

/* Of all pairs: those that are not listed have too few leaves. */
static void check_pairs(kas_guided *d, kas_type type, counts *n)
{
    static kas_operands list[KAS_MAX_NODES * KAS_MAX_NODES];
    const kas_growth *g = d->growth;
    kas_op_filter filter;
    kas_guide_next(&d->guide, &filter);
    const int count = kas_list_pairs(g, type, &filter, list);
    for (int a = 0; a < g->kernel.nodes; a++)
        for (int b = 0; b < g->kernel.nodes; b++) {
            const kas_operands pair = {.lhs = (uint8_t)a, .rhs = (uint8_t)b};
            const bool listed = is_listed(list, count, &pair);
            const uint8_t serve = listed ? kas_pair_serves(g, type, &filter, &pair) : 0;
            for (int k = 0; k < kas_ops_of_a_pair(type) && (a != b || type == KAS_TYPE_BMM); k++)
                check_use(d, type, &pair, k, serve >> k & 1, n);
        }
}

/* On kernels of the sampler with 0 to 3 primitives taken back: whatever is not offered would be
 * refused. */
TEST(test_only_what_would_be_refused_is_left_out)
{
    kas_target t[4];
    kas_growth *growth;
    kas_guided guided;
    counts n = {0};
    kas_sample_options o = kas_sample_defaults();
    o.max_primitives = 14;
    shapes(t);
    assert_int_equal(kas_growth_create(&o, t, 4, &growth), KAS_OK);
    assert_int_equal(kas_guided_create(&o, t, 4, growth, &guided), KAS_OK);
    const bool quiet = kas_quiet(true);
    for (uint64_t attempt = 0; attempt < 150; attempt++) {
        kas_guided_begin(&guided, attempt);
        if (kas_guided_try(&guided) != KAS_REJECT_NONE)
            continue;
        for (int back = 0; back < 3; back++) {
            kas_growth_undo(growth);
            check_pairs(&guided, KAS_TYPE_BROADCAST, &n);
            check_pairs(&guided, KAS_TYPE_BMM, &n);
        }
    }
    kas_quiet(quiet);
    print_message("%ld uses offered, %ld left out, %ld could be used\n", n.offered, n.left_out,
                  n.possible);
    assert_true(n.possible > 1000 && n.left_out > 1000);
    kas_guided_free(&guided);
    kas_growth_free(growth);
}

/* Numbers are equal exactly when shapes are, also beyond the first room. */
TEST(test_numbers)
{
    enum { SHAPES = 3000 };
    uint32_t number[SHAPES];
    kas_pairs *pairs;
    assert_int_equal(kas_pairs_create(&pairs), KAS_OK);
    kas_pairs_begin(pairs);
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < SHAPES; i++) {
            kas_shape shape = {.channels = 1, .channel = {kas_dim_const(i + 1)}};
            shape.spatial[0] = kas_dim_symbol(KAS_SYM_H);
            shape.is_group[0] = i % 2;
            const uint32_t found = kas_pairs_number(pairs, &shape);
            if (pass == 0)
                number[i] = found;
            assert_int_equal(kas_number_pattern(found), i);
            assert_int_equal(kas_number_var(found), -1);
            assert_int_equal(found, number[i]);
            assert_true(kas_shape_equal(&kas_pairs_facts(pairs, found)->shape, &shape));
        }
    assert_int_equal(kas_pairs_status(pairs), KAS_OK);
    kas_pairs_free(pairs);
}

/* 62 quarters of the channels: 62^4 tuples, of which the first are listed. */
TEST(test_the_list_of_concats_is_cut)
{
    static kas_kernel k;
    static kas_candidate_op uses[KAS_MAX_CANDIDATE_OPS + 1];
    const kas_op_filter filter = {.ops = KAS_OP_BIT(KAS_OP_CONCAT)};
    memset(uses, 0xff, sizeof uses);
    k.split[0] = (kas_split){.whole = kas_dim_symbol(KAS_SYM_C), .shares = 4};
    for (k.nodes = 1; k.nodes < KAS_MAX_NODES; k.nodes++) {
        const int i = k.nodes - 1;
        if (i > 0)
            k.node[i] = (kas_node){.op = KAS_OP_SLICE, .inputs = 1, .segment = (uint8_t)(i % 4)};
        assert_int_equal(kas_node_infer(&k, i), KAS_OK);
    }
    k.nodes--;
    assert_int_equal(kas_list_candidate_ops(&k, KAS_TYPE_CONCAT, &filter, uses),
                     KAS_MAX_CANDIDATE_OPS);
    assert_int_equal(uses[KAS_MAX_CANDIDATE_OPS].op, 0xff);
    for (int u = 0; u < KAS_MAX_CANDIDATE_OPS; u++) {
        assert_int_equal(uses[u].inputs, 4);
        assert_true(u == 0 || memcmp(uses[u].in, uses[u - 1].in, sizeof uses[u].in) > 0);
    }
}

RUN_TESTS()
