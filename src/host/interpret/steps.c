#include "host/interpret/steps.h"

#include <stdlib.h>

#include "host/space/split.h"

/* The dims of a node's tensor as numbers. */
typedef struct sizes {
    uint32_t size[KAS_MAX_DIMS];
    int rank, channels;
} sizes;

static kas_status sizes_of(const kas_kernel *kernel, int node, const kas_binding *binding,
                           sizes *out)
{
    out->channels = kernel->node[node].shape.channels;
    return kas_node_sizes(&kernel->node[node], binding, out->size, &out->rank);
}

static size_t product(const sizes *s, int from, int to)
{
    size_t n = 1;
    for (int d = from; d < to; d++)
        n *= s->size[d];
    return n;
}

static void view(kas_step *s, const sizes *in, int begin, int end)
{
    s->outer = product(in, 0, begin);
    s->length = product(in, begin, end);
    s->inner = product(in, end, in->rank);
}

static void image(kas_step *s, const kas_shape *shape, const sizes *in)
{
    s->h = kas_shape_has(shape, KAS_AXIS_H) ? in->size[kas_shape_place(shape, KAS_AXIS_H)] : 1;
    s->w = kas_shape_has(shape, KAS_AXIS_W) ? in->size[kas_shape_place(shape, KAS_AXIS_W)] : 1;
    s->planes = product(in, 0, in->channels);
}

static int window(const kas_node *node, int axis, const kas_binding *binding)
{
    const kas_dim size = kas_node_window(node, axis);
    return (int)kas_dim_number(&size, binding);
}

/* A map that keeps the group dims apart needs its input channels in the order [group][in]. */
static kas_status order_channels(kas_step *s, const kas_shape *shape, const sizes *in)
{
    const size_t channels = product(in, 0, in->channels);
    size_t each = 1;
    bool moved = false;
    for (int d = 0; d < in->channels; d++)
        each *= s->node->grouped && shape->is_group[d] ? 1 : in->size[d];
    s->order = malloc(sizeof *s->order * channels);
    if (!s->order)
        return kas_fail(KAS_NO_MEMORY, "no memory for the order of %zu channels", channels);
    for (size_t c = 0; c < channels; c++) {
        size_t rest = c, stride = 1, group_stride = 1, at = 0;
        for (int d = in->channels - 1; d >= 0; d--) {
            const bool apart = s->node->grouped && shape->is_group[d];
            const size_t coordinate = rest % in->size[d];
            at += coordinate * (apart ? group_stride * each : stride);
            *(apart ? &group_stride : &stride) *= in->size[d];
            rest /= in->size[d];
        }
        s->order[at] = (uint32_t)c;
        moved |= at != c;
    }
    if (!moved) {
        free(s->order);
        s->order = NULL;
    }
    return KAS_OK;
}

static kas_status map(kas_step *s, const kas_kernel *kernel, int i, const kas_binding *binding,
                      const sizes *in)
{
    const kas_shape *shape = &kernel->node[s->node->in[0]].shape;
    kas_weight_sizes w;
    KAS_TRY(kas_weight_sizes_at(kernel, i, binding, &w));
    s->groups = w.groups;
    s->fan_out = w.fan_out;
    s->fan_in = w.fan_in;
    image(s, shape, in);
    s->positions = s->h * s->w;
    if (s->op == KAS_OP_CONV_DEPTHWISE) {
        s->work = s->positions;
        return KAS_OK;
    }
    if (s->op != KAS_OP_FC && s->op != KAS_OP_CONV)
        return KAS_OK;
    KAS_TRY(order_channels(s, shape, in));
    s->work = s->groups * s->fan_in * s->positions;
    return KAS_OK;
}

static kas_status product_of(kas_step *s, const kas_kernel *kernel, int i, const sizes *l,
                             const sizes *r)
{
    kas_product p;
    KAS_TRY(kas_product_align(kernel, i, &p));
    const bool lt = s->node->transpose & KAS_TRANSPOSE_LHS,
               rt = s->node->transpose & KAS_TRANSPOSE_RHS;
    const size_t first = product(l, p.batch, p.cut[0]), second = product(l, p.cut[0], l->rank);
    s->batch = product(l, 0, p.batch);
    s->rows = lt ? second : first;
    s->contracted = lt ? first : second;
    s->columns = rt ? product(r, p.batch, p.cut[1]) : product(r, p.cut[1], r->rank);
    s->work = s->columns * s->contracted + s->rows * s->columns + s->rows * s->contracted;
    return KAS_OK;
}

static kas_status broadcast(kas_step *s, const kas_kernel *kernel, const sizes *r)
{
    kas_broadcast parts;
    KAS_TRY(kas_broadcast_align(&kernel->node[s->node->in[0]].shape,
                                &kernel->node[s->node->in[1]].shape, &parts));
    s->prefix = product(r, 0, parts.prefix);
    s->tile = s->in_elements[0] / s->prefix;
    s->repeat = s->elements / s->prefix / s->tile;
    return s->prefix * s->tile == s->in_elements[0] &&
                   s->prefix * s->repeat * s->tile == s->elements
               ? KAS_OK
               : kas_fail(KAS_ILLEGAL, "%zu elements cannot tile %zu", s->in_elements[0],
                          s->elements);
}

static kas_status special(kas_step *s, const kas_kernel *kernel, int i, const kas_binding *binding,
                          const sizes *in, const sizes *out)
{
    const kas_node *n = s->node;
    switch (s->op) {
    case KAS_OP_SLICE:
        view(s, &in[0], n->dim, n->dim + 1);
        s->segment[0] = out->size[n->dim];
        s->begin = kas_split_begin(&kernel->split[n->split], n->segment, out->size[n->dim]);
        return KAS_OK;
    case KAS_OP_CONCAT:
        view(s, out, n->dim, n->dim + 1);
        for (int k = 0; k < n->inputs; k++)
            s->segment[k] = in[k].size[n->dim];
        return KAS_OK;
    case KAS_OP_SHUFFLE:
        s->shuffled = binding->value[KAS_SYM_G0 + n->symbol];
        view(s, &in[0], n->dim, n->dim + 1);
        return KAS_OK;
    case KAS_OP_FOLD_AVG:
    case KAS_OP_FOLD_MAX:
        view(s, &in[0], n->dim, n->dim + 1);
        s->work = 3 * s->inner;
        return KAS_OK;
    case KAS_OP_SOFTMAX:
    case KAS_OP_NORM:
        view(s, &in[0], n->dim, n->dim_end);
        s->work = 4 * s->inner;
        return KAS_OK;
    case KAS_OP_MIX:
    case KAS_OP_SCALE:
        view(s, &in[0], n->dim, n->dim_end);
        s->work = s->length * s->inner;
        return map(s, kernel, i, binding, &in[0]);
    case KAS_OP_FC:
    case KAS_OP_CONV:
    case KAS_OP_CONV_DEPTHWISE:
        return map(s, kernel, i, binding, &in[0]);
    case KAS_OP_BMM:
        return product_of(s, kernel, i, &in[0], &in[1]);
    case KAS_OP_ADD:
    case KAS_OP_SUB:
    case KAS_OP_MUL:
    case KAS_OP_MIN:
    case KAS_OP_MAX:
        return broadcast(s, kernel, &in[1]);
    case KAS_OP_POOL_MAX:
        s->work = 6 * s->h * s->w;
        return KAS_OK;
    default:
        return KAS_OK;
    }
}

static kas_status make(kas_steps *all, const kas_kernel *kernel, int i, const kas_binding *binding)
{
    kas_step *s = &all->step[i];
    sizes in[KAS_MAX_INPUTS] = {0}, out = {0};
    s->node = &kernel->node[i];
    s->op = (kas_op)s->node->op;
    KAS_TRY(sizes_of(kernel, i, binding, &out));
    s->elements = product(&out, 0, out.rank);
    for (int k = 0; k < s->node->inputs; k++) {
        KAS_TRY(sizes_of(kernel, s->node->in[k], binding, &in[k]));
        s->in_elements[k] = product(&in[k], 0, in[k].rank);
    }
    s->kernel_h = window(s->node, KAS_AXIS_H, binding);
    s->kernel_w = window(s->node, KAS_AXIS_W, binding);
    s->dilation = kas_node_dilation(s->node);
    if (i > 0)
        image(s, &kernel->node[s->node->in[0]].shape, &in[0]);
    KAS_TRY(special(s, kernel, i, binding, in, &out));
    s->weight = kas_op_has_weight(s->op) ? all->weights++ : -1;
    s->at = all->elements;
    s->sign = all->neurons;
    all->elements += s->elements;
    all->neurons += s->op == KAS_OP_RELU ? s->elements : 0;
    all->work = s->work > all->work ? s->work : all->work;
    return KAS_OK;
}

/* Which values the backward pass reads: those of inputs, of the result, or none. */
static void find_computed(kas_steps *all, bool weight_gradients)
{
    for (int i = all->count - 1; i > 0; i--) {
        kas_step *s = &all->step[i];
        bool inputs = false;
        switch (kas_type_of(s->op)) {
        case KAS_TYPE_FC:
        case KAS_TYPE_CONV:
        case KAS_TYPE_MIX:
        case KAS_TYPE_SCALE:
            inputs = weight_gradients;
            break;
        case KAS_TYPE_ELEMENTWISE:
        case KAS_TYPE_BROADCAST:
            inputs = s->op != KAS_OP_NEG && s->op != KAS_OP_ADD && s->op != KAS_OP_SUB;
            break;
        case KAS_TYPE_BMM:
            inputs = true;
            s->computed |= s->node->softmax;
            break;
        case KAS_TYPE_SOFTMAX:
            s->computed = true;
            break;
        case KAS_TYPE_NORM:
            inputs = true;
            break;
        default:
            inputs = s->op == KAS_OP_FOLD_MAX || s->op == KAS_OP_POOL_MAX;
        }
        for (int k = 0; k < s->node->inputs; k++)
            all->step[s->node->in[k]].computed |= inputs || s->computed;
    }
}

kas_status kas_steps_make(const kas_kernel *kernel, const kas_binding *binding,
                          bool weight_gradients, kas_steps *out)
{
    *out = (kas_steps){.count = kernel->nodes};
    out->step = calloc((size_t)kernel->nodes, sizeof *out->step);
    if (!out->step)
        return kas_fail(KAS_NO_MEMORY, "no memory for a kernel of %d nodes", kernel->nodes);
    for (int i = 0; i < kernel->nodes; i++)
        KAS_TRY(make(out, kernel, i, binding));
    find_computed(out, weight_gradients);
    return KAS_OK;
}

void kas_steps_free(kas_steps *steps)
{
    for (int i = 0; steps->step && i < steps->count; i++)
        free(steps->step[i].order);
    free(steps->step);
    *steps = (kas_steps){0};
}
