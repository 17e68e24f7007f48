#include "host/space/merge.h"

#include "host/space/primitive.h"
#include "host/space/prune.h"
#include "host/space/split.h"

/* With more leaves than these the ways of merging them are too many to try: that each has some way
 * must do. */
enum { MOST_TRIED = 3 };

/* A leaf, or what merges would make of some. */
typedef struct leaf {
    uint32_t number; /* of its shape */
    int node;        /* -1: not there yet */
} leaf;

typedef struct merging {
    const kas_growth *g;
    bool loose; /* look at the leaves' shapes alone, not at who else holds their variables */
    bool blend, multiply, concat;
    int segments; /* of the kernel's split; a sampled kernel has one at most */
    kas_dim segment[KAS_MAX_SHARES];
} merging;

/* ---- broadcasts ---- */

static bool has_value(const kas_growth *g, kas_pair *pair, bool loose)
{
    const kas_value *value = kas_pairs_values(g->pairs, pair);
    for (int i = 0; i < pair->values; i++)
        if (value[i].tiles && kas_growth_may_use(g, &value[i].size) &&
            (loose || kas_growth_takes(g, pair->var, &value[i].size)))
            return true;
    return false;
}

static bool could_blend(const kas_growth *g, uint32_t lhs, uint32_t rhs, bool loose)
{
    kas_pair *pair = kas_pairs_get(g->pairs, lhs, rhs);
    if (pair->fit == KAS_FIT_BY_VALUE)
        return has_value(g, pair, loose);
    return pair->fit == KAS_FIT_TILES && kas_growth_size_fits(g, &pair->repetitions);
}

bool kas_could_blend(const kas_growth *g, uint32_t lhs, uint32_t rhs)
{
    return could_blend(g, lhs, rhs, false);
}

/* ---- concats ---- */

/* The segments that a dim of that size could be, as bits. */
static unsigned segments_of(const merging *m, const kas_dim *dim)
{
    unsigned found = 0;
    for (int k = 0; k < m->segments; k++)
        found |= (unsigned)kas_dim_equal(dim, &m->segment[k]) << k;
    return found;
}

/* Would the shape be the output if dim `d` were whole again? */
static bool whole_is_output(const kas_kernel *kernel, const kas_shape *shape, int d)
{
    kas_shape_facts facts = {.shape = *shape};
    kas_shape_set(&facts.shape, d, &kernel->split[0].whole);
    kas_shape_find_output(&facts);
    return facts.output != KAS_OUTPUT_NEVER;
}

/* Are the two different segments of one dim?  Then a concat may join them, with others or without.
 */
static bool could_concat(const merging *m, uint32_t a, uint32_t b, bool last)
{
    const kas_shape *x = &kas_pairs_facts(m->g->pairs, a)->shape;
    const kas_shape *y = &kas_pairs_facts(m->g->pairs, b)->shape;
    for (int d = 0; d < kas_shape_rank(x); d++) {
        unsigned first = segments_of(m, kas_shape_at(x, d));
        if (!first || !kas_shapes_match_beside(x, y, d))
            continue;
        unsigned second = segments_of(m, kas_shape_at(y, d));
        bool different = second && ((first | second) & ((first | second) - 1));
        if (different && (!last || whole_is_output(&m->g->kernel, x, d)))
            return true;
    }
    return false;
}

/* Leaves out concats when the kernel has no split to join. */
static void find_segments(merging *m)
{
    const kas_split *split = &m->g->kernel.split[0];
    if (!m->concat || split->whole.num == 0)
        return;
    for (int k = 0; k < kas_split_segments(split); k++)
        if (kas_split_segment(&m->g->kernel, 0, k, &m->segment[m->segments]))
            m->segments++;
}

/* ---- the output ---- */

/* A variable in it must be able to take the value that makes it C. */
static bool is_output(const kas_growth *g, uint32_t number, bool loose)
{
    const kas_shape_facts *facts = kas_pairs_facts(g->pairs, number);
    if (facts->output != KAS_OUTPUT_BY_VALUE)
        return facts->output == KAS_OUTPUT_AS_IT_IS;
    return kas_growth_is_integer(g, &facts->value) &&
           (loose || kas_growth_takes(g, facts->var, &facts->value));
}

bool kas_could_be_output(const kas_growth *g, int i)
{
    return is_output(g, g->known[i].number, false);
}

static bool could_blend_last(const kas_growth *g, uint32_t lhs, uint32_t rhs, bool loose)
{
    if (!is_output(g, rhs, loose) || !could_blend(g, lhs, rhs, loose))
        return false;
    const kas_shape_facts *facts = kas_pairs_facts(g->pairs, rhs);
    const kas_pair *pair = kas_pairs_get(g->pairs, lhs, rhs);
    kas_dim size;
    if (pair->fit != KAS_FIT_TILES || facts->output != KAS_OUTPUT_BY_VALUE)
        return true;
    return kas_dim_substitute(&pair->repetitions, facts->var, &facts->value, &size) &&
           kas_growth_size_fits(g, &size);
}

bool kas_could_blend_last(const kas_growth *g, uint32_t lhs, uint32_t rhs)
{
    return could_blend_last(g, lhs, rhs, false);
}

static unsigned last_products(const kas_growth *g, uint32_t lhs, uint32_t rhs, bool loose)
{
    const kas_products *products = kas_pairs_products(g->pairs, lhs, rhs);
    unsigned serve = 0;
    for (int t = 0; products->outputs >> t; t++)
        if ((products->outputs >> t & 1) && is_output(g, products->result[t], loose))
            serve |= 1u << t;
    return serve;
}

unsigned kas_last_products(const kas_growth *g, uint32_t lhs, uint32_t rhs)
{
    return last_products(g, lhs, rhs, false);
}

/* Could this merge of the last two be the output? */
static bool completes(const merging *m, const leaf *a, const leaf *b)
{
    const kas_growth *g = m->g;
    bool same = a->node >= 0 && b->node >= 0 && kas_same_values(&g->kernel, a->node, b->node);
    return (m->blend && !same && could_blend_last(g, a->number, b->number, m->loose)) ||
           (m->multiply && last_products(g, a->number, b->number, m->loose)) ||
           (m->segments && could_concat(m, a->number, b->number, true));
}

/* ---- all ways ---- */

static bool could_merge(const merging *m, const leaf *leaves, int count);

/* The leaves with number `a` left out and another one in the place of `b`. */
static bool merges_after(const merging *m, const leaf *leaves, int count, int a, int b,
                         uint32_t number)
{
    leaf after[MOST_TRIED];
    int n = 0;
    for (int i = 0; i < count; i++)
        if (i != a)
            after[n++] = i == b ? (leaf){number, -1} : leaves[i];
    return could_merge(m, after, n);
}

/* A product or a concat of the two, what it gives is not followed further. */
static bool gives_another_shape(const merging *m, uint32_t a, uint32_t b)
{
    return (m->multiply && kas_pairs_products(m->g->pairs, a, b)->legal) ||
           (m->segments && could_concat(m, a, b, false));
}

static bool holds(const kas_growth *g, uint32_t number, int var)
{
    const kas_shape *shape = &kas_pairs_facts(g->pairs, number)->shape;
    for (int d = 0; d < shape->channels; d++)
        if (shape->channel[d].exp[KAS_SYM_X0 + var] != 0)
            return true;
    return false;
}

/* A value changes every shape that holds the variable: those are not followed further. */
static bool merges_by_blend(const merging *m, const leaf *leaves, int count, int a, int b)
{
    const kas_growth *g = m->g;
    if (!m->blend || !could_blend(g, leaves[a].number, leaves[b].number, m->loose))
        return false;
    const kas_pair *pair = kas_pairs_get(g->pairs, leaves[a].number, leaves[b].number);
    const int var = pair->fit == KAS_FIT_BY_VALUE ? pair->var : -1;
    for (int i = 0; i < count && var >= 0; i++)
        if (i != a && holds(g, leaves[i].number, var))
            return true;
    return merges_after(m, leaves, count, a, b, leaves[b].number);
}

static bool could_merge(const merging *m, const leaf *leaves, int count)
{
    if (count == 1)
        return is_output(m->g, leaves[0].number, m->loose);
    if (count == 2)
        return completes(m, &leaves[0], &leaves[1]) || completes(m, &leaves[1], &leaves[0]);
    for (int a = 0; a < count; a++)
        for (int b = 0; b < count; b++)
            if (a != b && (gives_another_shape(m, leaves[a].number, leaves[b].number) ||
                           merges_by_blend(m, leaves, count, a, b)))
                return true;
    return false;
}

/* Has every leaf another one to merge with? */
static bool each_could_merge(const merging *m, const leaf *leaves, int count)
{
    for (int a = 0; a < count; a++) {
        bool merges = false;
        for (int b = 0; b < count && !merges; b++) {
            const uint32_t x = leaves[a].number, y = leaves[b].number;
            merges = a != b && ((m->blend && (could_blend(m->g, x, y, m->loose) ||
                                              could_blend(m->g, y, x, m->loose))) ||
                                (m->multiply && (kas_pairs_products(m->g->pairs, x, y)->legal ||
                                                 kas_pairs_products(m->g->pairs, y, x)->legal)) ||
                                (m->segments && could_concat(m, x, y, false)));
        }
        if (!merges)
            return m->multiply; /* the product of two others could be its match */
    }
    return true;
}

static bool merge(const kas_growth *g, const leaf *leaves, int count, bool loose)
{
    const uint64_t blends = KAS_OP_BIT(KAS_OP_ADD) | KAS_OP_BIT(KAS_OP_SUB) |
                            KAS_OP_BIT(KAS_OP_MUL) | KAS_OP_BIT(KAS_OP_MIN) |
                            KAS_OP_BIT(KAS_OP_MAX);
    merging m = {.g = g,
                 .loose = loose,
                 .blend = g->ops & blends,
                 .multiply = g->ops & KAS_OP_BIT(KAS_OP_BMM),
                 .concat = g->ops & KAS_OP_BIT(KAS_OP_CONCAT)};
    find_segments(&m);
    return count > MOST_TRIED ? each_could_merge(&m, leaves, count)
                              : could_merge(&m, leaves, count);
}

/* Most sets of leaves come again, and most cannot merge. */
static bool merge_loosely(const kas_growth *g, const leaf *leaves, int count)
{
    const bool same = count == 2 && leaves[0].node >= 0 && leaves[1].node >= 0 &&
                      kas_same_values(&g->kernel, leaves[0].node, leaves[1].node);
    kas_merge_key key = {.context = g->context << 1 | same, .shape = {0, 0, 0}};
    for (int i = 0; i < count && count <= MOST_TRIED; i++) {
        int at = i;
        for (; at > 0 && key.shape[at - 1] > leaves[i].number + 1; at--)
            key.shape[at] = key.shape[at - 1];
        key.shape[at] = leaves[i].number + 1;
    }
    int known = count <= MOST_TRIED ? kas_pairs_recall(g->pairs, &key) : -1;
    if (known < 0) {
        known = merge(g, leaves, count, true);
        if (count <= MOST_TRIED)
            kas_pairs_remember(g->pairs, &key, known);
    }
    return known;
}

/* The leaves but those in `less`. */
static int collect(const kas_growth *g, uint64_t less, leaf *leaves)
{
    int count = 0;
    for (int i = 0; i < g->kernel.nodes; i++)
        if (!g->read[i] && !(less >> i & 1))
            leaves[count++] = (leaf){g->known[i].number, i};
    return count;
}

bool kas_leaves_could_merge(const kas_growth *g)
{
    leaf leaves[KAS_MAX_NODES];
    const int count = collect(g, 0, leaves);
    return merge_loosely(g, leaves, count) && merge(g, leaves, count, false);
}

bool kas_leaves_could_merge_after(const kas_growth *g, const kas_use *use, uint32_t result)
{
    leaf leaves[KAS_MAX_NODES];
    uint64_t less = 0;
    for (int k = 0; k < use->inputs; k++)
        less |= (uint64_t)1 << use->in[k];
    int count = collect(g, less, leaves);
    leaves[count++] = (leaf){result, -1};
    const int left = g->primitives - g->kernel.nodes; /* after the use */
    return left == 0 || left > count - 1 || merge_loosely(g, leaves, count);
}

bool kas_leaves_change(const kas_growth *g, const kas_use *use, const kas_pair *pair)
{
    if (pair->fit != KAS_FIT_BY_VALUE)
        return false;
    for (int i = 0; i < g->kernel.nodes; i++)
        if (!g->read[i] && i != use->in[0] && i != use->in[1] &&
            holds(g, g->known[i].number, pair->var))
            return true;
    return false;
}
