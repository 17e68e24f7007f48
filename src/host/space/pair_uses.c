#include "host/space/pair_uses.h"

#include "host/space/merge.h"
#include "host/space/prune.h"

/* A broadcast gives RHS's shape; a value that LHS's variable takes changes leaves that hold it. */
static bool blend_serves(const kas_growth *g, const kas_use *use)
{
    const int lhs = use->in[0], rhs = use->in[1];
    const uint32_t a = g->known[lhs].number, b = g->known[rhs].number;
    if (lhs == rhs || kas_same_values(&g->kernel, lhs, rhs))
        return false;
    if (g->kernel.nodes == g->primitives)
        return kas_could_blend_last(g, a, b);
    const kas_pair *pair = kas_pairs_get(g->pairs, a, b);
    return pair->fit > KAS_FIT_MIXES &&
           (kas_leaves_change(g, use, pair) || kas_leaves_could_merge_after(g, use, b)) &&
           kas_could_blend(g, a, b);
}

/* Transposes of a product, as bits. */
static unsigned products_that_serve(const kas_growth *g, const kas_use *use)
{
    const uint32_t a = g->known[use->in[0]].number, b = g->known[use->in[1]].number;
    if (g->kernel.nodes == g->primitives)
        return kas_last_products(g, a, b);
    const kas_products products = *kas_pairs_products(g->pairs, a, b);
    unsigned serve = 0;
    for (int t = 0; products.legal >> t; t++)
        if ((products.legal >> t & 1) && kas_leaves_could_merge_after(g, use, products.result[t]))
            serve |= 1u << t;
    return serve;
}

/* The second of two orders that give the same. */
static bool is_second_order(const kas_growth *g, const kas_use *use)
{
    return use->op != KAS_OP_SUB && use->in[0] > use->in[1] &&
           g->known[use->in[0]].number == g->known[use->in[1]].number;
}

bool kas_pair_use_serves(const kas_growth *g, const kas_use_filter *filter, const kas_use *use)
{
    if (!(filter->ops & KAS_OP_BIT(use->op)) || !kas_use_has_leaves(filter, use))
        return false;
    if (use->op == KAS_OP_BMM)
        return products_that_serve(g, use) >> use->transpose & 1;
    return !is_second_order(g, use) && blend_serves(g, use);
}

typedef struct list {
    const kas_growth *g;
    const kas_use_filter *filter;
    kas_use *out;
    int count;
} list;

static void add_blends(list *l, kas_use use)
{
    if (!blend_serves(l->g, &use))
        return;
    for (use.op = KAS_OP_ADD; use.op <= KAS_OP_MAX; use.op++)
        if ((l->filter->ops & KAS_OP_BIT(use.op)) && kas_use_has_leaves(l->filter, &use) &&
            !is_second_order(l->g, &use))
            l->out[l->count++] = use;
}

static void add_products(list *l, kas_use use)
{
    const unsigned serve = products_that_serve(l->g, &use);
    use.op = KAS_OP_BMM;
    for (use.transpose = 0; serve >> use.transpose; use.transpose++)
        for (use.softmax = 0; use.softmax < 2 && (serve >> use.transpose & 1); use.softmax++)
            l->out[l->count++] = use;
}

/* Fewest leaves among the operands of any operation of the type that is allowed. */
static int fewest_leaves(const kas_use_filter *filter, kas_type type)
{
    int fewest = KAS_MAX_NODES;
    for (int op = KAS_OP_INPUT + 1; op < KAS_OP_COUNT; op++)
        if ((filter->ops & KAS_OP_BIT(op)) && kas_type_of((kas_op)op) == type &&
            filter->leaves_needed[op] < fewest)
            fewest = filter->leaves_needed[op];
    return fewest;
}

int kas_list_pair_uses(const kas_growth *g, kas_type type, const kas_use_filter *filter,
                       kas_use out[KAS_MAX_USES])
{
    list l = {.g = g, .filter = filter, .out = out};
    const uint64_t leaves = filter->leaves;
    const int needed = fewest_leaves(filter, type);
    for (int lhs = 0; lhs < g->kernel.nodes; lhs++) {
        const int more = needed - (int)(leaves >> lhs & 1); /* leaves that RHS must be */
        uint64_t rhs = UINT64_MAX >> (KAS_MAX_NODES - g->kernel.nodes);
        if (more > 0)
            rhs &= leaves & ~((uint64_t)1 << lhs);
        for (; more <= 1 && rhs; rhs &= rhs - 1) {
            const kas_use use = {.inputs = 2, .in = {(uint8_t)lhs, (uint8_t)__builtin_ctzll(rhs)}};
            if (type == KAS_TYPE_BMM)
                add_products(&l, use);
            else
                add_blends(&l, use);
        }
    }
    return l.count;
}
