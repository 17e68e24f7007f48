/* The modules of network.py.  Names such as "layer1.0.conv1" are a tree: a part that is a number is
 * an entry of a ModuleList, any other an attribute, so that state_dict has the names of the
 * weights' file. */
#include "host/export/python.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool has_module(const kas_layer *l)
{
    return l->op == KAS_LAYER_CONV || l->op == KAS_LAYER_BATCH_NORM || l->op == KAS_LAYER_LINEAR ||
           l->op == KAS_LAYER_LAYER_NORM;
}

void kas_python_module_path(const char *name, kas_buf *out)
{
    kas_buf_puts(out, "self");
    while (*name) {
        size_t length = strcspn(name, ".");
        bool number = isdigit((unsigned char)*name);
        kas_buf_puts(out, number ? "[" : ".");
        kas_buf_add(out, name, length);
        kas_buf_puts(out, number ? "]" : "");
        name += length + (name[length] == '.');
    }
}

static void put_kernel(const kas_export_net *n, int target, kas_buf *out)
{
    const kas_target *t = &n->target[target];
    uint32_t vars = kas_kernel_vars(n->kernel);
    kas_buf_printf(out, "Kernel(%u, %u, (%u, %u), %u", t->c_in, t->c_out, t->kernel_h, t->kernel_w,
                   t->stride);
    if (kas_python_weights_are_sized(n->kernel))
        kas_buf_printf(out, ", size=(%u, %u)", t->h, t->w);
    for (int v = 0; v < KAS_MAX_VARS; v++)
        if (vars & (1u << v)) {
            int symbol = KAS_SYM_X0 + v;
            kas_buf_printf(out, ", %s=%u", kas_symbol_name((kas_symbol)symbol),
                           n->solution->binding[target].value[symbol]);
        }
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

static void put_leaf(const kas_export_net *n, int layer, kas_buf *out)
{
    const kas_layer *l = &n->net->layer[layer], *in = &n->net->layer[l->in[0]];
    for (int t = 0; t < n->solution->targets; t++)
        if (n->target[t].layer == layer) {
            put_kernel(n, t, out);
            return;
        }
    if (l->op == KAS_LAYER_CONV)
        put_conv(n->net, l, out);
    else if (l->op == KAS_LAYER_BATCH_NORM)
        kas_buf_printf(out, "nn.BatchNorm2d(%d, eps=%g, momentum=%g)", l->c, l->eps, l->momentum);
    else if (l->op == KAS_LAYER_LAYER_NORM)
        kas_buf_printf(out, "nn.LayerNorm(%d, eps=%g)", l->c, l->eps);
    else
        kas_buf_printf(out, "nn.Linear(%d, %d, bias=%s)", in->c, l->c, truth(l->bias));
}

/* The next layer from `from` on whose name begins with `prefix`; -1 = none. */
static int next_under(const kas_net *net, const char *prefix, int from)
{
    for (int i = from; i < net->layers; i++)
        if (has_module(&net->layer[i]) && strncmp(net->layer[i].name, prefix, strlen(prefix)) == 0)
            return i;
    return -1;
}

/* True when an earlier layer under `prefix` has the same part behind it: it is in the tree. */
static bool seen_before(const kas_net *net, const char *prefix, int layer, size_t length)
{
    for (int i = next_under(net, prefix, 0); i >= 0 && i < layer;
         i = next_under(net, prefix, i + 1))
        if (strncmp(net->layer[i].name, net->layer[layer].name, length) == 0 &&
            (net->layer[i].name[length] == '.' || net->layer[i].name[length] == 0))
            return true;
    return false;
}

/* The children of `prefix` ("layer1.", or "" for the network itself). */
static kas_status put_children(const kas_export_net *n, const char *prefix, int depth, kas_buf *out)
{
    const kas_net *net = n->net;
    for (int i = next_under(net, prefix, 0); i >= 0; i = next_under(net, prefix, i + 1)) {
        const char *name = net->layer[i].name, *part = name + strlen(prefix);
        size_t length = strcspn(part, "."), whole = (size_t)(part - name) + length;
        char below[66];
        if (seen_before(net, prefix, i, whole))
            continue;
        kas_buf_printf(out, "%*s", 8 + 4 * depth, "");
        if (depth == 0)
            kas_buf_puts(out, "self.");
        if (!isdigit((unsigned char)*part))
            kas_buf_printf(out, "%.*s%s", (int)length, part, depth == 0 ? " = " : "=");
        if (part[length] == 0) {
            put_leaf(n, i, out);
        } else {
            bool list = isdigit((unsigned char)part[length + 1]);
            snprintf(below, sizeof below, "%.*s.", (int)whole, name);
            kas_buf_puts(out, list ? "nn.ModuleList([\n" : "Part(\n");
            KAS_TRY(put_children(n, below, depth + 1, out));
            kas_buf_printf(out, "%*s%s", 8 + 4 * depth, "", list ? "])" : ")");
        }
        kas_buf_puts(out, depth == 0 ? "\n" : ",\n");
    }
    return kas_buf_status(out);
}

kas_status kas_python_modules(const kas_export_net *net, kas_buf *out)
{
    return put_children(net, "", 0, out);
}
