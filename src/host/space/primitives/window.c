/* Windows over H and W, for primitives that look at neighbours. */
#include "host/space/primitive.h"

kas_dim kas_node_window(const kas_node *node, int axis)
{
    if (!(node->axes & axis))
        return kas_dim_const(1);
    if (node->kernel)
        return kas_dim_const(node->kernel);
    return kas_dim_symbol(axis == KAS_AXIS_H ? KAS_SYM_KH : KAS_SYM_KW);
}

int kas_node_dilation(const kas_node *node)
{
    return node->dilation ? node->dilation : 1;
}

kas_status kas_window_check(kas_kernel *kernel, int i)
{
    kas_node *node = &kernel->node[i];
    const kas_shape *input = kas_node_input(kernel, i, 0);
    if (node->axes == 0 || node->axes > (KAS_AXIS_H | KAS_AXIS_W))
        return kas_node_fail(kernel, i, "axes must be h, w or hw");
    for (int axis = KAS_AXIS_H; axis <= KAS_AXIS_W; axis++)
        if ((node->axes & axis) && !kas_shape_has(input, axis))
            return kas_node_fail(kernel, i, "the input does not have the axis any more");
    if (node->kernel != 0 && node->kernel != 3 && node->kernel != 5 && node->kernel != 7)
        return kas_node_fail(kernel, i,
                             "kernel %d; 3, 5, 7 or none (the size of the convolution that is "
                             "replaced) are possible",
                             node->kernel);
    if (node->dilation > KAS_MAX_DILATION)
        return kas_node_fail(kernel, i, "dilation %d; 1 to %d are possible", node->dilation,
                             KAS_MAX_DILATION);
    if (node->dilation == 1)
        node->dilation = 0;
    return KAS_OK;
}
