#include "host/space/evolve/outline.h"

#include <string.h>

#include "host/space/weights.h"

void kas_outline_merge_groups(kas_dim *size)
{
    for (int s = KAS_SYM_G0 + 1; s < KAS_SYM_X0; s++) {
        size->exp[KAS_SYM_G0] = (int8_t)(size->exp[KAS_SYM_G0] + size->exp[s]);
        size->exp[s] = 0;
    }
}

void kas_outline_copy(const kas_outline *from, kas_outline *to)
{
    to->nodes = from->nodes;
    memcpy(to->node, from->node, (size_t)from->nodes * sizeof *from->node);
    memcpy(to->split, from->split, sizeof to->split);
    to->group = from->group;
}

/* Draws one of the kernel's group values that the targets admit, or else any that they admit. */
static uint32_t draw_group(kas_guided *d, const kas_kernel *kernel)
{
    uint32_t admitted[KAS_MAX_GROUPS];
    int count = 0;
    for (int g = 0; g < KAS_MAX_GROUPS; g++)
        for (int i = 0; i < d->numbers; i++)
            if (kernel->group_value[g] == d->number[i])
                admitted[count++] = d->number[i];
    if (count > 0)
        return admitted[kas_rng_below(&d->rng, (uint32_t)count)];
    return d->numbers > 0 ? d->number[kas_rng_below(&d->rng, (uint32_t)d->numbers)] : 0;
}

static void take_splits(kas_guided *d, const kas_kernel *kernel, kas_outline *out)
{
    bool any = false;
    for (int s = 0; s < KAS_MAX_SPLITS; s++) {
        out->split[s] = kernel->split[s];
        any = any || out->split[s].whole.num != 0;
        kas_outline_merge_groups(&out->split[s].whole);
    }
    if (!any && d->splits > 0 && (d->guide.filter.ops & KAS_OP_BIT(KAS_OP_SLICE)))
        out->split[0] = d->split[kas_rng_below(&d->rng, (uint32_t)d->splits)];
}

/* Returns whether a size holds the rest of something other than C. Such a rest may follow the
 * image, and then no weight may have it. */
static bool holds_strange_rest(const kas_kernel *kernel, const kas_dim *size)
{
    const kas_dim c = kas_dim_symbol(KAS_SYM_C);
    for (int s = 0; s < KAS_MAX_SPLITS; s++)
        if (size->exp[KAS_SYM_R0 + s] != 0 && !kas_dim_equal(&kernel->split[s].whole, &c))
            return true;
    return false;
}

void kas_outline_begin(kas_guided *d, const kas_kernel *kernel, kas_outline *out)
{
    out->nodes = kernel->nodes;
    out->group = draw_group(d, kernel);
    take_splits(d, kernel, out);
    for (int i = 0; i < kernel->nodes; i++) {
        const kas_node *node = &kernel->node[i];
        out->node[i] = (kas_outline_node){kas_node_candidate_op(node), node->out, &node->shape};
        memset(out->node[i].use.in + node->inputs, 0, KAS_MAX_INPUTS - node->inputs);
        kas_outline_merge_groups(&out->node[i].out);
        if (holds_strange_rest(kernel, &node->out))
            out->node[i].out = (kas_dim){0};
        if (node->kernel && node->kernel == d->guide.equal_window)
            out->node[i].use.kernel = 0; /* as samples say it */
    }
}

kas_dim kas_outline_channels(const kas_outline_node *node)
{
    kas_dim size;
    if (!kas_shape_product(node->like, 0, node->like->channels, &size) || kas_dim_var(&size) >= 0)
        return (kas_dim){0};
    kas_outline_merge_groups(&size);
    return size;
}

typedef struct tidying {
    const kas_outline *from;
    kas_outline *to;
    int place[KAS_OUTLINE_NODES];    /* place of a node in `to`; -1 = not there yet */
    uint8_t need[KAS_OUTLINE_NODES]; /* leaves at once while a node is made; 0 = not known yet */
} tidying;

/* Lists the operands of a node, the one whose making needs most leaves at once first: while the
 * others are made, its result waits. */
static void order_operands(const tidying *t, const kas_candidate_op *use, uint8_t order[])
{
    for (int k = 0; k < use->inputs; k++) {
        int at = k;
        for (; at > 0 && t->need[order[at - 1]] < t->need[use->in[k]]; at--)
            order[at] = order[at - 1];
        order[at] = use->in[k];
    }
}

/* Finds what each node needs, operands first; a node with two readers counts for both. The depth of
 * the recursion is at most KAS_OUTLINE_NODES. */
static void find_need(tidying *t, int i)
{
    const kas_candidate_op *use = &t->from->node[i].use;
    uint8_t order[KAS_MAX_INPUTS];
    if (t->need[i])
        return;
    for (int k = 0; k < use->inputs; k++)
        find_need(t, use->in[k]);
    order_operands(t, use, order);
    t->need[i] = 1;
    for (int k = 0; k < use->inputs; k++)
        if (t->need[order[k]] + k > t->need[i])
            t->need[i] = (uint8_t)(t->need[order[k]] + k);
}

/* Returns the node of `to` that holds the same values as this one would, or -1. Two nodes with
 * weights never do. */
static int find_same(const kas_outline *to, const kas_candidate_op *use)
{
    for (int i = 1; i < to->nodes && !kas_op_has_weight((kas_op)use->op); i++)
        if (memcmp(&to->node[i].use, use, sizeof *use) == 0)
            return i;
    return -1;
}

static bool visit(tidying *t, int i)
{
    const kas_outline_node *node = &t->from->node[i];
    kas_candidate_op use = node->use;
    uint8_t order[KAS_MAX_INPUTS];
    if (t->place[i] >= 0)
        return true;
    order_operands(t, &use, order);
    for (int k = 0; k < use.inputs; k++)
        if (!visit(t, order[k]))
            return false;
    for (int k = 0; k < use.inputs; k++)
        use.in[k] = (uint8_t)t->place[use.in[k]];
    t->place[i] = find_same(t->to, &use);
    if (t->place[i] >= 0)
        return true;
    if (t->to->nodes == KAS_MAX_NODES)
        return false;
    t->place[i] = t->to->nodes;
    t->to->node[t->to->nodes++] = (kas_outline_node){use, node->out, node->like};
    return true;
}

bool kas_outline_tidy(const kas_outline *outline, int output, kas_outline *out)
{
    tidying t;
    t.from = outline;
    t.to = out;
    memset(t.need, 0, sizeof t.need);
    for (int i = 0; i < outline->nodes; i++)
        t.place[i] = -1;
    t.place[0] = 0;
    out->nodes = 1;
    out->node[0] = outline->node[0];
    memcpy(out->split, outline->split, sizeof out->split);
    out->group = outline->group;
    find_need(&t, output);
    return visit(&t, output) && t.place[output] == out->nodes - 1;
}
