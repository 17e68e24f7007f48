#include "host/space/primitive.h"

kas_status kas_infer_fold(kas_kernel *kernel, int i)
{
    kas_node *node = &kernel->node[i];
    const kas_shape *input = kas_node_input(kernel, i, 0);
    int rank = kas_shape_rank(input);
    if (node->dim < 0 || node->dim >= rank)
        return kas_node_fail(kernel, i, "dim %d is not one of the input's %d dims", node->dim,
                             rank);
    node->shape = *input;
    kas_shape_remove(&node->shape, node->dim);
    return KAS_OK;
}
