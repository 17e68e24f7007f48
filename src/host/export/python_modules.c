/* Writes the modules of network.py. Names such as "layer1.0.conv1" become a tree, so that
 * state_dict has the names of the weights file: parts that are numbered from 0 are a ModuleList,
 * and others a Part, whose entries may have any name. */
#include "host/export/python.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Returns whether a part is a word of Python, or an attribute that every nn.Module has. */
static bool is_taken(const char *part, size_t length)
{
    static const char words[] =
        " False None True and as assert async await break class continue def del elif else except "
        "finally for from global if import in is lambda nonlocal not or pass raise return try "
        "while with yield "
        "T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda "
        "double dump_patches eval extra_repr float forward get_buffer get_extra_state "
        "get_parameter "
        "get_submodule half ipu load_state_dict modules mtia named_buffers named_children "
        "named_modules named_parameters parameters register_backward_hook register_buffer "
        "register_forward_hook register_forward_pre_hook register_full_backward_hook "
        "register_full_backward_pre_hook register_load_state_dict_post_hook "
        "register_load_state_dict_pre_hook register_module register_parameter "
        "register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ set_extra_state "
        "set_submodule share_memory state_dict to to_empty train training type xpu zero_grad ";
    for (const char *at = words; (at = strchr(at, ' ')) && at[1]; at++)
        if (strncmp(at + 1, part, length) == 0 && at[1 + length] == ' ')
            return true;
    return false;
}

/* Returns whether the first `length` bytes of a part may be the name of a module's attribute. */
static bool is_identifier(const char *part, size_t length)
{
    return !isdigit((unsigned char)*part) && !memchr(part, '-', length) && *part != '_' &&
           !is_taken(part, length);
}

void kas_python_module_path(const char *name, kas_buf *out)
{
    kas_buf_puts(out, "self");
    while (*name) {
        size_t length = strcspn(name, ".");
        bool number = strspn(name, "0123456789") == length;
        const char *before = number ? "[" : is_identifier(name, length) ? "." : "[\"";
        kas_buf_puts(out, before);
        kas_buf_add(out, name, length);
        kas_buf_puts(out, number ? "]" : *before == '[' ? "\"]" : "");
        name += length + (name[length] == '.');
    }
}

static void put_kernel(const kas_export_net *n, int target, kas_buf *out)
{
    const kas_replacement *r = n->replacement;
    const kas_kernel *kernel = kas_replacement_kernel(r, target);
    const kas_target *t = &r->target[target];
    uint32_t vars = kas_kernel_vars(kernel);
    kas_buf_puts(out, "Kernel");
    if (r->kernel_of)
        kas_buf_printf(out, "%d", r->kernel_of[target]);
    kas_buf_printf(out, "(%u, %u, (%u, %u), %u", t->c_in, t->c_out, t->kernel_h, t->kernel_w,
                   t->stride);
    if (kas_python_weights_are_sized(kernel))
        kas_buf_printf(out, ", size=(%u, %u)", t->h, t->w);
    for (int v = 0; v < KAS_MAX_VARS; v++)
        if (vars & (1u << v)) {
            int symbol = KAS_SYM_X0 + v;
            kas_buf_printf(out, ", %s=%u", kas_symbol_name((kas_symbol)symbol),
                           r->solution.binding[target].value[symbol]);
        }
    if (kas_replacement_scales(r))
        kas_buf_printf(out, ", gain=%.9g", (double)kas_replacement_gain(r, target));
    kas_buf_puts(out, ")");
}

static const char *truth(bool value)
{
    return value ? "True" : "False";
}

static void put_conv(const kas_net *net, const kas_layer *l, kas_buf *out)
{
    kas_buf_printf(out, "nn.Conv2d(%d, %d, (%d, %d), %d, (%d, %d), bias=%s", net->layer[l->in[0]].c,
                   l->c, l->kernel_h, l->kernel_w, l->stride, l->pad_h, l->pad_w, truth(l->bias));
    if (l->groups != 1)
        kas_buf_printf(out, ", groups=%d", l->groups);
    kas_buf_puts(out, ")");
}

static void put_norm(const kas_layer *l, kas_buf *out)
{
    const bool batch = l->op == KAS_LAYER_BATCH_NORM;
    kas_buf_printf(out, "nn.%s(%d, eps=", batch ? "BatchNorm2d" : "LayerNorm", l->c);
    kas_buf_number(out, l->eps);
    if (batch) {
        kas_buf_puts(out, ", momentum=");
        kas_buf_number(out, l->momentum);
    }
    kas_buf_puts(out, ")");
}

static void put_leaf(const kas_export_net *n, int layer, kas_buf *out)
{
    const kas_layer *l = &n->net->layer[layer], *in = &n->net->layer[l->in[0]];
    const int target = kas_replacement_at(n->replacement, layer);
    if (target >= 0)
        put_kernel(n, target, out);
    else if (l->op == KAS_LAYER_CONV)
        put_conv(n->net, l, out);
    else if (l->op == KAS_LAYER_BATCH_NORM || l->op == KAS_LAYER_LAYER_NORM)
        put_norm(l, out);
    else
        kas_buf_printf(out, "nn.Linear(%d, %d, bias=%s)", in->c, l->c, truth(l->bias));
}

/* Returns the next layer from `from` on whose name begins with `prefix`; -1 = none. */
static int next_under(const kas_net *net, const char *prefix, int from)
{
    for (int i = from; i < net->layers; i++)
        if (kas_layer_has_weights(net->layer[i].op) &&
            strncmp(net->layer[i].name, prefix, strlen(prefix)) == 0)
            return i;
    return -1;
}

/* Returns whether an earlier layer under `prefix` has the same next part, which is then in the
 * tree already. */
static bool seen_before(const kas_net *net, const char *prefix, int layer, size_t length)
{
    for (int i = next_under(net, prefix, 0); i >= 0 && i < layer;
         i = next_under(net, prefix, i + 1))
        if (strncmp(net->layer[i].name, net->layer[layer].name, length) == 0 &&
            (net->layer[i].name[length] == '.' || net->layer[i].name[length] == 0))
            return true;
    return false;
}

/* The form in which the children of a prefix are written. */
typedef enum container {
    LIST,     /* nn.ModuleList([...]): 0, 1, 2, ... */
    KEYWORDS, /* Part(conv=..., ...) */
    ENTRIES   /* Part(**{"0-a": ..., ...}): a name is no identifier */
} container;

static container container_of(const kas_net *net, const char *prefix)
{
    bool list = true, keywords = true;
    int count = 0;
    for (int i = next_under(net, prefix, 0); i >= 0; i = next_under(net, prefix, i + 1)) {
        const char *name = net->layer[i].name, *part = name + strlen(prefix);
        size_t length = strcspn(part, ".");
        char number[16];
        if (seen_before(net, prefix, i, (size_t)(part - name) + length))
            continue;
        snprintf(number, sizeof number, "%d", count++);
        list = list && strlen(number) == length && memcmp(number, part, length) == 0;
        keywords = keywords && is_identifier(part, length);
    }
    return list ? LIST : keywords ? KEYWORDS : ENTRIES;
}

/* Writes the text in front of a child: "self.conv1 = ", "conv1=", "\"0-a\": " or nothing. */
static void put_key(container kind, int depth, const char *part, size_t length, kas_buf *out)
{
    const char *format = kind == KEYWORDS ? "%.*s=" : "\"%.*s\": ";
    if (depth == 0)
        format = is_identifier(part, length) ? "self.%.*s = " : "self[\"%.*s\"] = ";
    if (depth == 0 || kind != LIST)
        kas_buf_printf(out, format, (int)length, part);
}

static kas_status put_children(const kas_export_net *n, const char *prefix, int depth,
                               kas_buf *out);

/* Writes a child that has children: the layers whose names begin with `below`. */
static kas_status put_inner(const kas_export_net *n, const char *below, int depth, kas_buf *out)
{
    static const char *const open[] = {"nn.ModuleList([\n", "Part(\n", "Part(**{\n"};
    static const char *const close[] = {"])", ")", "})"};
    container kind = container_of(n->net, below);
    kas_buf_puts(out, open[kind]);
    KAS_TRY(put_children(n, below, depth + 1, out));
    kas_buf_printf(out, "%*s%s", 8 + 4 * depth, "", close[kind]);
    return KAS_OK;
}

/* Writes the children of `prefix` ("layer1.", or "" for the network itself). */
static kas_status put_children(const kas_export_net *n, const char *prefix, int depth, kas_buf *out)
{
    const kas_net *net = n->net;
    container kind = container_of(net, prefix);
    for (int i = next_under(net, prefix, 0); i >= 0; i = next_under(net, prefix, i + 1)) {
        const char *name = net->layer[i].name, *part = name + strlen(prefix);
        size_t length = strcspn(part, "."), whole = (size_t)(part - name) + length;
        char below[KAS_LAYER_NAME + 2];
        if (seen_before(net, prefix, i, whole))
            continue;
        kas_buf_printf(out, "%*s", 8 + 4 * depth, "");
        put_key(kind, depth, part, length, out);
        snprintf(below, sizeof below, "%.*s.", (int)whole, name);
        if (part[length] == 0)
            put_leaf(n, i, out);
        else
            KAS_TRY(put_inner(n, below, depth, out));
        kas_buf_puts(out, depth == 0 ? "\n" : ",\n");
    }
    return kas_buf_status(out);
}

kas_status kas_python_modules(const kas_export_net *net, kas_buf *out)
{
    return put_children(net, "", 0, out);
}
