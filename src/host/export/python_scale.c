#include "host/export/python_node.h"

/* "n4 = n3 * self.weight0.reshape(R, 1, C, 1, 1)": [R, dims...] lines up with [B, R, dims...]. */
kas_status kas_python_scale(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    kas_buf_printf(out, "        n%d = n%d * self.weight%d.reshape(R", i, node->in[0], weight);
    for (int d = 0; d < kas_shape_rank(&node->shape); d++) {
        kas_dim dim = kas_dim_const(1);
        if (d >= node->dim && d < node->dim_end)
            dim = kas_shape_dim(&node->shape, d);
        kas_buf_puts(out, ", ");
        kas_python_dim(&dim, out);
    }
    kas_buf_puts(out, ")\n");
    return KAS_OK;
}
