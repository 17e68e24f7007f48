#include "host/space/canvas/pair_ops.h"

#include "host/space/canvas/merge.h"
#include "host/space/canvas/prune.h"

/* Returns whether a broadcast of the pair may lead to a kernel. It gives RHS's shape; a value that
 * LHS's variable takes changes the leaves that hold the variable. */
static bool broadcast_serves(const kas_growth *g, const kas_candidate_op *use)
{
    const int lhs = use->in[0], rhs = use->in[1];
    const uint32_t a = g->known[lhs].number, b = g->known[rhs].number;
    if (lhs == rhs || kas_same_values(&g->kernel, lhs, rhs))
        return false;
    if (g->kernel.nodes == g->primitives)
        return kas_could_broadcast_last(g, a, b);
    const kas_pair *pair = kas_pairs_get(g->pairs, a, b);
    return pair->fit > KAS_FIT_MIXES &&
           (kas_leaves_change(g, use, pair) || kas_leaves_could_merge_after(g, use, b)) &&
           kas_could_broadcast(g, a, b);
}

/* Returns the transposes of a product that may lead to a kernel, as bits. */
static unsigned products_that_serve(const kas_growth *g, const kas_candidate_op *use)
{
    const uint32_t a = g->known[use->in[0]].number, b = g->known[use->in[1]].number;
    if (g->kernel.nodes == g->primitives)
        return kas_last_products(g, a, b);
    const kas_products products = kas_pairs_products(g->pairs, a, b);
    unsigned serve = 0;
    for (int t = 0; products.legal >> t; t++)
        if ((products.legal >> t & 1) && kas_leaves_could_merge_after(g, use, products.result[t]))
            serve |= 1u << t;
    return serve;
}

/* Returns whether this is the second of two orders that give the same. */
static bool is_second_order(const kas_growth *g, const kas_candidate_op *use)
{
    return kas_op_has_trait(use->op, KAS_TRAIT_COMMUTES) && use->in[0] > use->in[1] &&
           g->known[use->in[0]].number == g->known[use->in[1]].number;
}

kas_candidate_op kas_pair_op(kas_type type, const kas_operands *pair, int k)
{
    kas_candidate_op use = {.inputs = 2, .in = {pair->lhs, pair->rhs}};
    if (type == KAS_TYPE_BMM) {
        use.op = KAS_OP_BMM;
        use.transpose = (uint8_t)(k / 2);
        use.softmax = (uint8_t)(k % 2);
    } else {
        use.op = (uint8_t)(KAS_OP_ADD + k);
    }
    return use;
}

static uint8_t broadcasts(const kas_growth *g, const kas_op_filter *filter,
                          const kas_operands *pair)
{
    uint8_t serve = 0;
    for (int k = 0; k < KAS_BROADCASTS; k++) {
        const kas_candidate_op use = kas_pair_op(KAS_TYPE_BROADCAST, pair, k);
        if ((filter->ops & KAS_OP_BIT(use.op)) && kas_candidate_op_has_leaves(filter, &use) &&
            !is_second_order(g, &use))
            serve |= (uint8_t)(1u << k);
    }
    const kas_candidate_op any = kas_pair_op(KAS_TYPE_BROADCAST, pair, 0);
    return serve && broadcast_serves(g, &any) ? serve : 0;
}

static uint8_t products(const kas_growth *g, const kas_op_filter *filter, const kas_operands *pair)
{
    const kas_candidate_op any = kas_pair_op(KAS_TYPE_BMM, pair, 0);
    uint8_t serve = 0;
    if (!(filter->ops & KAS_OP_BIT(KAS_OP_BMM)) || !kas_candidate_op_has_leaves(filter, &any))
        return 0;
    for (unsigned left = products_that_serve(g, &any); left; left &= left - 1)
        serve |= (uint8_t)(3u << 2 * __builtin_ctz(left));
    return serve;
}

uint8_t kas_pair_serves(const kas_growth *g, kas_type type, const kas_op_filter *filter,
                        const kas_operands *pair)
{
    return type == KAS_TYPE_BMM ? products(g, filter, pair) : broadcasts(g, filter, pair);
}

/* Returns how many operands at least must be leaves, over all allowed operations of the type. */
static int fewest_leaves(const kas_op_filter *filter, kas_type type)
{
    int fewest = KAS_MAX_NODES;
    for (int op = KAS_OP_BMM; op <= KAS_OP_MAX; op++)
        if ((filter->ops & KAS_OP_BIT(op)) && kas_type_of(op) == type &&
            filter->leaves_needed[op] < fewest)
            fewest = filter->leaves_needed[op];
    return fewest;
}

int kas_list_pairs(const kas_growth *g, kas_type type, const kas_op_filter *filter,
                   kas_operands out[KAS_MAX_NODES * KAS_MAX_NODES])
{
    const int needed = fewest_leaves(filter, type);
    int count = 0;
    for (int lhs = 0; lhs < g->kernel.nodes; lhs++) {
        /* 1: RHS must be a leaf; 2: no RHS is enough */
        const int more = needed - (int)(filter->leaves >> lhs & 1);
        uint64_t rhs = UINT64_MAX >> (KAS_MAX_NODES - g->kernel.nodes);
        if (more > 0)
            rhs &= filter->leaves & ~((uint64_t)1 << lhs);
        if (type != KAS_TYPE_BMM) /* a product of a tensor with itself is allowed */
            rhs &= ~((uint64_t)1 << lhs);
        for (; more <= 1 && rhs; rhs &= rhs - 1)
            out[count++] =
                (kas_operands){.lhs = (uint8_t)lhs, .rhs = (uint8_t)__builtin_ctzll(rhs)};
    }
    return count;
}
