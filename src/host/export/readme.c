#include "host/export/export.h"

#include "host/space/describe.h"

static void put_nodes(const kas_kernel *kernel, kas_buf *out)
{
    kas_buf_puts(out, "\n```\n");
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

static void put_kernels(const kas_replacement *r, kas_buf *out)
{
    if (!r->kernel_of)
        kas_buf_puts(out, "\n## The kernel\n");
    for (int k = 0; k < r->kernels; k++) {
        if (r->kernel_of)
            kas_buf_printf(out, "\n## Kernel %d\n", k);
        put_nodes(&r->kernel[k], out);
    }
}

/* Returns the free sizes of all kernels, as bits. */
static uint32_t all_vars(const kas_replacement *r)
{
    uint32_t vars = 0;
    for (int k = 0; k < r->kernels; k++)
        vars |= kas_kernel_vars(&r->kernel[k]);
    return vars;
}

static void put_sizes(const kas_replacement *r, int t, uint32_t vars, kas_buf *out)
{
    const kas_kernel *kernel = kas_replacement_kernel(r, t);
    for (int v = 0; v < KAS_MAX_VARS; v++) {
        if (vars & (1u << v))
            kas_buf_puts(out, " ");
        if (kernel && (kas_kernel_vars(kernel) & (1u << v)))
            kas_buf_printf(out, "%u ", r->solution.binding[t].value[KAS_SYM_X0 + v]);
        if (vars & (1u << v))
            kas_buf_puts(out, "|");
    }
}

static void put_targets(const kas_replacement *r, kas_buf *out)
{
    uint32_t vars = all_vars(r);
    kas_buf_puts(out, "\n## Where it stands\n\n| layer | convolution | image | instances |");
    kas_buf_puts(out, r->kernel_of ? " kernel |" : "");
    for (int v = 0; v < KAS_MAX_VARS; v++)
        if (vars & (1u << v))
            kas_buf_printf(out, " x%d |", v);
    kas_buf_puts(out, r->kernel_of ? "\n|---|---|---|---|---|" : "\n|---|---|---|---|");
    for (int v = 0; v < KAS_MAX_VARS; v++)
        if (vars & (1u << v))
            kas_buf_puts(out, "---|");
    kas_buf_puts(out, "\n");
    for (int t = 0; t < r->solution.targets; t++) {
        const kas_target *target = &r->target[t];
        kas_buf_printf(out, "| %s | %ux%u, %u to %u channels", target->name, target->kernel_h,
                       target->kernel_w, target->c_in, target->c_out);
        if (target->stride > 1)
            kas_buf_printf(out, ", stride %u", target->stride);
        kas_buf_printf(out, " | %ux%u | %u |", target->h, target->w,
                       target->parts_in * target->parts_out);
        if (r->kernel_of && r->kernel_of[t] == KAS_KEPT)
            kas_buf_puts(out, " none |");
        else if (r->kernel_of)
            kas_buf_printf(out, " %d |", r->kernel_of[t]);
        put_sizes(r, t, vars, out);
        kas_buf_puts(out, "\n");
    }
    const kas_solution *s = &r->solution;
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

static const char alone_text[] =
    "- `kernel.py`: the kernel alone, to stand in the place of a convolution of your own "
    "network: `from kernel import Kernel`.\n";

static const char several_text[] = "- `kernel0.py`, `kernel1.py`, ...: each kernel alone, to stand "
                                   "in the place of a convolution of "
                                   "your own network: `from kernel0 import Kernel`.\n";

static void put_use(const kas_export_options *o, bool source, kas_buf *out)
{
    const kas_layer *in = &o->net.net->layer[0];
    const bool several = o->net.replacement->kernel_of != NULL;
    kas_buf_printf(
        out,
        "\n## Use\n\n"
        "- `network.py`: %s with the kernel%s, in plain PyTorch. `import network; model = "
        "network.load()` gives it with `weights.safetensors` in evaluation mode; input [n, %d, %d, "
        "%d], normalised. `python3 network.py --check` compares its logits with those in "
        "`check.safetensors`, which kas-gpu computed in float64.\n"
        "%s"
        "- `weights.safetensors`: %s; names and shapes are those of the module's state_dict.\n"
        "%s"
        "- `kernel%s.dot`: `dot -Tsvg kernel%s.dot -o kernel.svg` draws %s.\n"
        "- `kernel.json`: for kas-gpu itself: `kas-gpu train --kernel kernel.json ...`.\n",
        o->net.net->name, several ? "s" : "", in->c, in->h, in->w,
        several ? several_text : alone_text,
        o->weights_note ? o->weights_note : "initial weights, not trained",
        source ? source_text : "", several ? "0" : "", several ? "0" : "",
        several ? "kernel 0" : "it");
}

kas_status kas_export_readme(const kas_export_options *o, bool source, kas_buf *out)
{
    kas_buf_printf(out, KAS_EXPORT_MARK "\n\nFrom %s.\n", o->title);
    if (o->facts)
        kas_buf_printf(out, "\n%s", o->facts);
    put_use(o, source, out);
    put_kernels(o->net.replacement, out);
    put_targets(o->net.replacement, out);
    return kas_buf_status(out);
}
