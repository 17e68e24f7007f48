#include "host/export/python_node.h"

kas_status kas_python_norm(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    (void)weight;
    kas_buf_printf(out, "        n%d = normalise(n%d, [", i, node->in[0]);
    for (int d = node->dim; d < node->dim_end; d++)
        kas_buf_printf(out, "%s%d", d > node->dim ? ", " : "", d + 2);
    kas_buf_puts(out, "])\n");
    return KAS_OK;
}
