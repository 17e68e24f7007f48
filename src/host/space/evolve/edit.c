#include "host/space/evolve/edit.h"

#include <string.h>

#include "host/space/primitive.h"
#include "host/space/split.h"

/* How often a value is drawn again while it is the old one. */
enum { MOST_DRAWS = 8 };

static const kas_shape *operand_of(const kas_outline *o, int n)
{
    return o->node[o->node[n].use.in[0]].like;
}

static bool tidy(kas_outline *o)
{
    kas_outline edited;
    kas_outline_copy(o, &edited);
    return kas_outline_tidy(&edited, edited.nodes - 1, o);
}

/* ---- attributes ---- */

/* Something that can be changed. */
typedef struct place {
    uint8_t node; /* 0 = the kernel as a whole: its group number, or a split */
    uint8_t split;
    uint16_t attribute;
} place;

/* The most attributes of one primitive: those of a convolution. */
enum { MOST_PLACES = KAS_MAX_NODES * 5 + 1 + KAS_MAX_SPLITS };

static int list_places(const kas_outline *o, place out[MOST_PLACES])
{
    int count = 0;
    uint32_t splits = 0;
    bool groups = false;
    for (int n = 1; n < o->nodes; n++) {
        const kas_candidate_op *use = &o->node[n].use;
        unsigned attributes = kas_primitive_get(use->op)->attributes;
        groups = groups || (attributes & KAS_ATTR_SYMBOL);
        splits |= kas_outline_split(&o->node[n]) >= 0 ? 1u << use->split : 0;
        for (attributes &= ~(unsigned)KAS_ATTR_SYMBOL; attributes; attributes &= attributes - 1)
            out[count++] =
                (place){.node = (uint8_t)n, .attribute = (uint16_t)(attributes & -attributes)};
    }
    if (groups)
        out[count++] = (place){.attribute = KAS_ATTR_SYMBOL};
    for (; splits; splits &= splits - 1)
        out[count++] =
            (place){.attribute = KAS_ATTR_SPLIT, .split = (uint8_t)__builtin_ctz(splits)};
    return count;
}

static bool change_group(kas_guided *d, kas_outline *o)
{
    const uint32_t old = o->group;
    for (int i = 0; i < MOST_DRAWS && o->group == old && d->numbers > 0; i++)
        o->group = d->number[kas_guided_below(d, d->numbers)];
    return o->group != old;
}

/* Gives segment k of a new split to the node that made the old segment k for a concatenation. */
static void resize_segment(kas_outline *o, int concat, int k, const kas_dim *old,
                           const kas_dim *size)
{
    int n = o->node[concat].use.in[k];
    while (n > 0 && !(kas_primitive_get(o->node[n].use.op)->attributes & KAS_ATTR_OUT))
        n = o->node[n].use.in[0];
    if (n > 0 && kas_dim_equal(&o->node[n].out, old))
        o->node[n].out = *size;
}

/* Cuts in another place, into as many segments. */
static bool change_split(kas_guided *d, kas_outline *o, int split)
{
    const kas_split before = o->split[split];
    kas_dim old, size;
    const kas_split *drawn = d->splits > 0 ? &d->split[kas_guided_below(d, d->splits)] : NULL;
    if (!drawn || kas_split_segments(drawn) != kas_split_segments(&before))
        return false;
    for (int s = 0; s < KAS_MAX_SPLITS; s++)
        if (kas_splits_equal(drawn, &o->split[s]))
            return false;
    o->split[split] = *drawn;
    for (int n = 1; n < o->nodes; n++)
        for (int k = 0; o->node[n].use.op == KAS_OP_CONCAT && k < o->node[n].use.inputs; k++)
            if (o->node[n].use.split == split && kas_split_part(&before, split, k, &old) &&
                kas_split_part(drawn, split, k, &size))
                resize_segment(o, n, k, &old, &size);
    return true;
}

static bool change_size(kas_guided *d, kas_outline_node *node)
{
    const kas_dim old = node->out;
    for (int i = 0; i < MOST_DRAWS && kas_dim_equal(&node->out, &old); i++)
        node->out = kas_draw_size(d);
    return !kas_dim_equal(&node->out, &old);
}

/* Draws a place and another value for it. */
static bool change_one(kas_guided *d, kas_outline *o)
{
    place places[MOST_PLACES];
    const int count = list_places(o, places);
    if (count == 0)
        return false;
    const place *p = &places[kas_guided_below(d, count)];
    kas_outline_node *node = &o->node[p->node];
    const kas_candidate_op old = node->use;
    if (p->node == 0)
        return p->attribute == KAS_ATTR_SYMBOL ? change_group(d, o) : change_split(d, o, p->split);
    if (p->attribute == KAS_ATTR_OUT)
        return change_size(d, node);
    for (int i = 0; i < MOST_DRAWS && memcmp(&node->use, &old, sizeof old) == 0; i++)
        kas_draw_attribute(d, o, operand_of(o, p->node), p->attribute, &node->use);
    return memcmp(&node->use, &old, sizeof old) != 0;
}

bool kas_edit_attribute(kas_guided *d, kas_outline *o)
{
    return change_one(d, o) && tidy(o);
}

/* ---- primitives ---- */

/* Returns the operations with so many operands, as bits. A concatenation has as many as its split,
 * so it is none of them. */
static uint64_t ops_with_operands(int operands)
{
    uint64_t ops = 0;
    for (int op = KAS_OP_INPUT + 1; op < KAS_OP_COUNT; op++)
        if (kas_op_get((kas_op)op)->inputs == operands && !kas_op_has_trait(op, KAS_TRAIT_VARIADIC))
            ops |= KAS_OP_BIT(op);
    return ops;
}

/* Draws a type with one of the operations, then one of them. */
static bool draw_op(kas_guided *d, uint64_t ops, uint8_t *op)
{
    uint8_t of_type[KAS_OP_COUNT];
    int type[KAS_TYPE_COUNT], types = 0, count = 0;
    ops &= d->guide.filter.ops;
    for (int t = 0; t < KAS_TYPE_COUNT; t++)
        if (ops & d->guide.of_type[t])
            type[types++] = t;
    if (types == 0)
        return false;
    for (ops &= d->guide.of_type[type[kas_guided_below(d, types)]]; ops; ops &= ops - 1)
        of_type[count++] = (uint8_t)__builtin_ctzll(ops);
    *op = of_type[kas_guided_below(d, count)];
    return true;
}

static bool makes_size(int op)
{
    return kas_primitive_get(op)->attributes & KAS_ATTR_OUT;
}

bool kas_edit_replace(kas_guided *d, kas_outline *o)
{
    const int n = 1 + kas_guided_below(d, o->nodes - 1);
    kas_outline_node *node = &o->node[n];
    kas_candidate_op use = {.inputs = node->use.inputs};
    memcpy(use.in, node->use.in, sizeof use.in);
    if (node->use.op == KAS_OP_CONCAT ||
        !draw_op(d, ops_with_operands(use.inputs) & ~KAS_OP_BIT(node->use.op), &use.op))
        return false;
    kas_draw_attributes(d, o, operand_of(o, n), &use);
    if (!makes_size(use.op))
        node->out = (kas_dim){0};
    else if (!makes_size(node->use.op))
        node->out = kas_outline_channels(node);
    node->use = use;
    return tidy(o);
}

/* Lets all readers of a node read another one. */
static void redirect(kas_outline *o, int from, int to)
{
    for (int n = 1; n < o->nodes; n++)
        for (int k = 0; k < o->node[n].use.inputs; k++)
            if (o->node[n].use.in[k] == from)
                o->node[n].use.in[k] = (uint8_t)to;
}

typedef struct edge {
    uint8_t reader, operand; /* reader 0 = what the kernel gives */
} edge;

static edge draw_edge(kas_guided *d, const kas_outline *o)
{
    int edges = 1;
    for (int n = 1; n < o->nodes; n++)
        edges += o->node[n].use.inputs;
    int pick = kas_guided_below(d, edges);
    for (int n = 1; n < o->nodes; n++) {
        if (pick < o->node[n].use.inputs)
            return (edge){(uint8_t)n, (uint8_t)pick};
        pick -= o->node[n].use.inputs;
    }
    return (edge){0};
}

/* Puts a primitive on an edge. In half of the cases a size that it makes is the one its operand
 * had, so that its readers need not change. */
static bool insert_one(kas_guided *d, const kas_outline *from, kas_outline *to)
{
    kas_outline o;
    kas_outline_copy(from, &o);
    const edge e = draw_edge(d, &o);
    const int from_node = e.reader ? o.node[e.reader].use.in[e.operand] : o.nodes - 1;
    kas_outline_node new = {.use = {.inputs = 1, .in = {(uint8_t)from_node}},
                            .like = o.node[from_node].like};
    if (!draw_op(d, ops_with_operands(1) | ops_with_operands(2), &new.use.op))
        return false;
    new.use.inputs = kas_op_get((kas_op) new.use.op)->inputs;
    if (new.use.inputs == 2) {
        const int other = kas_guided_below(d, e.reader ? e.reader : o.nodes);
        const int at = kas_guided_below(d, 2);
        new.use.in[1] = new.use.in[0];
        new.use.in[at] = (uint8_t)other;
    }
    kas_draw_attributes(d, &o, new.like, &new.use);
    if (makes_size(new.use.op) && kas_guided_below(d, 2))
        new.out = kas_outline_channels(&o.node[from_node]);
    o.node[o.nodes] = new;
    if (e.reader)
        o.node[e.reader].use.in[e.operand] = (uint8_t)o.nodes;
    o.nodes++;
    return kas_outline_tidy(&o, e.reader ? from->nodes - 1 : from->nodes, to);
}

bool kas_edit_insert(kas_guided *d, kas_outline *o)
{
    kas_outline to;
    do {
        const int before = o->nodes;
        if (!insert_one(d, o, &to) || to.nodes <= before)
            return false;
        kas_outline_copy(&to, o);
    } while (o->nodes - 1 < d->guide.options->min_primitives);
    return true;
}

static bool delete_one(kas_guided *d, const kas_outline *from, kas_outline *to)
{
    kas_outline o;
    kas_outline_copy(from, &o);
    const int n = 1 + kas_guided_below(d, o.nodes - 1);
    const int operand = o.node[n].use.in[kas_guided_below(d, o.node[n].use.inputs)];
    redirect(&o, n, operand);
    const int output = n == o.nodes - 1 ? operand : o.nodes - 1;
    return output > 0 && kas_outline_tidy(&o, output, to);
}

bool kas_edit_delete(kas_guided *d, kas_outline *o)
{
    kas_outline to;
    do {
        if (!delete_one(d, o, &to))
            return false;
        kas_outline_copy(&to, o);
    } while (o->nodes - 1 > d->guide.options->max_primitives);
    return true;
}
