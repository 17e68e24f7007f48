/* group, group_all, shift, unfold, shuffle */
#include "host/export/python_node.h"

kas_status kas_python_group(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    (void)weight;
    return kas_python_reshape(kernel, i, kernel->node[i].in[0], out);
}

kas_status kas_python_shift(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    (void)weight;
    kas_buf_printf(out, "        n%d = torch.roll(n%d, %d, dims=%d)\n", i, node->in[0],
                   -node->offset,
                   kas_shape_place(&kernel->node[node->in[0]].shape, node->axes) + 2);
    return KAS_OK;
}

/* "taps(n3, along=3, count=K_H, place=3)" */
static void put_taps(const kas_node *node, int source, int axis, int along, int place, kas_buf *out)
{
    const kas_dim count = kas_node_window(node, axis);
    kas_buf_printf(out, "taps(n%d, along=%d, count=", source, along);
    kas_python_dim(&count, out);
    kas_buf_printf(out, ", place=%d", place);
    if (kas_node_dilation(node) > 1)
        kas_buf_printf(out, ", dilation=%d", kas_node_dilation(node));
    kas_buf_puts(out, ")\n");
}

kas_status kas_python_unfold(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    (void)weight;
    const kas_node *node = &kernel->node[i];
    const kas_shape *in = &kernel->node[node->in[0]].shape;
    int place = in->channels + 2, source = node->in[0];
    if (node->axes & KAS_AXIS_H) {
        kas_buf_printf(out, "        n%d = ", i);
        put_taps(node, source, KAS_AXIS_H, place, place, out);
        place++;
        source = i;
    }
    if (node->axes & KAS_AXIS_W) { /* behind H, if there is one, and K_H, if it was put in */
        kas_buf_printf(out, "        n%d = ", i);
        put_taps(node, source, KAS_AXIS_W, place + kas_shape_has(in, KAS_AXIS_H), place, out);
    }
    return KAS_OK;
}

kas_status kas_python_shuffle(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    const int d = node->dim + 2;
    (void)weight;
    kas_buf_printf(
        out, "        n%d = n%d.unflatten(%d, (%s, -1)).transpose(%d, %d).flatten(%d, %d)\n", i,
        node->in[0], d, kas_symbol_name(KAS_SYM_G0 + node->symbol), d, d + 1, d, d + 1);
    return KAS_OK;
}
