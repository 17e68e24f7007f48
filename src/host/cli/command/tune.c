/* kas-gpu tune: searches schedules of a kernel's launches on a device. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/cli/net_options.h"
#include "host/core/file/files.h"
#include "host/report/line.h"
#include "host/report/table.h"
#include "host/space/file/assignment.h"
#include "host/tune/tune.h"

typedef struct tune_command {
    kas_cli_common common;
    kas_cli_net net;
    kas_tune_options tune;
    const char *path, *device, *output;
    bool inference;
} tune_command;

enum { KEY_LAYER = 0x200, KEY_TRIALS, KEY_INFERENCE };

static const struct argp_option option_list[] = {
    {"device", 'D', "D", 0, "auto, cpu, cuda or cuda:N (default auto)", 0},
    {"layer", KEY_LAYER, "NAME", 0, "Tune the kernel at this layer (default: the first)", 0},
    {"batch", 'b', "N", 0, "Images at once (default 16)", 0},
    {"trials", KEY_TRIALS, "N", 0, "Schedules of a launch that the model ranks (default 64)", 0},
    {"seed", 's', "S", 0, "Seed of the schedules and of the data (default 0)", 0},
    {"inference", KEY_INFERENCE, 0, 0, "The forward pass alone, without gradients", 0},
    {"output", 'o', "FILE", 0, "Write the schedules that were kept, for check --schedule", 0},
    {0}};

static const kas_cli_value values[] = {
    {'D', KAS_CLI_TEXT(tune_command, device)},
    {KEY_LAYER, KAS_CLI_TEXT(tune_command, tune.layer)},
    {'b', KAS_CLI_INT(tune_command, tune.batch, 1, 65536)},
    {KEY_TRIALS, KAS_CLI_INT(tune_command, tune.trials, 1, 100000)},
    {'s', KAS_CLI_SEED(tune_command, tune.seed)},
    {KEY_INFERENCE, KAS_CLI_FLAG(tune_command, inference)},
    {'o', KAS_CLI_TEXT(tune_command, output)},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    tune_command *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->net;
        state->child_inputs[1] = &o->common;
        return 0;
    case ARGP_KEY_ARG:
        if (o->path)
            argp_error(state, "expected one kernel at a time, found \"%s\" too", arg);
        o->path = arg;
        return 0;
    case ARGP_KEY_END:
        if (!o->path || !o->net.name)
            argp_error(state, "a kernel file and --net are needed");
        return 0;
    default:
        return kas_cli_set(state, option_list, values, key, arg);
    }
}

static const char doc[] =
    "Searches schedules of a kernel's launches on a device: the machine model ranks schedules that "
    "are "
    "drawn at random, the best few are compiled and timed in turns with the default, and a winner "
    "is "
    "kept where a second timing confirms it.\n\n"
    "  kas-gpu tune kernels/involution.json --net resnet18 --device cpu -o s.txt\n"
    "  kas-gpu check kernels/involution.json --net resnet18 --schedule s.txt\n"
    "\vThe ratio is the tuned time by the default's, below 1 is faster, with its 10th and 90th "
    "percentile over the turns of the second timing. On the CPU, --threads 1 times in processor "
    "time, which other work on the machine disturbs least.";

/* ---- results --------------------------------------------------------------------------------- */

static kas_status print_json(const kas_tuned *t, const char *layer)
{
    kas_buf out = {0};
    for (int i = 0; i < t->launches; i++) {
        const kas_tuned_launch *l = &t->launch[i];
        if (!l->name[0]) /* a library's convolution */
            continue;
        kas_line_begin(&out);
        kas_line_text(&out, "kind", "tuned");
        kas_line_text(&out, "layer", layer);
        kas_line_text(&out, "kernel", l->name);
        kas_line_number(&out, "seconds", l->seconds);
        kas_line_number(&out, "ratio", l->ratio);
        kas_line_number(&out, "ratio_low", l->ratio_low);
        kas_line_number(&out, "ratio_high", l->ratio_high);
        kas_line_int(&out, "tried", l->tried);
        kas_line_bool(&out, "kept", l->kept);
        kas_line_end(&out);
    }
    return kas_print_buf(&out);
}

static kas_status print_text(const kas_tuned *t, const char *layer)
{
    static const kas_column columns[] = {
        {"kernel", KAS_LEFT},           {"default", KAS_RIGHT},       {"tried", KAS_RIGHT},
        {"tuned / default", KAS_RIGHT}, {"8 of 10 turns", KAS_RIGHT}, {"", KAS_LEFT}};
    kas_table *table = kas_table_create(columns, sizeof columns / sizeof *columns);
    kas_buf out = {0};
    char human[32];
    double before = 0, after = 0;
    for (int i = 0; i < t->launches; i++) {
        const kas_tuned_launch *l = &t->launch[i];
        if (!l->name[0]) /* a library's convolution */
            continue;
        before += l->seconds;
        after += l->seconds * (l->kept ? l->ratio : 1);
        kas_table_cell(table, "%s", l->name);
        kas_table_cell(table, "%s", kas_human_seconds(l->seconds, human));
        kas_table_cell(table, "%d", l->tried);
        kas_table_cell(table, "%.2f", l->ratio);
        kas_table_cell(table, "%.2f to %.2f", l->ratio_low, l->ratio_high);
        kas_table_cell(table, "%s", l->kept ? "kept" : "default stays");
    }
    kas_status status = kas_table_write(table, &out);
    kas_table_free(table);
    kas_buf_printf(&out, "\n%s: the generated launches take %.2f of the default's time\n", layer,
                   before > 0 ? after / before : 1);
    if (status == KAS_OK)
        return kas_print_buf(&out);
    kas_buf_free(&out);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

typedef struct session {
    kas_net *net;
    kas_target *targets;
    int count, layer;
    kas_replacement fit;
    kas_device *device;
    kas_tuned tuned;
} session;

static kas_status open_session(tune_command *o, session *s)
{
    kas_assignment kernels;
    KAS_TRY(kas_cli_net_targets(&o->net, &s->net, &s->targets, &s->count));
    KAS_TRY(kas_assignment_read_file(o->path, &kernels));
    const kas_status status =
        kas_cli_fit(&o->net, o->path, s->net, s->targets, s->count, &kernels, &s->fit);
    kas_assignment_free(&kernels);
    if (status != KAS_OK)
        return kas_fail_context(KAS_BAD_INPUT, "%s does not fit %s", o->path, s->net->file);
    while (o->tune.layer && s->layer < s->count &&
           strcmp(s->targets[s->layer].name, o->tune.layer) != 0)
        s->layer++;
    if (s->layer == s->count || !kas_replacement_kernel(&s->fit, s->layer))
        return kas_fail(KAS_USAGE, "--layer %s: no such replaced convolution in %s",
                        o->tune.layer ? o->tune.layer : s->targets[0].name, s->net->file);
    o->tune.layer = s->targets[s->layer].name;
    return kas_device_open(o->device, o->common.threads, &s->device);
}

static kas_status tune(tune_command *o, session *s)
{
    kas_machine machine;
    KAS_TRY(open_session(o, s));
    KAS_TRY(kas_machine_of(kas_device_get_info(s->device), &machine));
    if (o->output)
        KAS_TRY(kas_file_check_writable(o->output));
    KAS_TRY(kas_tune(s->device, &machine, NULL, kas_replacement_kernel(&s->fit, s->layer),
                     &s->targets[s->layer], &s->fit.solution.binding[s->layer], &o->tune,
                     &s->tuned));
    KAS_TRY((o->common.json ? print_json : print_text)(&s->tuned, o->tune.layer));
    return o->output ? kas_file_write_atomic(o->output, s->tuned.file, strlen(s->tuned.file))
                     : KAS_OK;
}

static kas_status run(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&kas_cli_net_argp, 0, NULL, 0}, {&kas_cli_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {option_list, parse, "KERNEL.json", doc, children, 0, 0};
    tune_command o = {
        .net = kas_cli_net_defaults(), .tune = {.batch = 16, .trials = 64}, .device = "auto"};
    session s = {0};
    bool done;
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o, &done));
    if (done)
        return KAS_OK;
    o.tune.training = !o.inference;
    const kas_status status = tune(&o, &s);
    kas_tuned_free(&s.tuned);
    kas_replacement_free(&s.fit);
    kas_device_close(s.device);
    free(s.targets);
    kas_net_free(s.net);
    return status;
}

const kas_command kas_command_tune = {"tune", "Search schedules of a kernel's launches on a device",
                                      run};
