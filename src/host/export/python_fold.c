#include "host/export/python_node.h"

kas_status kas_python_fold(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    (void)weight;
    kas_buf_printf(out, "        n%d = n%d.%s(%d)%s\n", i, node->in[0],
                   node->op == KAS_OP_FOLD_AVG ? "mean" : "max", node->dim + 2,
                   node->op == KAS_OP_FOLD_AVG ? "" : ".values");
    return KAS_OK;
}
