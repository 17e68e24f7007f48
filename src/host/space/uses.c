#include "host/space/uses.h"

#include <string.h>

#include "host/space/primitive.h"

kas_node kas_use_node(const kas_use *use, int var)
{
    kas_node node = {.op = use->op,
                     .inputs = kas_op_get(use->op)->inputs,
                     .dim = use->dim,
                     .dim_end = use->dim_end,
                     .axes = use->axes,
                     .offset = use->offset,
                     .kernel = use->kernel,
                     .dilation = use->dilation,
                     .grouped = use->grouped};
    memcpy(node.in, use->in, sizeof node.in);
    if (kas_primitive_get(use->op)->attributes & KAS_ATTR_OUT)
        node.out = kas_dim_symbol((kas_symbol)(KAS_SYM_X0 + var));
    return node;
}

kas_use kas_node_use(const kas_node *node)
{
    kas_use use = {.op = node->op,
                   .dim = node->dim,
                   .dim_end = node->dim_end,
                   .axes = node->axes,
                   .offset = node->offset,
                   .kernel = node->kernel,
                   .dilation = node->dilation,
                   .grouped = node->grouped};
    memcpy(use.in, node->in, sizeof use.in);
    return use;
}

typedef struct list {
    kas_use *out;
    int count;
} list;

static void add(list *l, kas_use use)
{
    l->out[l->count++] = use;
}

static void add_groups(list *l, int node, const kas_shape *shape)
{
    for (int8_t d = 0; d < shape->channels; d++) {
        add(l, (kas_use){.op = KAS_OP_GROUP, .in = {(uint8_t)node}, .dim = d});
        add(l, (kas_use){.op = KAS_OP_GROUP_ALL, .in = {(uint8_t)node}, .dim = d});
    }
}

static void add_shifts(list *l, int node)
{
    for (uint8_t axis = KAS_AXIS_H; axis <= KAS_AXIS_W; axis++)
        for (int8_t offset = -1; offset <= 1; offset += 2)
            add(l, (kas_use){
                       .op = KAS_OP_SHIFT, .in = {(uint8_t)node}, .axes = axis, .offset = offset});
}

static void add_unfolds(list *l, int node)
{
    for (uint8_t axes = 1; axes <= (KAS_AXIS_H | KAS_AXIS_W); axes++)
        add(l, (kas_use){.op = KAS_OP_UNFOLD, .in = {(uint8_t)node}, .axes = axes});
}

static void add_fcs(list *l, int node)
{
    for (uint8_t grouped = 0; grouped < 2; grouped++)
        add(l, (kas_use){.op = KAS_OP_FC, .in = {(uint8_t)node}, .grouped = grouped});
}

static void add_elementwise(list *l, int node)
{
    for (uint8_t op = KAS_OP_RELU; op <= KAS_OP_SQUARE; op++)
        add(l, (kas_use){.op = op, .in = {(uint8_t)node}});
}

static void add_folds(list *l, int node, const kas_shape *shape)
{
    for (int8_t d = 0; d < kas_shape_rank(shape); d++) {
        add(l, (kas_use){.op = KAS_OP_FOLD_AVG, .in = {(uint8_t)node}, .dim = d});
        add(l, (kas_use){.op = KAS_OP_FOLD_MAX, .in = {(uint8_t)node}, .dim = d});
    }
}

static void add_softmaxes(list *l, int node, const kas_shape *shape)
{
    int8_t rank = (int8_t)kas_shape_rank(shape);
    for (int8_t d = 0; d < rank; d++)
        for (int8_t e = (int8_t)(d + 1); e <= rank; e++)
            add(l, (kas_use){.op = KAS_OP_SOFTMAX, .in = {(uint8_t)node}, .dim = d, .dim_end = e});
}

static void add_broadcasts(list *l, int lhs, int nodes)
{
    for (int rhs = 0; rhs < nodes; rhs++)
        for (uint8_t op = KAS_OP_ADD; rhs != lhs && op <= KAS_OP_MAX; op++)
            add(l, (kas_use){.op = op, .in = {(uint8_t)lhs, (uint8_t)rhs}});
}

int kas_list_uses(const kas_kernel *kernel, kas_type type, kas_use out[KAS_MAX_USES])
{
    list l = {.out = out};
    for (int i = 0; i < kernel->nodes; i++) {
        const kas_shape *shape = &kernel->node[i].shape;
        switch (type) {
        case KAS_TYPE_GROUP:
            add_groups(&l, i, shape);
            break;
        case KAS_TYPE_SHIFT:
            add_shifts(&l, i);
            break;
        case KAS_TYPE_UNFOLD:
            add_unfolds(&l, i);
            break;
        case KAS_TYPE_FC:
            add_fcs(&l, i);
            break;
        case KAS_TYPE_ELEMENTWISE:
            add_elementwise(&l, i);
            break;
        case KAS_TYPE_FOLD:
            add_folds(&l, i, shape);
            break;
        case KAS_TYPE_SOFTMAX:
            add_softmaxes(&l, i, shape);
            break;
        default:
            add_broadcasts(&l, i, kernel->nodes);
        }
    }
    return l.count;
}
