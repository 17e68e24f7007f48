/* The sizes of one node,, and which file evaluates each primitive.
 *
 * Derived here from the shapes alone, not by the space's own helpers (kas_weight_sizes_at,
 * kas_broadcast_align), so that the two are compared when devices are compared with the reference.
 */
#include "host/reference/kernel/evaluate.h"

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

kas_ref_view kas_ref_view_of(const kas_ref_shape *shape, int begin, int end)
{
    kas_ref_view s = {1, 1, 1};
    for (int d = 0; d < shape->rank; d++)
        *(d < begin ? &s.outer : d < end ? &s.length : &s.inner) *= shape->size[d];
    return s;
}

/* Returns the taps along an axis; `replaced` is the number of taps of the replaced convolution. */
static uint32_t window(const kas_node *node, int axis, uint32_t replaced)
{
    if (!(node->axes & axis))
        return 1;
    return node->kernel ? node->kernel : replaced;
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
    out->shuffled = binding->value[KAS_SYM_G0 + node->symbol];
    const kas_ref_op *op = kas_ref_op_get((kas_op)node->op);
    if (!op && i > 0)
        return kas_fail(KAS_UNSUPPORTED, "reference: node %d: no rule for %s (eval_*.c)", i,
                        kas_op_get((kas_op)node->op)->name);
    return op && op->sizes ? op->sizes(kernel, i, out) : KAS_OK;
}

/* The judge's own table, by primitive: it shares none with what it judges. */
static const kas_ref_op *const rules[KAS_OP_COUNT] = {
    [KAS_OP_GROUP... KAS_OP_SHUFFLE] = &kas_eval_rearrange,
    [KAS_OP_SLICE] = &kas_eval_slice,
    [KAS_OP_CONCAT] = &kas_eval_concat,
    [KAS_OP_FC] = &kas_eval_fc,
    [KAS_OP_CONV] = &kas_eval_conv,
    [KAS_OP_CONV_DEPTHWISE] = &kas_eval_conv,
    [KAS_OP_MIX] = &kas_eval_mix,
    [KAS_OP_SCALE] = &kas_eval_scale,
    [KAS_OP_RELU... KAS_OP_SQUARE] = &kas_eval_elementwise,
    [KAS_OP_FOLD_AVG] = &kas_eval_fold,
    [KAS_OP_FOLD_MAX] = &kas_eval_fold,
    [KAS_OP_SOFTMAX] = &kas_eval_softmax,
    [KAS_OP_NORM] = &kas_eval_norm,
    [KAS_OP_POOL_AVG] = &kas_eval_pool,
    [KAS_OP_POOL_MAX] = &kas_eval_pool,
    [KAS_OP_BMM] = &kas_eval_bmm,
    [KAS_OP_ADD... KAS_OP_MAX] = &kas_eval_broadcast,
};

const kas_ref_op *kas_ref_op_get(kas_op op)
{
    return rules[op];
}
