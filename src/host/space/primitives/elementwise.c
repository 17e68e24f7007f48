#include "host/space/primitive.h"

kas_status kas_infer_elementwise(kas_kernel *kernel, int i)
{
    kernel->node[i].shape = *kas_node_input(kernel, i, 0);
    return KAS_OK;
}
