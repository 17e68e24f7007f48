/* slice, concat */
#include "host/export/python_node.h"

/* "        n3 = n1.narrow(2, 16, R0)\n" */
kas_status kas_python_slice(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    (void)weight;
    const kas_node *node = &kernel->node[i];
    const kas_dim size = kas_shape_dim(&node->shape, node->dim);
    const kas_split *split = &kernel->split[node->split];
    const kas_dim before = kas_dim_const(node->segment ? node->segment : 1);
    const kas_dim behind = kas_dim_const(split->part ? split->part - 1u : 1); /* shares of 1/part */
    kas_dim begin = size;
    kas_buf_printf(out, "        n%d = n%d.narrow(%d, ", i, node->in[0], node->dim + 2);
    if (split->first)
        begin = kas_dim_const(split->first);
    else if (!kas_dim_mul(&size, &before, &begin) || !kas_dim_div(&begin, &behind, &begin))
        return kas_fail(KAS_ILLEGAL, "export: node %d: a size leaves its range", i);
    if (node->segment == 0)
        kas_buf_puts(out, "0");
    else
        kas_python_dim(&begin, out);
    kas_buf_puts(out, ", ");
    kas_python_dim(&size, out);
    kas_buf_puts(out, ")\n");
    return KAS_OK;
}

kas_status kas_python_concat(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    (void)weight;
    kas_buf_printf(out, "        n%d = torch.cat([", i);
    for (int k = 0; k < node->inputs; k++)
        kas_buf_printf(out, "%sn%d", k ? ", " : "", node->in[k]);
    kas_buf_printf(out, "], %d)\n", node->dim + 2);
    return KAS_OK;
}
