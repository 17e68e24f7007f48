#include "host/space/primitive.h"

kas_status kas_infer_softmax(kas_kernel *kernel, int i)
{
    kas_node *node = &kernel->node[i];
    const kas_shape *input = kas_node_input(kernel, i, 0);
    int rank = kas_shape_rank(input);
    if (node->dim < 0 || node->dim_end <= node->dim || node->dim_end > rank)
        return kas_node_fail(kernel, i, "dims [%d, %d) are no part of the input's %d dims",
                             node->dim, node->dim_end, rank);
    node->shape = *input;
    return KAS_OK;
}
