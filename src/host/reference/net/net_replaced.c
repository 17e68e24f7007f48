#include "host/reference/net/net_replaced.h"

#include <stdlib.h>

#include "host/reference/kernel/evaluate.h"

int kas_ref_replaced_target(const kas_ref_net *net, int layer)
{
    return kas_replacement_at(net->replaced, layer);
}

kas_status kas_ref_replaced_weight_shape(const kas_ref_net *net, int target, int node,
                                         uint64_t shape[4])
{
    const kas_replacement *r = net->replaced;
    const kas_target *t = &r->target[target];
    kas_ref_node n;
    KAS_TRY(kas_ref_node_make(kas_replacement_kernel(r, target), node, &r->solution.binding[target],
                              &n));
    shape[0] = (uint64_t)t->parts_in * t->parts_out;
    shape[1] = n.groups;
    shape[2] = n.fan_out;
    shape[3] = n.fan_in;
    return KAS_OK;
}

/* Returns the pool that takes the stride: windows side by side. */
static kas_ref_pool stride_pool(const kas_target *t)
{
    int s = (int)t->stride;
    return (kas_ref_pool){.kernel_h = s, .kernel_w = s, .stride = s};
}

/* Returns whether the stride is taken before the kernel. */
static bool pools(const kas_ref_net *net, int target)
{
    return net->replaced->target[target].stride > 1 &&
           !kas_replacement_kernel(net->replaced, target)->stride_inside;
}

static kas_status prepare(const kas_ref_net *net, int target, int n, kas_ref_replaced *kept)
{
    const kas_replacement *r = net->replaced;
    const kas_target *t = &r->target[target];
    size_t size = (size_t)n * t->c_in * t->h * t->w;
    KAS_TRY(kas_reference_create(kas_replacement_kernel(r, target), t, &r->solution.binding[target],
                                 n, &kept->ref));
    if (!pools(net, target))
        return KAS_OK;
    kept->pooled = malloc(size * sizeof(double));
    kept->dpooled = malloc(size * sizeof(double));
    if (!kept->pooled || !kept->dpooled)
        return kas_fail(KAS_NO_MEMORY, "reference: no memory for the pool before %s", t->name);
    return KAS_OK;
}

kas_status kas_ref_replaced_forward(const kas_ref_net *net, int layer, int n, const double *x,
                                    double *y, kas_ref_replaced *kept)
{
    int target = kas_ref_replaced_target(net, layer);
    const kas_target *t = &net->replaced->target[target];
    const kas_layer *in = &net->net->layer[net->net->layer[layer].in[0]];
    const double *weight[KAS_MAX_NODES];
    kas_ref_pool pool = stride_pool(t);
    if (!kept->ref)
        KAS_TRY(prepare(net, target, n, kept));
    const int weights = kas_reference_weights(kept->ref);
    for (int i = 0; i < weights; i++)
        weight[i] = kas_ref_net_param(net, layer, i)->value;
    const kas_ref_param *gain = kas_ref_net_param(net, layer, weights);
    if (gain)
        kas_reference_set_gain(kept->ref, gain->value[0]);
    if (pools(net, target))
        kas_ref_avg_pool_forward(&pool, n, in->c, in->h, in->w, (int)t->h, (int)t->w, x,
                                 kept->pooled);
    return kas_reference_forward(kept->ref, pools(net, target) ? kept->pooled : x, weight, y);
}

kas_status kas_ref_replaced_backward(const kas_ref_net *net, int layer, int n, const double *dy,
                                     double *dx, kas_ref_replaced *kept)
{
    const int target = kas_ref_replaced_target(net, layer);
    const kas_target *t = &net->replaced->target[target];
    const kas_layer *in = &net->net->layer[net->net->layer[layer].in[0]];
    double *dweight[KAS_MAX_NODES];
    kas_ref_pool pool = stride_pool(t);
    for (int i = 0; i < kas_reference_weights(kept->ref); i++)
        dweight[i] = kas_ref_net_param(net, layer, i)->grad;
    if (!pools(net, target))
        return kas_reference_backward(kept->ref, dy, dx, dweight);
    KAS_TRY(kas_reference_backward(kept->ref, dy, kept->dpooled, dweight));
    kas_ref_avg_pool_backward(&pool, n, in->c, in->h, in->w, (int)t->h, (int)t->w, kept->dpooled,
                              dx);
    return KAS_OK;
}

void kas_ref_replaced_free(kas_ref_replaced *kept)
{
    kas_reference_free(kept->ref);
    free(kept->pooled);
    free(kept->dpooled);
    *kept = (kas_ref_replaced){0};
}
