#include "host/space/canvas/merge.h"

#include <string.h>

#include "host/space/canvas/prune.h"
#include "host/space/primitive.h"
#include "host/space/solve/solve.h"

/* The most leaves for which every way of merging is tried. With more there are too many ways, and
 * each leaf must only have some partner. */
enum { MOST_TRIED = 3 };

/* A leaf, or what merges of some leaves would give. */
typedef struct leaf {
    uint32_t number; /* of its shape */
    int node;        /* its node; -1: not there yet */
} leaf;

typedef struct merging {
    const kas_growth *g;
    bool loose; /* look at the leaves' shapes alone, not at other nodes that hold their variables */
    bool broadcast, multiply;
} merging;

/* ---- broadcasts ---- */

static bool takes(const kas_growth *g, uint32_t lhs, uint32_t rhs, const kas_value *value)
{
    const kas_dim size = kas_pair_size(&value->size, rhs);
    return kas_growth_takes(g, kas_number_var(lhs), &size);
}

static bool has_value(const kas_growth *g, uint32_t lhs, uint32_t rhs, bool loose)
{
    kas_pair *pair = kas_pairs_get(g->pairs, lhs, rhs);
    const kas_value *value = kas_pairs_values(g->pairs, pair);
    for (int i = 0; i < pair->values; i++)
        if (value[i].tiles && kas_growth_may_use(g, &value[i].size) &&
            (loose || takes(g, lhs, rhs, &value[i])))
            return true;
    return false;
}

static bool could_broadcast(const kas_growth *g, uint32_t lhs, uint32_t rhs, bool loose)
{
    kas_pair *pair = kas_pairs_get(g->pairs, lhs, rhs);
    if (pair->fit == KAS_FIT_BY_VALUE)
        return has_value(g, lhs, rhs, loose);
    return pair->fit == KAS_FIT_TILES && kas_growth_size_fits(g, &pair->repetitions);
}

bool kas_could_broadcast(const kas_growth *g, uint32_t lhs, uint32_t rhs)
{
    return could_broadcast(g, lhs, rhs, false);
}

/* ---- concats ---- */

/* Returns the segments that a dim of this size could be, as bits. */
static unsigned segments_of(const merging *m, const kas_dim *dim)
{
    unsigned found = 0;
    for (int k = 0; k < m->g->segments; k++)
        found |= (unsigned)kas_dim_equal(dim, &m->g->segment[k]) << k;
    return found;
}

/* Returns whether the shape would be the output if dim `d` were whole again. */
static bool whole_is_output(const kas_kernel *kernel, const kas_shape *shape, int d)
{
    kas_shape_facts facts = {.shape = *shape};
    kas_shape_set(&facts.shape, d, &kernel->split[0].whole);
    kas_shape_find_output(&facts);
    return facts.output != KAS_OUTPUT_NEVER;
}

/* Returns whether the two are different segments of dim d. Then a concatenation may join them, with
 * other segments or without. */
static bool could_join(const merging *m, const kas_shape *x, const kas_shape *y, int d)
{
    const unsigned first = segments_of(m, kas_shape_at(x, d));
    if (!first || !kas_shapes_match_beside(x, y, d))
        return false;
    const unsigned second = segments_of(m, kas_shape_at(y, d));
    return second && ((first | second) & ((first | second) - 1));
}

/* Returns whether a concatenation along some dim may join the two; with `last`, also whether its
 * result is the output. */
static bool could_concat(const merging *m, uint32_t a, uint32_t b, bool last)
{
    const kas_shape *x = &kas_pairs_facts(m->g->pairs, a)->shape;
    const kas_shape *y = &kas_pairs_facts(m->g->pairs, b)->shape;
    if (kas_number_var(a) != kas_number_var(b) || x->channels != y->channels)
        return false;
    for (int d = 0; d < kas_shape_rank(x); d++)
        if (could_join(m, x, y, d) && (!last || whole_is_output(&m->g->kernel, x, d)))
            return true;
    return false;
}

/* Returns the number of the shape that a and b, the two segments of dim d, give when joined. */
static uint32_t joined(const merging *m, uint32_t a, uint32_t b, int d)
{
    kas_shape whole = kas_pairs_facts(m->g->pairs, a)->shape;
    const kas_shape *y = &kas_pairs_facts(m->g->pairs, b)->shape;
    kas_shape_set(&whole, d, &m->g->kernel.split[0].whole);
    for (int c = 0; c < whole.channels; c++)
        whole.is_group[c] &= y->is_group[c];
    return kas_number_with_var(kas_pairs_number(m->g->pairs, &whole), kas_number_var(a));
}

/* ---- the output ---- */

/* Returns whether the shape is the output. A variable in it must be able to take the value that
 * makes it C. */
static bool is_output(const kas_growth *g, uint32_t number, bool loose)
{
    const kas_shape_facts *facts = kas_pairs_facts(g->pairs, number);
    if (facts->output != KAS_OUTPUT_BY_VALUE)
        return facts->output == KAS_OUTPUT_AS_IT_IS;
    return kas_growth_may_use(g, &facts->value) && kas_growth_is_integer(g, &facts->value) &&
           (loose || kas_growth_takes(g, kas_number_var(number), &facts->value));
}

bool kas_could_be_output(const kas_growth *g, uint32_t number)
{
    return is_output(g, number, false);
}

/* Returns whether a size of a pair is an integer once RHS is [C, H, W]. */
static bool fits_as_output(const kas_growth *g, uint32_t rhs, const kas_dim *size)
{
    const kas_shape_facts *facts = kas_pairs_facts(g->pairs, rhs);
    kas_dim with;
    if (facts->output != KAS_OUTPUT_BY_VALUE)
        return kas_growth_size_fits(g, size);
    return kas_dim_substitute(size, kas_number_var(rhs), &facts->value, &with) &&
           kas_growth_size_fits(g, &with);
}

/* Returns whether LHS would tile RHS as the output with that value of its variable. */
static bool tiles_output(const kas_growth *g, uint32_t lhs, uint32_t rhs, const kas_dim *value)
{
    const kas_pair *pair = kas_pairs_get(g->pairs, lhs, rhs);
    kas_dim repetitions = kas_pair_size(&pair->repetitions, rhs);
    return kas_dim_div(&repetitions, value, &repetitions) && fits_as_output(g, rhs, &repetitions);
}

bool kas_takes_last(const kas_growth *g, uint32_t lhs, uint32_t rhs, const kas_dim *value)
{
    const kas_shape_facts *facts = kas_pairs_facts(g->pairs, rhs);
    if (!tiles_output(g, lhs, rhs, value))
        return false;
    return facts->output == KAS_OUTPUT_BY_VALUE
               ? kas_growth_takes_both(g, kas_number_var(lhs), value, kas_number_var(rhs),
                                       &facts->value)
               : kas_growth_takes(g, kas_number_var(lhs), value);
}

/* Returns whether LHS's variable has a value that suits the last primitive. */
static bool has_last_value(const kas_growth *g, uint32_t lhs, uint32_t rhs, bool loose)
{
    kas_pair *pair = kas_pairs_get(g->pairs, lhs, rhs);
    const kas_value *value = kas_pairs_values(g->pairs, pair);
    for (int i = 0; i < pair->values; i++)
        if (value[i].tiles && kas_growth_may_use(g, &value[i].size)) {
            const kas_dim size = kas_pair_size(&value[i].size, rhs);
            if (loose ? tiles_output(g, lhs, rhs, &size) : kas_takes_last(g, lhs, rhs, &size))
                return true;
        }
    return false;
}

static bool could_broadcast_last(const kas_growth *g, uint32_t lhs, uint32_t rhs, bool loose)
{
    if (!is_output(g, rhs, loose))
        return false;
    const kas_pair *pair = kas_pairs_get(g->pairs, lhs, rhs);
    if (pair->fit == KAS_FIT_BY_VALUE)
        return has_last_value(g, lhs, rhs, loose);
    const kas_dim repetitions = kas_pair_size(&pair->repetitions, rhs);
    return pair->fit == KAS_FIT_TILES && fits_as_output(g, rhs, &repetitions);
}

bool kas_could_broadcast_last(const kas_growth *g, uint32_t lhs, uint32_t rhs)
{
    return could_broadcast_last(g, lhs, rhs, false);
}

static unsigned last_products(const kas_growth *g, uint32_t lhs, uint32_t rhs, bool loose)
{
    unsigned serve = 0;
    if (!kas_may_multiply_last(kas_pairs_facts(g->pairs, lhs), kas_pairs_facts(g->pairs, rhs)))
        return 0;
    const kas_products products = kas_pairs_products(g->pairs, lhs, rhs);
    for (int t = 0; products.outputs >> t; t++)
        if ((products.outputs >> t & 1) && is_output(g, products.result[t], loose))
            serve |= 1u << t;
    return serve;
}

unsigned kas_last_products(const kas_growth *g, uint32_t lhs, uint32_t rhs)
{
    return last_products(g, lhs, rhs, false);
}

/* Returns whether this merge of the last two leaves could be the output. */
static bool completes(const merging *m, const leaf *a, const leaf *b)
{
    const kas_growth *g = m->g;
    bool same = a->node >= 0 && b->node >= 0 && kas_same_values(&g->kernel, a->node, b->node);
    return (m->broadcast && !same && could_broadcast_last(g, a->number, b->number, m->loose)) ||
           (m->multiply && last_products(g, a->number, b->number, m->loose)) ||
           (m->g->segments && could_concat(m, a->number, b->number, true));
}

/* Returns false only when no merge of the two can be the output. It is cheaper than asking for each
 * merge, and decides most pairs. */
static bool may_complete(const merging *m, uint32_t a, uint32_t b)
{
    const kas_shape_facts *x = kas_pairs_facts(m->g->pairs, a);
    const kas_shape_facts *y = kas_pairs_facts(m->g->pairs, b);
    return x->output != KAS_OUTPUT_NEVER || y->output != KAS_OUTPUT_NEVER ||
           (m->multiply && (kas_may_multiply_last(x, y) || kas_may_multiply_last(y, x))) ||
           (m->g->segments && x->shape.channels == y->shape.channels && !x->flat && !y->flat);
}

/* ---- all ways ---- */

static bool could_merge(const merging *m, const leaf *leaves, int count);

/* Returns whether the leaves could merge once number `a` is gone and `number` stands in the place
 * of `b`. */
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

/* ---- a broadcast, then the last merge, as far as shapes tell ---- */

/* a was tiled over b, whose variable is in the number of repetitions: returns whether that number
 * stays an integer when b's variable becomes `size`. */
static bool repeats(const merging *m, const kas_pair *pair, const leaf *b, const kas_dim *size)
{
    kas_dim repetitions = kas_pair_size(&pair->repetitions, b->number);
    return kas_dim_substitute(&repetitions, kas_number_var(b->number), size, &repetitions) &&
           kas_growth_size_fits(m->g, &repetitions);
}

/* a's variable has that value, which may hold b's variable: returns whether it stays an integer
 * when b's variable becomes `size`. */
static bool keeps_value(const merging *m, const leaf *b, const kas_dim *value, const kas_dim *size)
{
    const int var = kas_number_var(b->number);
    kas_dim with = kas_pair_size(value, b->number);
    return kas_dim_substitute(&with, var, size, &with) && kas_growth_size_fits(m->g, &with);
}

/* Returns whether a could have been broadcast to b, whose variable then becomes `size`. */
static bool stays(const merging *m, const leaf *a, const leaf *b, const kas_dim *size)
{
    const kas_growth *g = m->g;
    kas_pair *pair = kas_pairs_get(g->pairs, a->number, b->number);
    if (pair->fit != KAS_FIT_BY_VALUE)
        return repeats(m, pair, b, size);
    const kas_value *value = kas_pairs_values(g->pairs, pair);
    for (int i = 0, values = pair->values; i < values; i++)
        if (value[i].tiles && kas_growth_may_use(g, &value[i].size) &&
            keeps_value(m, b, &value[i].size, size))
            return true;
    return false;
}

/* Copies the values of a pair, because asking about another pair may move them.
 * Returns their number. */
static int copy_values(const kas_growth *g, kas_pair *pair, kas_value value[KAS_MAX_SUBSTITUTIONS])
{
    const kas_value *from = kas_pairs_values(g->pairs, pair);
    const int values = pair->values;
    if (values > 0)
        memcpy(value, from, (size_t)values * sizeof *value);
    return values;
}

/* Returns whether there is a value with which b, to which a was broadcast, is then broadcast to c,
 * the output. */
static bool stays_through(const merging *m, const leaf *a, const leaf *b, const leaf *c)
{
    const kas_growth *g = m->g;
    const kas_shape_facts *facts = kas_pairs_facts(g->pairs, c->number);
    kas_pair *pair = kas_pairs_get(g->pairs, b->number, c->number);
    if (pair->fit != KAS_FIT_BY_VALUE)
        return true;
    kas_value value[KAS_MAX_SUBSTITUTIONS];
    const int values = copy_values(g, pair, value);
    for (int i = 0; i < values; i++) {
        kas_dim size = kas_pair_size(&value[i].size, c->number);
        if (value[i].tiles && kas_growth_may_use(g, &value[i].size) &&
            tiles_output(g, b->number, c->number, &size) &&
            (facts->output != KAS_OUTPUT_BY_VALUE ||
             kas_dim_substitute(&size, kas_number_var(c->number), &facts->value, &size)) &&
            stays(m, a, b, &size))
            return true;
    }
    return false;
}

static bool product_stays(const merging *m, const leaf *a, const leaf *b, uint32_t lhs,
                          uint32_t rhs)
{
    unsigned serve = m->multiply ? last_products(m->g, lhs, rhs, true) : 0;
    for (; serve; serve &= serve - 1) {
        const uint32_t result =
            kas_pairs_products(m->g->pairs, lhs, rhs).result[__builtin_ctz(serve)];
        const kas_shape_facts *facts = kas_pairs_facts(m->g->pairs, result);
        if (facts->output != KAS_OUTPUT_BY_VALUE ||
            kas_number_var(result) != kas_number_var(b->number) || stays(m, a, b, &facts->value))
            return true;
    }
    return false;
}

/* Returns whether a can be broadcast to b and b then merged with c. The size of a divides b's
 * variable from then on, or a's variable is a part of it; both forbid most of the values that b
 * could have without a. */
static bool merges_in_turn(const merging *m, const leaf *a, const leaf *b, const leaf *c)
{
    const kas_growth *g = m->g;
    const kas_pair *pair = kas_pairs_get(g->pairs, a->number, b->number);
    if (kas_number_var(b->number) < 0 ||
        (pair->fit == KAS_FIT_TILES && kas_dim_var(&pair->repetitions) < 0))
        return true;
    return (could_broadcast_last(g, a->number, b->number, true) &&
            could_broadcast_last(g, c->number, b->number, true)) ||
           (could_broadcast_last(g, b->number, c->number, true) && stays_through(m, a, b, c)) ||
           product_stays(m, a, b, b->number, c->number) ||
           product_stays(m, a, b, c->number, b->number) ||
           (m->g->segments && could_concat(m, b->number, c->number, false));
}

/* Returns whether a broadcast of a to b leads to a merge. A value changes every shape that holds
 * the variable; such cases are not followed further. */
static bool merges_by_broadcast(const merging *m, const leaf *leaves, int count, int a, int b)
{
    const kas_growth *g = m->g;
    const uint32_t lhs = leaves[a].number, rhs = leaves[b].number;
    bool held = false;
    for (int i = 0; i < count && kas_number_var(lhs) >= 0; i++)
        held |= i != a && kas_number_var(leaves[i].number) == kas_number_var(lhs);
    if (!m->broadcast || (!held && !merges_after(m, leaves, count, a, b, rhs)) ||
        !could_broadcast(g, lhs, rhs, m->loose))
        return false;
    if (held)
        return kas_pairs_get(g->pairs, lhs, rhs)->fit == KAS_FIT_BY_VALUE ||
               merges_after(m, leaves, count, a, b, rhs);
    return !m->loose || merges_in_turn(m, &leaves[a], &leaves[b], &leaves[3 - a - b]);
}

static bool merges_by_product(const merging *m, const leaf *leaves, int count, int a, int b)
{
    if (!m->multiply)
        return false;
    const kas_products products =
        kas_pairs_products(m->g->pairs, leaves[a].number, leaves[b].number);
    for (int t = 0; products.legal >> t; t++)
        if ((products.legal >> t & 1) && merges_after(m, leaves, count, a, b, products.result[t]))
            return true;
    return false;
}

/* Returns whether a concatenation of a and b leads to a merge. With more than two segments
 * the other segments are inner nodes or leaves; in the second case a primitive is left
 * over for anything. */
static bool merges_by_concat(const merging *m, const leaf *leaves, int count, int a, int b)
{
    if (m->g->segments > 2)
        return could_concat(m, leaves[a].number, leaves[b].number, false);
    const uint32_t x = leaves[a].number, y = leaves[b].number;
    const bool could = m->g->segments && could_concat(m, x, y, false);
    for (int d = 0; could && d < kas_shape_rank(&kas_pairs_facts(m->g->pairs, x)->shape); d++)
        if (could_join(m, &kas_pairs_facts(m->g->pairs, x)->shape,
                       &kas_pairs_facts(m->g->pairs, y)->shape, d) &&
            merges_after(m, leaves, count, a, b, joined(m, x, y, d)))
            return true;
    return false;
}

static bool find_way(const merging *m, const leaf *leaves, int count)
{
    if (count == 1)
        return is_output(m->g, leaves[0].number, m->loose);
    if (count == 2)
        return completes(m, &leaves[0], &leaves[1]) || completes(m, &leaves[1], &leaves[0]);
    for (int a = 0; a < count; a++)
        for (int b = 0; b < count; b++)
            if (a != b && (merges_by_broadcast(m, leaves, count, a, b) ||
                           merges_by_concat(m, leaves, count, a, b)))
                return true;
    for (int a = 0; a < count; a++) /* products cost most, so they come last */
        for (int b = 0; b < count; b++)
            if (a != b && merges_by_product(m, leaves, count, a, b))
                return true;
    return false;
}

/* Returns a key for the set of leaves that does not depend on their order or on the names
 * of their variables. */
static kas_merge_key key_of(const merging *m, const leaf *leaves, int count)
{
    const bool same = count == 2 && leaves[0].node >= 0 && leaves[1].node >= 0 &&
                      kas_same_values(&m->g->kernel, leaves[0].node, leaves[1].node);
    kas_merge_key key = {.context = m->g->context << 1 | same};
    uint32_t number[MOST_TRIED] = {0};
    for (int i = 0; i < count; i++) {
        int at = i;
        for (; at > 0 && number[at - 1] > leaves[i].number; at--)
            number[at] = number[at - 1];
        number[at] = leaves[i].number;
    }
    for (int i = 0; i < count; i++) {
        key.pattern[i] = kas_number_pattern(number[i]) + 1;
        for (int k = 0; k < i && kas_number_var(number[i]) >= 0; k++)
            key.alike |= (uint32_t)(kas_number_var(number[i]) == kas_number_var(number[k]))
                         << (2 * k + i);
    }
    return key;
}

/* Remembers answers, because most sets of leaves come again and most cannot merge. */
static bool could_merge(const merging *m, const leaf *leaves, int count)
{
    if (count == 2 && !may_complete(m, leaves[0].number, leaves[1].number))
        return false;
    if (!m->loose || count == 1)
        return find_way(m, leaves, count);
    const kas_merge_key key = key_of(m, leaves, count);
    int known = kas_pairs_recall(m->g->pairs, &key);
    if (known < 0) {
        known = find_way(m, leaves, count);
        kas_pairs_remember(m->g->pairs, &key, known);
    }
    return known;
}

/* Returns whether every leaf has another one to merge with. */
static bool each_could_merge(const merging *m, const leaf *leaves, int count)
{
    for (int a = 0; a < count; a++) {
        bool merges = false;
        for (int b = 0; b < count && !merges; b++) {
            const uint32_t x = leaves[a].number, y = leaves[b].number;
            merges = a != b && ((m->broadcast && (could_broadcast(m->g, x, y, m->loose) ||
                                                  could_broadcast(m->g, y, x, m->loose))) ||
                                (m->multiply && (kas_pairs_products(m->g->pairs, x, y).legal ||
                                                 kas_pairs_products(m->g->pairs, y, x).legal)) ||
                                (m->g->segments && could_concat(m, x, y, false)));
        }
        if (!merges)
            /* The result of two others could be its partner */
            return m->multiply || m->g->segments;
    }
    return true;
}

static bool merge(const kas_growth *g, const leaf *leaves, int count, bool loose)
{
    const uint64_t broadcasts = KAS_OP_BIT(KAS_OP_MAX + 1) - KAS_OP_BIT(KAS_OP_ADD);
    merging m = {.g = g,
                 .loose = loose,
                 .broadcast = g->ops & broadcasts,
                 .multiply = g->ops & KAS_OP_BIT(KAS_OP_BMM)};
    return count > MOST_TRIED ? each_could_merge(&m, leaves, count)
                              : could_merge(&m, leaves, count);
}

/* Collects the leaves except those in `less`. */
static int collect(const kas_growth *g, uint64_t less, leaf *leaves)
{
    int count = 0;
    leaves[0] = (leaf){0, -1}; /* there is at least one, but no compiler sees that */
    for (int i = 0; i < g->kernel.nodes; i++)
        if (!g->read[i] && !(less >> i & 1))
            leaves[count++] = (leaf){g->known[i].number, i};
    return count;
}

kas_reject kas_leaves_could_merge(const kas_growth *g)
{
    leaf leaves[KAS_MAX_NODES];
    const int count = collect(g, 0, leaves);
    if (!merge(g, leaves, count, true))
        return KAS_REJECT_OUTPUT;
    return count > 2 || merge(g, leaves, count, false) ? KAS_REJECT_NONE : KAS_REJECT_VARIABLES;
}

bool kas_leaves_could_merge_after(const kas_growth *g, const kas_candidate_op *use, uint32_t result)
{
    leaf leaves[KAS_MAX_NODES];
    uint64_t less = 0;
    for (int k = 0; k < use->inputs; k++)
        less |= (uint64_t)1 << use->in[k];
    int count = collect(g, less, leaves);
    leaves[count++] = (leaf){result, -1};
    const int left = g->primitives - g->kernel.nodes; /* primitives after the candidate */
    return left == 0 || left > count - 1 || merge(g, leaves, count, true);
}

bool kas_leaves_change(const kas_growth *g, const kas_candidate_op *use, const kas_pair *pair)
{
    const int var = kas_number_var(g->known[use->in[0]].number);
    if (pair->fit != KAS_FIT_BY_VALUE)
        return false;
    for (int i = 0; i < g->kernel.nodes; i++)
        if (!g->read[i] && i != use->in[0] && i != use->in[1] &&
            kas_number_var(g->known[i].number) == var)
            return true;
    return false;
}
