#include "host/export/python_node.h"

/* "n3 = pool(n2, (H, W), (K_H, 1), largest=True)" */
kas_status kas_python_pool(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    (void)weight;
    kas_buf_printf(out, "        n%d = pool(n%d, (", i, node->in[0]);
    kas_python_image(&node->shape, out);
    kas_buf_puts(out, "), (");
    kas_python_window(node, out);
    kas_buf_printf(out, "), largest=%s)\n", node->op == KAS_OP_POOL_MAX ? "True" : "False");
    return KAS_OK;
}
