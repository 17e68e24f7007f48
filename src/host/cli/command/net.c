/* kas-gpu net: prints the layers of a network and which of them a search would replace. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/cli/cli.h"
#include "host/cli/net_options.h"
#include "host/cli/net_show.h"
#include "host/core/embedded.h"
#include "host/core/log.h"
#include "host/net/targets.h"
#include "host/report/line.h"

typedef struct net_options {
    kas_cli_common common;
    const char *action, *name, *filter;
    int c, h, w, classes;
} net_options;

static const struct argp_option option_list[] = {
    {"input", 'i', "CxHxW", 0, "Shape of an image (default 3x32x32)", 0},
    {"classes", 'c', "N", 0, "Number of classes (default 10)", 0},
    {"targets", 't', "LIST", 0, KAS_CLI_TARGETS_HELP, 0},
    {0}};

static void no_network(struct argp_state *state)
{
    kas_buf list = {0};
    kas_embedded_list(kas_embedded_networks, &list);
    argp_error(state, "no network is given; give the path of a file, or one of: %s",
               kas_buf_text(&list));
    kas_buf_free(&list);
}

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
        kas_cli_action(state, arg, &o->action, &o->name);
        return 0;
    case ARGP_KEY_END:
        if (!o->action || (strcmp(o->action, "show") != 0 && strcmp(o->action, "check") != 0))
            argp_error(state, "expected \"show\" or \"check\"");
        else if (!o->name)
            no_network(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char doc[] =
    "Layers, shapes, cost of a network, and which convolutions a search replaces.\n\n"
    "  kas-gpu net show resnet20\n"
    "  kas-gpu net show resnet18 --input 3x224x224 --classes 1000\n"
    "  kas-gpu net show resnet18:small=1 --input 3x96x96   # by hand\n"
    "  kas-gpu net show ./mine.json --targets 3x3 --json\n"
    "  kas-gpu net check ./mine.json   # is it right?\n"
    "\vNAME is a network that comes with kas-gpu or the path of a network file "
    "(docs/network-file.md).  A multiply-add counts as one FLOP. Shapes are channels x height x "
    "width of the output.";

static kas_status print_check(const net_options *o, const kas_net *net, const kas_target *targets,
                              int count)
{
    kas_buf out = {0};
    double share = kas_targets_flops_share(net, targets, count);
    if (!o->common.json) {
        printf("%s: ok: %d layers, %.0f FLOPs per image of %dx%dx%d, %.0f parameters; %d "
               "convolutions to replace, %.1f%% of the FLOPs\n",
               o->name, net->layers, kas_net_flops(net), o->c, o->h, o->w, kas_net_params(net),
               count, 100 * share);
        return KAS_OK;
    }
    kas_line_begin(&out);
    kas_line_text(&out, "file", o->name);
    kas_line_text(&out, "name", net->name);
    kas_line_int(&out, "layers", net->layers);
    kas_line_number(&out, "flops", kas_net_flops(net));
    kas_line_number(&out, "parameters", kas_net_params(net));
    kas_line_int(&out, "targets", count);
    kas_line_number(&out, "targets_flops_share", share);
    kas_line_end(&out);
    kas_status status = kas_buf_status(&out);
    if (status == KAS_OK)
        printf("%s", out.data);
    kas_buf_free(&out);
    return status;
}

static kas_status run(int argc, char **argv)
{
    static const struct argp_child children[] = {{&kas_cli_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {option_list, parse, "show NAME\ncheck FILE", doc, children,
                                     0,           0};
    net_options o = {.c = 3, .h = 32, .w = 32, .classes = 10};
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o));
    kas_net *net = NULL;
    kas_target *targets = NULL;
    int count = 0;
    kas_status status = KAS_OK;
    KAS_TRY_GOTO(kas_net_build(o.name, o.h, o.w, o.c, o.classes, &net), out);
    /* A network without targets can still be trained and shown. */
    status = kas_net_targets(net, o.filter, &targets, &count);
    if (status != KAS_OK && (status != KAS_BAD_INPUT || o.filter))
        goto out;
    if (status != KAS_OK)
        kas_warn("%s", kas_error());
    if (strcmp(o.action, "check") == 0)
        status = print_check(&o, net, targets, count);
    else if (o.common.json)
        status = kas_net_show_json(net, targets, count);
    else
        status = kas_net_show_text(net, targets, count);
out:
    free(targets);
    kas_net_free(net);
    return status;
}

const kas_command kas_command_net = {"net", "Show or check a network, its cost and its targets",
                                     run};
