#include "host/export/python_node.h"

/* What stands in front of the operand and behind it. */
static const struct {
    const char *before, *after;
} texts[KAS_OP_COUNT] = {
    [KAS_OP_RELU] = {"torch.relu(", ")"},
    [KAS_OP_GELU] = {"F.gelu(", ")"},
    [KAS_OP_SIGMOID] = {"torch.sigmoid(", ")"},
    [KAS_OP_TANH] = {"torch.tanh(", ")"},
    [KAS_OP_ABS] = {"torch.abs(", ")"},
    [KAS_OP_EXP] = {"torch.exp(", ".clamp(max=8))"},
    [KAS_OP_NEG] = {"-", ""},
    [KAS_OP_SIN] = {"torch.sin(", ")"},
    [KAS_OP_SQRT] = {"torch.sqrt(torch.relu(", ") + 0.01)"},
    [KAS_OP_SQUARE] = {"torch.square(", ".clamp(-100, 100))"},
};

kas_status kas_python_elementwise(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    (void)weight;
    if (!texts[node->op].before)
        return kas_python_unknown(kernel, i);
    kas_buf_printf(out, "        n%d = %sn%d%s\n", i, texts[node->op].before, node->in[0],
                   texts[node->op].after);
    return KAS_OK;
}
