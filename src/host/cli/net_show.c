#include "host/cli/net_show.h"

#include <stdio.h>

#include "host/cli/cli.h"
#include "host/core/buf.h"
#include "host/report/table.h"

static bool has_window(const kas_layer *l)
{
    return l->op == KAS_LAYER_CONV || l->op == KAS_LAYER_AVG_POOL || l->op == KAS_LAYER_MAX_POOL;
}

/* Describes a layer: "conv 3x3/2, 32 groups". */
static void describe(const kas_layer *l, char *out, size_t size)
{
    char window[32] = "", stride[16] = "", groups[24] = "";
    if (has_window(l))
        snprintf(window, sizeof window, " %dx%d", l->kernel_h, l->kernel_w);
    if (l->stride > 1)
        snprintf(stride, sizeof stride, "/%d", l->stride);
    if (l->groups > 1)
        snprintf(groups, sizeof groups, ", %d groups", l->groups);
    snprintf(out, size, "%s%s%s%s", kas_layer_op_name(l->op), window, stride, groups);
}

kas_status kas_net_show_text(const kas_net *net, const kas_target *targets, int count)
{
    static const kas_column columns[] = {{"layer", KAS_LEFT},       {"kind", KAS_LEFT},
                                         {"output", KAS_LEFT},      {"FLOPs", KAS_RIGHT},
                                         {"parameters", KAS_RIGHT}, {"replaced", KAS_LEFT}};
    kas_table *table = kas_table_create(columns, sizeof columns / sizeof *columns);
    for (int i = 0; table && i < net->layers; i++) {
        const kas_layer *l = &net->layer[i];
        char kind[96];
        describe(l, kind, sizeof kind);
        kas_table_cell(table, "%s", l->name);
        kas_table_cell(table, "%s", kind);
        kas_table_cell(table, "%dx%dx%d", l->c, l->h, l->w);
        kas_table_cell(table, "%.0f", kas_layer_flops(net, i));
        kas_table_cell(table, "%.0f", kas_layer_params(net, i));
        kas_table_cell(table, "%s", kas_target_at(targets, count, i) >= 0 ? "yes" : "");
    }
    kas_buf text = {0};
    kas_table_end(table, &text);
    KAS_TRY(kas_print_buf(&text));
    printf("\n%s: %.0f FLOPs per image, %.0f of them multiply-adds of convolutions and linear "
           "layers; %.0f parameters\n",
           net->name, kas_net_flops(net), kas_net_multiply_adds(net), kas_net_params(net));
    printf("replaced: %d layers, %.1f%% of the FLOPs\n", count,
           100 * kas_targets_flops_share(net, targets, count));
    return KAS_OK;
}

static void json_layer(const kas_net *net, int i, bool target, kas_buf *out)
{
    const kas_layer *l = &net->layer[i];
    kas_buf_puts(out, i ? ",{\"name\":" : "{\"name\":");
    kas_buf_json_string(out, l->name);
    kas_buf_printf(out, ",\"kind\":\"%s\",\"inputs\":[", kas_layer_op_name(l->op));
    for (int k = 0; k < l->inputs; k++)
        kas_buf_printf(out, "%s%d", k ? "," : "", l->in[k]);
    kas_buf_printf(out, "],\"shape\":[%d,%d,%d]", l->c, l->h, l->w);
    if (has_window(l))
        kas_buf_printf(out, ",\"kernel\":[%d,%d],\"stride\":%d,\"padding\":[%d,%d]", l->kernel_h,
                       l->kernel_w, l->stride, l->pad_h, l->pad_w);
    if (l->op == KAS_LAYER_CONV)
        kas_buf_printf(out, ",\"groups\":%d", l->groups);
    kas_buf_printf(out, ",\"flops\":%.0f,\"parameters\":%.0f,\"replaced\":%s}",
                   kas_layer_flops(net, i), kas_layer_params(net, i), target ? "true" : "false");
}

static void json_target(const kas_target *t, bool first, kas_buf *out)
{
    kas_buf_puts(out, first ? "{\"name\":" : ",{\"name\":");
    kas_buf_json_string(out, t->name);
    kas_buf_printf(out,
                   ",\"c_in\":%u,\"c_out\":%u,\"c\":%u,\"parts_in\":%u,\"parts_out\":%u,\"h\":%u,"
                   "\"w\":%u,\"kernel\":[%u,%u],\"stride\":%u,\"groups\":%u,\"flops\":%.0f,"
                   "\"parameters\":%.0f}",
                   t->c_in, t->c_out, t->c, t->parts_in, t->parts_out, t->h, t->w, t->kernel_h,
                   t->kernel_w, t->stride, t->groups, kas_target_conv_flops(t),
                   kas_target_conv_params(t));
}

kas_status kas_net_show_json(const kas_net *net, const kas_target *targets, int count)
{
    kas_buf out = {0};
    kas_buf_printf(&out,
                   "{\"schema_version\":1,\"name\":\"%s\",\"classes\":%d,\"flops\":%.0f,"
                   "\"multiply_adds\":%.0f,\"parameters\":%.0f,\"layers\":[",
                   net->name, net->classes, kas_net_flops(net), kas_net_multiply_adds(net),
                   kas_net_params(net));
    for (int i = 0; i < net->layers; i++)
        json_layer(net, i, kas_target_at(targets, count, i) >= 0, &out);
    kas_buf_puts(&out, "],\"targets\":[");
    for (int i = 0; i < count; i++)
        json_target(&targets[i], i == 0, &out);
    kas_buf_printf(&out, "],\"targets_flops_share\":%.6f}",
                   kas_targets_flops_share(net, targets, count));
    kas_status status = kas_buf_status(&out);
    if (status == KAS_OK)
        printf("%s\n", out.data);
    kas_buf_free(&out);
    return status;
}
