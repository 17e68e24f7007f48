#include "host/space/primitive.h"

static kas_status append(kas_kernel *kernel, int i, kas_symbol symbol)
{
    kas_shape *shape = &kernel->node[i].shape;
    kas_dim size = kas_dim_symbol(symbol);
    if (kas_shape_insert(shape, shape->channels, &size, false) != KAS_OK)
        return kas_node_fail(kernel, i, "the result would have more than 8 channel dims");
    return KAS_OK;
}

kas_status kas_infer_unfold(kas_kernel *kernel, int i)
{
    kas_node *node = &kernel->node[i];
    const kas_shape *input = kas_node_input(kernel, i, 0);
    if (node->axes == 0 || node->axes > (KAS_AXIS_H | KAS_AXIS_W))
        return kas_node_fail(kernel, i, "axes must be h, w or hw");
    if (((node->axes & KAS_AXIS_H) && !input->has_h) ||
        ((node->axes & KAS_AXIS_W) && !input->has_w))
        return kas_node_fail(kernel, i, "the input does not have the axis any more");
    node->shape = *input;
    if (node->axes & KAS_AXIS_H)
        KAS_TRY(append(kernel, i, KAS_SYM_KH));
    if (node->axes & KAS_AXIS_W)
        KAS_TRY(append(kernel, i, KAS_SYM_KW));
    return KAS_OK;
}
