#include "host/net/layer_shape.h"

/* More channels, or more values in an output or a weight, are an error in the description. The
 * limits keep every size that is computed from these within 64 bits. */
enum { MAX_CHANNELS = 1 << 20 };
static const double max_values = 1 << 30;

static kas_status fail_shape(const kas_layer *l, const kas_layer *in, const char *expected)
{
    return kas_fail(KAS_BAD_INPUT, "layer %s (%s): input %s is %dx%dx%d; expected %s", l->name,
                    kas_layer_op_name(l->op), in->name, in->c, in->h, in->w, expected);
}

static kas_status window(const kas_layer *l, int size, int kernel, int pad, int *out)
{
    int room = size + 2 * pad - kernel;
    if (room < 0)
        return kas_fail(KAS_BAD_INPUT,
                        "layer %s (%s): a window of %d does not fit into %d pixels and a padding "
                        "of %d; expected a larger image or a smaller kernel",
                        l->name, kas_layer_op_name(l->op), kernel, size, pad);
    int count = (room + (l->ceil_mode ? l->stride - 1 : 0)) / l->stride + 1;
    if (l->ceil_mode && (count - 1) * l->stride >= size + pad)
        count--;
    *out = count;
    return KAS_OK;
}

static kas_status windows(const kas_layer *in, kas_layer *l)
{
    KAS_TRY(window(l, in->h, l->kernel_h, l->pad_h, &l->h));
    return window(l, in->w, l->kernel_w, l->pad_w, &l->w);
}

static kas_status check_weight(const kas_layer *in, const kas_layer *l, double values)
{
    return values <= max_values ? KAS_OK
                                : fail_shape(l, in, "fewer channels: at most 2^30 weights");
}

static kas_status conv(const kas_layer *in, kas_layer *l)
{
    if (in->c % l->groups || l->c % l->groups)
        return kas_fail(KAS_BAD_INPUT,
                        "layer %s (conv): %d groups do not divide %d input and %d output channels",
                        l->name, l->groups, in->c, l->c);
    KAS_TRY(check_weight(in, l, (double)l->kernel_h * l->kernel_w * (in->c / l->groups) * l->c));
    return windows(in, l);
}

static kas_status pool(const kas_layer *in, kas_layer *l)
{
    if (2 * l->pad_h > l->kernel_h || 2 * l->pad_w > l->kernel_w)
        return kas_fail(KAS_BAD_INPUT,
                        "layer %s (%s): padding %dx%d; expected at most half of the kernel %dx%d",
                        l->name, kas_layer_op_name(l->op), l->pad_h, l->pad_w, l->kernel_h,
                        l->kernel_w);
    if (l->op == KAS_LAYER_MAX_POOL && l->kernel_h * l->kernel_w > KAS_MAX_POOL_TAPS)
        return kas_fail(KAS_BAD_INPUT,
                        "layer %s (%s): a window of %dx%d; expected at most %d pixels", l->name,
                        kas_layer_op_name(l->op), l->kernel_h, l->kernel_w, KAS_MAX_POOL_TAPS);
    l->c = in->c;
    return windows(in, l);
}

static kas_status binary(const kas_layer *in, const kas_layer *other, kas_layer *l)
{
    bool same = other->h == in->h && other->w == in->w && other->c == in->c;
    bool channels = l->op == KAS_LAYER_MULTIPLY && other->h == 1 && other->w == 1;
    if (!same && !(channels && other->c == in->c))
        return kas_fail(
            KAS_BAD_INPUT, "layer %s (%s): inputs %s and %s are %dx%dx%d and %dx%dx%d; expected %s",
            l->name, kas_layer_op_name(l->op), in->name, other->name, in->c, in->h, in->w, other->c,
            other->h, other->w,
            l->op == KAS_LAYER_MULTIPLY ? "equal shapes, or Cx1x1 as the second" : "equal shapes");
    l->h = in->h;
    l->w = in->w;
    l->c = in->c;
    return KAS_OK;
}

static kas_status concat(const kas_net *net, kas_layer *l)
{
    const kas_layer *first = &net->layer[l->in[0]];
    l->h = first->h;
    l->w = first->w;
    l->c = 0;
    for (int k = 0; k < l->inputs; k++) {
        const kas_layer *in = &net->layer[l->in[k]];
        if (in->h != l->h || in->w != l->w)
            return kas_fail(KAS_BAD_INPUT,
                            "layer %s (concat): inputs %s and %s are %dx%dx%d and %dx%dx%d; "
                            "expected the same height and width",
                            l->name, first->name, in->name, first->c, first->h, first->w, in->c,
                            in->h, in->w);
        if (in->c > MAX_CHANNELS - l->c)
            return fail_shape(l, in, "at most 1048576 channels in all");
        l->c += in->c;
    }
    return KAS_OK;
}

static kas_status linear(const kas_layer *in, kas_layer *l)
{
    l->h = l->w = 1;
    if (in->h != 1 || in->w != 1)
        return fail_shape(l, in, "Cx1x1: flatten it first");
    return check_weight(in, l, (double)in->c * l->c);
}

/* The output has every stride-th pixel, from the first on. */
static kas_status shortcut_a(const kas_layer *in, kas_layer *l)
{
    if (l->c < in->c)
        return fail_shape(l, in, "no more channels than the output has");
    l->h = (in->h + l->stride - 1) / l->stride;
    l->w = (in->w + l->stride - 1) / l->stride;
    return KAS_OK;
}

static kas_status derive(const kas_net *net, const kas_layer *in, kas_layer *l)
{
    switch (l->op) {
    case KAS_LAYER_CONV:
        return conv(in, l);
    case KAS_LAYER_AVG_POOL:
    case KAS_LAYER_MAX_POOL:
        return pool(in, l);
    case KAS_LAYER_ADD:
    case KAS_LAYER_MULTIPLY:
        return binary(in, &net->layer[l->in[1]], l);
    case KAS_LAYER_CONCAT:
        return concat(net, l);
    case KAS_LAYER_FLATTEN: /* no more values than an output may have */
        l->c = in->h * in->w * in->c;
        l->h = l->w = 1;
        return KAS_OK;
    case KAS_LAYER_SHORTCUT_A:
        return shortcut_a(in, l);
    case KAS_LAYER_LINEAR:
        return linear(in, l);
    case KAS_LAYER_GLOBAL_AVG_POOL:
        l->h = l->w = 1;
        l->c = in->c;
        return KAS_OK;
    case KAS_LAYER_ADAPTIVE_AVG_POOL:
        l->c = in->c;
        return KAS_OK;
    default:
        l->h = in->h;
        l->w = in->w;
        l->c = in->c;
        return KAS_OK;
    }
}

kas_status kas_layer_shape(const kas_net *net, kas_layer *l)
{
    if (l->op == KAS_LAYER_INPUT)
        return KAS_OK;
    const kas_layer *in = &net->layer[l->in[0]];
    KAS_TRY(derive(net, in, l));
    if ((double)l->c * l->h * l->w <= max_values)
        return KAS_OK;
    return kas_fail(KAS_BAD_INPUT,
                    "layer %s (%s): output is %dx%dx%d; expected at most 2^30 values", l->name,
                    kas_layer_op_name(l->op), l->c, l->h, l->w);
}
