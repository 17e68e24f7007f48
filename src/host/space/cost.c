#include "host/space/primitive.h"
#include "host/space/solve.h"

kas_status kas_cost_result(const kas_kernel *kernel, int i, const kas_binding *binding,
                           kas_cost *cost)
{
    double elements;
    KAS_TRY(kas_shape_elements(&kernel->node[i].shape, binding, &elements));
    cost->flops += elements;
    return KAS_OK;
}

kas_status kas_cost_input(const kas_kernel *kernel, int i, const kas_binding *binding,
                          kas_cost *cost)
{
    double elements;
    KAS_TRY(kas_shape_elements(kas_node_input(kernel, i, 0), binding, &elements));
    cost->flops += elements;
    return KAS_OK;
}

kas_status kas_kernel_cost(const kas_kernel *kernel, const kas_binding *binding, kas_cost *out)
{
    *out = (kas_cost){0};
    for (int i = 0; i < kernel->nodes; i++) {
        const kas_primitive *primitive = kas_primitive_get(kernel->node[i].op);
        double elements;
        KAS_TRY(kas_shape_elements(&kernel->node[i].shape, binding, &elements));
        if (elements > out->largest_tensor)
            out->largest_tensor = elements;
        if (primitive->cost)
            KAS_TRY(primitive->cost(kernel, i, binding, out));
    }
    return KAS_OK;
}

kas_status kas_layer_cost(const kas_kernel *kernel, const kas_target *target,
                          const kas_binding *binding, kas_cost *out)
{
    const kas_target *t = target;
    double instances = (double)t->parts_in * t->parts_out;
    KAS_TRY(kas_kernel_cost(kernel, binding, out));
    out->flops *= instances;
    out->params *= instances;
    out->largest_tensor *= instances;
    out->largest_weight *= instances;
    if (t->parts_in > 1)
        out->flops += (double)t->parts_in * t->c_out * t->h * t->w;
    if (t->stride > 1)
        out->flops += (double)t->c_in * ((double)t->h * t->stride) * ((double)t->w * t->stride);
    return KAS_OK;
}
