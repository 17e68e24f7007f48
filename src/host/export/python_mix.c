#include "host/export/python_node.h"

#include "host/space/weights.h"

/* The dims in front of the mixed ones have one matrix for all their positions: [R, 1, out, in]. */
kas_status kas_python_mix(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    const kas_shape *in = &kernel->node[node->in[0]].shape;
    kas_dim outer = kas_dim_const(1);
    kas_weight_dims dims;
    KAS_TRY(kas_weight_dims_of(kernel, i, &dims));
    for (int d = 0; d < node->dim; d++)
        if (!kas_dim_mul(&outer, &in->channel[d], &outer))
            return kas_fail(KAS_ILLEGAL, "export: node %d: a size leaves its range", i);
    kas_buf_printf(out, "        n%d = self.weight%d @ n%d.reshape(B, R, ", i, weight, node->in[0]);
    kas_python_dim(&outer, out);
    kas_buf_puts(out, ", ");
    kas_python_dim(&dims.fan_in, out);
    kas_buf_puts(out, ", -1)\n");
    return kas_python_reshape(kernel, i, i, out);
}
