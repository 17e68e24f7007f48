#include "host/space/primitive.h"

kas_status kas_infer_input(kas_kernel *kernel, int i)
{
    kas_shape *shape = &kernel->node[i].shape;
    shape->channels = 1;
    shape->channel[0] = kas_dim_symbol(KAS_SYM_C);
    shape->has_h = shape->has_w = true;
    return KAS_OK;
}
