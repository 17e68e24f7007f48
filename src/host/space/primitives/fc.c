#include <string.h>

#include "host/space/primitive.h"

/* Computes two products of channel dims of an FC's input: of the dims that it keeps apart (the
 * group dims, if `grouped`), and of the dims that it contracts. */
static kas_status contracted_dims(const kas_kernel *kernel, int i, kas_dim *groups, kas_dim *fan_in)
{
    const kas_shape *input = kas_node_input(kernel, i, 0);
    bool grouped = kernel->node[i].grouped;
    *groups = *fan_in = kas_dim_const(1);
    for (int d = 0; d < input->channels; d++) {
        kas_dim *product = grouped && input->is_group[d] ? groups : fan_in;
        if (!kas_dim_mul(product, &input->channel[d], product))
            return kas_node_fail(kernel, i, "the contracted size leaves its range");
    }
    return KAS_OK;
}

/* The new dim replaces every channel dim; it is no group dim, whatever was contracted. */
kas_status kas_infer_fc(kas_kernel *kernel, int i)
{
    kas_node *node = &kernel->node[i];
    const kas_shape *input = kas_node_input(kernel, i, 0);
    kas_dim groups, fan_in;
    bool has_group = false;
    for (int d = 0; d < input->channels; d++)
        has_group |= input->is_group[d];
    if (node->grouped > 1)
        return kas_node_fail(kernel, i, "grouped must be 0 or 1");
    if (node->grouped && !has_group)
        return kas_node_fail(kernel, i, "grouped, but the input has no group dim");
    if (node->out.num == 0 || node->out.den == 0)
        return kas_node_fail(kernel, i, "no output size");
    KAS_TRY(contracted_dims(kernel, i, &groups, &fan_in));
    if (kas_dim_var(&groups) >= 0)
        return kas_node_fail(kernel, i, "a group dim has a dynamic variable");
    node->shape.channels = 1;
    node->shape.channel[0] = node->out;
    memcpy(node->shape.spatial, input->spatial, sizeof input->spatial);
    return KAS_OK;
}

kas_status kas_weight_fc(const kas_kernel *kernel, int i, kas_weight_dims *out)
{
    out->init = KAS_WEIGHT_NORMAL;
    KAS_TRY(contracted_dims(kernel, i, &out->groups, &out->fan_in));
    if (!kas_dim_div(&kernel->node[i].out, &out->groups, &out->fan_out))
        return kas_node_fail(kernel, i, "the outputs of a group leave their range");
    return KAS_OK;
}
