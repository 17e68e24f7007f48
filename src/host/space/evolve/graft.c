/* Takes a part of one parent into another. */
#include <string.h>

#include "host/space/evolve/edit.h"
#include "host/space/split.h"

typedef struct graft {
    kas_guided *d;
    const kas_outline *from; /* the parent that gives the part */
    kas_outline *to;
    int split[KAS_MAX_SPLITS];      /* number of the giver's splits in `to`; -1 = no room */
    int var[KAS_MAX_VARS];          /* number of its variables there; -1 = not named yet */
    uint64_t key[2][KAS_MAX_NODES]; /* of the shapes of `to` and `from`; 0 = cannot be compared */
} graft;

/* Two nodes of equal shape, one in each parent. */
typedef struct pair {
    int to, from;
} pair;

/* Gives the splits of the giver numbers in `to`. A split of another's rest is left out. */
static void join_splits(graft *x)
{
    for (int s = 0; s < KAS_MAX_SPLITS; s++) {
        const kas_split *split = &x->from->split[s];
        int at = 0;
        x->split[s] = -1;
        if (split->whole.num == 0)
            continue;
        while (at < KAS_MAX_SPLITS && x->to->split[at].whole.num != 0 &&
               !kas_splits_equal(&x->to->split[at], split))
            at++;
        for (int r = KAS_SYM_R0; r < KAS_SYM_G0; r++)
            if (split->whole.exp[r] != 0)
                at = KAS_MAX_SPLITS;
        if (at == KAS_MAX_SPLITS)
            continue;
        x->to->split[at] = *split;
        x->split[s] = at;
    }
}

/* Writes a size of the giver in the rests of `to`. Returns false when it has no such rest. */
static bool rename_rests(const graft *x, kas_dim *size)
{
    const kas_dim old = *size;
    memset(&size->exp[KAS_SYM_R0], 0, KAS_MAX_SPLITS);
    for (int s = 0; s < KAS_MAX_SPLITS; s++) {
        if (old.exp[KAS_SYM_R0 + s] == 0)
            continue;
        if (x->split[s] < 0)
            return false;
        size->exp[KAS_SYM_R0 + x->split[s]] = old.exp[KAS_SYM_R0 + s];
    }
    return true;
}

static uint64_t hash_size(uint64_t hash, const kas_dim *size)
{
    uint64_t word[sizeof *size / sizeof(uint64_t)];
    memcpy(word, size, sizeof word);
    for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
        hash = (hash ^ word[i]) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    return hash;
}

/* Returns a hash of a shape whatever its variable and its group numbers are called. Shapes of equal
 * hash that differ are only fruitless. */
static uint64_t shape_key(const graft *x, const kas_shape *shape, bool of_giver)
{
    uint64_t hash = (uint64_t)shape->channels + 1;
    for (int i = 0; i < kas_shape_rank(shape); i++) {
        kas_dim size = kas_shape_dim(shape, i);
        const int var = kas_dim_var(&size);
        if (var > 0) {
            size.exp[KAS_SYM_X0] = size.exp[KAS_SYM_X0 + var];
            size.exp[KAS_SYM_X0 + var] = 0;
        }
        kas_outline_merge_groups(&size);
        if (of_giver && !rename_rests(x, &size))
            return 0;
        hash = hash_size(hash, &size);
    }
    return hash;
}

/* Draws one of the pairs with a node of `to` in [low, high) and a node of the giver in `givers`. */
static bool draw_pair(graft *x, int low, int high, uint64_t givers, pair *out)
{
    int count = 0;
    for (int i = low; i < high; i++)
        for (uint64_t left = givers; left; left &= left - 1) {
            const int j = __builtin_ctzll(left);
            if (x->key[0][i] != x->key[1][j] || x->key[0][i] == 0)
                continue;
            /* The n-th pair takes the place of the one before with probability 1/n. */
            if (kas_rng_below(&x->d->rng, (uint32_t)++count) == 0)
                *out = (pair){i, j};
        }
    return count > 0;
}

/* Returns the nodes that node n of the giver is computed from, as bits. */
static uint64_t nodes_before(const kas_outline *o, int n)
{
    uint64_t nodes = (uint64_t)1 << n;
    for (int i = n; i > 0; i--)
        for (int k = 0; (nodes >> i & 1) && k < o->node[i].use.inputs; k++)
            nodes |= (uint64_t)1 << o->node[i].use.in[k];
    return nodes & ~((uint64_t)1 << n);
}

/* Returns the nodes that are needed for `last` when `first` is given, as bits, without `first`. */
static uint64_t nodes_between(const kas_outline *o, int first, int last)
{
    uint64_t nodes = (uint64_t)1 << last;
    for (int i = last; i > 0; i--)
        for (int k = 0; (nodes >> i & 1) && i != first && k < o->node[i].use.inputs; k++)
            nodes |= (uint64_t)1 << o->node[i].use.in[k];
    return nodes & ~((uint64_t)1 << first) & ~(uint64_t)1;
}

/* Returns the first variable that no size of the outline holds, or -1. */
static int unused_var(const kas_outline *o)
{
    for (int v = 0; v < KAS_MAX_VARS; v++) {
        bool used = false;
        for (int n = 1; n < o->nodes && !used; n++)
            used = o->node[n].out.exp[KAS_SYM_X0 + v] != 0;
        if (!used)
            return v;
    }
    return -1;
}

/* Writes a size of the giver for `to`. A size that cannot be written there is left free. */
static kas_dim size_for(graft *x, const kas_dim *size)
{
    kas_dim out = *size;
    const int var = kas_dim_var(size);
    if (size->num == 0 || !rename_rests(x, &out))
        return (kas_dim){0};
    if (var < 0)
        return out;
    if (x->var[var] < 0)
        x->var[var] = unused_var(x->to);
    if (x->var[var] < 0)
        return (kas_dim){0};
    out.exp[KAS_SYM_X0 + var] = 0;
    out.exp[KAS_SYM_X0 + x->var[var]] = size->exp[KAS_SYM_X0 + var];
    return out;
}

/* Appends the giver's nodes from below.from to above.from, which reads below.to in the place of
 * below.from. Returns the place of above.from, or 0 when one of them cannot be taken. */
static int copy_part(graft *x, const pair *below, const pair *above)
{
    uint8_t place[KAS_MAX_NODES] = {0};
    place[below->from] = (uint8_t)below->to;
    for (uint64_t left = nodes_between(x->from, below->from, above->from); left; left &= left - 1) {
        const int n = __builtin_ctzll(left);
        kas_outline_node node = x->from->node[n];
        const int split = kas_outline_split(&node);
        if (split >= 0 && x->split[split] < 0)
            return 0;
        node.use.split = (uint8_t)(split >= 0 ? x->split[split] : 0);
        for (int k = 0; k < node.use.inputs; k++)
            node.use.in[k] = place[node.use.in[k]];
        node.out = size_for(x, &node.out);
        place[n] = (uint8_t)x->to->nodes;
        x->to->node[x->to->nodes++] = node;
    }
    return place[above->from];
}

bool kas_edit_graft(kas_guided *d, const kas_outline *from, kas_outline *o)
{
    kas_outline to;
    graft x = {.d = d, .from = from, .to = &to};
    pair above = {0}, below = {0};
    kas_outline_copy(o, &to);
    join_splits(&x);
    memset(x.var, -1, sizeof x.var);
    for (int i = 0; i < to.nodes; i++)
        x.key[0][i] = shape_key(&x, to.node[i].like, false);
    for (int j = 0; j < from->nodes; j++)
        x.key[1][j] = shape_key(&x, from->node[j].like, true);
    const uint64_t all = UINT64_MAX >> (KAS_MAX_NODES - from->nodes);
    if (!draw_pair(&x, 1, to.nodes, all & ~(uint64_t)1, &above) ||
        !draw_pair(&x, 0, above.to, nodes_before(from, above.from), &below))
        return false;
    const int old_nodes = to.nodes, top = copy_part(&x, &below, &above);
    if (top == 0)
        return false;
    for (int n = 1; n < old_nodes; n++)
        for (int k = 0; k < to.node[n].use.inputs; k++)
            if (to.node[n].use.in[k] == above.to)
                to.node[n].use.in[k] = (uint8_t)top;
    return kas_outline_tidy(&to, above.to == old_nodes - 1 ? top : old_nodes - 1, o);
}
