#include "host/space/primitive.h"

/* Computes the number of taps of the window, K_H * K_W. */
static kas_status taps_of(const kas_kernel *kernel, int i, kas_dim *out)
{
    kas_dim h = kas_node_window(&kernel->node[i], KAS_AXIS_H);
    kas_dim w = kas_node_window(&kernel->node[i], KAS_AXIS_W);
    if (!kas_dim_mul(&h, &w, out))
        return kas_node_fail(kernel, i, "the size of the window leaves its range");
    return KAS_OK;
}

/* Infers the shape, which is that of an FC: "same" padding keeps H and W. */
kas_status kas_infer_conv(kas_kernel *kernel, int i)
{
    KAS_TRY(kas_window_check(kernel, i));
    return kas_infer_fc(kernel, i);
}

kas_status kas_weight_conv(const kas_kernel *kernel, int i, kas_weight_dims *out)
{
    kas_dim taps;
    KAS_TRY(kas_weight_fc(kernel, i, out));
    KAS_TRY(taps_of(kernel, i, &taps));
    if (!kas_dim_mul(&out->fan_in, &taps, &out->fan_in))
        return kas_node_fail(kernel, i, "the contracted size leaves its range");
    return KAS_OK;
}

kas_status kas_infer_conv_depthwise(kas_kernel *kernel, int i)
{
    KAS_TRY(kas_window_check(kernel, i));
    kernel->node[i].shape = *kas_node_input(kernel, i, 0);
    return KAS_OK;
}

kas_status kas_weight_conv_depthwise(const kas_kernel *kernel, int i, kas_weight_dims *out)
{
    const kas_shape *input = kas_node_input(kernel, i, 0);
    out->init = KAS_WEIGHT_NORMAL;
    out->groups = out->fan_out = kas_dim_const(1);
    for (int d = 0; d < input->channels; d++)
        if (!kas_dim_mul(&out->groups, &input->channel[d], &out->groups))
            return kas_node_fail(kernel, i, "the number of channels leaves its range");
    return taps_of(kernel, i, &out->fan_in);
}
