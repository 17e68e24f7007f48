/* Which layers the trainer and the reference run; the others can be described and searched. */
#include "host/net/net.h"

static bool runs(const kas_net *net, const kas_layer *l)
{
    const kas_layer *in = l->inputs > 0 ? &net->layer[l->in[0]] : l;
    switch (l->op) {
    case KAS_LAYER_INPUT:
    case KAS_LAYER_BATCH_NORM:
    case KAS_LAYER_RELU:
    case KAS_LAYER_ADD:
    case KAS_LAYER_GLOBAL_AVG_POOL:
    case KAS_LAYER_SHORTCUT_A:
        return true;
    case KAS_LAYER_CONV:
        return !l->bias;
    case KAS_LAYER_LINEAR:
        return l->bias;
    case KAS_LAYER_AVG_POOL: /* windows side by side; one that the border cuts off counts */
        return l->kernel_h == l->stride && l->kernel_w == l->stride && !l->pad_h && !l->pad_w &&
               (l->ceil_mode || (in->h % l->stride == 0 && in->w % l->stride == 0));
    default:
        return false;
    }
}

kas_status kas_net_runnable(const kas_net *net)
{
    for (int i = 0; i < net->layers; i++)
        if (!runs(net, &net->layer[i]))
            return kas_fail(KAS_UNSUPPORTED,
                            "network %s: layer %s: a layer \"%s\" of this form can be described, "
                            "but not be trained yet",
                            net->name, net->layer[i].name, kas_layer_op_name(net->layer[i].op));
    return KAS_OK;
}
