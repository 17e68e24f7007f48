#include "host/export/python_node.h"

kas_status kas_python_conv(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    kas_buf_printf(out, "        n%d = convolve(n%d", i, node->in[0]);
    kas_python_permutation(node, &kernel->node[node->in[0]].shape, out);
    kas_buf_printf(out, ", self.weight%d, window=(", weight);
    kas_python_window(node, out);
    kas_buf_puts(out, "), size=(");
    kas_python_image(&node->shape, out);
    kas_buf_puts(out, ")");
    if (kas_node_dilation(node) > 1)
        kas_buf_printf(out, ", dilation=%d", kas_node_dilation(node));
    kas_buf_puts(out, ")\n");
    return kas_python_reshape(kernel, i, i, out);
}
