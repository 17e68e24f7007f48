/* One line of torch for each primitive.  Tensors are [B, R, dims...]: batch, instance, then the
 * dims of the kernel's shapes, so dim d of a shape is dim d + 2 of the tensor. */
#include "host/export/python.h"

#include "host/space/describe.h"

/* "C * K_H", factors with positive (sign 1) or negative (-1) exponents. */
static int put_product(const kas_dim *dim, uint32_t constant, int sign, kas_buf *out)
{
    int factors = 0;
    for (int s = 0; s < KAS_SYM_COUNT; s++)
        for (int k = dim->exp[s] * sign; k > 0; k--)
            kas_buf_printf(out, "%s%s", factors++ ? " * " : "", kas_symbol_name((kas_symbol)s));
    if (constant != 1 || factors == 0)
        kas_buf_printf(out, "%s%u", factors++ ? " * " : "", constant);
    return factors;
}

void kas_python_dim(const kas_dim *dim, kas_buf *out)
{
    kas_buf above = {0}, below = {0};
    int a = put_product(dim, dim->num, 1, &above), b = put_product(dim, dim->den, -1, &below);
    bool whole = b == 1 && kas_buf_text(&below)[0] == '1' && below.size == 1;
    if (whole)
        kas_buf_puts(out, kas_buf_text(&above));
    else
        kas_buf_printf(out, "%s%s%s // %s%s%s", a > 1 ? "(" : "", kas_buf_text(&above),
                       a > 1 ? ")" : "", b > 1 ? "(" : "", kas_buf_text(&below), b > 1 ? ")" : "");
    out->failed = out->failed || above.failed || below.failed;
    kas_buf_free(&above);
    kas_buf_free(&below);
}

void kas_python_shape(const kas_shape *shape, kas_buf *out)
{
    kas_buf_puts(out, "B, R");
    for (int d = 0; d < kas_shape_rank(shape); d++) {
        kas_dim dim = kas_shape_dim(shape, d);
        kas_buf_puts(out, ", ");
        kas_python_dim(&dim, out);
    }
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

static void put_unfold(const kas_kernel *kernel, int i, kas_buf *out)
{
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
}

static void put_sizes(const kas_dim *h, const kas_dim *w, kas_buf *out)
{
    kas_buf_puts(out, "(");
    kas_python_dim(h, out);
    kas_buf_puts(out, ", ");
    kas_python_dim(w, out);
    kas_buf_puts(out, ")");
}

/* "        n3 = pool(n2, (H, W), (K_H, 1), largest=True)\n" */
static void put_pool(const kas_kernel *kernel, int i, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    const kas_dim taps_h = kas_node_window(node, KAS_AXIS_H),
                  taps_w = kas_node_window(node, KAS_AXIS_W);
    kas_dim size[2] = {kas_dim_const(1), kas_dim_const(1)};
    for (int axis = KAS_AXIS_H; axis <= KAS_AXIS_W; axis++)
        if (kas_shape_has(&node->shape, axis))
            size[axis - 1] = kas_shape_dim(&node->shape, kas_shape_place(&node->shape, axis));
    kas_buf_printf(out, "        n%d = pool(n%d, ", i, node->in[0]);
    put_sizes(&size[0], &size[1], out);
    kas_buf_puts(out, ", ");
    put_sizes(&taps_h, &taps_w, out);
    kas_buf_printf(out, ", largest=%s)\n", node->op == KAS_OP_POOL_MAX ? "True" : "False");
}

static void put_softmax(const kas_node *node, int i, kas_buf *out)
{
    int begin = node->dim + 2, last = node->dim_end + 1, a = node->in[0];
    if (begin == last)
        kas_buf_printf(out, "        n%d = torch.softmax(n%d, %d)\n", i, a, begin);
    else
        kas_buf_printf(out,
                       "        n%d = torch.softmax(n%d.flatten(%d, %d), %d).reshape(n%d.shape)\n",
                       i, a, begin, last, begin, a);
}

static void put_norm(const kas_node *node, int i, kas_buf *out)
{
    kas_buf_printf(out, "        n%d = normalise(n%d, [", i, node->in[0]);
    for (int d = node->dim; d < node->dim_end; d++)
        kas_buf_printf(out, "%s%d", d > node->dim ? ", " : "", d + 2);
    kas_buf_puts(out, "])\n");
}

/* What stands in front of the operand and behind it. */
typedef struct around {
    const char *before, *between, *after;
} around;

static around unary_text(kas_op op)
{
    switch (op) {
    case KAS_OP_RELU:
        return (around){"torch.relu(", "", ")"};
    case KAS_OP_GELU:
        return (around){"F.gelu(", "", ")"};
    case KAS_OP_SIGMOID:
        return (around){"torch.sigmoid(", "", ")"};
    case KAS_OP_TANH:
        return (around){"torch.tanh(", "", ")"};
    case KAS_OP_ABS:
        return (around){"torch.abs(", "", ")"};
    case KAS_OP_EXP:
        return (around){"torch.exp(", "", ".clamp(max=8))"};
    case KAS_OP_NEG:
        return (around){"-", "", ""};
    case KAS_OP_SIN:
        return (around){"torch.sin(", "", ")"};
    case KAS_OP_SQRT:
        return (around){"torch.sqrt(torch.relu(", "", ") + 0.01)"};
    case KAS_OP_SQUARE:
        return (around){"torch.square(", "", ".clamp(-100, 100))"};
    default:
        return (around){NULL, NULL, NULL};
    }
}

static around blend_text(kas_op op)
{
    switch (op) {
    case KAS_OP_ADD:
        return (around){"", " + ", ""};
    case KAS_OP_SUB:
        return (around){"", " - ", ""};
    case KAS_OP_MUL:
        return (around){"", " * ", ""};
    case KAS_OP_MIN:
        return (around){"torch.minimum(", ", ", ")"};
    case KAS_OP_MAX:
        return (around){"torch.maximum(", ", ", ")"};
    default:
        return (around){NULL, NULL, NULL};
    }
}

static kas_status put_blend(const kas_kernel *kernel, int i, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    const kas_shape *lhs = &kernel->node[node->in[0]].shape;
    const kas_shape *rhs = &kernel->node[node->in[1]].shape;
    around text = blend_text((kas_op)node->op);
    kas_broadcast b;
    if (!text.before)
        return kas_fail(KAS_UNSUPPORTED, "export: node %d: primitive %d has no PyTorch form", i,
                        node->op);
    KAS_TRY(kas_broadcast_align(lhs, rhs, &b));
    kas_buf_printf(out, "        n%d = %s", i, text.before);
    if (kas_shape_equal(lhs, rhs))
        kas_buf_printf(out, "n%d", node->in[0]);
    else
        kas_buf_printf(out, "tile(n%d, n%d, prefix=%d, suffix=%d)", node->in[0], node->in[1],
                       b.prefix, b.suffix);
    kas_buf_printf(out, "%sn%d%s\n", text.between, node->in[1], text.after);
    return KAS_OK;
}

static void put_rearranged(const kas_kernel *kernel, int i, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    const kas_shape *in = &kernel->node[node->in[0]].shape;
    if (node->op == KAS_OP_UNFOLD) {
        put_unfold(kernel, i, out);
    } else if (node->op == KAS_OP_SHIFT) {
        kas_buf_printf(out, "        n%d = torch.roll(n%d, %d, dims=%d)\n", i, node->in[0],
                       -node->offset, kas_shape_place(in, node->axes) + 2);
    } else {
        kas_buf_printf(out, "        n%d = n%d.reshape(", i, node->in[0]);
        kas_python_shape(&node->shape, out);
        kas_buf_puts(out, ")\n");
    }
}

/* "        n3 = n1.narrow(2, 16, R0)\n" */
static kas_status put_slice(const kas_kernel *kernel, int i, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    const kas_dim size = kas_shape_dim(&node->shape, node->dim);
    const kas_dim before = kas_dim_const(node->segment ? node->segment : 1);
    kas_dim begin = size;
    kas_buf_printf(out, "        n%d = n%d.narrow(%d, ", i, node->in[0], node->dim + 2);
    if (kernel->split[node->split].first)
        begin = kas_dim_const(kernel->split[node->split].first);
    else if (!kas_dim_mul(&size, &before, &begin))
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

static void put_concat(const kas_node *node, int i, kas_buf *out)
{
    kas_buf_printf(out, "        n%d = torch.cat([", i);
    for (int k = 0; k < node->inputs; k++)
        kas_buf_printf(out, "%sn%d", k ? ", " : "", node->in[k]);
    kas_buf_printf(out, "], %d)\n", node->dim + 2);
}

static kas_status put_unary(const kas_node *node, int i, kas_buf *out)
{
    around text = unary_text((kas_op)node->op);
    if (!text.before)
        return kas_fail(KAS_UNSUPPORTED, "export: node %d: primitive %d has no PyTorch form", i,
                        node->op);
    kas_buf_printf(out, "        n%d = %sn%d%s\n", i, text.before, node->in[0], text.after);
    return KAS_OK;
}

kas_status kas_python_node(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    kas_buf_puts(out, "        # ");
    kas_node_describe(kernel, i, out);
    kas_buf_puts(out, ": ");
    kas_shape_print(&node->shape, out);
    kas_buf_puts(out, "\n");
    switch (node->op) {
    case KAS_OP_GROUP:
    case KAS_OP_GROUP_ALL:
    case KAS_OP_SHIFT:
    case KAS_OP_UNFOLD:
        put_rearranged(kernel, i, out);
        return KAS_OK;
    case KAS_OP_SHUFFLE:
        kas_buf_printf(
            out, "        n%d = n%d.unflatten(%d, (%s, -1)).transpose(%d, %d).flatten(%d, %d)\n", i,
            node->in[0], node->dim + 2, kas_symbol_name(KAS_SYM_G0 + node->symbol), node->dim + 2,
            node->dim + 3, node->dim + 2, node->dim + 3);
        return KAS_OK;
    case KAS_OP_POOL_AVG:
    case KAS_OP_POOL_MAX:
        put_pool(kernel, i, out);
        return KAS_OK;
    case KAS_OP_SLICE:
        return put_slice(kernel, i, out);
    case KAS_OP_CONCAT:
        put_concat(node, i, out);
        return KAS_OK;
    case KAS_OP_FC:
    case KAS_OP_CONV:
    case KAS_OP_CONV_DEPTHWISE:
    case KAS_OP_MIX:
    case KAS_OP_SCALE:
    case KAS_OP_BMM:
        return kas_python_map(kernel, i, weight, out);
    case KAS_OP_FOLD_AVG:
        kas_buf_printf(out, "        n%d = n%d.mean(%d)\n", i, node->in[0], node->dim + 2);
        return KAS_OK;
    case KAS_OP_FOLD_MAX:
        kas_buf_printf(out, "        n%d = n%d.max(%d).values\n", i, node->in[0], node->dim + 2);
        return KAS_OK;
    case KAS_OP_NORM:
        put_norm(node, i, out);
        return KAS_OK;
    case KAS_OP_SOFTMAX:
        put_softmax(node, i, out);
        return KAS_OK;
    default:
        if (kas_op_get((kas_op)node->op)->class_ == KAS_CLASS_BLEND)
            return put_blend(kernel, i, out);
        return put_unary(node, i, out);
    }
}
