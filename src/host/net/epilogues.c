#include "host/net/epilogues.h"

kas_activation kas_layer_activation(kas_layer_op op)
{
    static const kas_activation kinds[KAS_LAYER_OPS] = {
        [KAS_LAYER_RELU] = KAS_ACTIVATION_RELU,
        [KAS_LAYER_RELU6] = KAS_ACTIVATION_RELU6,
        [KAS_LAYER_SIGMOID] = KAS_ACTIVATION_SIGMOID,
        [KAS_LAYER_HARD_SIGMOID] = KAS_ACTIVATION_HARD_SIGMOID,
        [KAS_LAYER_SILU] = KAS_ACTIVATION_SILU,
        [KAS_LAYER_HARD_SWISH] = KAS_ACTIVATION_HARD_SWISH,
        [KAS_LAYER_GELU] = KAS_ACTIVATION_GELU,
    };
    return kinds[op];
}

/* Returns the only layer that reads layer i's output, if that is its first input; otherwise -1. */
static int only_reader(const kas_net *net, int i)
{
    int reader = -1;
    for (int k = i + 1; k < net->layers; k++)
        for (int n = 0; n < net->layer[k].inputs; n++) {
            if (net->layer[k].in[n] != i)
                continue;
            if (reader >= 0 || n > 0)
                return -1;
            reader = k;
        }
    return reader;
}

static bool is(const kas_net *net, int i, kas_layer_op op)
{
    return i >= 0 && net->layer[i].op == op;
}

kas_norm_group kas_net_norm_group(const kas_net *net, int norm)
{
    kas_norm_group g = {.norm = norm, .sum = -1, .last = norm, .epilogue = {.norm = true}};
    int next = only_reader(net, norm);
    if (is(net, next, KAS_LAYER_ADD)) {
        g.sum = g.last = next;
        g.epilogue.residual = true;
        next = only_reader(net, next);
        if (!is(net, next, KAS_LAYER_RELU))
            return g;
    }
    if (next >= 0 && kas_layer_activation(net->layer[next].op) != KAS_ACTIVATION_NONE) {
        g.last = next;
        g.epilogue.activation = kas_layer_activation(net->layer[next].op);
    }
    return g;
}

kas_norm_group kas_net_group_behind(const kas_net *net, int layer)
{
    const int reader = only_reader(net, layer);
    if (!is(net, reader, KAS_LAYER_BATCH_NORM))
        return (kas_norm_group){.norm = -1, .sum = -1, .last = -1};
    return kas_net_norm_group(net, reader);
}
