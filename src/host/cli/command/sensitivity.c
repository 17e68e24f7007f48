/* kas-gpu sensitivity: what each kernel does at each layer of a network alone (NAS-PTE, section 7.4
 * and Figure 6). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/assemble/potential.h"
#include "host/cli/net_options.h"
#include "host/core/file/files.h"
#include "host/core/file/target.h"
#include "host/core/log.h"
#include "host/report/line.h"
#include "host/report/plot/plot.h"
#include "host/report/table.h"
#include "host/space/cost.h"
#include "host/study/options.h"

typedef struct sensitivity_options {
    kas_cli_common common;
    kas_cli_net net;
    const char *dataset, *machine, *picture;
    char **path; /* [paths] */
    int paths, batch, draws;
    uint64_t seed;
} sensitivity_options;

enum { KEY_DRAWS = 0x200, KEY_MACHINE, KEY_PICTURE, MOST_DRAWS = 1000 };

static const struct argp_option option_list[] = {
    {"dataset", 'd', "F.h5", 0, "Data set: its training images, and their shape", 0},
    {"batch", 'b', "N", 0, "Images of a minibatch, 8 or more (default 16)", 0},
    {"initialisations", KEY_DRAWS, "N", 0, "Draws of the initial weights to average (default 1)",
     0},
    {"seed", 's', "S", 0, "Seed of images and weights (default 0)", 0},
    {"machine", KEY_MACHINE, "M", 0,
     "Predict latencies on it, as in kas-gpu predict (default auto)", 0},
    {"picture", KEY_PICTURE, "F.svg", 0, "Also draw the figures", 0},
    {0}};

static const kas_cli_value values[] = {
    {'d', KAS_CLI_TEXT(sensitivity_options, dataset)},
    {'b', KAS_CLI_INT(sensitivity_options, batch, KAS_SCORE_LEAST_BATCH, KAS_SCORE_MOST_BATCH)},
    {KEY_DRAWS, KAS_CLI_INT(sensitivity_options, draws, 1, MOST_DRAWS)},
    {'s', KAS_CLI_SEED(sensitivity_options, seed)},
    {KEY_MACHINE, KAS_CLI_TEXT(sensitivity_options, machine)},
    {KEY_PICTURE, KAS_CLI_TEXT(sensitivity_options, picture)},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    sensitivity_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->net;
        state->child_inputs[1] = &o->common;
        return 0;
    case ARGP_KEY_ARGS:
        o->path = state->argv + state->next;
        o->paths = state->argc - state->next;
        return 0;
    case ARGP_KEY_END:
        if (!o->net.name || !o->dataset || !o->paths)
            argp_error(state, "--net, --dataset and kernel files are needed");
        return 0;
    default:
        return kas_cli_set(state, option_list, values, key, arg);
    }
}

static const char doc[] =
    "Say what each kernel does at each layer of a network, when it replaces that layer alone: to "
    "the "
    "Fisher potential, the predicted latency, the FLOPs and the parameters.\n\n"
    "  kas-gpu sensitivity kernels/nas_pte_*.json --net resnet34 \\\n"
    "                      --dataset cifar100.h5 --initialisations 4\n"
    "  kas-gpu sensitivity kernels/group_conv.json --net resnet34 \\\n"
    "                      --dataset cifar100.h5 --picture layers.svg\n"
    "\vA layer at which every kernel lowers the potential is sensitive: NAS-PTE leaves it as it is "
    "(docs/scores.md).";

/* What a kernel does at a layer; ratios. NaN: it does not fit there, or there is no number. */
typedef struct figure {
    double potential;     /* of the network's */
    double latency;       /* of the layer's, with the passes behind it (assemble/layer_seconds.h) */
    double flops, params; /* of the convolution's */
} figure;

typedef struct session {
    const sensitivity_options *o;
    kas_cli_training data;
    kas_choices choices;                 /* its targets are those of `data` */
    char label[KAS_CHOICES_KERNELS][64]; /* of the kernels */
    kas_minibatch minibatch[KAS_SCORE_MINIBATCHES];
    double *plain; /* [targets + 1] seconds (assemble/layer_seconds.h) */
    double unmodified;
    figure *figure; /* [kernels][targets] */
} session;

/* ---- kernels --------------------------------------------------------------------------------- */

/* Names the kernels of a file by the file; those of a file of layers by a number as well. */
static void name_kernels(session *s, const char *path, int from)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path,
               *dot = strrchr(file, '.');
    const int length = dot ? (int)(dot - file) : (int)strlen(file);
    for (int k = from; k < s->choices.kernels; k++)
        if (s->choices.kernels == from + 1)
            snprintf(s->label[k], sizeof *s->label, "%.*s", length, file);
        else
            snprintf(s->label[k], sizeof *s->label, "%.*s %d", length < 48 ? length : 48, file,
                     k - from);
}

static kas_status read_kernels(session *s)
{
    kas_choices *c = &s->choices;
    for (int i = 0; i < s->o->paths; i++) {
        const int before = c->kernels;
        kas_assignment kernels;
        KAS_TRY(kas_assignment_read_file(s->o->path[i], &kernels));
        const kas_status status = kas_choices_add(c, s->o->path[i], &kernels);
        kas_assignment_free(&kernels);
        KAS_TRY(status);
        name_kernels(s, s->o->path[i], before);
    }
    return c->kernels ? KAS_OK
                      : kas_fail(KAS_NOTHING_VALID,
                                 "no kernel fits a layer of network %s; give other kernels, or "
                                 "other --targets",
                                 s->data.net->name);
}

/* ---- figures --------------------------------------------------------------------------------- */

static kas_status find_costs(session *s, int kernel, figure *to)
{
    const kas_choices *c = &s->choices;
    const kas_replacement *r = &c->everywhere[kernel];
    for (int t = 0; t < c->targets; t++) {
        kas_cost cost;
        to[t] = (figure){NAN, NAN, NAN, NAN};
        if (!kas_choices_has(c, t, kernel + 1))
            continue;
        KAS_TRY(kas_layer_cost(kas_replacement_kernel(r, t), &c->target[t], &r->solution.binding[t],
                               &cost));
        to[t].flops = cost.flops / kas_target_conv_flops(&c->target[t]);
        to[t].params = cost.params / kas_target_conv_params(&c->target[t]);
    }
    return KAS_OK;
}

static kas_status find_latencies(session *s, const kas_machine *machine, int kernel, figure *to)
{
    const kas_choices *c = &s->choices;
    double *with = calloc((size_t)c->targets + 1, sizeof *with);
    kas_status status =
        with ? kas_choices_predict(c, machine, KAS_LATENCY_BATCH, kernel, with)
             : kas_fail(KAS_NO_MEMORY, "no memory for the times of %d layers", c->targets);
    for (int t = 0; status == KAS_OK && t < c->targets; t++)
        to[t].latency = kas_choices_has(c, t, kernel + 1) ? with[t] / s->plain[t] : NAN;
    free(with);
    if (status != KAS_ILLEGAL && status != KAS_UNSUPPORTED)
        return status;
    kas_warn("kernel %s has no predicted latency: %s", s->label[kernel], kas_error());
    return KAS_OK;
}

static kas_potential_setup potential_setup(const session *s)
{
    return (kas_potential_setup){&s->choices, s->minibatch, s->o->seed, s->o->draws};
}

/* Scores one kernel at one target. */
static kas_status find_one(void *context, kas_score_memory *memory, int item)
{
    session *s = context;
    const kas_choices *c = &s->choices;
    const kas_potential_setup setup = potential_setup(s);
    const int kernel = item / c->targets, t = item % c->targets;
    double value = NAN;
    kas_status status = KAS_OK;
    if (kas_choices_has(c, t, kernel + 1)) {
        int *kernel_of = malloc(sizeof *kernel_of * (size_t)c->targets);
        if (!kernel_of)
            return kas_fail(KAS_NO_MEMORY, "no memory for %d layers", c->targets);
        const kas_replacement one = kas_choices_alone(c, kernel, t, kernel_of);
        status = kas_potential(&setup, &one, memory, &value);
        free(kernel_of);
    }
    s->figure[item].potential = value / s->unmodified;
    return status;
}

static kas_status find_unmodified(session *s, const kas_machine *machine)
{
    const kas_potential_setup setup = potential_setup(s);
    kas_score_memory memory = {0};
    kas_status status =
        kas_choices_predict(&s->choices, machine, KAS_LATENCY_BATCH, KAS_CHOICES_PLAIN, s->plain);
    if (status == KAS_OK)
        status = kas_potential(&setup, NULL, &memory, &s->unmodified);
    kas_score_memory_free(&memory);
    if (status == KAS_OK && !(s->unmodified > 0))
        status = kas_fail(KAS_NOTHING_VALID,
                          "the Fisher potential of the unmodified network is %g: it tells nothing; "
                          "choose other images with --seed or --batch",
                          s->unmodified);
    return status;
}

static kas_status find_figures(session *s)
{
    const kas_choices *c = &s->choices;
    kas_machine machine;
    /* --threads are workers here, and change no latency. */
    KAS_TRY(kas_machine_find(s->o->machine, "auto", 0, &machine));
    s->plain = calloc((size_t)c->targets + 1, sizeof *s->plain);
    s->figure = calloc((size_t)c->kernels * (size_t)c->targets, sizeof *s->figure);
    if (!s->plain || !s->figure)
        return kas_fail(KAS_NO_MEMORY, "no memory for the figures of %d layers", c->targets);
    KAS_TRY(find_unmodified(s, &machine));
    for (int k = 0; k < c->kernels; k++) {
        KAS_TRY(find_costs(s, k, &s->figure[k * c->targets]));
        KAS_TRY(find_latencies(s, &machine, k, &s->figure[k * c->targets]));
    }
    return kas_score_each(s->o->common.threads, c->kernels * c->targets, find_one, s);
}

/* ---- output ---------------------------------------------------------------------------------- */

/* Whether some kernel fits a layer and every one that does lowers the potential. */
static bool is_sensitive(const session *s, int t)
{
    double most = -INFINITY;
    for (int k = 0; k < s->choices.kernels; k++)
        most = fmax(most, s->figure[k * s->choices.targets + t].potential); /* NaN is passed over */
    return most >= 0 && most < 1;
}

static void ratio_cell(kas_table *table, double value)
{
    if (isfinite(value))
        kas_table_cell(table, "%.3fx", value);
    else
        kas_table_cell(table, "-");
}

static kas_status print_table(const session *s)
{
    static const kas_column columns[] = {{"layer", KAS_LEFT},   {"kernel", KAS_LEFT},
                                         {"Fisher", KAS_RIGHT}, {"latency", KAS_RIGHT},
                                         {"FLOPs", KAS_RIGHT},  {"params", KAS_RIGHT}};
    const kas_choices *c = &s->choices;
    kas_table *table = kas_table_create(columns, sizeof columns / sizeof *columns);
    kas_buf out = {0}, sensitive = {0};
    for (int t = 0; t < c->targets; t++) {
        for (int k = 0; k < c->kernels; k++) {
            const figure *f = &s->figure[k * c->targets + t];
            if (!kas_choices_has(c, t, k + 1))
                continue;
            kas_table_cell(table, "%s", c->target[t].name);
            kas_table_cell(table, "%s", s->label[k]);
            ratio_cell(table, f->potential);
            ratio_cell(table, f->latency);
            ratio_cell(table, f->flops);
            ratio_cell(table, f->params);
        }
        if (is_sensitive(s, t))
            kas_buf_printf(&sensitive, "%s%s", sensitive.size ? ", " : "", c->target[t].name);
    }
    kas_table_end(table, &out);
    kas_buf_printf(
        &out,
        "\n%s, one layer replaced at a time. Fisher: potential of the network, relative to "
        "%.5g without kernels; minibatch of %d images of %s, %d draw%s of the weights, seed "
        "%llu. latency: predicted, of %d images; latency, FLOPs and params are relative to the "
        "layer's convolution.\nsensitive layers, at which every kernel lowers the "
        "potential: %s\n",
        s->data.net->name, s->unmodified, s->o->batch, s->data.dataset->path, s->o->draws,
        s->o->draws > 1 ? "s" : "", (unsigned long long)s->o->seed, KAS_LATENCY_BATCH,
        sensitive.size ? kas_buf_text(&sensitive) : "none");
    out.failed |= sensitive.failed;
    kas_buf_free(&sensitive);
    return kas_print_buf(&out);
}

static kas_status print_lines(const session *s)
{
    const kas_choices *c = &s->choices;
    for (int i = 0; i < c->kernels * c->targets; i++) {
        const int k = i % c->kernels, t = i / c->kernels;
        const figure *f = &s->figure[k * c->targets + t];
        kas_buf line = {0};
        if (!kas_choices_has(c, t, k + 1))
            continue;
        kas_line_begin(&line);
        kas_line_text(&line, "kind", "sensitivity");
        kas_line_text(&line, "layer", c->target[t].name);
        kas_line_text(&line, "name", s->label[k]);
        kas_line_text(&line, "kernel", c->name[k]);
        kas_line_number(&line, "fisher", f->potential * s->unmodified);
        kas_line_number(&line, "fisher_unmodified", s->unmodified);
        kas_line_number(&line, "fisher_ratio", f->potential);
        kas_line_number(&line, "latency_ratio", f->latency);
        kas_line_number(&line, "latency_unmodified", s->plain[t]);
        kas_line_number(&line, "flops_ratio", f->flops);
        kas_line_number(&line, "params_ratio", f->params);
        kas_line_bool(&line, "sensitive", is_sensitive(s, t));
        kas_line_end(&line);
        KAS_TRY(kas_print_buf(&line));
    }
    return KAS_OK;
}

static kas_status draw(const session *s)
{
    const kas_choices *c = &s->choices;
    const int count = c->kernels * c->targets;
    const char *line[KAS_CHOICES_KERNELS];
    double *number = calloc((size_t)count * 3 + (size_t)c->targets, sizeof *number);
    const char **point = calloc((size_t)c->targets, sizeof *point);
    kas_status status =
        number && point ? KAS_OK : kas_fail(KAS_NO_MEMORY, "no memory for a picture");
    double *x = number + 3 * (size_t)count;
    for (int i = 0; status == KAS_OK && i < count; i++) {
        number[i] = s->figure[i].potential;
        number[count + i] = s->figure[i].latency;
        number[2 * count + i] = s->figure[i].params;
    }
    for (int t = 0; status == KAS_OK && t < c->targets; t++) {
        x[t] = t + 1;
        point[t] = c->target[t].name;
    }
    for (int k = 0; k < c->kernels; k++)
        line[k] = s->label[k];
    const kas_plot_panel panel[] = {{"Fisher potential of the network", number},
                                    {"predicted latency of the layer", number + count},
                                    {"parameters of the layer", number + 2 * (size_t)count}};
    const kas_plot plot = {.about = "What each kernel does at each layer alone",
                           .x_title = "layer, in the order of the network",
                           .points = c->targets,
                           .lines = c->kernels,
                           .panels = 3,
                           .x = x,
                           .point = point,
                           .line = line,
                           .panel = panel};
    if (status == KAS_OK)
        status = kas_plot_write(&plot, s->o->picture);
    free(number);
    free(point);
    return status;
}

/* ---- all ------------------------------------------------------------------------------------- */

static kas_status run_session(session *s)
{
    kas_choices *c = &s->choices;
    const char *const inputs[] = {s->o->dataset, s->o->machine};
    KAS_TRY(kas_cli_are_inputs(s->o->net.name, inputs, 2));
    for (int i = 0; i < s->o->paths; i++)
        KAS_TRY(kas_file_is_input(s->o->path[i]));
    if (s->o->picture)
        KAS_TRY(kas_file_check_writable(s->o->picture));
    KAS_TRY(kas_cli_training_open(s->o->dataset, false, &s->o->net, NULL, &s->data));
    KAS_TRY(kas_minibatches_draw(s->data.dataset, s->o->batch, 1, s->o->seed, s->minibatch));
    KAS_TRY(kas_net_targets(s->data.net, s->o->net.filter, &s->data.targets, &c->targets));
    c->net = s->data.net;
    c->target = s->data.targets;
    c->sizes = s->o->net.budget;
    KAS_TRY(read_kernels(s));
    KAS_TRY(find_figures(s));
    KAS_TRY((s->o->common.json ? print_lines : print_table)(s));
    return s->o->picture ? draw(s) : KAS_OK;
}

static kas_status run(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&kas_cli_plain_target_argp, 0, NULL, 0}, {&kas_cli_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {option_list, parse, "KERNEL.json...", doc, children, 0, 0};
    sensitivity_options o = {
        .net = kas_cli_net_defaults(), .machine = "auto", .batch = 16, .draws = 1};
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o));
    session *s = calloc(1, sizeof *s);
    if (!s)
        return kas_fail(KAS_NO_MEMORY, "no memory");
    s->o = &o;
    const kas_status status = run_session(s);
    kas_choices_free(&s->choices);
    for (int m = 0; m < KAS_SCORE_MINIBATCHES; m++)
        kas_minibatch_free(&s->minibatch[m]);
    free(s->plain);
    free(s->figure);
    kas_cli_training_close(&s->data);
    free(s);
    return status;
}

const kas_command kas_command_sensitivity = {"sensitivity",
                                             "Say what each kernel does at each layer alone", run};
