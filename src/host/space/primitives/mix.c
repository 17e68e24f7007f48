#include "host/space/primitive.h"

/* The new dim takes the place of those that are contracted; it is no group dim. */
kas_status kas_infer_mix(kas_kernel *kernel, int i)
{
    kas_node *node = &kernel->node[i];
    KAS_TRY(kas_range_check(kernel, i, false));
    if (node->out.num == 0 || node->out.den == 0)
        return kas_node_fail(kernel, i, "no output size");
    node->shape = *kas_node_input(kernel, i, 0);
    for (int d = node->dim; d < node->dim_end; d++)
        kas_shape_remove(&node->shape, node->dim);
    return kas_shape_insert(&node->shape, node->dim, &node->out, false);
}

kas_status kas_weight_mix(const kas_kernel *kernel, int i, kas_weight_dims *out)
{
    out->init = KAS_WEIGHT_NORMAL;
    out->groups = kas_dim_const(1);
    out->fan_out = kernel->node[i].out;
    return kas_range_size(kernel, i, &out->fan_in);
}
