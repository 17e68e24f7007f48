/* Computes the FLOPs and parameters of networks and layers. */
#include "host/net/net.h"

static double elements(const kas_layer *l)
{
    return (double)l->h * l->w * l->c;
}

/* Returns the first input, or the layer itself for INPUT, which has none. */
static const kas_layer *input_of(const kas_net *net, const kas_layer *l)
{
    return l->inputs > 0 ? &net->layer[l->in[0]] : l;
}

/* Returns the number of weights, without biases. */
static double weights(const kas_net *net, const kas_layer *l)
{
    const kas_layer *in = input_of(net, l);
    if (l->op == KAS_LAYER_CONV)
        return (double)l->kernel_h * l->kernel_w * (in->c / l->groups) * l->c;
    return l->op == KAS_LAYER_LINEAR ? (double)in->c * l->c : 0;
}

double kas_layer_multiply_adds(const kas_net *net, int i)
{
    const kas_layer *l = &net->layer[i];
    return weights(net, l) * l->h * l->w; /* 1 x 1 for linear layers */
}

double kas_layer_flops(const kas_net *net, int i)
{
    const kas_layer *l = &net->layer[i];
    switch (l->op) {
    case KAS_LAYER_CONV:
    case KAS_LAYER_LINEAR:
        return kas_layer_multiply_adds(net, i) + (l->bias ? elements(l) : 0);
    case KAS_LAYER_AVG_POOL:
    case KAS_LAYER_MAX_POOL:
    case KAS_LAYER_GLOBAL_AVG_POOL:
    case KAS_LAYER_ADAPTIVE_AVG_POOL:
        return elements(input_of(net, l));
    case KAS_LAYER_INPUT:
    case KAS_LAYER_SHORTCUT_A:
    case KAS_LAYER_CONCAT:
    case KAS_LAYER_FLATTEN:
    case KAS_LAYER_DROPOUT:
        return 0;
    default:
        return elements(l);
    }
}

bool kas_layer_has_weights(kas_layer_op op)
{
    return op == KAS_LAYER_CONV || op == KAS_LAYER_LINEAR || op == KAS_LAYER_BATCH_NORM ||
           op == KAS_LAYER_LAYER_NORM;
}

double kas_layer_params(const kas_net *net, int i)
{
    const kas_layer *l = &net->layer[i];
    if (l->op == KAS_LAYER_BATCH_NORM || l->op == KAS_LAYER_LAYER_NORM)
        return 2.0 * l->c;
    return weights(net, l) + (l->bias ? l->c : 0);
}

static double sum(const kas_net *net, double (*of_layer)(const kas_net *net, int layer))
{
    double total = 0;
    for (int i = 0; i < net->layers; i++)
        total += of_layer(net, i);
    return total;
}

double kas_net_flops(const kas_net *net)
{
    return sum(net, kas_layer_flops);
}

double kas_net_params(const kas_net *net)
{
    return sum(net, kas_layer_params);
}

double kas_net_multiply_adds(const kas_net *net)
{
    return sum(net, kas_layer_multiply_adds);
}
