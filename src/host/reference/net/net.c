/* Parameters of a whole network in float64, and the optimiser. */
#include "host/reference/net/layers.h"
#include "host/reference/net/net_replaced.h"
#include "host/space/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    int rank;
    uint64_t dim[4];
} shape;

static kas_status add_param(kas_ref_net *net, int layer, const char *suffix, shape shape,
                            double fill, bool learned)
{
    kas_ref_param *p = &net->param[net->params];
    snprintf(p->name, sizeof p->name, "%s.%s", net->net->layer[layer].name, suffix);
    p->layer = layer;
    p->rank = shape.rank;
    p->size = 1;
    for (int i = 0; i < shape.rank; i++)
        p->size *= p->shape[i] = shape.dim[i];
    p->value = malloc(p->size * sizeof *p->value);
    p->grad = learned ? calloc(p->size, sizeof *p->grad) : NULL;
    net->params++; /* counted before the check, so that free sees what was allocated */
    if (!p->value || (learned && !p->grad))
        return kas_fail(KAS_NO_MEMORY, "reference network: no memory for %s", p->name);
    for (size_t i = 0; i < p->size; i++)
        p->value[i] = fill;
    return KAS_OK;
}

static kas_status add_kernel(kas_ref_net *net, int i, int target)
{
    const kas_kernel *kernel = kas_replacement_kernel(net->replaced, target);
    int number = 0;
    for (int k = 0; k < kernel->nodes; k++) {
        char suffix[24];
        shape shape = {.rank = 4};
        kas_weight_dims dims;
        if (!kas_op_has_weight((kas_op)kernel->node[k].op))
            continue;
        snprintf(suffix, sizeof suffix, "weight%d", number++);
        KAS_TRY(kas_ref_replaced_weight_shape(net, target, k, shape.dim));
        KAS_TRY(add_param(net, i, suffix, shape, 0, true));
        KAS_TRY(kas_weight_dims_of(kernel, k, &dims));
        net->param[net->params - 1].init = dims.init;
    }
    const shape one = {1, {1}};
    return kas_replacement_scales(net->replaced)
               ? add_param(net, i, "gain", one, kas_replacement_gain(net->replaced, target), false)
               : KAS_OK;
}

static kas_status add_batch_norm(kas_ref_net *net, int i, uint64_t c)
{
    shape shape = {1, {c}};
    KAS_TRY(add_param(net, i, "weight", shape, 1, true));
    KAS_TRY(add_param(net, i, "bias", shape, 0, true));
    KAS_TRY(add_param(net, i, "running_mean", shape, 0, false));
    return add_param(net, i, "running_var", shape, 1, false);
}

static kas_status add_layer(kas_ref_net *net, int i)
{
    const kas_layer *l = &net->net->layer[i];
    const kas_layer *in = l->inputs > 0 ? &net->net->layer[l->in[0]] : l;
    uint64_t c = (uint64_t)l->c, c_in = (uint64_t)in->c;
    const shape channels = {1, {c}};
    int target = kas_ref_replaced_target(net, i);
    if (target >= 0)
        return add_kernel(net, i, target);
    switch (l->op) {
    case KAS_LAYER_CONV: {
        const shape filters = {4, {c, c_in / l->groups, l->kernel_h, l->kernel_w}};
        KAS_TRY(add_param(net, i, "weight", filters, 0, true));
        return l->bias ? add_param(net, i, "bias", channels, 0, true) : KAS_OK;
    }
    case KAS_LAYER_BATCH_NORM:
        return add_batch_norm(net, i, c);
    case KAS_LAYER_LAYER_NORM:
        KAS_TRY(add_param(net, i, "weight", channels, 1, true));
        return add_param(net, i, "bias", channels, 0, true);
    case KAS_LAYER_LINEAR:
        KAS_TRY(add_param(net, i, "weight", (shape){2, {c, c_in}}, 0, true));
        return l->bias ? add_param(net, i, "bias", channels, 0, true) : KAS_OK;
    default:
        return KAS_OK;
    }
}

static int most_params(const kas_net *net, const kas_replacement *replacement)
{
    int params = 4 * net->layers;
    for (int t = 0; replacement && t < replacement->solution.targets; t++) {
        const kas_kernel *kernel = kas_replacement_kernel(replacement, t);
        params += kernel ? kas_kernel_weights(kernel) + 1 : 0;
    }
    return params;
}

kas_status kas_ref_net_create_replaced(const kas_net *net, const kas_replacement *replacement,
                                       kas_ref_net **out)
{
    kas_status status = KAS_OK;
    kas_ref_net *result = calloc(1, sizeof *result);
    if (!result)
        return kas_fail(KAS_NO_MEMORY, "reference network: no memory");
    result->net = net;
    result->replaced = replacement;
    result->param = calloc((size_t)most_params(net, replacement), sizeof *result->param);
    if (!result->param) {
        status = kas_fail(KAS_NO_MEMORY, "reference network: no memory");
        goto fail;
    }
    for (int i = 0; i < net->layers; i++)
        KAS_TRY_GOTO(add_layer(result, i), fail);
    *out = result;
    return KAS_OK;
fail:
    kas_ref_net_free(result);
    return status;
}

kas_status kas_ref_net_create(const kas_net *net, kas_ref_net **out)
{
    return kas_ref_net_create_replaced(net, NULL, out);
}

void kas_ref_net_free(kas_ref_net *net)
{
    if (!net)
        return;
    for (int i = 0; i < net->params; i++) {
        free(net->param[i].value);
        free(net->param[i].grad);
    }
    free(net->param);
    free(net);
}

kas_ref_param *kas_ref_net_param(const kas_ref_net *net, int layer, int which)
{
    for (int i = 0; i < net->params; i++)
        if (net->param[i].layer == layer && which-- == 0)
            return &net->param[i];
    return NULL;
}

kas_ref_param *kas_ref_net_find(const kas_ref_net *net, const char *name)
{
    for (int i = 0; i < net->params; i++)
        if (strcmp(net->param[i].name, name) == 0)
            return &net->param[i];
    return NULL;
}
