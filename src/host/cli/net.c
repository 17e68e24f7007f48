/* kas-gpu net: what a backbone is made of and what a search would replace in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/cli/cli.h"
#include "host/cli/net_options.h"
#include "host/net/targets.h"

typedef struct net_options {
    kas_cli_common common;
    const char *action, *name, *filter;
    int c, h, w, classes;
} net_options;

static const struct argp_option option_list[] = {
    {"input", 'i', "CxHxW", 0, "Shape of an image (default 3x32x32)", 0},
    {"classes", 'c', "N", 0, "Number of classes (default 10)", 0},
    {"targets", 't', "LIST", 0, "Kernel sizes to replace, such as 3x3,1x1 (default: all)", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    net_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->common;
        return 0;
    case 'i':
        kas_cli_shape(state, arg, &o->c, &o->h, &o->w);
        return 0;
    case 'c':
        o->classes = (int)kas_cli_int(state, "--classes", arg, 2, 65536);
        return 0;
    case 't':
        o->filter = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (!o->action)
            o->action = arg;
        else if (!o->name)
            o->name = arg;
        else
            argp_error(state, "unexpected argument \"%s\"", arg);
        return 0;
    case ARGP_KEY_END:
        if (!o->action || strcmp(o->action, "show") != 0)
            argp_error(state, "expected \"show\"");
        else if (!o->name)
            argp_error(state, "which network? known are: resnet20, resnet18");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char doc[] =
    "Layers, shapes, cost of a network, and which convolutions a search replaces.\n\n"
    "  kas-gpu net show resnet20\n"
    "  kas-gpu net show resnet18 --classes 100 --targets 3x3\n"
    "  kas-gpu net show resnet18 --input 3x64x64 --json\n"
    "\vA multiply-add counts as one FLOP. Shapes are channels x height x width of the output.";

/* Position of layer i in the targets, or -1. */
static int target_of(const kas_target *targets, int count, int layer)
{
    for (int i = 0; i < count; i++)
        if (targets[i].layer == layer)
            return i;
    return -1;
}

static void print_text(const kas_net *net, const kas_target *targets, int count)
{
    printf("%-24s %-16s %-14s %12s %10s  replaced\n", "layer", "kind", "output", "FLOPs",
           "parameters");
    for (int i = 0; i < net->layers; i++) {
        const kas_layer *l = &net->layer[i];
        char kind[48], shape[48];
        if (l->op == KAS_LAYER_CONV && l->stride > 1)
            snprintf(kind, sizeof kind, "conv %dx%d/%d", l->kernel_h, l->kernel_w, l->stride);
        else if (l->op == KAS_LAYER_CONV)
            snprintf(kind, sizeof kind, "conv %dx%d", l->kernel_h, l->kernel_w);
        else
            snprintf(kind, sizeof kind, "%s", kas_layer_op_name(l->op));
        snprintf(shape, sizeof shape, "%dx%dx%d", l->c, l->h, l->w);
        printf("%-24s %-16s %-14s %12.0f %10.0f  %s\n", l->name, kind, shape,
               kas_layer_flops(net, i), kas_layer_params(net, i),
               target_of(targets, count, i) >= 0 ? "yes" : "");
    }
    printf("\n%s: %.0f FLOPs per image, %.0f parameters\n", net->name, kas_net_flops(net),
           kas_net_params(net));
    printf("replaced: %d convolutions, %.1f%% of the FLOPs\n", count,
           100 * kas_targets_flops_share(net, targets, count));
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
    if (l->op == KAS_LAYER_CONV)
        kas_buf_printf(out, ",\"kernel\":[%d,%d],\"stride\":%d,\"groups\":%d", l->kernel_h,
                       l->kernel_w, l->stride, l->groups);
    kas_buf_printf(out, ",\"flops\":%.0f,\"parameters\":%.0f,\"replaced\":%s}",
                   kas_layer_flops(net, i), kas_layer_params(net, i), target ? "true" : "false");
}

static void json_target(const kas_target *t, bool first, kas_buf *out)
{
    kas_buf_puts(out, first ? "{\"name\":" : ",{\"name\":");
    kas_buf_json_string(out, t->name);
    kas_buf_printf(out,
                   ",\"c_in\":%u,\"c_out\":%u,\"c\":%u,\"parts_in\":%u,\"parts_out\":%u,\"h\":%u,"
                   "\"w\":%u,\"kernel\":[%u,%u],\"stride\":%u,\"flops\":%.0f,\"parameters\":%.0f}",
                   t->c_in, t->c_out, t->c, t->parts_in, t->parts_out, t->h, t->w, t->kernel_h,
                   t->kernel_w, t->stride, kas_target_conv_flops(t), kas_target_conv_params(t));
}

static kas_status print_json(const kas_net *net, const kas_target *targets, int count)
{
    kas_buf out = {0};
    kas_buf_printf(&out,
                   "{\"schema_version\":1,\"name\":\"%s\",\"classes\":%d,\"flops\":%.0f,"
                   "\"parameters\":%.0f,\"layers\":[",
                   net->name, net->classes, kas_net_flops(net), kas_net_params(net));
    for (int i = 0; i < net->layers; i++)
        json_layer(net, i, target_of(targets, count, i) >= 0, &out);
    kas_buf_puts(&out, "],\"targets\":[");
    for (int i = 0; i < count; i++)
        json_target(&targets[i], i == 0, &out);
    kas_buf_printf(&out, "],\"targets_flops_share\":%.6f}",
                   kas_targets_flops_share(net, targets, count));
    kas_status status = kas_buf_status(&out);
    if (status == KAS_OK)
        puts(out.data);
    kas_buf_free(&out);
    return status;
}

static kas_status run(int argc, char **argv)
{
    static const struct argp_child children[] = {{&kas_cli_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {option_list, parse, "show NAME", doc, children, 0, 0};
    net_options o = {.c = 3, .h = 32, .w = 32, .classes = 10};
    bool done;
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o, &done));
    if (done)
        return KAS_OK;
    kas_net *net = NULL;
    kas_target *targets = NULL;
    int count = 0;
    kas_status status = KAS_OK;
    KAS_TRY_GOTO(kas_net_build(o.name, o.h, o.w, o.c, o.classes, &net), out);
    KAS_TRY_GOTO(kas_net_targets(net, o.filter, &targets, &count), out);
    if (o.common.json)
        status = print_json(net, targets, count);
    else
        print_text(net, targets, count);
out:
    free(targets);
    kas_net_free(net);
    return status;
}

const kas_command kas_command_net = {"net", "Show a network, its cost and its targets", run};
