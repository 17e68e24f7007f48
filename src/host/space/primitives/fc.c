#include "host/space/primitive.h"

kas_status kas_fc_dims(const kas_kernel *kernel, int i, kas_dim *groups, kas_dim *fan_in)
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
    KAS_TRY(kas_fc_dims(kernel, i, &groups, &fan_in));
    if (kas_dim_var(&groups) >= 0)
        return kas_node_fail(kernel, i, "a group dim has a dynamic variable");
    node->shape.channels = 1;
    node->shape.channel[0] = node->out;
    node->shape.has_h = input->has_h;
    node->shape.has_w = input->has_w;
    return KAS_OK;
}

/* Outputs per group. */
kas_status kas_divisor_fc(const kas_kernel *kernel, int i, kas_dim *out)
{
    kas_dim groups, fan_in;
    KAS_TRY(kas_fc_dims(kernel, i, &groups, &fan_in));
    if (!kas_dim_div(&kernel->node[i].out, &groups, out))
        return kas_node_fail(kernel, i, "the outputs of a group leave their range");
    return KAS_OK;
}

static kas_status eval32(const kas_kernel *kernel, int i, const kas_binding *binding,
                         const kas_dim *dim, const char *what, uint32_t *out)
{
    uint64_t value;
    if (!kas_dim_eval(dim, binding, &value) || value > UINT32_MAX)
        return kas_node_fail(kernel, i, "%s is no integer below 2^32 at this target", what);
    *out = (uint32_t)value;
    return KAS_OK;
}

kas_status kas_fc_sizes_at(const kas_kernel *kernel, int node, const kas_binding *binding,
                           kas_fc_sizes *out)
{
    kas_dim groups, fan_in, fan_out;
    if (node < 0 || node >= kernel->nodes || kernel->node[node].op != KAS_OP_FC)
        return kas_fail(KAS_FAILURE, "node %d is not a fully-connected map", node);
    KAS_TRY(kas_fc_dims(kernel, node, &groups, &fan_in));
    KAS_TRY(kas_divisor_fc(kernel, node, &fan_out));
    KAS_TRY(eval32(kernel, node, binding, &groups, "the number of groups", &out->groups));
    KAS_TRY(eval32(kernel, node, binding, &fan_in, "the contracted size", &out->fan_in));
    return eval32(kernel, node, binding, &fan_out, "the number of outputs per group",
                  &out->fan_out);
}

kas_status kas_cost_fc(const kas_kernel *kernel, int i, const kas_binding *binding, kas_cost *cost)
{
    kas_fc_sizes sizes;
    double elements;
    KAS_TRY(kas_fc_sizes_at(kernel, i, binding, &sizes));
    KAS_TRY(kas_shape_elements(&kernel->node[i].shape, binding, &elements));
    double weight = (double)sizes.groups * sizes.fan_out * sizes.fan_in;
    cost->flops += elements * sizes.fan_in;
    cost->params += weight;
    if (weight > cost->largest_weight)
        cost->largest_weight = weight;
    return KAS_OK;
}
