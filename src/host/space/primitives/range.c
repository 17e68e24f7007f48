/* Ranges [dim, dim_end) of the operand's dims, for primitives that work along several dims. */
#include "host/space/primitive.h"

kas_status kas_range_check(const kas_kernel *kernel, int i, bool spatial)
{
    const kas_node *node = &kernel->node[i];
    const kas_shape *input = kas_node_input(kernel, i, 0);
    int count = spatial ? kas_shape_rank(input) : input->channels;
    if (node->dim < 0 || node->dim_end <= node->dim || node->dim_end > count)
        return kas_node_fail(kernel, i, "dims [%d, %d) are not among the input's %d %sdims",
                             node->dim, node->dim_end, count, spatial ? "" : "channel ");
    return KAS_OK;
}

kas_status kas_range_size(const kas_kernel *kernel, int i, kas_dim *out)
{
    const kas_node *node = &kernel->node[i];
    *out = kas_dim_const(1);
    for (int d = node->dim; d < node->dim_end; d++) {
        kas_dim dim = kas_shape_dim(kas_node_input(kernel, i, 0), d);
        if (!kas_dim_mul(out, &dim, out))
            return kas_node_fail(kernel, i, "the product of dims [%d, %d) leaves its range",
                                 node->dim, node->dim_end);
    }
    return KAS_OK;
}
