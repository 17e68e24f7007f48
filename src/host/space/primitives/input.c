#include "host/space/primitive.h"

kas_status kas_infer_input(kas_kernel *kernel, int i)
{
    kas_shape *shape = &kernel->node[i].shape;
    shape->channels = 1;
    shape->channel[0] = kas_dim_symbol(KAS_SYM_C);
    shape->spatial[0] = kas_dim_symbol(KAS_SYM_H);
    shape->spatial[1] = kas_dim_symbol(KAS_SYM_W);
    return KAS_OK;
}
