#include "host/strategy/tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double widening = 0.8, chance = 0.3, local_weight = 3;

/* Rewards of some visits. */
typedef struct tally {
    double n, sum, squares;
} tally;

typedef struct node {
    int parent, choice;
    int choices;
    int *child;   /* owned: [choices]; -1 = not open */
    int opened;   /* choices that are */
    size_t tally; /* of the node; behind it that of each choice among all results below the node */
    int pending;  /* visits without a reward */
    bool closed;  /* nothing new comes of it */
    bool passed;  /* it is no leaf, although it has no results */
} node;

/* A list of numbers that grows. */
typedef struct numbers {
    size_t *number; /* owned */
    size_t count, room;
} numbers;

struct kas_tree {
    kas_tree_space space;
    double exploration;
    node *node; /* owned: [nodes] */
    int nodes, node_room;
    tally *tally; /* owned: [tallies] */
    size_t tallies, tally_room;
    /* owned: the tally of each key in the whole tree, by open addressing; slots are a power of 2 */
    struct keyed {
        uint64_t key;
        size_t tally; /* 0 = an empty slot, since tally 0 is the root's */
    } * slot;
    size_t slots, keys;
    numbers begins; /* [visits]: where the tallies of a visit begin in `touched` */
    numbers touched;
};

/* ---- memory ---------------------------------------------------------------------------------- */

static kas_status out_of_memory(void)
{
    return kas_fail(KAS_NO_MEMORY, "a search tree: out of memory");
}

/* Makes room for `more` elements of a size. */
static kas_status grow(void **list, size_t count, size_t more, size_t *room, size_t size)
{
    size_t wanted = *room ? *room : 64;
    if (count + more <= *room)
        return KAS_OK;
    while (wanted < count + more)
        wanted *= 2;
    void *grown = realloc(*list, wanted * size);
    if (!grown)
        return out_of_memory();
    *list = grown;
    *room = wanted;
    return KAS_OK;
}

static kas_status push(numbers *list, size_t number)
{
    KAS_TRY(grow((void **)&list->number, list->count, 1, &list->room, sizeof *list->number));
    list->number[list->count++] = number;
    return KAS_OK;
}

static kas_status add_tallies(kas_tree *t, size_t count)
{
    KAS_TRY(grow((void **)&t->tally, t->tallies, count, &t->tally_room, sizeof *t->tally));
    memset(&t->tally[t->tallies], 0, count * sizeof *t->tally);
    t->tallies += count;
    return KAS_OK;
}

static struct keyed *find_slot(struct keyed *slot, size_t slots, uint64_t key)
{
    size_t at = (size_t)(key * 0x9e3779b97f4a7c15u >> 32) & (slots - 1);
    while (slot[at].tally && slot[at].key != key)
        at = (at + 1) & (slots - 1);
    return &slot[at];
}

static kas_status more_slots(kas_tree *t)
{
    const size_t slots = t->slots ? 2 * t->slots : 256;
    struct keyed *slot = calloc(slots, sizeof *slot);
    if (!slot)
        return out_of_memory();
    for (size_t i = 0; i < t->slots; i++)
        if (t->slot[i].tally)
            *find_slot(slot, slots, t->slot[i].key) = t->slot[i];
    free(t->slot);
    t->slot = slot;
    t->slots = slots;
    return KAS_OK;
}

/* Returns the tally of a key in the whole tree, 0 where there is none. */
static size_t tally_of_key(const kas_tree *t, uint64_t key)
{
    return t->slots ? find_slot(t->slot, t->slots, key)->tally : 0;
}

static kas_status need_tally_of_key(kas_tree *t, uint64_t key, size_t *out)
{
    *out = tally_of_key(t, key);
    if (*out)
        return KAS_OK;
    if (2 * (t->keys + 1) > t->slots)
        KAS_TRY(more_slots(t));
    *out = t->tallies;
    KAS_TRY(add_tallies(t, 1));
    *find_slot(t->slot, t->slots, key) = (struct keyed){key, *out};
    t->keys++;
    return KAS_OK;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static kas_status make_node(kas_tree *t, int parent, int choice, int *out)
{
    size_t room = (size_t)t->node_room;
    node new = {.parent = parent, .choice = choice, .tally = t->tallies};
    bool open = true;
    KAS_TRY(grow((void **)&t->node, (size_t)t->nodes, 1, &room, sizeof *t->node));
    t->node_room = (int)room;
    KAS_TRY(t->space.make(t->space.context, parent, choice, &new.choices, &open));
    new.closed = !open;
    KAS_TRY(add_tallies(t, 1 + (size_t) new.choices));
    new.child = malloc(((size_t) new.choices + 1) * sizeof *new.child);
    if (!new.child)
        return out_of_memory();
    for (int c = 0; c < new.choices; c++)
        new.child[c] = -1;
    *out = t->nodes;
    t->node[t->nodes++] = new;
    return KAS_OK;
}

kas_status kas_tree_create(double exploration, const kas_tree_space *space, kas_tree **out)
{
    int root;
    kas_tree *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        return out_of_memory();
    t->space = *space;
    t->exploration = exploration;
    const kas_status status = make_node(t, -1, -1, &root);
    if (status != KAS_OK)
        kas_tree_free(t);
    else
        *out = t;
    return status;
}

void kas_tree_free(kas_tree *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->nodes; i++)
        free(t->node[i].child);
    free(t->node);
    free(t->tally);
    free(t->slot);
    free(t->begins.number);
    free(t->touched.number);
    free(t);
}

kas_status kas_tree_open(kas_tree *t, int at, int choice, int *child)
{
    *child = t->node[at].child[choice];
    if (*child >= 0)
        return KAS_OK;
    KAS_TRY(make_node(t, at, choice, child));
    t->node[at].child[choice] = *child;
    t->node[at].opened++;
    return KAS_OK;
}

void kas_tree_close(kas_tree *t, int leaf)
{
    t->node[leaf].closed = true;
}

void kas_tree_pass(kas_tree *t, int leaf)
{
    t->node[leaf].passed = true;
    t->node[leaf].closed = t->node[leaf].choices == 0;
}

int64_t kas_tree_visits(const kas_tree *t)
{
    return (int64_t)t->begins.count;
}

int kas_tree_nodes(const kas_tree *t)
{
    return t->nodes;
}

int kas_tree_level(const kas_tree *t, int node)
{
    int level = 0;
    for (; t->node[node].parent >= 0; node = t->node[node].parent)
        level++;
    return level;
}

/* ---- opening choices ------------------------------------------------------------------------- */

static double mean(const tally *x)
{
    return x->n > 0 ? x->sum / x->n : 0;
}

static double variance(const tally *x)
{
    const double m = mean(x);
    return x->n > 0 ? fmax(0, x->squares / x->n - m * m) : 0;
}

/* Returns how often a node was visited; visits under way count. */
static double visits_of(const kas_tree *t, int at)
{
    return t->tally[t->node[at].tally].n + t->node[at].pending;
}

/* The value of a choice by results with its key: more if they differ, less if they are few. */
static double rave_value(const tally *x)
{
    return mean(x) + sqrt(variance(x)) - 1 / x->n;
}

static const tally *local_of(const kas_tree *t, int at, int c)
{
    return &t->tally[t->node[at].tally + 1 + (size_t)c];
}

static const tally *global_of(const kas_tree *t, int at, int c)
{
    static const tally none;
    const size_t known = tally_of_key(t, t->space.key(t->space.context, at, c));
    return known ? &t->tally[known] : &none;
}

/* The mean value of those choices of a node whose value is known. */
static double usual_value(const kas_tree *t, int at,
                          const tally *(*tally_of)(const kas_tree *t, int at, int c))
{
    double sum = 0;
    int known = 0;
    for (int c = 0; c < t->node[at].choices; c++) {
        const tally *x = tally_of(t, at, c);
        sum += x->n > 0 ? rave_value(x) : 0;
        known += x->n > 0;
    }
    return known ? sum / known : 0;
}

/* Opens the choice that looks best. */
static kas_status open_one(kas_tree *t, int at, kas_rng *rng)
{
    const double usual_local = usual_value(t, at, local_of);
    const double usual_global = usual_value(t, at, global_of);
    double best_score = 0;
    int best = -1, child;
    for (int c = 0; c < t->node[at].choices; c++) {
        const tally *local = local_of(t, at, c), *global = global_of(t, at, c);
        const double l = local->n > 0 ? rave_value(local) : usual_local;
        const double g = global->n > 0 ? rave_value(global) : usual_global;
        const double beta = local_weight / (local_weight + local->n);
        const double score =
            (1 - chance) * ((1 - beta) * l + beta * g) + chance * kas_rng_unit(rng);
        if (t->node[at].child[c] < 0 && (best < 0 || score > best_score)) {
            best = c;
            best_score = score;
        }
    }
    return kas_tree_open(t, at, best, &child);
}

/* Opens as many choices as the visits of the node ask for, and at least one of which something can
 * come. */
static kas_status widen(kas_tree *t, int at, kas_rng *rng)
{
    const double wanted = fmax(1, floor(pow(visits_of(t, at), widening)));
    int live = 0;
    for (int c = 0; c < t->node[at].choices; c++)
        live += t->node[at].child[c] >= 0 && !t->node[t->node[at].child[c]].closed;
    while (live < wanted && t->node[at].opened < t->node[at].choices) {
        KAS_TRY(open_one(t, at, rng));
        live += !t->node[t->nodes - 1].closed; /* the node that was made */
    }
    return KAS_OK;
}

/* ---- selection ------------------------------------------------------------------------------- */

/* The upper bound of a child that was visited. While no result is there its mean is 0. */
static double bound_of(const kas_tree *t, int at, int child)
{
    const tally *x = &t->tally[t->node[child].tally];
    const double log_n = log(fmax(1, visits_of(t, at))), n = fmax(1, visits_of(t, child));
    const double spread = fmin(0.25, variance(x) + sqrt(2 * log_n / n));
    return mean(x) + t->exploration * sqrt(log_n / n * spread);
}

/* Returns the child to go on with, -1: nothing new comes of any. A child that was never visited comes
 * first; equals are drawn. *is_leaf: it is one. */
static int best_child(const kas_tree *t, int at, kas_rng *rng, bool *is_leaf)
{
    double best_score = 0;
    int best = -1, equals = 0;
    *is_leaf = false;
    for (int c = 0; c < t->node[at].choices; c++) {
        const int child = t->node[at].child[c];
        if (child < 0 || t->node[child].closed)
            continue;
        const bool leaf = visits_of(t, child) <= 0 && !t->node[child].passed;
        const double score = leaf ? 0 : bound_of(t, at, child);
        if (best >= 0 && (leaf != *is_leaf ? *is_leaf : score < best_score))
            continue;
        equals = best >= 0 && leaf == *is_leaf && score <= best_score ? equals + 1 : 1;
        if (equals == 1 || kas_rng_below(rng, (uint32_t)equals) == 0)
            best = child;
        best_score = score;
        *is_leaf = leaf;
    }
    return best;
}

kas_status kas_tree_select(kas_tree *t, kas_rng *rng, int *leaf)
{
    bool is_leaf = false;
    *leaf = 0;
    while (!is_leaf && !t->node[0].closed) {
        KAS_TRY(widen(t, *leaf, rng));
        const int child = best_child(t, *leaf, rng, &is_leaf);
        if (child < 0 && t->node[*leaf].choices == 0)
            return KAS_OK; /* there is nothing more to choose */
        if (child < 0)
            t->node[*leaf].closed = true;
        *leaf = child < 0 ? 0 : child;
    }
    *leaf = is_leaf ? *leaf : -1;
    return KAS_OK;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Takes one such key away from those that are left; returns whether there was one. */
static bool take(uint64_t *key, int *keys, uint64_t wanted)
{
    for (int k = 0; k < *keys; k++)
        if (key[k] == wanted) {
            key[k] = key[--*keys];
            return true;
        }
    return false;
}

static bool has(const uint64_t *key, int keys, uint64_t wanted)
{
    for (int k = 0; k < keys; k++)
        if (key[k] == wanted)
            return true;
    return false;
}

/* Touches the node, and those of its choices whose keys come below it. */
static kas_status touch_node(kas_tree *t, int at, const uint64_t *key, int keys)
{
    KAS_TRY(push(&t->touched, t->node[at].tally));
    t->node[at].pending++;
    for (int c = 0; c < t->node[at].choices; c++)
        if (has(key, keys, t->space.key(t->space.context, at, c)))
            KAS_TRY(push(&t->touched, t->node[at].tally + 1 + (size_t)c));
    return KAS_OK;
}

/* Touches the nodes from the root to `at`, and takes the keys of the choices on the way from those
 * that come below. */
static kas_status touch_way(kas_tree *t, int at, uint64_t *key, int *keys)
{
    if (t->node[at].parent >= 0) {
        KAS_TRY(touch_way(t, t->node[at].parent, key, keys));
        take(key, keys, t->space.key(t->space.context, t->node[at].parent, t->node[at].choice));
    }
    return touch_node(t, at, key, *keys);
}

static kas_status touch_keys(kas_tree *t, const uint64_t *key, int keys)
{
    for (int k = 0; k < keys; k++) {
        size_t tally;
        if (has(key, k, key[k]))
            continue;
        KAS_TRY(need_tally_of_key(t, key[k], &tally));
        KAS_TRY(push(&t->touched, tally));
    }
    return KAS_OK;
}

kas_status kas_tree_visit(kas_tree *t, int leaf, const uint64_t *key, int keys)
{
    uint64_t *left = malloc(((size_t)keys + 1) * sizeof *left);
    int count = keys;
    if (!left)
        return out_of_memory();
    if (keys > 0)
        memcpy(left, key, (size_t)keys * sizeof *left);
    kas_status status = push(&t->begins, t->touched.count);
    if (status == KAS_OK)
        status = touch_way(t, leaf, left, &count);
    if (status == KAS_OK)
        status = touch_keys(t, key, keys);
    free(left);
    return status;
}

void kas_tree_reward(kas_tree *t, const double *reward)
{
    memset(t->tally, 0, t->tallies * sizeof *t->tally);
    for (int i = 0; i < t->nodes; i++)
        t->node[i].pending = 0;
    for (size_t v = 0; v < t->begins.count; v++) {
        const size_t end = v + 1 < t->begins.count ? t->begins.number[v + 1] : t->touched.count;
        for (size_t k = t->begins.number[v]; k < end; k++) {
            tally *x = &t->tally[t->touched.number[k]];
            x->n++;
            x->sum += reward[v];
            x->squares += reward[v] * reward[v];
        }
    }
}
