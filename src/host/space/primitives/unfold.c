#include "host/space/primitive.h"

/* Appends a tap dim for every axis of the window, H's first. */
kas_status kas_infer_unfold(kas_kernel *kernel, int i)
{
    kas_node *node = &kernel->node[i];
    kas_shape *shape = &node->shape;
    KAS_TRY(kas_window_check(kernel, i));
    *shape = *kas_node_input(kernel, i, 0);
    for (int axis = KAS_AXIS_H; axis <= KAS_AXIS_W; axis++) {
        kas_dim taps = kas_node_window(node, axis);
        if ((node->axes & axis) && kas_shape_insert(shape, shape->channels, &taps, false) != KAS_OK)
            return kas_node_fail(kernel, i, "the result would have more than 8 channel dims");
    }
    return KAS_OK;
}
