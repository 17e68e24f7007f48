#include "host/space/primitive.h"

static kas_status check_channel_dim(const kas_kernel *kernel, int i, const kas_shape *input)
{
    int dim = kernel->node[i].dim;
    if (dim < 0 || dim >= input->channels)
        return kas_node_fail(kernel, i, "dim %d is not one of the input's %d channel dims", dim,
                             input->channels);
    return KAS_OK;
}

/* X -> G, X/G. The mark of X stays on X/G; G is a group dim. */
kas_status kas_infer_group(kas_kernel *kernel, int i)
{
    kas_node *node = &kernel->node[i];
    const kas_shape *input = kas_node_input(kernel, i, 0);
    KAS_TRY(check_channel_dim(kernel, i, input));
    if (node->symbol >= KAS_MAX_GROUPS)
        return kas_node_fail(kernel, i, "group symbol %d; there are G0 to G%d", node->symbol,
                             KAS_MAX_GROUPS - 1);
    if (kas_dim_is_one(&input->channel[node->dim]))
        return kas_node_fail(kernel, i, "dim %d has size 1: nothing to group", node->dim);
    kas_dim group = kas_dim_symbol((kas_symbol)(KAS_SYM_G0 + node->symbol));
    node->shape = *input;
    if (!kas_dim_div(&input->channel[node->dim], &group, &node->shape.channel[node->dim]))
        return kas_node_fail(kernel, i, "the size of dim %d leaves its range", node->dim);
    if (kas_shape_insert(&node->shape, node->dim, &group, true) != KAS_OK)
        return kas_node_fail(kernel, i, "the result would have more than 8 channel dims");
    return KAS_OK;
}

/* X -> X, 1. */
kas_status kas_infer_group_all(kas_kernel *kernel, int i)
{
    kas_node *node = &kernel->node[i];
    const kas_shape *input = kas_node_input(kernel, i, 0);
    KAS_TRY(check_channel_dim(kernel, i, input));
    if (kas_dim_var(&input->channel[node->dim]) >= 0)
        return kas_node_fail(kernel, i,
                             "dim %d has a dynamic variable: its groups would have no "
                             "fixed number",
                             node->dim);
    if (input->is_group[node->dim])
        return kas_node_fail(kernel, i, "dim %d is a group dim already", node->dim);
    kas_dim one = kas_dim_const(1);
    node->shape = *input;
    node->shape.is_group[node->dim] = 1;
    if (kas_shape_insert(&node->shape, node->dim + 1, &one, false) != KAS_OK)
        return kas_node_fail(kernel, i, "the result would have more than 8 channel dims");
    return KAS_OK;
}
