#include "host/space/sample/beginning.h"

#include <stdlib.h>
#include <string.h>

#include "host/core/arena.h"
#include "host/space/canvas/workshop.h"
#include "host/space/commute.h"
#include "host/space/primitive.h"

/* The most tries of one attempt. A beginning may leave little room: the number of primitives, group
 * number and way of cutting that a try draws then serve no kernel, and another try draws others. */
enum { MOST_TRIES = 8 };

/* The sizes of what a candidate operation settles are in the variables of the growing kernel, which
 * are numbered in the order of the primitives that make them. */
typedef struct choice {
    uint64_t key;
    kas_candidate_op use; /* not of a type */
    int8_t var;           /* the variable that gets a value; -1 = none does */
    int8_t split;         /* the way of cutting, also one settled before; -1 = open */
    uint32_t group;       /* the group number, likewise; 0 = open */
    kas_dim value;
} choice;

typedef struct beginning {
    int parent, taken; /* choice `taken` of the parent led here */
    int primitives;    /* whole ones */
    bool typed;        /* the type of the next one is chosen */
    choice *list;      /* owned: [choices] */
    int choices;
} beginning;

struct kas_beginnings {
    kas_workshop workshop;
    beginning *list; /* owned: [count] */
    int count;
};

/* A beginning on its way into the growth. */
typedef struct prefix {
    const choice *step[KAS_MAX_NODES]; /* [primitives] whole primitives, in order */
    int primitives;
    kas_type type; /* of the next one, or KAS_TYPE_COUNT */
    uint32_t group;
    int split;
} prefix;

static kas_type type_of_key(uint64_t key)
{
    return (kas_type)(key - 1);
}

static prefix prefix_of(const kas_beginnings *b, int i)
{
    const beginning *at = &b->list[i];
    prefix p = {.primitives = at->primitives, .type = KAS_TYPE_COUNT, .split = -1};
    int left = p.primitives;
    if (at->typed)
        p.type = type_of_key(b->list[at->parent].list[at->taken].key);
    for (; at->parent >= 0; at = &b->list[at->parent])
        if (!at->typed)
            p.step[--left] = &b->list[at->parent].list[at->taken];
    if (p.primitives > 0) {
        p.group = p.step[p.primitives - 1]->group;
        p.split = p.step[p.primitives - 1]->split;
    }
    return p;
}

/* ---- keys ---- */

static void mix(uint64_t *hash, uint64_t value)
{
    for (int i = 0; i < 8; i++, value >>= 8) /* FNV-1a */
        *hash = (*hash ^ (value & 0xff)) * 0x100000001b3u;
}

static uint64_t key_of_node(const kas_kernel *kernel, const kas_node *n)
{
    uint64_t hash = 0xcbf29ce484222325u;
    const uint64_t attribute[] = {n->op,
                                  (uint64_t)n->dim,
                                  (uint64_t)n->dim_end,
                                  n->axes,
                                  (uint64_t)n->offset,
                                  n->grouped,
                                  n->kernel,
                                  (uint64_t)kas_node_dilation(n),
                                  n->segment,
                                  n->transpose,
                                  n->softmax};
    for (size_t i = 0; i < sizeof attribute / sizeof *attribute; i++)
        mix(&hash, attribute[i]);
    if (kas_primitive_get(n->op)->attributes & KAS_ATTR_SYMBOL)
        mix(&hash, kernel->group_value[n->symbol]);
    if (kas_primitive_get(n->op)->attributes & KAS_ATTR_SPLIT) {
        const kas_split *split = &kernel->split[n->split];
        mix(&hash, split->first);
        mix(&hash, split->shares);
        if (split->part) /* so that the keys of other splits stay as they were */
            mix(&hash, split->part);
        for (int s = 0; s < KAS_SYM_COUNT; s++)
            mix(&hash, (uint64_t)split->whole.exp[s]);
    }
    return hash;
}

static uint64_t key_of_type(kas_type type)
{
    return (uint64_t)type + 1;
}

int kas_beginnings_keys(const kas_kernel *kernel, uint64_t key[2 * KAS_MAX_NODES])
{
    int keys = 0;
    for (int i = 1; i < kernel->nodes; i++) {
        key[keys++] = key_of_type(kas_type_of(kernel->node[i].op));
        key[keys++] = key_of_node(kernel, &kernel->node[i]);
    }
    return keys;
}

/* ---- a beginning in the growth ---- */

static int take_value(void *context, const kas_candidate_op *use, int var,
                      const kas_value *const *value, int count)
{
    const choice *c = context;
    (void)use, (void)var;
    for (int i = 0; i < count; i++)
        if (kas_dim_equal(&value[i]->size, &c->value))
            return i;
    return -1;
}

static kas_reject append(kas_workshop *w, const choice *step)
{
    if (!kas_growth_try(w->growth, &step->use, take_value, (void *)step))
        return KAS_REJECT_DEAD_END;
    const kas_reject why = kas_guide_admits(&w->guided.guide);
    if (why != KAS_REJECT_NONE || w->growth->kernel.nodes <= w->growth->primitives)
        return why;
    return kas_guide_finish(&w->guided.guide);
}

/* Begins a kernel of so many primitives. What is open is drawn if it is 0 or below 0 here too. */
static kas_reject replay(kas_workshop *w, const prefix *p, int primitives, uint32_t group,
                         int split)
{
    kas_reject why = KAS_REJECT_NONE;
    kas_guided_begin_kernel(&w->guided, primitives, group, split);
    for (int i = 0; i < p->primitives && why == KAS_REJECT_NONE; i++)
        why = append(w, p->step[i]);
    return why;
}

/* ---- choices ---- */

typedef struct listing {
    kas_workshop *w;
    beginning *out;
    /* What has been settled, or would be by a choice that needs it */
    uint32_t group;
    int split;
    bool settles_group, settles_split;
} listing;

static kas_status add_choice(listing *l, const choice *c)
{
    if (!KAS_GROW(l->out->list, l->out->choices))
        return kas_fail(KAS_NO_MEMORY, "beginnings of kernels: out of memory");
    l->out->list[l->out->choices++] = *c;
    return KAS_OK;
}

/* Picks value number `next` of those that the guided sampler would draw from. */
typedef struct picking {
    const kas_guided *guided;
    int next, count;
    choice *c;
} picking;

static int pick_next(void *context, const kas_candidate_op *use, int var,
                     const kas_value *const *value, int count)
{
    picking *p = context;
    int allowed[KAS_MAX_SUBSTITUTIONS];
    p->count = kas_guided_values(p->guided, use, var, value, count, allowed);
    if (p->next >= p->count)
        return -1;
    p->c->var = (int8_t)var;
    p->c->value = value[allowed[p->next]]->size;
    return allowed[p->next];
}

static choice choice_of(const listing *l, const kas_candidate_op *use)
{
    const kas_growth *g = l->w->growth;
    const uint16_t attributes = kas_primitive_get(use->op)->attributes;
    kas_node node = {0};
    kas_candidate_op_node(use, 0, &node);
    const bool group = (attributes & KAS_ATTR_SYMBOL) || !l->settles_group;
    const bool split = (attributes & KAS_ATTR_SPLIT) || !l->settles_split;
    return (choice){.key = key_of_node(&g->kernel, &node),
                    .use = *use,
                    .var = -1,
                    .group = group ? l->group : 0,
                    .split = (int8_t)(split ? l->split : -1)};
}

/* Adds a candidate operation, once for each value that a size may get, if the kernel could be
 * completed after it. */
static kas_status add_use(listing *l, const kas_candidate_op *use)
{
    kas_growth *g = l->w->growth;
    kas_guide *guide = &l->w->guided.guide;
    choice c = choice_of(l, use);
    picking pick = {.guided = &l->w->guided, .count = 1, .c = &c};
    for (; pick.next < pick.count; pick.next++) {
        if (!kas_growth_try(g, use, pick_next, &pick))
            continue;
        kas_reject why = kas_guide_admits(guide);
        if (why == KAS_REJECT_NONE && g->kernel.nodes > g->primitives)
            why = kas_guide_finish(guide);
        kas_growth_undo(g);
        if (why == KAS_REJECT_NONE)
            KAS_TRY(add_choice(l, &c));
    }
    return KAS_OK;
}

static kas_status add_pairs(listing *l, kas_type type, const kas_op_filter *filter)
{
    kas_guided *d = &l->w->guided;
    const int count = kas_list_pairs(d->growth, type, filter, d->pair);
    for (int i = 0; i < count; i++) {
        const uint8_t serve = kas_pair_serves(d->growth, type, filter, &d->pair[i]);
        for (int k = 0; k < kas_ops_of_a_pair(type); k++) {
            const kas_candidate_op use = kas_pair_op(type, &d->pair[i], k);
            if (serve >> k & 1)
                KAS_TRY(add_use(l, &use));
        }
    }
    return KAS_OK;
}

/* Adds the candidate operations of a type with the group number and way of cutting at hand. Those
 * that need neither are added with the first of them only. */
static kas_status add_uses(listing *l, kas_type type, bool first)
{
    kas_guided *d = &l->w->guided;
    kas_op_filter filter;
    kas_guide_next(&d->guide, &filter);
    if (kas_type_is_of_pairs(type))
        return add_pairs(l, type, &filter);
    const int count = kas_list_candidate_ops(&d->growth->kernel, type, &filter, d->use);
    for (int i = 0; i < count; i++) {
        const uint16_t attributes = kas_primitive_get(d->use[i].op)->attributes;
        if (first || (attributes & (KAS_ATTR_SYMBOL | KAS_ATTR_SPLIT)))
            KAS_TRY(add_use(l, &d->use[i]));
    }
    return KAS_OK;
}

static bool may_settle_group(kas_type type)
{
    return type == KAS_TYPE_GROUP || type == KAS_TYPE_SHUFFLE;
}

static bool may_settle_split(kas_type type)
{
    return type == KAS_TYPE_SLICE || type == KAS_TYPE_CONCAT;
}

/* Lists the candidate operations of the type that is chosen: with every group number where a
 * primitive of this type is the first that needs one, and with every way of cutting likewise.
 * Otherwise what is open does not matter, and the first is taken. */
static kas_status list_uses(kas_workshop *w, const prefix *p, beginning *out)
{
    const kas_guided *d = &w->guided;
    const bool open_group = p->group == 0, open_split = p->split < 0;
    const int groups = open_group && may_settle_group(p->type) && d->numbers ? d->numbers : 1;
    const int splits = open_split && may_settle_split(p->type) && d->splits ? d->splits : 1;
    listing l = {.w = w, .out = out, .settles_group = open_group, .settles_split = open_split};
    for (int i = 0; i < groups * splits; i++) {
        l.group = open_group ? d->numbers ? d->number[i % groups] : 0 : p->group;
        l.split = open_split ? i / groups : p->split;
        if (replay(w, p, w->options.max_primitives, l.group, l.split) == KAS_REJECT_NONE)
            KAS_TRY(add_uses(&l, p->type, i == 0));
    }
    return KAS_OK;
}

/* Lists the types that have a candidate operation as far as numbers of primitives and leaves
 * tell. */
static kas_status list_types(kas_workshop *w, const prefix *p, beginning *out)
{
    listing l = {.w = w, .out = out};
    kas_op_filter filter;
    const uint32_t group = p->group || !w->guided.numbers ? p->group : w->guided.number[0];
    if (p->primitives >= w->options.max_primitives ||
        replay(w, p, w->options.max_primitives, group, p->split < 0 ? 0 : p->split) !=
            KAS_REJECT_NONE)
        return KAS_OK;
    kas_guide_next(&w->guided.guide, &filter);
    for (int t = 0; t < KAS_TYPE_COUNT; t++) {
        const choice type = {.key = key_of_type((kas_type)t)};
        if (filter.ops & w->guided.guide.of_type[t])
            KAS_TRY(add_choice(&l, &type));
    }
    return KAS_OK;
}

/* ---- the tree ---- */

static kas_status add_beginning(kas_beginnings *b, const beginning *new)
{
    if (!KAS_GROW(b->list, b->count))
        return kas_fail(KAS_NO_MEMORY, "beginnings of kernels: out of memory");
    b->list[b->count] = *new;
    const prefix p = prefix_of(b, b->count);
    const bool quiet = kas_quiet(true);
    const kas_status status =
        (new->typed ? list_uses : list_types)(&b->workshop, &p, &b->list[b->count]);
    kas_quiet(quiet);
    b->count++;
    return status == KAS_OK ? kas_pairs_status(b->workshop.growth->pairs) : status;
}

kas_status kas_beginnings_create(const kas_sample_options *options, const kas_target *targets,
                                 int count, kas_beginnings **out)
{
    const beginning root = {.parent = -1};
    kas_beginnings *b = calloc(1, sizeof *b);
    *out = NULL;
    if (!b)
        return kas_fail(KAS_NO_MEMORY, "beginnings of kernels: out of memory");
    kas_status status =
        kas_workshop_open_guided("beginnings of kernels", options, targets, count, &b->workshop);
    if (status == KAS_OK)
        status = add_beginning(b, &root);
    if (status != KAS_OK)
        kas_beginnings_free(b);
    else
        *out = b;
    return status;
}

void kas_beginnings_free(kas_beginnings *b)
{
    if (!b)
        return;
    for (int i = 0; i < b->count; i++)
        free(b->list[i].list);
    free(b->list);
    kas_workshop_close(&b->workshop);
    free(b);
}

kas_status kas_beginnings_extend(kas_beginnings *b, int from, int taken, int *out)
{
    const beginning *parent = &b->list[from];
    const beginning new = {.parent = from,
                           .taken = taken,
                           .primitives = parent->primitives + parent->typed,
                           .typed = !parent->typed};
    *out = b->count;
    return add_beginning(b, &new);
}

int kas_beginnings_choices(const kas_beginnings *b, int i)
{
    return b->list[i].choices;
}

uint64_t kas_beginnings_key(const kas_beginnings *b, int i, int c)
{
    return b->list[i].list[c].key;
}

bool kas_beginnings_is_open(const kas_beginnings *b, int i)
{
    return !b->list[i].typed || b->list[i].choices > 0;
}

/* ---- the way of a given kernel ---- */

/* Returns the node that makes variable `var` of a growing kernel: the nodes that make sizes are
 * numbered in their order. */
static const kas_node *maker_of(const kas_kernel *kernel, int var)
{
    for (int i = 1; i < kernel->nodes; i++)
        if (kas_node_has_out(&kernel->node[i]) && var-- == 0)
            return &kernel->node[i];
    return NULL;
}

/* Returns whether the choice gives its variable the size that it has in the kernel. The value may
 * hold another variable, whose size in the kernel is taken. */
static bool gives_size(const choice *c, const kas_kernel *kernel)
{
    const int var = kas_dim_var(&c->value);
    kas_dim value = c->value;
    return (var < 0 || kas_dim_substitute(&c->value, var, &maker_of(kernel, var)->out, &value)) &&
           kas_dim_equal(&value, &maker_of(kernel, c->var)->out);
}

static bool reads_the_same(const choice *c, const kas_node *node, bool swapped)
{
    for (int k = 0; k < node->inputs; k++)
        if (c->use.in[k] != node->in[swapped ? 1 - k : k])
            return false;
    return c->use.inputs == node->inputs;
}

/* Returns whether the choice is node i of the kernel. */
static bool is_node(const choice *c, const kas_kernel *kernel, int i, bool swapped)
{
    const kas_node *node = &kernel->node[i];
    if (c->key != key_of_node(kernel, node) || !reads_the_same(c, node, swapped))
        return false;
    return c->var < 0 || gives_size(c, kernel);
}

int kas_beginnings_choice_of(const kas_beginnings *b, int i, const kas_kernel *kernel)
{
    const beginning *at = &b->list[i];
    const int next = at->primitives + 1;
    if (next >= kernel->nodes)
        return -1;
    const kas_node *node = &kernel->node[next];
    const uint64_t type = key_of_type(kas_type_of(node->op));
    const int orders = kas_operands_commute(kernel, node) ? 2 : 1;
    for (int swapped = 0; swapped < orders; swapped++)
        for (int c = 0; c < at->choices; c++)
            if (at->typed ? is_node(&at->list[c], kernel, next, swapped) : at->list[c].key == type)
                return c;
    return -1;
}

/* ---- attempts ---- */

/* Draws a kernel with this beginning into the growth. */
static kas_reject draw_kernel(kas_beginnings *b, int i)
{
    kas_workshop *w = &b->workshop;
    kas_guided *d = &w->guided;
    const beginning *at = &b->list[i];
    prefix p = prefix_of(b, i);
    if (at->typed) { /* any candidate operation of the type */
        const choice *next = &at->list[kas_rng_below(&d->rng, (uint32_t)at->choices)];
        p.step[p.primitives++] = next;
        p.group = next->group;
        p.split = next->split;
    }
    const int least = w->options.min_primitives, most = w->options.max_primitives;
    const int fewest = p.primitives > least ? p.primitives : least;
    const int primitives = fewest + (int)kas_rng_below(&d->rng, (uint32_t)(most - fewest + 1));
    const kas_reject why = replay(w, &p, primitives, p.group, p.split);
    return why == KAS_REJECT_NONE ? kas_guided_complete(d) : why;
}

static kas_status try_until_done(kas_beginnings *b, int i, kas_attempt *how)
{
    kas_workshop *w = &b->workshop;
    *how = (kas_attempt){0};
    do {
        how->tries++;
        how->why = draw_kernel(b, i);
        if (how->why == KAS_REJECT_NONE)
            KAS_TRY(kas_workshop_complete(w, &how->why));
        how->rejected[how->why] += how->why != KAS_REJECT_NONE;
    } while (how->why != KAS_REJECT_NONE && how->tries < MOST_TRIES);
    return kas_pairs_status(w->growth->pairs);
}

kas_status kas_beginnings_attempt(kas_beginnings *b, int i, uint64_t key, kas_replacement *out,
                                  kas_attempt *how)
{
    const uint64_t version = (uint64_t)KAS_BEGINNINGS_VERSION << 48;
    b->workshop.guided.rng =
        kas_rng_make(b->workshop.options.seed ^ version, KAS_PURPOSE_GROW, key);
    const bool quiet = kas_quiet(true);
    const kas_status status = try_until_done(b, i, how);
    kas_quiet(quiet);
    if (status != KAS_OK || how->why != KAS_REJECT_NONE)
        return status;
    return kas_workshop_take(&b->workshop, out);
}
