#include "host/export/python_node.h"

#include "host/space/weights.h"

void kas_python_permutation(const kas_node *node, const kas_shape *in, kas_buf *out)
{
    bool seen_contracted = false, needed = false;
    for (int d = 0; d < in->channels; d++) {
        needed = needed || (in->is_group[d] && seen_contracted);
        seen_contracted = seen_contracted || !in->is_group[d];
    }
    if (!node->grouped || !needed)
        return;
    kas_buf_puts(out, ".permute(0, 1");
    for (int group = 1; group >= 0; group--)
        for (int d = 0; d < in->channels; d++)
            if (!!in->is_group[d] == group)
                kas_buf_printf(out, ", %d", d + 2);
    for (int d = in->channels; d < kas_shape_rank(in); d++)
        kas_buf_printf(out, ", %d", d + 2);
    kas_buf_puts(out, ")");
}

kas_status kas_python_fc(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    kas_weight_dims dims;
    KAS_TRY(kas_weight_dims_of(kernel, i, &dims));
    kas_buf_printf(out, "        n%d = self.weight%d @ n%d", i, weight, node->in[0]);
    kas_python_permutation(node, &kernel->node[node->in[0]].shape, out);
    kas_buf_puts(out, ".reshape(B, R, ");
    kas_python_dim(&dims.groups, out);
    kas_buf_puts(out, ", ");
    kas_python_dim(&dims.fan_in, out);
    kas_buf_puts(out, ", -1)\n");
    return kas_python_reshape(kernel, i, i, out);
}
