#include "host/space/weights.h"

#include "host/space/primitive.h"

bool kas_op_has_weight(kas_op op)
{
    const kas_primitive *primitive = kas_primitive_get((int)op);
    return primitive && primitive->weight;
}

int kas_kernel_weights(const kas_kernel *kernel)
{
    int count = 0;
    for (int i = 0; i < kernel->nodes; i++)
        count += kas_op_has_weight((kas_op)kernel->node[i].op);
    return count;
}

kas_status kas_weight_dims_of(const kas_kernel *kernel, int node, kas_weight_dims *out)
{
    if (node < 0 || node >= kernel->nodes || !kas_op_has_weight((kas_op)kernel->node[node].op))
        return kas_fail(KAS_FAILURE, "node %d has no weight", node);
    return kas_primitive_get(kernel->node[node].op)->weight(kernel, node, out);
}

static kas_status eval32(const kas_kernel *kernel, int i, const kas_binding *binding,
                         const kas_dim *dim, const char *what, uint32_t *out)
{
    uint64_t value;
    if (!kas_dim_eval(dim, binding, &value) || value > UINT32_MAX)
        return kas_node_fail(kernel, i, "%s is not an integer below 2^32 at this target", what);
    *out = (uint32_t)value;
    return KAS_OK;
}

kas_status kas_weight_sizes_at(const kas_kernel *kernel, int node, const kas_binding *binding,
                               kas_weight_sizes *out)
{
    kas_weight_dims dims;
    KAS_TRY(kas_weight_dims_of(kernel, node, &dims));
    out->init = dims.init;
    KAS_TRY(eval32(kernel, node, binding, &dims.groups, "the number of groups", &out->groups));
    KAS_TRY(eval32(kernel, node, binding, &dims.fan_in, "the contracted size", &out->fan_in));
    return eval32(kernel, node, binding, &dims.fan_out, "the number of outputs per group",
                  &out->fan_out);
}

/* Returns whether the size holds H or W, or a rest of a split whose whole does. */
static bool spans_image(const kas_kernel *kernel, const kas_dim *dim)
{
    bool spans = dim->exp[KAS_SYM_H] || dim->exp[KAS_SYM_W];
    for (int s = 0; s < KAS_MAX_SPLITS; s++)
        spans = spans || (dim->exp[KAS_SYM_R0 + s] && spans_image(kernel, &kernel->split[s].whole));
    return spans;
}

bool kas_weight_spans_image(const kas_kernel *kernel, int node)
{
    kas_weight_dims dims;
    return kas_op_has_weight((kas_op)kernel->node[node].op) &&
           kas_weight_dims_of(kernel, node, &dims) == KAS_OK &&
           (spans_image(kernel, &dims.groups) || spans_image(kernel, &dims.fan_out) ||
            spans_image(kernel, &dims.fan_in));
}

kas_status kas_divisor_weight(const kas_kernel *kernel, int i, kas_dim *out)
{
    kas_weight_dims dims;
    KAS_TRY(kas_weight_dims_of(kernel, i, &dims));
    *out = dims.fan_out;
    return KAS_OK;
}

/* The weight has groups * fan_out * fan_in elements; each element of the result adds up fan_in. */
kas_status kas_cost_weight(const kas_kernel *kernel, int i, kas_cost_terms *terms)
{
    kas_weight_dims dims;
    kas_dim weight, flops = terms->elements;
    KAS_TRY(kas_weight_dims_of(kernel, i, &dims));
    if (!kas_dim_mul(&flops, &dims.fan_in, &flops) ||
        !kas_dim_mul(&dims.groups, &dims.fan_out, &weight) ||
        !kas_dim_mul(&weight, &dims.fan_in, &weight))
        return kas_node_fail(kernel, i, "the size of the weight leaves its range");
    KAS_TRY(kas_cost_add(terms, KAS_COST_FLOPS, &flops));
    return kas_cost_add(terms, KAS_COST_WEIGHT, &weight);
}
