#include "host/space/describe.h"

#include "host/space/primitive.h"
#include "host/space/split.h"

static void describe_dim(const kas_kernel *kernel, int i, int d, kas_buf *out)
{
    kas_dim dim = kas_shape_dim(kas_node_input(kernel, i, 0), d);
    kas_buf_printf(out, "dim %d (", d);
    kas_dim_print(&dim, out);
    kas_buf_puts(out, ")");
}

/* Appends "dim 0 (C)" or "dims 1 to 2". */
static void describe_range(const kas_kernel *kernel, int i, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    if (node->dim_end == node->dim + 1)
        describe_dim(kernel, i, node->dim, out);
    else
        kas_buf_printf(out, "dims %d to %d", node->dim, node->dim_end - 1);
}

/* Appends "H and W, 5 taps, dilation 2"; the window of the replaced convolution is not
 * mentioned. */
static void describe_window(const kas_node *node, kas_buf *out)
{
    kas_buf_puts(out, node->axes == KAS_AXIS_H ? "H" : node->axes == KAS_AXIS_W ? "W" : "H and W");
    if (node->kernel)
        kas_buf_printf(out, ", %d taps", node->kernel);
    if (node->dilation)
        kas_buf_printf(out, ", dilation %d", node->dilation);
}

/* Appends "bmm LHS^T RHS over C, softmax". */
static void describe_product(const kas_kernel *kernel, int i, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    kas_product p;
    kas_buf_printf(out, "bmm LHS%s RHS%s", node->transpose & KAS_TRANSPOSE_LHS ? "^T" : "",
                   node->transpose & KAS_TRANSPOSE_RHS ? "^T" : "");
    if (kas_product_align(kernel, i, &p) == KAS_OK) {
        kas_buf_puts(out, " over ");
        kas_dim_print(&p.contracted, out);
    }
    kas_buf_puts(out, node->softmax ? ", softmax" : "");
}

static void describe_broadcast(const kas_kernel *kernel, int i, kas_buf *out)
{
    kas_dim times;
    kas_buf_puts(out, kas_op_get(kernel->node[i].op)->name);
    if (kas_divisor_broadcast(kernel, i, &times) == KAS_OK && !kas_dim_is_one(&times)) {
        kas_buf_puts(out, ", LHS repeated ");
        kas_dim_print(&times, out);
        kas_buf_puts(out, " times");
    }
}

void kas_node_describe(const kas_kernel *kernel, int i, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    const char *name = kas_op_get(node->op)->name;
    switch (node->op) {
    case KAS_OP_GROUP:
        kas_buf_puts(out, "group ");
        describe_dim(kernel, i, node->dim, out);
        kas_buf_printf(out, " by %s", kas_symbol_name(KAS_SYM_G0 + node->symbol));
        return;
    case KAS_OP_GROUP_ALL:
        kas_buf_puts(out, "group every value of ");
        describe_dim(kernel, i, node->dim, out);
        return;
    case KAS_OP_SHUFFLE:
        kas_buf_puts(out, "shuffle ");
        describe_dim(kernel, i, node->dim, out);
        kas_buf_printf(out, " in %s groups", kas_symbol_name(KAS_SYM_G0 + node->symbol));
        return;
    case KAS_OP_POOL_AVG:
    case KAS_OP_POOL_MAX:
        kas_buf_printf(out, "%s of neighbours along ",
                       node->op == KAS_OP_POOL_AVG ? "mean" : "maximum");
        describe_window(node, out);
        return;
    case KAS_OP_SHIFT:
        kas_buf_printf(out, "shift %s by %+d", node->axes == KAS_AXIS_H ? "H" : "W", node->offset);
        return;
    case KAS_OP_UNFOLD:
        kas_buf_puts(out, "unfold ");
        describe_window(node, out);
        return;
    case KAS_OP_SLICE:
    case KAS_OP_CONCAT:
        if (node->op == KAS_OP_SLICE)
            kas_buf_printf(out, "segment %d of dim %d (", node->segment, node->dim);
        else
            kas_buf_printf(out, "join dim %d (", node->dim);
        kas_split_print(kernel, node->split, out);
        kas_buf_puts(out, ")");
        return;
    case KAS_OP_FC:
    case KAS_OP_CONV:
        kas_buf_printf(out, "%s %sto ", name, node->grouped ? "within groups " : "");
        kas_dim_print(&node->out, out);
        if (node->op == KAS_OP_CONV) {
            kas_buf_puts(out, " over ");
            describe_window(node, out);
        }
        return;
    case KAS_OP_CONV_DEPTHWISE:
        kas_buf_puts(out, "depthwise conv over ");
        describe_window(node, out);
        return;
    case KAS_OP_MIX:
        kas_buf_puts(out, "mix ");
        describe_range(kernel, i, out);
        kas_buf_puts(out, " to ");
        kas_dim_print(&node->out, out);
        return;
    case KAS_OP_FOLD_AVG:
    case KAS_OP_FOLD_MAX:
        kas_buf_printf(out, "%s of ", node->op == KAS_OP_FOLD_AVG ? "mean" : "maximum");
        describe_dim(kernel, i, node->dim, out);
        return;
    case KAS_OP_BMM:
        describe_product(kernel, i, out);
        return;
    case KAS_OP_SCALE:
    case KAS_OP_SOFTMAX:
    case KAS_OP_NORM:
        kas_buf_printf(out, "%s over ", name);
        describe_range(kernel, i, out);
        return;
    default:
        if (kas_type_of(node->op) == KAS_TYPE_BROADCAST)
            describe_broadcast(kernel, i, out);
        else
            kas_buf_puts(out, name);
    }
}

enum { WEIGHT, INPUT, REARRANGEMENT, BROADCAST, ARITHMETIC };

static int class_of(int op)
{
    if (kas_op_has_weight((kas_op)op))
        return WEIGHT;
    if (op == KAS_OP_INPUT)
        return INPUT;
    if (!kas_primitive_get(op)->cost)
        return REARRANGEMENT;
    return kas_type_of(op) == KAS_TYPE_BROADCAST ? BROADCAST : ARITHMETIC;
}

const char *kas_node_class(int op)
{
    static const char *const names[] = {"weight", "input", "rearrangement", "broadcast",
                                        "arithmetic"};
    return names[class_of(op)];
}

static const char *colour(int op)
{
    static const char *const colours[] = {"#f6c6a8", "#e0e0e0", "#cfe3f5", "#d6efcf", "#fbeec1"};
    return colours[class_of(op)];
}

static void dot_node(const kas_kernel *kernel, int i, const kas_binding *binding, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    uint32_t sizes[KAS_MAX_DIMS];
    int rank;
    kas_buf_printf(out, "  n%d [fillcolor=\"%s\", label=\"%d: ", i, colour(node->op), i);
    kas_node_describe(kernel, i, out);
    kas_buf_puts(out, "\\n");
    kas_shape_print(&node->shape, out);
    if (binding && kas_node_sizes(node, binding, sizes, &rank) == KAS_OK) {
        kas_buf_puts(out, "\\n");
        for (int d = 0; d < rank; d++)
            kas_buf_printf(out, "%s%u", d ? " x " : "", sizes[d]);
    }
    kas_buf_puts(out, "\"];\n");
    for (int k = 0; k < node->inputs; k++)
        kas_buf_printf(out, "  n%d -> n%d%s;\n", node->in[k], i,
                       kas_type_of(node->op) != KAS_TYPE_BROADCAST ? ""
                       : k == 0                                    ? " [label=\"LHS\"]"
                                                                   : " [label=\"RHS\"]");
}

kas_status kas_kernel_write_dot(const kas_kernel *kernel, const char *name,
                                const kas_binding *binding, kas_buf *out)
{
    kas_buf_puts(out, "digraph ");
    kas_buf_json_string(out, name);
    kas_buf_puts(out, " {\n  node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\"];\n"
                      "  edge [fontname=\"Helvetica\", fontsize=10];\n");
    for (int i = 0; i < kernel->nodes; i++)
        dot_node(kernel, i, binding, out);
    kas_buf_puts(out, "}\n");
    return kas_buf_status(out);
}
