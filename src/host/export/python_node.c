/* Writes one line of torch for each primitive.  Tensors are [B, R, dims...]: batch, instance, then
 * the dims of the kernel's shapes, so dim d of a shape is dim d + 2 of the tensor. */
#include "host/export/python_node.h"

#include "host/space/describe.h"

/* Writes a product such as "C * K_H" of the factors with positive (sign 1) or negative
 * (-1) exponents. */
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

/* "B, R, C, H, W": a shape behind batch and instance. */
static void put_shape(const kas_shape *shape, kas_buf *out)
{
    kas_buf_puts(out, "B, R");
    for (int d = 0; d < kas_shape_rank(shape); d++) {
        kas_dim dim = kas_shape_dim(shape, d);
        kas_buf_puts(out, ", ");
        kas_python_dim(&dim, out);
    }
}

void kas_python_window(const kas_node *node, kas_buf *out)
{
    const kas_dim h = kas_node_window(node, KAS_AXIS_H), w = kas_node_window(node, KAS_AXIS_W);
    kas_python_dim(&h, out);
    kas_buf_puts(out, ", ");
    kas_python_dim(&w, out);
}

void kas_python_image(const kas_shape *shape, kas_buf *out)
{
    for (int axis = KAS_AXIS_H; axis <= KAS_AXIS_W; axis++) {
        const kas_dim size = kas_shape_has(shape, axis)
                                 ? kas_shape_dim(shape, kas_shape_place(shape, axis))
                                 : kas_dim_const(1);
        kas_buf_puts(out, axis == KAS_AXIS_W ? ", " : "");
        kas_python_dim(&size, out);
    }
}

kas_status kas_python_reshape(const kas_kernel *kernel, int i, int from, kas_buf *out)
{
    kas_buf_printf(out, "        n%d = n%d.reshape(", i, from);
    put_shape(&kernel->node[i].shape, out);
    kas_buf_puts(out, ")\n");
    return KAS_OK;
}

kas_status kas_python_unknown(const kas_kernel *kernel, int i)
{
    return kas_fail(KAS_UNSUPPORTED, "export: node %d: primitive %s has no PyTorch form", i,
                    kas_op_get((kas_op)kernel->node[i].op)->name);
}

static kas_status (*const lines[KAS_TYPE_COUNT])(const kas_kernel *kernel, int i, int weight,
                                                 kas_buf *out) = {
    [KAS_TYPE_GROUP] = kas_python_group,
    [KAS_TYPE_SHIFT] = kas_python_shift,
    [KAS_TYPE_UNFOLD] = kas_python_unfold,
    [KAS_TYPE_SHUFFLE] = kas_python_shuffle,
    [KAS_TYPE_SLICE] = kas_python_slice,
    [KAS_TYPE_CONCAT] = kas_python_concat,
    [KAS_TYPE_FC] = kas_python_fc,
    [KAS_TYPE_CONV] = kas_python_conv,
    [KAS_TYPE_MIX] = kas_python_mix,
    [KAS_TYPE_SCALE] = kas_python_scale,
    [KAS_TYPE_ELEMENTWISE] = kas_python_elementwise,
    [KAS_TYPE_FOLD] = kas_python_fold,
    [KAS_TYPE_POOL] = kas_python_pool,
    [KAS_TYPE_SOFTMAX] = kas_python_softmax,
    [KAS_TYPE_NORM] = kas_python_norm,
    [KAS_TYPE_BMM] = kas_python_bmm,
    [KAS_TYPE_BROADCAST] = kas_python_broadcast,
};

kas_status kas_python_node(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    const kas_type type = kas_type_of(kernel->node[i].op);
    kas_buf_puts(out, "        # ");
    kas_node_describe(kernel, i, out);
    kas_buf_puts(out, ": ");
    kas_shape_print(&kernel->node[i].shape, out);
    kas_buf_puts(out, "\n");
    return lines[type] ? lines[type](kernel, i, weight, out) : kas_python_unknown(kernel, i);
}
