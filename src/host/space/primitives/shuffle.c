#include "host/space/primitive.h"

static kas_dim symbol_of(const kas_kernel *kernel, int i)
{
    return kas_dim_symbol((kas_symbol)(KAS_SYM_G0 + kernel->node[i].symbol));
}

/* A dim of G groups and X/G in each becomes one of X/G groups and G in each: the same size. */
kas_status kas_infer_shuffle(kas_kernel *kernel, int i)
{
    kas_node *node = &kernel->node[i];
    const kas_shape *input = kas_node_input(kernel, i, 0);
    kas_dim rest;
    if (node->dim < 0 || node->dim >= input->channels)
        return kas_node_fail(kernel, i, "dim %d is not one of the input's %d channel dims",
                             node->dim, input->channels);
    if (node->symbol >= KAS_MAX_GROUPS)
        return kas_node_fail(kernel, i, "group symbol %d; there are G0 to G%d", node->symbol,
                             KAS_MAX_GROUPS - 1);
    KAS_TRY(kas_divisor_shuffle(kernel, i, &rest));
    if (kas_dim_is_one(&input->channel[node->dim]) || kas_dim_is_one(&rest))
        return kas_node_fail(kernel, i, "dim %d has nothing to shuffle", node->dim);
    node->shape = *input;
    return KAS_OK;
}

/* Channels in a group. */
kas_status kas_divisor_shuffle(const kas_kernel *kernel, int i, kas_dim *out)
{
    const kas_dim group = symbol_of(kernel, i);
    if (!kas_dim_div(&kas_node_input(kernel, i, 0)->channel[kernel->node[i].dim], &group, out))
        return kas_node_fail(kernel, i, "the channels in a group leave their range");
    return KAS_OK;
}
