#include "host/space/primitive.h"

kas_status kas_infer_pool(kas_kernel *kernel, int i)
{
    KAS_TRY(kas_window_check(kernel, i));
    kernel->node[i].shape = *kas_node_input(kernel, i, 0);
    return KAS_OK;
}

/* The cost: one FLOP for each tap of each element, whether the tap lies in the image or not. */
kas_status kas_cost_pool(const kas_kernel *kernel, int i, kas_cost_terms *terms)
{
    const kas_node *node = &kernel->node[i];
    const kas_dim taps_h = kas_node_window(node, KAS_AXIS_H),
                  taps_w = kas_node_window(node, KAS_AXIS_W);
    kas_dim flops;
    if (!kas_shape_size(&node->shape, &flops) || !kas_dim_mul(&flops, &taps_h, &flops) ||
        !kas_dim_mul(&flops, &taps_w, &flops))
        return kas_node_fail(kernel, i, "the FLOPs leave their range");
    return kas_cost_add(terms, KAS_COST_FLOPS, &flops);
}
