#include "host/space/primitive.h"

kas_status kas_infer_shift(kas_kernel *kernel, int i)
{
    kas_node *node = &kernel->node[i];
    const kas_shape *input = kas_node_input(kernel, i, 0);
    if (node->axes != KAS_AXIS_H && node->axes != KAS_AXIS_W)
        return kas_node_fail(kernel, i, "axes must be one of h and w");
    if (!kas_shape_has(input, node->axes))
        return kas_node_fail(kernel, i, "the input has no %s dim any more",
                             node->axes == KAS_AXIS_H ? "H" : "W");
    if (node->offset == 0)
        return kas_node_fail(kernel, i, "offset 0 would change nothing");
    if (node->offset < -KAS_MAX_SHIFT || node->offset > KAS_MAX_SHIFT)
        return kas_node_fail(kernel, i, "offset %d; -%d to %d are possible", node->offset,
                             KAS_MAX_SHIFT, KAS_MAX_SHIFT);
    node->shape = *input;
    return KAS_OK;
}
