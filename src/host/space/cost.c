#include "host/space/cost.h"

#include "host/space/primitive.h"

kas_status kas_cost_add(kas_cost_terms *terms, kas_cost_kind kind, const kas_dim *size)
{
    if (terms->count == KAS_MAX_COST_TERMS)
        return kas_fail(KAS_ILLEGAL, "the cost of a kernel has more than %d terms",
                        KAS_MAX_COST_TERMS);
    terms->term[terms->count++] = (kas_cost_term){kind, *size};
    return KAS_OK;
}

static kas_status elements_of(const kas_kernel *kernel, int i, const kas_shape *shape, kas_dim *out)
{
    if (!kas_shape_size(shape, out))
        return kas_node_fail(kernel, i, "the number of elements leaves its range");
    return KAS_OK;
}

kas_status kas_cost_result(const kas_kernel *kernel, int i, kas_cost_terms *terms)
{
    (void)kernel, (void)i;
    return kas_cost_add(terms, KAS_COST_FLOPS, &terms->elements);
}

kas_status kas_cost_input(const kas_kernel *kernel, int i, kas_cost_terms *terms)
{
    kas_dim elements;
    KAS_TRY(elements_of(kernel, i, kas_node_input(kernel, i, 0), &elements));
    return kas_cost_add(terms, KAS_COST_FLOPS, &elements);
}

static kas_status add_node(const kas_kernel *kernel, int i, kas_cost_terms *terms)
{
    const kas_primitive *primitive = kas_primitive_get(kernel->node[i].op);
    KAS_TRY(elements_of(kernel, i, &kernel->node[i].shape, &terms->elements));
    KAS_TRY(kas_cost_add(terms, KAS_COST_TENSOR, &terms->elements));
    return primitive->cost ? primitive->cost(kernel, i, terms) : KAS_OK;
}

kas_status kas_cost_terms_of_node(const kas_kernel *kernel, int i, kas_cost_terms *out)
{
    out->count = 0;
    return add_node(kernel, i, out);
}

kas_status kas_cost_terms_of(const kas_kernel *kernel, kas_cost_terms *out)
{
    out->count = 0;
    for (int i = 0; i < kernel->nodes; i++)
        KAS_TRY(add_node(kernel, i, out));
    return KAS_OK;
}

kas_status kas_kernel_cost(const kas_kernel *kernel, const kas_binding *binding, kas_cost *out)
{
    kas_cost_terms terms;
    *out = (kas_cost){0};
    KAS_TRY(kas_kernel_check_binding(kernel, binding));
    KAS_TRY(kas_cost_terms_of(kernel, &terms));
    for (int i = 0; i < terms.count; i++)
        kas_cost_count(out, terms.term[i].kind, kas_dim_number(&terms.term[i].size, binding));
    return KAS_OK;
}

kas_status kas_layer_cost(const kas_kernel *kernel, const kas_target *target,
                          const kas_binding *binding, kas_cost *out)
{
    KAS_TRY(kas_kernel_cost(kernel, binding, out));
    double instances = (double)target->parts_in * target->parts_out;
    out->flops = out->flops * instances + kas_target_fixed_flops(target, kernel->stride_inside);
    out->params *= instances;
    out->largest_tensor *= instances;
    out->largest_weight *= instances;
    return KAS_OK;
}
