#include <string.h>

#include "host/space/canonical.h"
#include "host/space/file/kernel_json.h"
#include "host/space/file/kernel_json_node.h"
#include "host/space/primitive.h"
#include "host/space/split.h"

static void write_node(const kas_node *node, kas_buf *out)
{
    const kas_primitive *primitive = kas_primitive_get(node->op);
    unsigned attributes = primitive->attributes;
    kas_buf_printf(out, "{\"op\": \"%s\"", primitive->info.name);
    for (int k = 0; k < node->inputs; k++)
        kas_buf_printf(out, "%s%d%s", k ? ", " : ", \"in\": [", node->in[k],
                       k + 1 < node->inputs ? "" : "]");
    if (attributes & KAS_ATTR_DIM)
        kas_buf_printf(out, ", \"dim\": %d", node->dim);
    if (attributes & KAS_ATTR_DIM_END)
        kas_buf_printf(out, ", \"dim_end\": %d", node->dim_end);
    if (attributes & KAS_ATTR_AXES)
        kas_buf_printf(out, ", \"axes\": \"%s\"", kas_axes_name(node->axes));
    if (attributes & KAS_ATTR_OFFSET)
        kas_buf_printf(out, ", \"offset\": %d", node->offset);
    if ((attributes & KAS_ATTR_KERNEL) && node->kernel)
        kas_buf_printf(out, ", \"kernel\": %d", node->kernel);
    if ((attributes & KAS_ATTR_DILATION) && node->dilation)
        kas_buf_printf(out, ", \"dilation\": %d", node->dilation);
    if (attributes & KAS_ATTR_SPLIT)
        kas_buf_printf(out, ", \"split\": \"%s\"", kas_split_name(node->split));
    if (attributes & KAS_ATTR_SEGMENT)
        kas_buf_printf(out, ", \"segment\": %d", node->segment);
    if (attributes & KAS_ATTR_SYMBOL)
        kas_buf_printf(out, ", \"by\": \"%s\"", kas_symbol_name(KAS_SYM_G0 + node->symbol));
    if ((attributes & KAS_ATTR_GROUPED) && node->grouped)
        kas_buf_puts(out, ", \"grouped\": true");
    if ((attributes & KAS_ATTR_PRODUCT) && node->transpose)
        kas_buf_printf(out, ", \"transpose\": \"%s\"", kas_transpose_name(node->transpose));
    if ((attributes & KAS_ATTR_PRODUCT) && node->softmax)
        kas_buf_puts(out, ", \"softmax\": true");
    if (attributes & KAS_ATTR_OUT) {
        kas_buf_puts(out, ", \"out\": \"");
        kas_dim_print(&node->out, out);
        kas_buf_puts(out, "\"");
    }
    kas_buf_puts(out, "}");
}

static void write_groups(const kas_kernel *kernel, kas_buf *out)
{
    const char *comma = "";
    kas_buf_puts(out, "  \"groups\": {");
    for (int g = 0; g < KAS_MAX_GROUPS; g++)
        if (kernel->group_value[g]) {
            kas_buf_printf(out, "%s\"%s\": %u", comma, kas_symbol_name(KAS_SYM_G0 + g),
                           kernel->group_value[g]);
            comma = ", ";
        }
    kas_buf_puts(out, "}");
}

/* Appends the splits; nothing when the kernel has none. */
static void write_splits(const kas_kernel *kernel, kas_buf *out)
{
    const char *before = ",\n  \"splits\": {";
    if (!kas_kernel_splits(kernel))
        return;
    for (int s = 0; s < KAS_MAX_SPLITS; s++) {
        const kas_split *split = &kernel->split[s];
        if (split->whole.num == 0)
            continue;
        kas_buf_printf(out, "%s\"%s\": {\"whole\": \"", before, kas_split_name(s));
        kas_dim_print(&split->whole, out);
        if (split->first)
            kas_buf_printf(out, "\", \"first\": %u}", split->first);
        else if (split->part)
            kas_buf_printf(out, "\", \"part\": %u}", split->part);
        else
            kas_buf_printf(out, "\", \"shares\": %d}", split->shares);
        before = ", ";
    }
    kas_buf_puts(out, "}");
}

/* Appends a binding with symbols in their canonical names and order; symbols without a value are
 * left out. `old` has the symbol that got each canonical name, or -1. */
static void write_binding(const kas_binding *binding, const int old[KAS_SYM_COUNT], kas_buf *out)
{
    const char *comma = "";
    kas_buf_puts(out, "{");
    for (int s = 0; s < KAS_SYM_COUNT; s++)
        if (old[s] >= 0 && binding->value[old[s]]) {
            kas_buf_printf(out, "%s\"%s\": %u", comma, kas_symbol_name((kas_symbol)s),
                           binding->value[old[s]]);
            comma = ", ";
        }
    kas_buf_puts(out, "}");
}

/* Appends the values that the solver chose at every target. */
static void write_targets(const kas_solution *solution, const kas_renaming *names, kas_buf *out)
{
    int old[KAS_SYM_COUNT];
    memset(old, -1, sizeof old);
    for (int s = 0; s < KAS_SYM_COUNT; s++)
        if (names->symbol[s] >= 0)
            old[names->symbol[s]] = s;
    kas_buf_puts(out, ",\n  \"targets\": [\n");
    for (int t = 0; t < solution->targets; t++) {
        kas_buf_puts(out, "    ");
        write_binding(&solution->binding[t], old, out);
        kas_buf_puts(out, t + 1 < solution->targets ? ",\n" : "\n");
    }
    kas_buf_puts(out, "  ]");
}

kas_status kas_kernel_write_json(const kas_kernel *kernel, const kas_solution *solution,
                                 kas_buf *out)
{
    kas_kernel canonical;
    kas_renaming names;
    KAS_TRY(kas_kernel_canonicalize_with(kernel, &canonical, &names));
    kas_buf_printf(out, "{\n  \"format\": \"%s\",\n  \"version\": %d,\n  \"nodes\": [\n",
                   KAS_KERNEL_FORMAT, KAS_KERNEL_FORMAT_VERSION);
    for (int i = 0; i < canonical.nodes; i++) {
        kas_buf_puts(out, "    ");
        write_node(&canonical.node[i], out);
        kas_buf_puts(out, i + 1 < canonical.nodes ? ",\n" : "\n");
    }
    kas_buf_puts(out, "  ],\n");
    write_groups(&canonical, out);
    write_splits(&canonical, out);
    if (canonical.stride_inside)
        kas_buf_puts(out, ",\n  \"stride\": \"inside\"");
    if (solution)
        write_targets(solution, &names, out);
    kas_buf_puts(out, "\n}\n");
    return kas_buf_status(out);
}
