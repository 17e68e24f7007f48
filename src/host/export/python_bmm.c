#include "host/export/python_node.h"

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

kas_status kas_python_bmm(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    (void)weight;
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
    return kas_python_reshape(kernel, i, i, out);
}
