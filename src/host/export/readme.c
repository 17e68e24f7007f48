#include "host/export/export.h"

#include "host/space/describe.h"

static void put_nodes(const kas_kernel *kernel, kas_buf *out)
{
    kas_buf_puts(out, "\n## The kernel\n\n```\n");
    for (int i = 0; i < kernel->nodes; i++) {
        const kas_node *node = &kernel->node[i];
        kas_buf_printf(out, "%2d  ", i);
        kas_node_describe(kernel, i, out);
        for (int k = 0; k < node->inputs; k++)
            kas_buf_printf(out, "%s %d", k ? "," : " of", node->in[k]);
        kas_buf_puts(out, "  ");
        kas_shape_print(&node->shape, out);
        kas_buf_puts(out, "\n");
    }
    kas_buf_puts(out, "```\n");
    for (int g = 0; g < KAS_MAX_GROUPS; g++)
        if (kernel->group_value[g])
            kas_buf_printf(out, "\n%s = %u.\n", kas_symbol_name((kas_symbol)(KAS_SYM_G0 + g)),
                           kernel->group_value[g]);
}

static void put_targets(const kas_export_net *n, kas_buf *out)
{
    uint32_t vars = kas_kernel_vars(n->kernel);
    kas_buf_puts(out, "\n## Where it stands\n\n| layer | convolution | image | instances |");
    for (int v = 0; v < KAS_MAX_VARS; v++)
        if (vars & (1u << v))
            kas_buf_printf(out, " x%d |", v);
    kas_buf_puts(out, "\n|---|---|---|---|");
    for (int v = 0; v < KAS_MAX_VARS; v++)
        if (vars & (1u << v))
            kas_buf_puts(out, "---|");
    kas_buf_puts(out, "\n");
    for (int t = 0; t < n->solution->targets; t++) {
        const kas_target *target = &n->target[t];
        kas_buf_printf(out, "| %s | %ux%u, %u to %u channels", target->name, target->kernel_h,
                       target->kernel_w, target->c_in, target->c_out);
        if (target->stride > 1)
            kas_buf_printf(out, ", stride %u", target->stride);
        kas_buf_printf(out, " | %ux%u | %u |", target->h, target->w,
                       target->parts_in * target->parts_out);
        for (int v = 0; v < KAS_MAX_VARS; v++)
            if (vars & (1u << v))
                kas_buf_printf(out, " %u |", n->solution->binding[t].value[KAS_SYM_X0 + v]);
        kas_buf_puts(out, "\n");
    }
    const kas_solution *s = n->solution;
    kas_buf_printf(out,
                   "\nPer image, all layers together: %.4g M FLOPs (the convolutions: %.4g M), "
                   "%.4g k parameters (%.4g k). A multiply-add counts as one.\n",
                   s->flops / 1e6, s->conv_flops / 1e6, s->params / 1e3, s->conv_params / 1e3);
}

static const char source_text[] =
    "- `kernel.cu`, `kernel.c`: the kernels that kas-gpu generates for these layers, forward "
    "and backward, for the GPU and for the CPU; the first line of each says how to compile "
    "it, `prelude.h` holds what the two differ in. Matrix products and convolutions that a "
    "library does better are named in the comments.\n";

static void put_use(const kas_export_options *o, bool source, kas_buf *out)
{
    const kas_layer *in = &o->net.net->layer[0];
    kas_buf_printf(
        out,
        "\n## Use\n\n"
        "- `network.py`: %s with the kernel, in plain PyTorch. `import network; model = "
        "network.load()` gives it with `weights.safetensors` in evaluation mode; input [n, %d, %d, "
        "%d], normalised. `python3 network.py --check` compares its logits with those in "
        "`check.safetensors`, which kas-gpu computed in float64.\n"
        "- `kernel.py`: the kernel alone, to stand in the place of a convolution of your own "
        "network: `from kernel import Kernel`.\n"
        "- `weights.safetensors`: %s; names and shapes are those of the module's state_dict.\n"
        "%s"
        "- `kernel.dot`: `dot -Tsvg kernel.dot -o kernel.svg` draws it.\n"
        "- `kernel.json`: for kas-gpu itself: `kas-gpu train --kernel kernel.json ...`.\n",
        o->net.net->name, in->c, in->h, in->w,
        o->weights_note ? o->weights_note : "initial weights, not trained",
        source ? source_text : "");
}

kas_status kas_export_readme(const kas_export_options *o, bool source, kas_buf *out)
{
    kas_buf_printf(out, "# A kernel from kas-gpu\n\nFrom %s.\n", o->title);
    if (o->facts)
        kas_buf_printf(out, "\n%s", o->facts);
    put_use(o, source, out);
    put_nodes(o->net.kernel, out);
    put_targets(&o->net, out);
    return kas_buf_status(out);
}
