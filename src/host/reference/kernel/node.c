/* The sizes of one node: numbers of its dims, of a fully-connected map, of a broadcast.
 *
 * Derived here from the shapes alone, not by the space's own helpers (kas_weight_sizes_at,
 * kas_broadcast_align), so that the two are compared when devices are compared with the reference.
 */
#include "host/reference/kernel/evaluate.h"

#include <math.h>
#include <string.h>

static kas_status shape_of(const kas_node *node, const kas_binding *binding, kas_ref_shape *out)
{
    KAS_TRY(kas_node_sizes(node, binding, out->size, &out->rank));
    out->channels = node->shape.channels;
    out->has_h = kas_shape_has(&node->shape, KAS_AXIS_H);
    out->has_w = kas_shape_has(&node->shape, KAS_AXIS_W);
    out->elements = 1;
    for (int i = 0; i < out->rank; i++)
        if (__builtin_mul_overflow(out->elements, out->size[i], &out->elements))
            return kas_fail(KAS_ILLEGAL, "reference: a tensor has too many elements");
    return KAS_OK;
}

/* fc, conv, conv_depthwise */
static kas_status make_fc(const kas_node *node, const kas_node *in, int i, kas_ref_node *out)
{
    size_t features = 1;
    out->groups = 1;
    out->fan_in = (size_t)out->kernel_h * out->kernel_w;
    for (int d = 0; d < in->shape.channels; d++) {
        out->apart[d] =
            node->op == KAS_OP_CONV_DEPTHWISE || (node->grouped && in->shape.is_group[d]);
        *(out->apart[d] ? &out->groups : &out->fan_in) *= out->in[0].size[d];
    }
    for (int d = 0; d < out->out.channels; d++)
        features *= out->out.size[d];
    if (features % out->groups != 0)
        return kas_fail(KAS_ILLEGAL, "reference: node %d: %zu outputs for %zu groups", i, features,
                        out->groups);
    out->fan_out = features / out->groups;
    return KAS_OK;
}

/* Strips the common suffix, then the common prefix of what is left, by symbolic equality. */
static kas_status make_blend(const kas_node *lhs, const kas_node *rhs, int i, kas_ref_node *out)
{
    int l_begin = 0, l_end = out->in[0].rank, r_end = out->in[1].rank;
    out->prefix = out->suffix = out->lhs = out->rhs = 1;
    while (l_end > 0 && r_end > 0) {
        kas_dim l = kas_shape_dim(&lhs->shape, l_end - 1);
        kas_dim r = kas_shape_dim(&rhs->shape, r_end - 1);
        if (!kas_dim_equal(&l, &r))
            break;
        l_end--;
        out->suffix *= out->in[1].size[--r_end];
    }
    while (l_begin < l_end && l_begin < r_end) {
        kas_dim l = kas_shape_dim(&lhs->shape, l_begin);
        kas_dim r = kas_shape_dim(&rhs->shape, l_begin);
        if (!kas_dim_equal(&l, &r))
            break;
        out->prefix *= out->in[1].size[l_begin++];
    }
    for (int d = l_begin; d < l_end; d++)
        out->lhs *= out->in[0].size[d];
    for (int d = l_begin; d < r_end; d++)
        out->rhs *= out->in[1].size[d];
    if (out->rhs % out->lhs != 0)
        return kas_fail(KAS_ILLEGAL, "reference: node %d: %zu elements cannot tile %zu", i,
                        out->lhs, out->rhs);
    return KAS_OK;
}

/* Elements of one matrix dim follow from the elements of operands and result: with B matrices,
 * LHS has B*M*K, RHS B*K*N, the result B*M*N. */
static kas_status make_bmm(const kas_node *lhs, const kas_node *rhs, int i, kas_ref_node *out)
{
    size_t l = out->in[0].elements, r = out->in[1].elements, y = out->out.elements;
    out->batch = 1;
    for (int d = 0; d < lhs->shape.channels && d < rhs->shape.channels; d++) {
        if (!lhs->shape.is_group[d] || !rhs->shape.is_group[d] ||
            !kas_dim_equal(&lhs->shape.channel[d], &rhs->shape.channel[d]))
            break;
        out->batch *= out->in[0].size[d];
    }
    l /= out->batch;
    r /= out->batch;
    y /= out->batch;
    out->contracted = (size_t)llround(sqrt((double)l * (double)r / (double)y));
    if (out->contracted == 0 || l % out->contracted || r % out->contracted ||
        l / out->contracted * (r / out->contracted) != y)
        return kas_fail(KAS_ILLEGAL, "reference: node %d: %zu and %zu elements give no %zu", i, l,
                        r, y);
    out->rows = l / out->contracted;
    out->columns = r / out->contracted;
    return KAS_OK;
}

/* Taps along an axis; `replaced` is the convolution's dtype of them. */
static uint32_t window(const kas_node *node, int axis, uint32_t replaced)
{
    if (!(node->axes & axis))
        return 1;
    return node->kernel ? node->kernel : replaced;
}

static kas_status make_shuffle(const kas_node *node, const kas_binding *binding, int i,
                               kas_ref_node *out)
{
    out->shuffled = binding->value[KAS_SYM_G0 + node->symbol];
    if (out->shuffled == 0 || out->out.size[node->dim] % out->shuffled != 0)
        return kas_fail(KAS_ILLEGAL, "reference: node %d: %u channels in %zu groups", i,
                        out->out.size[node->dim], out->shuffled);
    return KAS_OK;
}

/* Equal shares lie one behind the other; otherwise the second segment begins where the first
 * elements end.  The segments must fill the whole. */
static kas_status make_slice(const kas_kernel *kernel, const kas_node *node, int i,
                             kas_ref_node *out)
{
    const kas_split *split = &kernel->split[node->split];
    const size_t whole = out->in[0].size[node->dim], size = out->out.size[node->dim];
    out->begin = split->shares ? node->segment * (whole / split->shares)
                               : (size_t)node->segment * split->first;
    const bool last = node->segment == (split->shares ? split->shares - 1 : 1);
    if (last ? out->begin + size != whole : out->begin + size >= whole)
        return kas_fail(KAS_ILLEGAL,
                        "reference: node %d: %zu elements from %zu are no segment of %zu", i, size,
                        out->begin, whole);
    return KAS_OK;
}

static kas_status check_concat(const kas_node *node, int i, const kas_ref_node *out)
{
    size_t sum = 0;
    for (int k = 0; k < node->inputs; k++)
        sum += out->in[k].size[node->dim];
    if (sum != out->out.size[node->dim])
        return kas_fail(KAS_ILLEGAL, "reference: node %d: %zu elements fill a dim of %u", i, sum,
                        out->out.size[node->dim]);
    return KAS_OK;
}

kas_status kas_ref_node_make(const kas_kernel *kernel, int i, const kas_binding *binding,
                             kas_ref_node *out)
{
    const kas_node *node = &kernel->node[i];
    memset(out, 0, sizeof *out);
    out->node = node;
    out->weight = -1;
    KAS_TRY(shape_of(node, binding, &out->out));
    for (int k = 0; k < node->inputs; k++)
        KAS_TRY(shape_of(&kernel->node[node->in[k]], binding, &out->in[k]));
    out->kernel_h = window(node, KAS_AXIS_H, binding->value[KAS_SYM_KH]);
    out->kernel_w = window(node, KAS_AXIS_W, binding->value[KAS_SYM_KW]);
    out->dilation = node->dilation ? node->dilation : 1;
    if (node->op == KAS_OP_SCALE || node->op == KAS_OP_MIX) {
        size_t length = kas_ref_view_of(&out->in[0], node->dim, node->dim_end).length;
        bool mixes = node->op == KAS_OP_MIX;
        out->groups = mixes ? 1 : length;
        out->fan_in = mixes ? length : 1;
        out->fan_out = mixes ? out->out.size[node->dim] : 1;
    }
    if (node->op == KAS_OP_SHUFFLE)
        return make_shuffle(node, binding, i, out);
    if (node->op == KAS_OP_SLICE)
        return make_slice(kernel, node, i, out);
    if (node->op == KAS_OP_CONCAT)
        return check_concat(node, i, out);
    if (node->op == KAS_OP_BMM)
        return make_bmm(&kernel->node[node->in[0]], &kernel->node[node->in[1]], i, out);
    if (node->op == KAS_OP_FC || node->op == KAS_OP_CONV || node->op == KAS_OP_CONV_DEPTHWISE)
        return make_fc(node, &kernel->node[node->in[0]], i, out);
    if (kas_op_get((kas_op)node->op)->class_ == KAS_CLASS_BLEND)
        return make_blend(&kernel->node[node->in[0]], &kernel->node[node->in[1]], i, out);
    return KAS_OK;
}

const kas_ref_op *kas_ref_op_get(kas_op op)
{
    switch (op) {
    case KAS_OP_GROUP:
    case KAS_OP_GROUP_ALL:
    case KAS_OP_SHIFT:
    case KAS_OP_UNFOLD:
    case KAS_OP_SHUFFLE:
        return &kas_ref_rearrange;
    case KAS_OP_POOL_AVG:
    case KAS_OP_POOL_MAX:
        return &kas_ref_pools;
    case KAS_OP_SLICE:
        return &kas_ref_slice;
    case KAS_OP_CONCAT:
        return &kas_ref_concat;
    case KAS_OP_FC:
        return &kas_ref_fc;
    case KAS_OP_FOLD_AVG:
    case KAS_OP_FOLD_MAX:
        return &kas_ref_fold;
    case KAS_OP_SOFTMAX:
        return &kas_ref_softmax;
    case KAS_OP_CONV:
    case KAS_OP_CONV_DEPTHWISE:
        return &kas_ref_conv;
    case KAS_OP_MIX:
        return &kas_ref_mix;
    case KAS_OP_BMM:
        return &kas_ref_bmm;
    case KAS_OP_SCALE:
        return &kas_ref_scale;
    case KAS_OP_NORM:
        return &kas_ref_norm;
    case KAS_OP_ADD:
    case KAS_OP_SUB:
    case KAS_OP_MUL:
    case KAS_OP_MIN:
    case KAS_OP_MAX:
        return &kas_ref_blend;
    case KAS_OP_INPUT:
    case KAS_OP_COUNT:
        return NULL;
    default:
        return &kas_ref_unary;
    }
}
