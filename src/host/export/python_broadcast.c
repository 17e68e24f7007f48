#include "host/export/python_node.h"

/* What stands in front of LHS, between the two and behind RHS. */
static const struct {
    const char *before, *between, *after;
} texts[KAS_OP_COUNT] = {
    [KAS_OP_ADD] = {"", " + ", ""},
    [KAS_OP_SUB] = {"", " - ", ""},
    [KAS_OP_MUL] = {"", " * ", ""},
    [KAS_OP_MIN] = {"torch.minimum(", ", ", ")"},
    [KAS_OP_MAX] = {"torch.maximum(", ", ", ")"},
};

kas_status kas_python_broadcast(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    const kas_shape *lhs = &kernel->node[node->in[0]].shape;
    const kas_shape *rhs = &kernel->node[node->in[1]].shape;
    kas_broadcast b;
    (void)weight;
    if (!texts[node->op].before)
        return kas_python_unknown(kernel, i);
    KAS_TRY(kas_broadcast_align(lhs, rhs, &b));
    kas_buf_printf(out, "        n%d = %s", i, texts[node->op].before);
    if (kas_shape_equal(lhs, rhs))
        kas_buf_printf(out, "n%d", node->in[0]);
    else
        kas_buf_printf(out, "tile(n%d, n%d, prefix=%d, suffix=%d)", node->in[0], node->in[1],
                       b.prefix, b.suffix);
    kas_buf_printf(out, "%sn%d%s\n", texts[node->op].between, node->in[1], texts[node->op].after);
    return KAS_OK;
}
