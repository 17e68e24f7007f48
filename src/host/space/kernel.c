#include "host/space/primitive.h"
#include "host/space/split.h"

#include <string.h>

static kas_status check_operands(const kas_kernel *kernel, int i)
{
    const kas_node *node = &kernel->node[i];
    const kas_op_info *info = kas_op_get(node->op);
    if (!info)
        return kas_fail(KAS_ILLEGAL, "node %d: unknown primitive number %d", i, node->op);
    if ((node->op == KAS_OP_INPUT) != (i == 0))
        return kas_node_fail(kernel, i, "%s",
                             i == 0 ? "node 0 must be the input" : "only node 0 is the input");
    const bool variadic = info->traits & KAS_TRAIT_VARIADIC;
    const int most = variadic ? KAS_MAX_INPUTS : info->inputs;
    if (node->inputs < info->inputs || node->inputs > most)
        return kas_node_fail(kernel, i, "%d operands, %d%s expected", node->inputs, info->inputs,
                             variadic ? " or more" : "");
    for (int k = 0; k < node->inputs; k++)
        if (node->in[k] >= i)
            return kas_node_fail(kernel, i, "operand %d is node %d, which is not an earlier node",
                                 k, node->in[k]);
    return KAS_OK;
}

kas_status kas_node_infer(kas_kernel *kernel, int i)
{
    if (i < 0 || i >= kernel->nodes || kernel->nodes > KAS_MAX_NODES)
        return kas_fail(KAS_ILLEGAL, "node %d of %d; at most %d nodes are allowed", i,
                        kernel->nodes, KAS_MAX_NODES);
    KAS_TRY(check_operands(kernel, i));
    memset(&kernel->node[i].shape, 0, sizeof kernel->node[i].shape);
    KAS_TRY(kas_primitive_get(kernel->node[i].op)->infer(kernel, i));
    if (!kas_shape_theorem1(&kernel->node[i].shape))
        return kas_node_fail(kernel, i,
                             "a tensor may have one dynamic variable, once, in the numerator "
                             "(Theorem 1)");
    return KAS_OK;
}

/* Checks that the output depends on every node. Node numbers grow along edges, so one backward
 * sweep marks all that the last node reads. */
static kas_status check_reachable(const kas_kernel *kernel)
{
    bool used[KAS_MAX_NODES] = {false};
    used[kernel->nodes - 1] = true;
    for (int i = kernel->nodes - 1; i >= 0; i--) {
        if (!used[i])
            return kas_node_fail(kernel, i, "nothing that leads to the output reads it");
        for (int k = 0; k < kernel->node[i].inputs; k++)
            used[kernel->node[i].in[k]] = true;
    }
    return KAS_OK;
}

static kas_status check_output(const kas_kernel *kernel)
{
    const kas_shape *shape = &kernel->node[kernel->nodes - 1].shape;
    kas_dim channels = kas_dim_const(1), wanted = kas_dim_symbol(KAS_SYM_C);
    bool ok = kas_shape_has_image(shape);
    for (int d = 0; ok && d < shape->channels; d++)
        ok = kas_dim_mul(&channels, &shape->channel[d], &channels);
    if (ok && kas_dim_equal(&channels, &wanted))
        return KAS_OK;
    kas_buf text = {0};
    kas_shape_print(shape, &text);
    kas_status status = kas_node_fail(kernel, kernel->nodes - 1,
                                      "the output has shape %.200s; it must have H and W, and "
                                      "channel dims whose product is C",
                                      kas_buf_text(&text));
    kas_buf_free(&text);
    return status;
}

/* Returns whether a node only rearranges the input, so that a window can read it at full size. */
static bool rearranges_input(const kas_kernel *kernel, int i)
{
    const kas_node *node = &kernel->node[i];
    while (node->op == KAS_OP_GROUP || node->op == KAS_OP_GROUP_ALL || node->op == KAS_OP_SLICE) {
        const kas_split *split = &kernel->split[node->split];
        const kas_shape *in = kas_node_input(kernel, (int)(node - kernel->node), 0);
        if (node->op == KAS_OP_SLICE && node->dim >= in->channels && split->first)
            return false; /* so many rows, of whatever image */
        node = &kernel->node[node->in[0]];
    }
    return node->op == KAS_OP_INPUT;
}

/* Checks that a kernel can take the stride: whatever looks at neighbours looks at the input. */
static kas_status check_stride(const kas_kernel *kernel)
{
    for (int i = 1; kernel->stride_inside && i < kernel->nodes; i++) {
        const kas_node *node = &kernel->node[i];
        const bool plain = node->op == KAS_OP_GROUP || node->op == KAS_OP_GROUP_ALL ||
                           node->op == KAS_OP_SLICE || node->op == KAS_OP_CONCAT ||
                           node->op == KAS_OP_FC;
        if (!plain && node->op != KAS_OP_UNFOLD)
            return kas_node_fail(kernel, i,
                                 "with the stride inside, a kernel consists of group, slice, "
                                 "unfold, fc and concat");
        if ((node->op == KAS_OP_SLICE || node->op == KAS_OP_CONCAT) &&
            node->dim >= kas_node_input(kernel, i, 0)->channels && kernel->split[node->split].first)
            return kas_node_fail(
                kernel, i, "with the stride inside, rows and columns are cut in equal shares");
        if (!plain && !rearranges_input(kernel, node->in[0]))
            return kas_node_fail(kernel, i,
                                 "with the stride inside, a window reads the input, in groups or "
                                 "in slices that are equal shares");
    }
    return KAS_OK;
}

kas_status kas_kernel_infer(kas_kernel *kernel)
{
    if (kernel->nodes < 2 || kernel->nodes > KAS_MAX_NODES)
        return kas_fail(KAS_ILLEGAL, "%d nodes; a kernel has 2 to %d, the input included",
                        kernel->nodes, KAS_MAX_NODES);
    for (int i = 0; i < kernel->nodes; i++)
        KAS_TRY(kas_node_infer(kernel, i));
    KAS_TRY(check_reachable(kernel));
    KAS_TRY(kas_splits_check(kernel));
    KAS_TRY(check_stride(kernel));
    return check_output(kernel);
}

void kas_kernel_copy(const kas_kernel *from, kas_kernel *to)
{
    to->nodes = from->nodes;
    memcpy(to->node, from->node, (size_t)from->nodes * sizeof *from->node);
    memcpy(to->split, from->split, sizeof to->split);
    memcpy(to->group_value, from->group_value, sizeof to->group_value);
    to->stride_inside = from->stride_inside;
}

uint32_t kas_kernel_vars(const kas_kernel *kernel)
{
    uint32_t vars = 0;
    for (int i = 0; i < kernel->nodes; i++)
        if (kas_node_has_out(&kernel->node[i]))
            for (int v = 0; v < KAS_MAX_VARS; v++)
                if (kernel->node[i].out.exp[KAS_SYM_X0 + v] != 0)
                    vars |= 1u << v;
    return vars;
}

/* Returns whether an attribute of the node holds the variable, be it through its split. */
static bool holds(const kas_kernel *kernel, const kas_node *node, int var)
{
    const unsigned attributes = kas_primitive_get(node->op)->attributes;
    return ((attributes & KAS_ATTR_OUT) && node->out.exp[KAS_SYM_X0 + var] != 0) ||
           ((attributes & KAS_ATTR_SPLIT) &&
            kernel->split[node->split % KAS_MAX_SPLITS].whole.exp[KAS_SYM_X0 + var] != 0);
}

uint64_t kas_kernel_nodes_of(const kas_kernel *kernel, int var)
{
    uint64_t found = 0;
    for (int i = 0; i < kernel->nodes; i++) {
        const kas_node *node = &kernel->node[i];
        bool depends = holds(kernel, node, var);
        for (int k = 0; k < node->inputs; k++)
            depends = depends || (found >> node->in[k] & 1);
        found |= (uint64_t)depends << i;
    }
    return found;
}

kas_status kas_kernel_substitute(kas_kernel *kernel, int var, const kas_dim *value)
{
    if (var < 0 || var >= KAS_MAX_VARS)
        return kas_fail(KAS_FAILURE, "there is no variable x%d", var);
    uint64_t nodes = kas_kernel_nodes_of(kernel, var);
    for (int i = 0; i < kernel->nodes; i++) {
        kas_node *node = &kernel->node[i];
        if (kas_node_has_out(node) && !kas_dim_substitute(&node->out, var, value, &node->out))
            return kas_node_fail(kernel, i, "the value for x%d leaves its range", var);
    }
    for (int s = 0; s < KAS_MAX_SPLITS; s++)
        if (!kas_dim_substitute(&kernel->split[s].whole, var, value, &kernel->split[s].whole))
            return kas_fail(KAS_ILLEGAL, "the value for x%d leaves the range of split S%d", var, s);
    for (; nodes; nodes &= nodes - 1)
        KAS_TRY(kas_node_infer(kernel, __builtin_ctzll(nodes)));
    return KAS_OK;
}

int kas_node_integers(const kas_kernel *kernel, int i, kas_dim out[KAS_MAX_DIMS + 1])
{
    const kas_shape *shape = &kernel->node[i].shape;
    const kas_primitive *primitive = kas_primitive_get(kernel->node[i].op);
    int count = kas_shape_rank(shape);
    for (int d = 0; d < count; d++)
        out[d] = kas_shape_dim(shape, d);
    if (primitive->divisor) {
        if (primitive->divisor(kernel, i, &out[count]) != KAS_OK)
            return -1;
        count++;
    }
    return count;
}

const char *kas_node_integer_name(const kas_kernel *kernel, int i, int d)
{
    const int op = kernel->node[i].op;
    return d < kas_shape_rank(&kernel->node[i].shape) ? "the size"
           : kas_op_has_weight((kas_op)op)            ? "the number of outputs per group"
           : op == KAS_OP_SHUFFLE                     ? "the number of channels in a group"
                                                      : "the number of repetitions of LHS";
}

static kas_status not_an_integer(const kas_kernel *kernel, int i, int d, const kas_dim *dim)
{
    kas_buf text = {0};
    kas_dim_print(dim, &text);
    kas_status status = kas_node_fail(kernel, i, "%s %.100s is not an integer at this target",
                                      kas_node_integer_name(kernel, i, d), kas_buf_text(&text));
    kas_buf_free(&text);
    return status;
}

kas_status kas_kernel_check_binding(const kas_kernel *kernel, const kas_binding *binding)
{
    KAS_TRY(kas_splits_check_binding(kernel, binding));
    for (int i = 0; i < kernel->nodes; i++) {
        kas_dim dims[KAS_MAX_DIMS + 1];
        uint64_t size;
        int count = kas_node_integers(kernel, i, dims);
        if (count < 0)
            return KAS_ILLEGAL;
        for (int d = 0; d < count; d++)
            if (!kas_dim_eval(&dims[d], binding, &size))
                return not_an_integer(kernel, i, d, &dims[d]);
    }
    return KAS_OK;
}

kas_status kas_node_sizes(const kas_node *node, const kas_binding *binding,
                          uint32_t sizes[KAS_MAX_DIMS], int *rank)
{
    *rank = kas_shape_rank(&node->shape);
    for (int d = 0; d < *rank; d++) {
        kas_dim dim = kas_shape_dim(&node->shape, d);
        uint64_t size;
        if (!kas_dim_eval(&dim, binding, &size) || size > UINT32_MAX)
            return kas_fail(KAS_ILLEGAL, "%s: dim %d is not an integer below 2^32 at this target",
                            kas_op_get(node->op)->name, d);
        sizes[d] = (uint32_t)size;
    }
    return KAS_OK;
}
