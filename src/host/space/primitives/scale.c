#include "host/space/primitive.h"

/* Channel dims only: a factor for each pixel would not transfer to another image size. */
kas_status kas_infer_scale(kas_kernel *kernel, int i)
{
    KAS_TRY(kas_range_check(kernel, i, false));
    kernel->node[i].shape = *kas_node_input(kernel, i, 0);
    return KAS_OK;
}

kas_status kas_weight_scale(const kas_kernel *kernel, int i, kas_weight_dims *out)
{
    out->init = KAS_WEIGHT_ONES;
    out->fan_out = out->fan_in = kas_dim_const(1);
    return kas_range_size(kernel, i, &out->groups);
}
