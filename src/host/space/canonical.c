#include "host/space/canonical.h"

#include <string.h>

#include "host/core/sha256.h"
#include "host/space/primitive.h"
#include "host/space/split.h"

/* Numbers the nodes: a node gets its number when the walk leaves it. The depth of the recursion is
 * at most KAS_MAX_NODES. */
static void visit(const kas_kernel *kernel, int i, kas_renaming *names, int *next)
{
    if (names->node[i] >= 0)
        return;
    for (int k = 0; k < kernel->node[i].inputs; k++)
        visit(kernel, kernel->node[i].in[k], names, next);
    names->node[i] = (*next)++;
}

/* Returns how a node uses a group symbol or a variable, be it through its split; 0 = not at all. */
static int use_of(const kas_kernel *kernel, int i, int symbol)
{
    const kas_node *node = &kernel->node[i];
    unsigned attributes = kas_primitive_get(node->op)->attributes;
    if (attributes & KAS_ATTR_SPLIT)
        return kernel->split[node->split].whole.exp[symbol];
    if ((attributes & KAS_ATTR_SYMBOL) && KAS_SYM_G0 + node->symbol == symbol)
        return 1;
    return attributes & KAS_ATTR_OUT ? node->out.exp[symbol] : 0;
}

/* Orders two symbols by how the renumbered nodes use them, then by value; the symbol that is used
 * earlier comes first. The order does not depend on their names, and symbols that compare equal can
 * be exchanged without any change to the kernel, so naming in this order is canonical. */
static int compare_symbols(const kas_kernel *numbered, int a, int b)
{
    for (int i = 0; i < numbered->nodes; i++) {
        int x = use_of(numbered, i, a), y = use_of(numbered, i, b);
        if (x != y)
            return x == 0 ? 1 : y == 0 ? -1 : y - x;
    }
    if (a >= KAS_SYM_X0 || b >= KAS_SYM_X0)
        return 0;
    uint32_t u = numbered->group_value[a - KAS_SYM_G0], v = numbered->group_value[b - KAS_SYM_G0];
    return (u > v) - (u < v);
}

/* Names the symbols of [first, end) that are used, by insertion in order. */
static void name_symbols(const kas_kernel *numbered, int first, int end, kas_renaming *names)
{
    int order[KAS_SYM_COUNT], count = 0;
    for (int s = first; s < end; s++) {
        bool used = false;
        for (int i = 0; i < numbered->nodes; i++)
            used |= use_of(numbered, i, s) != 0;
        if (!used)
            continue;
        int at = count++;
        for (; at > 0 && compare_symbols(numbered, order[at - 1], s) > 0; at--)
            order[at] = order[at - 1];
        order[at] = s;
    }
    for (int k = 0; k < count; k++)
        names->symbol[order[k]] = first + k;
}

/* Names the splits. Every split is used by a slice or a concatenation, and each of these uses one
 * split, so their order is enough. */
static void name_splits(const kas_kernel *numbered, kas_renaming *names)
{
    int next = 0;
    for (int i = 0; i < numbered->nodes; i++) {
        const kas_node *node = &numbered->node[i];
        if (!(kas_primitive_get(node->op)->attributes & KAS_ATTR_SPLIT) ||
            names->split[node->split] >= 0)
            continue;
        names->split[node->split] = next;
        names->symbol[KAS_SYM_R0 + node->split] = KAS_SYM_R0 + next++;
    }
}

static void rename_dim(kas_dim *dim, const kas_renaming *names)
{
    const kas_dim old = *dim;
    memset(dim->exp, 0, sizeof dim->exp);
    for (int s = 0; s < KAS_SYM_COUNT; s++)
        if (old.exp[s] != 0)
            dim->exp[names->symbol[s]] = old.exp[s];
}

static void rename_splits(const kas_kernel *kernel, const kas_renaming *names, kas_kernel *out)
{
    memset(out->split, 0, sizeof out->split);
    for (int s = 0; s < KAS_MAX_SPLITS; s++)
        if (names->split[s] >= 0) {
            kas_split *split = &out->split[names->split[s]];
            *split = kernel->split[s];
            rename_dim(&split->whole, names);
        }
}

static void rename_node(kas_node *node, const kas_renaming *names)
{
    unsigned attributes = kas_primitive_get(node->op)->attributes;
    if (attributes & KAS_ATTR_SYMBOL)
        node->symbol = (uint8_t)(names->symbol[KAS_SYM_G0 + node->symbol] - KAS_SYM_G0);
    if (attributes & KAS_ATTR_SPLIT)
        node->split = (uint8_t)names->split[node->split];
    if (attributes & KAS_ATTR_OUT)
        rename_dim(&node->out, names);
}

static void renumber(const kas_kernel *kernel, kas_renaming *names, kas_kernel *out)
{
    visit(kernel, kernel->nodes - 1, names, &out->nodes);
    for (int i = 0; i < kernel->nodes; i++) {
        if (names->node[i] < 0)
            continue;
        kas_node *node = &out->node[names->node[i]];
        *node = kernel->node[i];
        for (int k = 0; k < node->inputs; k++)
            node->in[k] = (uint8_t)names->node[node->in[k]];
    }
    memcpy(out->group_value, kernel->group_value, sizeof out->group_value);
    memcpy(out->split, kernel->split, sizeof out->split);
    out->stride_inside = kernel->stride_inside;
}

kas_status kas_kernel_canonicalize_with(const kas_kernel *kernel, kas_kernel *out,
                                        kas_renaming *renaming)
{
    kas_kernel result; /* of its nodes only those that exist are set */
    if (kernel->nodes < 2 || kernel->nodes > KAS_MAX_NODES)
        return kas_fail(KAS_ILLEGAL, "%d nodes; a kernel has 2 to %d", kernel->nodes,
                        KAS_MAX_NODES);
    for (int i = 0; i < KAS_MAX_NODES; i++)
        renaming->node[i] = -1;
    for (int s = 0; s < KAS_SYM_COUNT; s++)
        renaming->symbol[s] = s < KAS_SYM_R0 ? s : -1;
    for (int s = 0; s < KAS_MAX_SPLITS; s++)
        renaming->split[s] = -1;
    result.nodes = 0;
    renumber(kernel, renaming, &result);
    name_splits(&result, renaming);
    name_symbols(&result, KAS_SYM_G0, KAS_SYM_X0, renaming);
    name_symbols(&result, KAS_SYM_X0, KAS_SYM_COUNT, renaming);
    memset(result.group_value, 0, sizeof result.group_value);
    for (int g = 0; g < KAS_MAX_GROUPS; g++)
        if (renaming->symbol[KAS_SYM_G0 + g] >= 0)
            result.group_value[renaming->symbol[KAS_SYM_G0 + g] - KAS_SYM_G0] =
                kernel->group_value[g];
    for (int i = 0; i < result.nodes; i++)
        rename_node(&result.node[i], renaming);
    rename_splits(kernel, renaming, &result);
    KAS_TRY(kas_kernel_infer(&result));
    kas_kernel_copy(&result, out);
    memset(out->node + out->nodes, 0, sizeof out->node - (size_t)out->nodes * sizeof *out->node);
    return KAS_OK;
}

kas_status kas_kernel_canonicalize(const kas_kernel *kernel, kas_kernel *out)
{
    kas_renaming renaming;
    return kas_kernel_canonicalize_with(kernel, out, &renaming);
}

/* Appends a small number without reading a format: thousands of canonical texts are written
 * in a second. */
static void print_number(const char *before, int number, kas_buf *out)
{
    char digits[12], *at = digits + sizeof digits - 1;
    unsigned rest = number < 0 ? -(unsigned)number : (unsigned)number;
    *at = '\0';
    do
        *--at = (char)('0' + rest % 10);
    while ((rest /= 10) != 0);
    if (number < 0)
        *--at = '-';
    kas_buf_puts(out, before);
    kas_buf_puts(out, at);
}

static void print_place(const kas_node *node, unsigned attributes, kas_buf *out)
{
    if (attributes & KAS_ATTR_DIM)
        print_number(" dim=", node->dim, out);
    if (attributes & KAS_ATTR_DIM_END)
        print_number(" dim_end=", node->dim_end, out);
    if (attributes & KAS_ATTR_AXES) {
        kas_buf_puts(out, node->axes & KAS_AXIS_H ? " axes=h" : " axes=");
        kas_buf_puts(out, node->axes & KAS_AXIS_W ? "w" : "");
    }
    if (attributes & KAS_ATTR_OFFSET)
        print_number(" offset=", node->offset, out);
    if ((attributes & KAS_ATTR_KERNEL) && node->kernel)
        print_number(" kernel=", node->kernel, out);
    if ((attributes & KAS_ATTR_DILATION) && node->dilation)
        print_number(" dilation=", node->dilation, out);
}

static void print_node(const kas_node *node, kas_buf *out)
{
    const kas_primitive *primitive = kas_primitive_get(node->op);
    const unsigned attributes = primitive->attributes;
    kas_buf_puts(out, primitive->info.name);
    kas_buf_puts(out, node->inputs ? "" : "(");
    for (int k = 0; k < node->inputs; k++)
        print_number(k ? "," : "(", node->in[k], out);
    print_place(node, attributes, out);
    if (attributes & KAS_ATTR_SPLIT) {
        kas_buf_puts(out, " split=");
        kas_buf_puts(out, kas_split_name(node->split));
    }
    if (attributes & KAS_ATTR_SEGMENT)
        print_number(" segment=", node->segment, out);
    if (attributes & KAS_ATTR_SYMBOL) {
        kas_buf_puts(out, " by=");
        kas_buf_puts(out, kas_symbol_name(KAS_SYM_G0 + node->symbol));
    }
    if ((attributes & KAS_ATTR_GROUPED) && node->grouped)
        kas_buf_puts(out, " grouped");
    if (attributes & KAS_ATTR_PRODUCT) {
        kas_buf_puts(out, node->transpose & KAS_TRANSPOSE_LHS ? " lhs^T" : "");
        kas_buf_puts(out, node->transpose & KAS_TRANSPOSE_RHS ? " rhs^T" : "");
        kas_buf_puts(out, node->softmax ? " softmax" : "");
    }
    if (attributes & KAS_ATTR_OUT) {
        kas_buf_puts(out, " out=");
        kas_dim_print(&node->out, out);
    }
    kas_buf_puts(out, ");");
}

static void print_split(const kas_kernel *kernel, int s, kas_buf *out)
{
    const kas_split *split = &kernel->split[s];
    kas_buf_printf(out, "%s=", kas_split_name(s));
    kas_dim_print(&split->whole, out);
    if (split->first)
        kas_buf_printf(out, " first=%u;", split->first);
    else if (split->part)
        kas_buf_printf(out, " part=%u;", split->part);
    else
        kas_buf_printf(out, " shares=%d;", split->shares);
}

kas_status kas_canonical_text(const kas_kernel *canonical, kas_buf *out)
{
    for (int i = 0; i < canonical->nodes; i++)
        print_node(&canonical->node[i], out);
    for (int g = 0; g < KAS_MAX_GROUPS; g++)
        if (canonical->group_value[g])
            kas_buf_printf(out, "G%d=%u;", g, canonical->group_value[g]);
    for (int s = 0; s < KAS_MAX_SPLITS; s++)
        if (canonical->split[s].whole.num)
            print_split(canonical, s, out);
    if (canonical->stride_inside)
        kas_buf_puts(out, "stride=inside;");
    return kas_buf_status(out);
}

kas_status kas_kernel_canonical_text(const kas_kernel *kernel, kas_buf *out)
{
    kas_kernel canonical;
    KAS_TRY(kas_kernel_canonicalize(kernel, &canonical));
    return kas_canonical_text(&canonical, out);
}

kas_status kas_canonical_name(const kas_kernel *canonical, char name[KAS_NAME_SIZE])
{
    kas_buf text = {0};
    char hex[65];
    kas_status status = kas_canonical_text(canonical, &text);
    if (status == KAS_OK) {
        kas_sha256_hex(text.data, text.size, hex);
        memcpy(name, hex, KAS_NAME_SIZE - 1);
        name[KAS_NAME_SIZE - 1] = '\0';
    }
    kas_buf_free(&text);
    return status;
}

kas_status kas_kernel_name(const kas_kernel *kernel, char name[KAS_NAME_SIZE])
{
    kas_kernel canonical;
    KAS_TRY(kas_kernel_canonicalize(kernel, &canonical));
    return kas_canonical_name(&canonical, name);
}
