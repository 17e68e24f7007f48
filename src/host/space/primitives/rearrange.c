/* group, group_all, shift, unfold, shuffle: values move and none is made. */
#include "host/space/primitive.h"

static kas_status check_channel_dim(const kas_kernel *kernel, int i, const kas_shape *input)
{
    int dim = kernel->node[i].dim;
    if (dim < 0 || dim >= input->channels)
        return kas_node_fail(kernel, i, "dim %d is not one of the input's %d channel dims", dim,
                             input->channels);
    return KAS_OK;
}

static kas_status check_group_symbol(const kas_kernel *kernel, int i)
{
    if (kernel->node[i].symbol < KAS_MAX_GROUPS)
        return KAS_OK;
    return kas_node_fail(kernel, i, "group symbol %d; there are G0 to G%d", kernel->node[i].symbol,
                         KAS_MAX_GROUPS - 1);
}

/* X -> G, X/G. The mark of X stays on X/G; G is a group dim. */
kas_status kas_infer_group(kas_kernel *kernel, int i)
{
    kas_node *node = &kernel->node[i];
    const kas_shape *input = kas_node_input(kernel, i, 0);
    KAS_TRY(check_channel_dim(kernel, i, input));
    KAS_TRY(check_group_symbol(kernel, i));
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

/* A dim of G groups and X/G in each becomes one of X/G groups and G in each: the same size. */
kas_status kas_infer_shuffle(kas_kernel *kernel, int i)
{
    kas_node *node = &kernel->node[i];
    const kas_shape *input = kas_node_input(kernel, i, 0);
    kas_dim rest;
    KAS_TRY(check_channel_dim(kernel, i, input));
    KAS_TRY(check_group_symbol(kernel, i));
    KAS_TRY(kas_divisor_shuffle(kernel, i, &rest));
    if (kas_dim_is_one(&input->channel[node->dim]) || kas_dim_is_one(&rest))
        return kas_node_fail(kernel, i, "dim %d has nothing to shuffle", node->dim);
    node->shape = *input;
    return KAS_OK;
}

/* Channels in a group. */
kas_status kas_divisor_shuffle(const kas_kernel *kernel, int i, kas_dim *out)
{
    const kas_dim group = kas_dim_symbol((kas_symbol)(KAS_SYM_G0 + kernel->node[i].symbol));
    if (!kas_dim_div(&kas_node_input(kernel, i, 0)->channel[kernel->node[i].dim], &group, out))
        return kas_node_fail(kernel, i, "the channels in a group leave their range");
    return KAS_OK;
}
