/* Lines of torch for the primitives that multiply and add: linear maps, factors, matrix products.
 */
#include "host/export/python.h"

#include "host/space/weights.h"

/* Group dims first, then contracted ones, unless they lie so already. */
static void put_permutation(const kas_node *node, const kas_shape *in, kas_buf *out)
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

static kas_status put_fc(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    kas_weight_dims dims;
    KAS_TRY(kas_weight_dims_of(kernel, i, &dims));
    kas_buf_printf(out, "        n%d = self.weight%d @ n%d", i, weight, node->in[0]);
    put_permutation(node, &kernel->node[node->in[0]].shape, out);
    kas_buf_puts(out, ".reshape(B, R, ");
    kas_python_dim(&dims.groups, out);
    kas_buf_puts(out, ", ");
    kas_python_dim(&dims.fan_in, out);
    kas_buf_printf(out, ", -1)\n        n%d = n%d.reshape(", i, i);
    kas_python_shape(&node->shape, out);
    kas_buf_puts(out, ")\n");
    return KAS_OK;
}

static void put_window_size(const kas_node *node, int axis, kas_buf *out)
{
    const kas_dim taps = kas_node_window(node, axis);
    kas_python_dim(&taps, out);
}

/* Height and width of a tensor, 1 where it has none. */
static void put_image_size(const kas_shape *shape, kas_buf *out)
{
    for (int axis = KAS_AXIS_H; axis <= KAS_AXIS_W; axis++) {
        const kas_dim size = kas_shape_has(shape, axis)
                                 ? kas_shape_dim(shape, kas_shape_place(shape, axis))
                                 : kas_dim_const(1);
        kas_buf_puts(out, axis == KAS_AXIS_W ? ", " : "");
        kas_python_dim(&size, out);
    }
}

static void put_conv(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    kas_buf_printf(out, "        n%d = convolve(n%d", i, node->in[0]);
    put_permutation(node, &kernel->node[node->in[0]].shape, out);
    kas_buf_printf(out, ", self.weight%d, window=(", weight);
    put_window_size(node, KAS_AXIS_H, out);
    kas_buf_puts(out, ", ");
    put_window_size(node, KAS_AXIS_W, out);
    kas_buf_puts(out, "), size=(");
    put_image_size(&node->shape, out);
    kas_buf_puts(out, ")");
    if (kas_node_dilation(node) > 1)
        kas_buf_printf(out, ", dilation=%d", kas_node_dilation(node));
    kas_buf_printf(out, ")\n        n%d = n%d.reshape(", i, i);
    kas_python_shape(&node->shape, out);
    kas_buf_puts(out, ")\n");
}

/* The dims in front of the mixed ones have one matrix for all their positions: [R, 1, out, in]. */
static kas_status put_mix(const kas_kernel *kernel, int i, int weight, kas_buf *out)
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
    kas_buf_printf(out, ", -1)\n        n%d = n%d.reshape(", i, i);
    kas_python_shape(&node->shape, out);
    kas_buf_puts(out, ")\n");
    return KAS_OK;
}

/* An operand of a product as [B, R, batch, rows, columns], turned if it is transposed. */
static kas_status put_matrix(const kas_kernel *kernel, int i, const kas_product *p, int side,
                             kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    const kas_shape *shape = &kernel->node[node->in[side]].shape;
    const int end[3] = {p->batch, p->cut[side], kas_shape_rank(shape)};
    kas_buf_printf(out, "n%d.reshape(B, R", node->in[side]);
    for (int part = 0, d = 0; part < 3; part++) {
        kas_dim size = kas_dim_const(1);
        for (; d < end[part]; d++) {
            kas_dim dim = kas_shape_dim(shape, d);
            if (!kas_dim_mul(&size, &dim, &size))
                return kas_fail(KAS_ILLEGAL, "export: node %d: a size leaves its range", i);
        }
        kas_buf_puts(out, ", ");
        kas_python_dim(&size, out);
    }
    const bool turned = node->transpose & (side == 0 ? KAS_TRANSPOSE_LHS : KAS_TRANSPOSE_RHS);
    kas_buf_puts(out, turned ? ").mT" : ")");
    return KAS_OK;
}

static kas_status put_bmm(const kas_kernel *kernel, int i, kas_buf *out)
{
    kas_product p;
    KAS_TRY(kas_product_align(kernel, i, &p));
    kas_buf_printf(out, "        n%d = ", i);
    KAS_TRY(put_matrix(kernel, i, &p, 0, out));
    kas_buf_puts(out, " @ ");
    KAS_TRY(put_matrix(kernel, i, &p, 1, out));
    kas_buf_puts(out, " / math.sqrt(");
    kas_python_dim(&p.contracted, out);
    kas_buf_puts(out, ")\n");
    if (kernel->node[i].softmax)
        kas_buf_printf(out, "        n%d = torch.softmax(n%d, 4)\n", i, i);
    kas_buf_printf(out, "        n%d = n%d.reshape(", i, i);
    kas_python_shape(&kernel->node[i].shape, out);
    kas_buf_puts(out, ")\n");
    return KAS_OK;
}

/* "n4 = n3 * self.weight0.reshape(R, 1, C, 1, 1)": [R, dims...] lines up with [B, R, dims...]. */
static void put_scale(const kas_kernel *kernel, int i, int weight, kas_buf *out)
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
}

kas_status kas_python_map(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    switch (kernel->node[i].op) {
    case KAS_OP_FC:
        return put_fc(kernel, i, weight, out);
    case KAS_OP_MIX:
        return put_mix(kernel, i, weight, out);
    case KAS_OP_BMM:
        return put_bmm(kernel, i, out);
    case KAS_OP_SCALE:
        put_scale(kernel, i, weight, out);
        return KAS_OK;
    default:
        put_conv(kernel, i, weight, out);
        return KAS_OK;
    }
}
