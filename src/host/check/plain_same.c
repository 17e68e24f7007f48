/* Compares two kernels, see plain.h. */
#include <string.h>

#include "host/check/plain.h"

/* ---- what belongs to a node, whatever it is called ------------------------------------------- */

static bool commutes(int op)
{
    return op == KAS_OP_ADD || op == KAS_OP_MUL || op == KAS_OP_MIN || op == KAS_OP_MAX;
}

/* Returns whether both operands have one shape, so that neither is repeated and either
 * may stand first. */
static bool may_swap(const kas_kernel *kernel, const kas_node *node)
{
    if (!commutes(node->op))
        return false;
    const kas_shape *a = &kernel->node[node->in[0]].shape, *b = &kernel->node[node->in[1]].shape;
    return kas_shape_equal(a, b) && memcmp(a->is_group, b->is_group, sizeof a->is_group) == 0;
}

static int distance(const kas_node *node)
{
    return node->dilation ? node->dilation : 1;
}

/* Returns whether the primitive uses `symbol`. */
static bool has_groups(int op)
{
    return op == KAS_OP_GROUP || op == KAS_OP_SHUFFLE;
}

static bool same_attributes(const kas_node *a, const kas_node *b)
{
    return a->op == b->op && a->inputs == b->inputs && a->dim == b->dim &&
           a->dim_end == b->dim_end && a->axes == b->axes && a->offset == b->offset &&
           a->grouped == b->grouped && a->kernel == b->kernel && distance(a) == distance(b) &&
           a->segment == b->segment && a->transpose == b->transpose && a->softmax == b->softmax;
}

/* ---- walking both from the output ------------------------------------------------------------ */

/* The pairing found so far, in both directions; -1 = nothing yet. */
typedef struct pairing {
    const kas_kernel *a, *b;
    int8_t to[KAS_MAX_NODES], from[KAS_MAX_NODES];
    int8_t symbol_to[KAS_SYM_COUNT], symbol_from[KAS_SYM_COUNT];
    const int *split_to;
    uint64_t
        swaps; /* bit i: the operands of the i-th commuting broadcast on the way are exchanged */
    int broadcasts; /* commuting blends met so far */
} pairing;

static bool pair_symbols(pairing *p, int x, int y)
{
    if (p->symbol_to[x] < 0 && p->symbol_from[y] < 0) {
        p->symbol_to[x] = (int8_t)y;
        p->symbol_from[y] = (int8_t)x;
    }
    return p->symbol_to[x] == y && p->symbol_from[y] == x;
}

/* Pairs two sizes: they are equal when renaming the symbols of one gives the other. Group symbols
 * and rests are paired beforehand; a size has at most one variable, which is paired here. */
static bool pair_sizes(pairing *p, const kas_dim *a, const kas_dim *b)
{
    int x = -1, y = -1;
    for (int s = KAS_SYM_X0; s < KAS_SYM_COUNT; s++) {
        x = a->exp[s] ? s : x;
        y = b->exp[s] ? s : y;
    }
    if ((x < 0) != (y < 0) || (x >= 0 && !pair_symbols(p, x, y)))
        return false;
    for (int s = 0; s < KAS_SYM_COUNT; s++)
        if (a->exp[s] != 0 && (p->symbol_to[s] < 0 || a->exp[s] != b->exp[p->symbol_to[s]]))
            return false;
    for (int s = 0; s < KAS_SYM_COUNT; s++)
        if (b->exp[s] != 0 && (p->symbol_from[s] < 0 || a->exp[p->symbol_from[s]] != b->exp[s]))
            return false;
    return a->num == b->num && a->den == b->den;
}

static bool pair_splits(pairing *p, int x, int y)
{
    const kas_split *a = &p->a->split[x], *b = &p->b->split[y];
    return p->split_to[x] == y && a->first == b->first && a->shares == b->shares &&
           a->part == b->part && pair_sizes(p, &a->whole, &b->whole);
}

static bool pair_nodes(pairing *p, int i, int j);

static bool pair_operands(pairing *p, const kas_node *a, const kas_node *b)
{
    const bool either = a->inputs == 2 && may_swap(p->a, a) && may_swap(p->b, b);
    const bool swap = either && (p->swaps >> p->broadcasts++ & 1);
    for (int k = 0; k < a->inputs; k++)
        if (!pair_nodes(p, a->in[k], b->in[swap ? 1 - k : k]))
            return false;
    return true;
}

static bool pair_nodes(pairing *p, int i, int j)
{
    const kas_node *a = &p->a->node[i], *b = &p->b->node[j];
    if (p->to[i] >= 0 || p->from[j] >= 0)
        return p->to[i] == j && p->from[j] == i;
    p->to[i] = (int8_t)j;
    p->from[j] = (int8_t)i;
    if (!same_attributes(a, b))
        return false;
    if (has_groups(a->op) && p->symbol_to[KAS_SYM_G0 + a->symbol] != KAS_SYM_G0 + b->symbol)
        return false;
    if (!pair_sizes(p, &a->out, &b->out)) /* all zero where a primitive has none */
        return false;
    if ((a->op == KAS_OP_SLICE || a->op == KAS_OP_CONCAT) && !pair_splits(p, a->split, b->split))
        return false;
    return pair_operands(p, a, b);
}

/* Walks both kernels with the group symbols and splits of `a` paired with those of `b` as the
 * orders say, and operands exchanged as p->swaps says. */
static bool same_walk(pairing *p, const int group[KAS_MAX_GROUPS], const int split[KAS_MAX_SPLITS])
{
    p->split_to = split;
    p->broadcasts = 0;
    memset(p->to, -1, sizeof p->to);
    memset(p->from, -1, sizeof p->from);
    memset(p->symbol_to, -1, sizeof p->symbol_to);
    memset(p->symbol_from, -1, sizeof p->symbol_from);
    for (int s = 0; s < KAS_SYM_R0; s++)
        pair_symbols(p, s, s);
    for (int s = 0; s < KAS_MAX_SPLITS; s++)
        pair_symbols(p, KAS_SYM_R0 + s, KAS_SYM_R0 + split[s]);
    for (int g = 0; g < KAS_MAX_GROUPS; g++)
        pair_symbols(p, KAS_SYM_G0 + g, KAS_SYM_G0 + group[g]);
    return p->a->stride_inside == p->b->stride_inside &&
           pair_nodes(p, p->a->nodes - 1, p->b->nodes - 1);
}

/* Tries every order of operands, depth first. An order may fail at a node far away that shares an
 * operand, so the last broadcast that was met is exchanged and the walk begins again. */
static bool same_with(const kas_kernel *a, const kas_kernel *b, const int group[KAS_MAX_GROUPS],
                      const int split[KAS_MAX_SPLITS])
{
    pairing p = {.a = a, .b = b};
    for (int g = 0; g < KAS_MAX_GROUPS; g++)
        if (a->group_value[g] != b->group_value[group[g]])
            return false;
    while (!same_walk(&p, group, split)) {
        int last = p.broadcasts - 1;
        while (last >= 0 && (p.swaps >> last & 1))
            last--;
        if (last < 0)
            return false;
        p.swaps = (p.swaps | (uint64_t)1 << last) & (((uint64_t)2 << last) - 1);
    }
    return true;
}

/* The orders of four things are found by counting in base 4 and leaving out numbers that name one
 * thing twice. */
enum { NAMES = 4, ORDERS = 256 };
_Static_assert((int)KAS_MAX_GROUPS == NAMES && (int)KAS_MAX_SPLITS == NAMES, "orders of four");

static bool order_of(int number, int order[NAMES])
{
    int seen = 0;
    for (int i = 0; i < NAMES; i++, number /= NAMES) {
        order[i] = number % NAMES;
        seen |= 1 << order[i];
    }
    return seen == (1 << NAMES) - 1;
}

/* Returns whether every cut has a counterpart; without one no walk is needed. */
static bool splits_fit(const kas_kernel *a, const kas_kernel *b, const int order[NAMES])
{
    for (int s = 0; s < NAMES; s++)
        if (a->split[s].first != b->split[order[s]].first ||
            a->split[s].shares != b->split[order[s]].shares ||
            a->split[s].part != b->split[order[s]].part)
            return false;
    return true;
}

bool kas_plain_same(const kas_kernel *a, const kas_kernel *b)
{
    int group[NAMES], split[NAMES];
    if (a->nodes != b->nodes)
        return false;
    for (int s = 0; s < ORDERS; s++) {
        if (!order_of(s, split) || !splits_fit(a, b, split))
            continue;
        for (int g = 0; g < ORDERS; g++)
            if (order_of(g, group) && same_with(a, b, group, split))
                return true;
    }
    return false;
}

/* ---- a number that does not depend on numbering, names or order ------------------------------ */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

/* Hashes a size without the names of its variable, group symbols and rests, because names differ
 * between equal kernels. */
static uint64_t hash_size(uint64_t hash, const kas_dim *size)
{
    int rests = 0, groups = 0, variables = 0;
    hash = mix(mix(hash, size->num), size->den);
    for (int s = 0; s < KAS_SYM_COUNT; s++) {
        if (s < KAS_SYM_R0)
            hash = mix(hash, (uint64_t)(size->exp[s] + 64));
        else if (s < KAS_SYM_G0)
            rests += size->exp[s];
        else if (s < KAS_SYM_X0)
            groups += size->exp[s];
        else
            variables += size->exp[s];
    }
    hash = mix(hash, (uint64_t)(rests + 64));
    return mix(mix(hash, (uint64_t)(groups + 64)), (uint64_t)(variables + 64));
}

uint64_t kas_plain_hash(const kas_kernel *kernel)
{
    uint64_t hash[KAS_MAX_NODES], all = (uint64_t)kernel->nodes;
    for (int i = 0; i < kernel->nodes; i++) {
        const kas_node *n = &kernel->node[i];
        uint64_t h = mix(mix(mix(1, n->op), (uint64_t)(n->dim + 64)), (uint64_t)(n->dim_end + 64));
        h = mix(mix(mix(h, n->axes), (uint64_t)(n->offset + 64)), n->grouped);
        h = mix(mix(h, n->kernel), (uint64_t)distance(n));
        h = mix(mix(h, n->transpose), n->softmax);
        if (has_groups(n->op))
            h = mix(h, kernel->group_value[n->symbol]);
        h = hash_size(h, &n->out);
        if (n->op == KAS_OP_SLICE || n->op == KAS_OP_CONCAT) {
            const kas_split *split = &kernel->split[n->split];
            h = mix(mix(mix(mix(h, n->segment), split->first), split->shares), split->part);
            h = hash_size(h, &split->whole);
        }
        if (may_swap(kernel, n)) /* a sum does not depend on the operands' order */
            h = mix(h, hash[n->in[0]] + hash[n->in[1]]);
        else
            for (int k = 0; k < n->inputs; k++)
                h = mix(h, hash[n->in[k]]);
        hash[i] = h;
        all += h * (h >> 32 | 1); /* the whole graph: shared nodes count once */
    }
    return mix(all, hash[kernel->nodes - 1]);
}
