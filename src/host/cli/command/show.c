/* kas-gpu show: prints a kernel in a form that people understand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/cli/given.h"
#include "host/cli/net_options.h"
#include "host/cli/show_layers.h"
#include "host/ops/ops.h"
#include "host/report/line.h"
#include "host/report/table.h"
#include "host/space/canonical.h"
#include "host/space/describe.h"
#include "host/space/file/assignment.h"
#include "jit/ir/program.h"
#include "jit/schedule/schedule_file.h"

typedef struct show_options {
    kas_cli_common common;
    kas_cli_net net;
    const char *path, *layer;
    const char *source, *schedule; /* devices */
    int batch, precision;
    bool dot, inference;
} show_options;

enum { KEY_DOT = 0x200, KEY_LAYER, KEY_SOURCE, KEY_SCHEDULE, KEY_PRECISION, KEY_INFERENCE };

static const struct argp_option option_list[] = {
    {"dot", KEY_DOT, 0, 0, "A Graphviz picture instead: kas-gpu show K.json --dot | dot -Tsvg", 0},
    {"source", KEY_SOURCE, "DEVICE", 0,
     "Generated code instead, for cuda or cpu: forward and backward at one layer (needs --net)", 0},
    {"schedule", KEY_SCHEDULE, "DEVICE", 0,
     "The schedules of this code instead, in the form of a file for check --schedule", 0},
    {"batch", 'b', "N", 0, "Of --source and --schedule: images at once (default 64)", 0},
    {"precision", KEY_PRECISION, "P", 0,
     "Of --source and --schedule: fp32 (default), tf32, bf16 or fp16", 0},
    {"inference", KEY_INFERENCE, 0, 0,
     "Of --source and --schedule: the forward pass alone, without gradients", 0},
    {"layer", KEY_LAYER, "NAME", 0,
     "Print the sizes at this layer (default: the first); of a file of layers print its kernel", 0},
    {0}};

static const kas_cli_value values[] = {
    {'b', KAS_CLI_INT(show_options, batch, 1, 65536)},
    {KEY_PRECISION, KAS_CLI_CHOICE(show_options, precision, kas_precision_names)},
    {KEY_INFERENCE, KAS_CLI_FLAG(show_options, inference)},
    {0}};

static void check_device(struct argp_state *state, const char *option, const char *device)
{
    if (strcmp(device, "cuda") != 0 && strcmp(device, "cpu") != 0)
        argp_error(state, "%s: expected cuda or cpu, found \"%s\"", option, device);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    show_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->net;
        state->child_inputs[1] = &o->common;
        return 0;
    case KEY_DOT:
        o->dot = true;
        return 0;
    case KEY_LAYER:
        o->layer = arg;
        return 0;
    case KEY_SOURCE:
        o->source = arg;
        check_device(state, "--source", arg);
        return 0;
    case KEY_SCHEDULE:
        o->schedule = arg;
        check_device(state, "--schedule", arg);
        return 0;
    case 'b':
    case KEY_PRECISION:
    case KEY_INFERENCE:
        return kas_cli_set(state, option_list, values, key, arg);
    case ARGP_KEY_ARG:
        if (o->path)
            argp_error(state, "expected one kernel at a time, found \"%s\" too", arg);
        o->path = arg;
        return 0;
    case ARGP_KEY_END:
        if (!o->path)
            argp_error(state, "no kernel is given; give one, for example kernels/involution.json");
        if (!o->net.name)
            kas_cli_refuse(state, "layer input classes targets flops params keep-slower",
                           "needs --net");
        if (!o->source && !o->schedule)
            kas_cli_refuse(state, "batch inference precision", "needs --source or --schedule");
        if ((o->source || o->schedule) && !o->net.name)
            argp_error(state, "--source and --schedule need --net, for the sizes");
        if (o->dot + (o->source != NULL) + (o->schedule != NULL) + o->common.json > 1)
            argp_error(state, "--dot, --source, --schedule and --json exclude each other");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char doc[] =
    "Prints a kernel: what each node does and its shape; with a network also sizes, FLOPs and "
    "parameters at every layer.\n\n"
    "  kas-gpu show kernels/involution.json\n"
    "  kas-gpu show kernels/involution.json --net resnet18 --flops 0.5\n"
    "  kas-gpu show kernels/involution.json --dot | dot -Tsvg -o involution.svg\n"
    "  kas-gpu show kernels/involution.json --net resnet18 --source cuda\n"
    "  kas-gpu show kernels/involution.json --net resnet18 --schedule cpu --batch 2 > s.txt\n"
    "  kas-gpu show layers.json --net resnet18 --layer layer1.0.conv1\n"
    "\vFree sizes x0, x1, ... are solved for the network within --flops and --params, by default "
    "those of the convolutions.";

/* A kernel, and its sizes in a network. */
typedef struct view {
    kas_kernel kernel;
    char name[KAS_NAME_SIZE];
    kas_net *net; /* NULL without --net */
    kas_target *targets;
    int count, layer; /* layer: the target whose sizes are printed at the nodes */
    kas_solution solution;
    kas_assignment kernels; /* the file */
    kas_replacement fit;    /* of a file of layers, with --net */
    bool overview;          /* a file of layers, and no layer of it was asked for */
} view;

static void close_view(view *v)
{
    kas_solution_free(&v->solution);
    kas_replacement_free(&v->fit);
    kas_assignment_free(&v->kernels);
    free(v->targets);
    kas_net_free(v->net);
}

static kas_status find_layer(const show_options *o, view *v)
{
    while (o->layer && v->layer < v->count && strcmp(v->targets[v->layer].name, o->layer) != 0)
        v->layer++;
    if (v->layer == v->count)
        return kas_fail(KAS_USAGE,
                        "--layer %s: no such replaced convolution in %s; kas-gpu net show %s lists "
                        "them",
                        o->layer, v->net->file, v->net->file);
    return KAS_OK;
}

static kas_status does_not_fit(const show_options *o, const view *v)
{
    return kas_fail_context(KAS_BAD_INPUT, "%s does not fit %s", o->path, v->net->file);
}

/* Takes the kernel of --layer from a file of layers, with the layers that have it. */
static kas_status take_layer(const show_options *o, view *v)
{
    const kas_replacement *r = &v->fit;
    const kas_kernel *kernel = kas_replacement_kernel(r, v->layer);
    kas_solution *s = &v->solution;
    int own = 0, layer = 0;
    if (!kernel)
        return kas_fail(KAS_USAGE, "--layer %s: %s leaves this convolution as it is", o->layer,
                        o->path);
    v->kernel = *kernel;
    s->binding = calloc((size_t)v->count, sizeof *s->binding);
    if (!s->binding)
        return kas_fail(KAS_NO_MEMORY, "out of memory");
    for (int t = 0; t < v->count; t++) {
        kas_cost cost;
        if (kas_replacement_kernel(r, t) != kernel)
            continue;
        KAS_TRY(kas_layer_cost(kernel, &v->targets[t], &v->fit.solution.binding[t], &cost));
        s->flops += cost.flops;
        s->params += cost.params;
        s->conv_flops += kas_target_conv_flops(&v->targets[t]);
        s->conv_params += kas_target_conv_params(&v->targets[t]);
        layer = t == v->layer ? own : layer;
        s->binding[own] = v->fit.solution.binding[t];
        v->targets[own++] = v->targets[t];
    }
    s->targets = v->count = own;
    v->layer = layer;
    return kas_kernel_name(&v->kernel, v->name);
}

static kas_status open_layers(const show_options *o, view *v)
{
    v->overview = !o->layer;
    if (v->overview && (o->dot || o->source || o->schedule))
        return kas_fail(KAS_USAGE,
                        "%s: --dot, --source and --schedule show one kernel: say of which --layer",
                        o->path);
    if (!o->net.name)
        return KAS_OK;
    if (!v->net)
        KAS_TRY(kas_cli_net_targets(&o->net, &v->net, &v->targets, &v->count));
    KAS_TRY(find_layer(o, v));
    if (kas_assignment_fit(&v->kernels, v->targets, v->count, &o->net.budget, &v->fit) != KAS_OK)
        return does_not_fit(o, v);
    return v->overview ? KAS_OK : take_layer(o, v);
}

static kas_status open_view(const show_options *o, view *v)
{
    KAS_TRY(kas_assignment_read_file(o->path, &v->kernels));
    if (o->net.name && o->net.keep.machine) {
        KAS_TRY(kas_cli_net_targets(&o->net, &v->net, &v->targets, &v->count));
        KAS_TRY(kas_keep_apply(&o->net.keep, o->path, v->net, v->targets, v->count, &o->net.budget,
                               &v->kernels));
    }
    if (v->kernels.layers)
        return open_layers(o, v);
    KAS_TRY(kas_kernel_canonicalize(v->kernels.kernel, &v->kernel));
    KAS_TRY(kas_kernel_name(&v->kernel, v->name));
    if (!o->net.name)
        return KAS_OK;
    if (!v->net)
        KAS_TRY(kas_cli_net_targets(&o->net, &v->net, &v->targets, &v->count));
    KAS_TRY(find_layer(o, v));
    if (kas_solve(&v->kernel, v->targets, v->count, &o->net.budget, &v->solution) != KAS_OK)
        return does_not_fit(o, v);
    return KAS_OK;
}

static const kas_binding *node_binding(const view *v)
{
    return v->net ? &v->solution.binding[v->layer] : NULL;
}

static void print_sizes(const view *v, int i, const char *between, kas_buf *out)
{
    uint32_t sizes[KAS_MAX_DIMS];
    int rank;
    if (kas_node_sizes(&v->kernel.node[i], node_binding(v), sizes, &rank) != KAS_OK)
        return;
    for (int d = 0; d < rank; d++)
        kas_buf_printf(out, "%s%u", d ? between : "", sizes[d]);
}

static void print_operands(const kas_node *node, const char *between, kas_buf *out)
{
    for (int k = 0; k < node->inputs; k++)
        kas_buf_printf(out, "%s%d", k ? between : "", node->in[k]);
}

/* ---- text ---- */

static void print_head(const view *v, kas_buf *out)
{
    uint32_t vars = kas_kernel_vars(&v->kernel);
    kas_buf_printf(out, "kernel %s: %d primitive%s", v->name, v->kernel.nodes - 1,
                   v->kernel.nodes == 2 ? "" : "s");
    for (int g = 0; g < KAS_MAX_GROUPS; g++)
        if (v->kernel.group_value[g])
            kas_buf_printf(out, ", G%d = %u", g, v->kernel.group_value[g]);
    for (int x = 0, first = 1; x < KAS_MAX_VARS; x++)
        if (vars & (1u << x)) {
            kas_buf_printf(out, "%sx%d", first ? ", free sizes " : ", ", x);
            first = 0;
        }
    kas_buf_puts(out, "\n\n");
}

static kas_status print_nodes(const view *v, kas_buf *out)
{
    char title[96] = "";
    if (v->net)
        snprintf(title, sizeof title, "at %s", v->targets[v->layer].name);
    const kas_column columns[] = {{"node", KAS_RIGHT},
                                  {"reads", KAS_LEFT},
                                  {"what it does", KAS_LEFT},
                                  {"shape", KAS_LEFT},
                                  {title, KAS_LEFT}};
    kas_table *table = kas_table_create(columns, v->net ? 5 : 4);
    kas_buf text = {0};
    for (int i = 0; i < v->kernel.nodes; i++) {
        kas_table_cell(table, "%d", i);
        print_operands(&v->kernel.node[i], " ", &text);
        kas_table_cell(table, "%s", kas_buf_text(&text));
        kas_buf_clear(&text);
        kas_node_describe(&v->kernel, i, &text);
        kas_table_cell(table, "%s", kas_buf_text(&text));
        kas_buf_clear(&text);
        kas_shape_print(&v->kernel.node[i].shape, &text);
        kas_table_cell(table, "%s", kas_buf_text(&text));
        kas_buf_clear(&text);
        if (v->net) {
            print_sizes(v, i, " x ", &text);
            kas_table_cell(table, "%s", kas_buf_text(&text));
            kas_buf_clear(&text);
        }
    }
    kas_table_end(table, out);
    out->failed |= text.failed;
    kas_buf_free(&text);
    return kas_buf_status(out);
}

static void target_row(const view *v, int t, const kas_cost *cost, kas_table *table)
{
    const kas_target *g = &v->targets[t];
    uint32_t vars = kas_kernel_vars(&v->kernel);
    char human[32];
    kas_table_cell(table, "%s", g->name);
    kas_table_cell(table, "%u -> %u%s", g->c_in, g->c_out,
                   g->stride == 1            ? ""
                   : v->kernel.stride_inside ? ", strided"
                                             : ", pooled");
    kas_table_cell(table, "%ux%ux%u", g->c, g->h, g->w);
    kas_table_cell(table, "%ux%u", g->kernel_h, g->kernel_w);
    kas_table_cell(table, "%u", g->parts_in * g->parts_out);
    for (int x = 0; x < KAS_MAX_VARS; x++)
        if (vars & (1u << x))
            kas_table_cell(table, "%u", v->solution.binding[t].value[KAS_SYM_X0 + x]);
    kas_table_cell(table, "%s", kas_human_count(cost->flops, human));
    kas_table_cell(table, "%.3f", cost->flops / kas_target_conv_flops(g));
    kas_table_cell(table, "%s", kas_human_count(cost->params, human));
    kas_table_cell(table, "%.3f", cost->params / kas_target_conv_params(g));
}

static kas_status print_targets(const view *v, kas_buf *out)
{
    kas_column columns[10 + KAS_MAX_VARS] = {{"layer", KAS_LEFT},
                                             {"channels", KAS_LEFT},
                                             {"template", KAS_RIGHT},
                                             {"K", KAS_RIGHT},
                                             {"instances", KAS_RIGHT}};
    int n = 5;
    for (int x = 0; x < KAS_MAX_VARS; x++)
        if (kas_kernel_vars(&v->kernel) & (1u << x))
            columns[n++] = (kas_column){kas_symbol_name(KAS_SYM_X0 + x), KAS_RIGHT};
    columns[n++] = (kas_column){"FLOPs", KAS_RIGHT};
    columns[n++] = (kas_column){"of conv", KAS_RIGHT};
    columns[n++] = (kas_column){"params", KAS_RIGHT};
    columns[n++] = (kas_column){"of conv", KAS_RIGHT};
    kas_table *table = kas_table_create(columns, n);
    kas_status status = KAS_OK;
    for (int t = 0; t < v->count && status == KAS_OK; t++) {
        kas_cost cost;
        status = kas_layer_cost(&v->kernel, &v->targets[t], &v->solution.binding[t], &cost);
        if (status == KAS_OK)
            target_row(v, t, &cost, table);
    }
    if (status == KAS_OK)
        status = kas_table_write(table, out);
    kas_table_free(table);
    return status;
}

static void print_total(const view *v, kas_buf *out)
{
    const kas_solution *s = &v->solution;
    char flops[32], params[32];
    kas_buf_printf(out,
                   "\n%s with this kernel in place of %d convolutions: %s FLOPs (%.3f of "
                   "theirs), %s parameters (%.3f)\n",
                   v->net->name, v->count, kas_human_count(s->flops, flops),
                   s->flops / s->conv_flops, kas_human_count(s->params, params),
                   s->params / s->conv_params);
}

static kas_status print_text(const view *v, kas_buf *out)
{
    print_head(v, out);
    KAS_TRY(print_nodes(v, out));
    KAS_TRY(kas_show_gains(&v->kernels.gains, out));
    if (v->net) {
        kas_buf_puts(out, "\n");
        KAS_TRY(print_targets(v, out));
        print_total(v, out);
    }
    return kas_buf_status(out);
}

/* ---- JSON ---- */

static void json_node(const view *v, int i, kas_buf *out)
{
    kas_buf text = {0};
    const kas_node *node = &v->kernel.node[i];
    kas_buf_printf(out, "%s{\"op\": \"%s\", \"in\": [", i ? ", " : "", kas_op_get(node->op)->name);
    print_operands(node, ", ", out);
    kas_buf_puts(out, "], \"text\": ");
    kas_node_describe(&v->kernel, i, &text);
    kas_buf_json_string(out, kas_buf_text(&text));
    kas_buf_puts(out, ", \"shape\": [");
    for (int d = 0; d < kas_shape_rank(&node->shape); d++) {
        kas_dim dim = kas_shape_dim(&node->shape, d);
        kas_buf_puts(out, d ? ", \"" : "\"");
        kas_dim_print(&dim, out);
        kas_buf_puts(out, "\"");
    }
    kas_buf_puts(out, "]");
    if (v->net) {
        kas_buf_puts(out, ", \"sizes\": [");
        print_sizes(v, i, ", ", out);
        kas_buf_puts(out, "]");
    }
    kas_buf_puts(out, "}");
    kas_buf_free(&text);
}

static kas_status json_target(const view *v, int t, kas_buf *out)
{
    const kas_target *g = &v->targets[t];
    const kas_binding *binding = &v->solution.binding[t];
    kas_cost cost;
    KAS_TRY(kas_layer_cost(&v->kernel, g, binding, &cost));
    kas_buf_puts(out, t ? ", {\"layer\": " : "{\"layer\": ");
    kas_buf_json_string(out, g->name);
    kas_buf_printf(out, ", \"instances\": %u, \"symbols\": {", g->parts_in * g->parts_out);
    const char *comma = "";
    for (int s = 0; s < KAS_SYM_COUNT; s++)
        if (binding->value[s]) {
            kas_buf_printf(out, "%s\"%s\": %u", comma, kas_symbol_name((kas_symbol)s),
                           binding->value[s]);
            comma = ", ";
        }
    kas_buf_printf(out,
                   "}, \"flops\": %.0f, \"params\": %.0f, \"conv_flops\": %.0f, \"conv_params\": "
                   "%.0f, \"largest_tensor\": %.0f, \"largest_weight\": %.0f}",
                   cost.flops, cost.params, kas_target_conv_flops(g), kas_target_conv_params(g),
                   cost.largest_tensor, cost.largest_weight);
    return KAS_OK;
}

static kas_status print_json(const view *v, kas_buf *out)
{
    kas_line_begin(out);
    kas_line_text(out, "name", v->name);
    kas_line_key(out, "nodes");
    kas_buf_puts(out, "[");
    for (int i = 0; i < v->kernel.nodes; i++)
        json_node(v, i, out);
    kas_buf_puts(out, "]");
    kas_show_gains_json(&v->kernels.gains, out);
    if (v->net) {
        kas_line_text(out, "net", v->net->name);
        kas_line_text(out, "sizes_at", v->targets[v->layer].name);
        kas_line_number(out, "flops", v->solution.flops);
        kas_line_number(out, "params", v->solution.params);
        kas_line_number(out, "flops_ratio", v->solution.flops / v->solution.conv_flops);
        kas_line_number(out, "params_ratio", v->solution.params / v->solution.conv_params);
        kas_line_key(out, "targets");
        kas_buf_puts(out, "[");
        for (int t = 0; t < v->count; t++)
            KAS_TRY(json_target(v, t, out));
        kas_buf_puts(out, "]");
    }
    kas_line_end(out);
    return kas_buf_status(out);
}

/* ---- generated code ---- */

static void put_schedules(const show_options *o, const char *layer, const kas_program *p,
                          kas_buf *out)
{
    kas_schedule_file_put_input(o->net.c, o->net.h, o->net.w, out);
    kas_schedule_file_put_head(layer, strcmp(o->schedule, "cpu") == 0, o->batch, o->inference,
                               p->dtype, o->precision == KAS_PRECISION_TF32, out);
    kas_buf_printf(out, "\n%s", p->schedules);
}

static kas_status print_program(const show_options *o, const view *v, kas_buf *out)
{
    const char *device = o->source ? o->source : o->schedule;
    const kas_precision precision = (kas_precision)o->precision;
    const kas_program_options options = {.batch = o->batch,
                                         .training = !o->inference,
                                         .dtype = kas_precision_dtype(precision),
                                         .tf32 = precision == KAS_PRECISION_TF32,
                                         .linear_policy = kas_linear_policy_of(device),
                                         .lanes = kas_cpu_lanes(),
                                         .prefix = "k0",
                                         .unwritten = !o->source,
                                         .list_schedules = !o->source};
    const kas_target *target = &v->targets[v->layer];
    kas_program *program = NULL;
    kas_status status = KAS_OK;
    KAS_TRY(kas_program_build(&v->kernel, target, node_binding(v), &options, &program));
    if (o->source)
        status = kas_program_print(program, strcmp(device, "cuda") == 0, out);
    else
        put_schedules(o, target->name, program, out);
    kas_program_free(program);
    return status;
}

static kas_status print_view(const show_options *o, const view *v, kas_buf *out)
{
    if (v->overview)
        return kas_show_layers(&v->kernels, v->net ? v->net->name : NULL, v->net ? &v->fit : NULL,
                               o->common.json, out);
    if (o->source || o->schedule)
        return print_program(o, v, out);
    if (o->dot)
        return kas_kernel_write_dot(&v->kernel, v->name, node_binding(v), out);
    return (o->common.json ? print_json : print_text)(v, out);
}

static kas_status run(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&kas_cli_net_argp, 0, NULL, 0}, {&kas_cli_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {option_list, parse, "KERNEL.json", doc, children, 0, 0};
    show_options o = {.net = kas_cli_net_defaults(), .batch = 64};
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o));
    view v = {0};
    kas_buf out = {0};
    kas_status status = open_view(&o, &v);
    if (status == KAS_OK)
        status = print_view(&o, &v, &out);
    if (status == KAS_OK)
        printf("%s", kas_buf_text(&out));
    kas_buf_free(&out);
    close_view(&v);
    return status;
}

const kas_command kas_command_show = {"show", "Print a kernel so that a person understands it",
                                      run};
