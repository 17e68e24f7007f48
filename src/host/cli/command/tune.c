/* kas-gpu tune: searches schedules of a kernel's launches on a device. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/cli/net_options.h"
#include "host/cli/progress.h"
#include "host/core/clock.h"
#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/core/machine.h"
#include "host/model/model.h"
#include "host/report/line.h"
#include "host/report/table.h"
#include "host/space/file/assignment.h"
#include "host/study/options.h"
#include "host/tune/tune.h"
#include "jit/tuned.h"

typedef struct tune_command {
    kas_cli_common common;
    kas_cli_net net;
    kas_tune_options tune;
    const char *path, *device, *output, *layer;
    int batch, precision;
    bool inference;
    double reported;    /* when progress was shown last */
    const char *tuning; /* the layer */
} tune_command;

enum { KEY_LAYER = 0x200, KEY_TRIALS, KEY_INFERENCE, KEY_PRECISION, KEY_AGAIN };

static const struct argp_option option_list[] = {
    {"device", 'D', "D", 0, "auto, cpu, cuda or cuda:N (default auto)", 0},
    {"layer", KEY_LAYER, "NAME", 0, "Tune the kernel at this layer (default: at all layers)", 0},
    {"batch", 'b', "N", 0,
     "Images at once, as in the training or the inference that is to be faster (default 64, with "
     "--inference 32)",
     0},
    {"precision", KEY_PRECISION, "P", 0, "fp32 (default), tf32, bf16 or fp16", 0},
    {"trials", KEY_TRIALS, "N", 0,
     "Schedules of a launch that the model ranks (default 192); what was tuned with fewer is tuned "
     "again",
     0},
    {"seed", 's', "S", 0, "Seed of the schedules and of the data (default 0)", 0},
    {"inference", KEY_INFERENCE, 0, 0, "The forward pass alone, without gradients", 0},
    {"again", KEY_AGAIN, 0, 0, "Tune what was tuned before, and keep the new result", 0},
    {"output", 'o', "FILE", 0,
     "With --layer: write the schedules that were kept, for check --schedule", 0},
    {0}};

static const kas_cli_value values[] = {
    {'D', KAS_CLI_TEXT(tune_command, device)},
    {KEY_LAYER, KAS_CLI_TEXT(tune_command, layer)},
    {'b', KAS_CLI_INT(tune_command, batch, 1, 65536)},
    {KEY_PRECISION, KAS_CLI_CHOICE(tune_command, precision, kas_precision_names)},
    {KEY_TRIALS, KAS_CLI_INT(tune_command, tune.trials, 1, 100000)},
    {'s', KAS_CLI_SEED(tune_command, tune.seed)},
    {KEY_INFERENCE, KAS_CLI_FLAG(tune_command, inference)},
    {KEY_AGAIN, KAS_CLI_FLAG(tune_command, tune.again)},
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
        if (o->output && !o->layer)
            argp_error(state, "-o writes the schedules of one layer: say which --layer");
        return 0;
    default:
        return kas_cli_set(state, option_list, values, key, arg);
    }
}

static const char doc[] =
    "Searches schedules of a kernel's launches on a device: the machine model ranks schedules "
    "that are drawn at random; the best few are compiled and timed in turns with the default, and "
    "a winner is kept where a second timing confirms it. What was found is kept in "
    "the cache by launch and device, and found again without timing; --tuned of other commands "
    "uses it.\n\n"
    "  kas-gpu tune kernels/involution.json --net resnet18 --device cpu --batch 64\n"
    "  kas-gpu train --kernel kernels/involution.json --net resnet18 --batch 64 --tuned ...\n"
    "\vThe ratio is the tuned time by the default's, below 1 is faster, with its 10th and 90th "
    "percentile over the turns of the second timing. On the CPU, --threads 1 times in processor "
    "time, which other work on the machine disturbs least.";

/* ---- progress -------------------------------------------------------------------------------- */

static void on_progress(void *context, const char *what)
{
    tune_command *o = context;
    kas_progress_show(o->common.quiet, 0, &o->reported, "%s: %s", o->tuning, what);
}

/* ---- results --------------------------------------------------------------------------------- */

static void put_line(const kas_tuned_launch *l, const char *layer, const char *what, kas_buf *out)
{
    kas_line_begin(out);
    kas_line_text(out, "kind", "tuned");
    kas_line_text(out, "layer", layer);
    kas_line_text(out, what, l->name);
    kas_line_number(out, "seconds", l->seconds);
    if (strcmp(what, "kernel") == 0) {
        kas_line_int(out, "times", l->times);
        kas_line_number(out, "floor", l->floor);
        kas_line_number(out, "choice", l->choice);
    }
    kas_line_number(out, "ratio", l->ratio);
    kas_line_number(out, "ratio_low", l->ratio_low);
    kas_line_number(out, "ratio_high", l->ratio_high);
    kas_line_int(out, "tried", l->tried);
    kas_line_bool(out, "known", l->known);
    kas_line_bool(out, "kept", l->kept);
    kas_line_end(out);
}

static kas_status print_json(const kas_tuned *t, const char *layer)
{
    kas_buf out = {0};
    for (int i = 0; i < t->maps; i++)
        put_line(&t->map[i], layer, "map", &out);
    for (int i = 0; i < t->launches; i++)
        if (t->launch[i].name[0]) /* no library's convolution */
            put_line(&t->launch[i], layer, "kernel", &out);
    return kas_print_buf(&out);
}

static void put_row(kas_table *table, const kas_tuned_launch *l, const char *before,
                    const char *kept, const char *usual)
{
    char human[32];
    kas_table_cell(table, "%s%s", before, l->name);
    const bool timed = isfinite(l->seconds);
    kas_table_cell(table, "%s", timed ? kas_human_seconds(l->seconds, human) : "-");
    if (l->known)
        kas_table_cell(table, "known");
    else
        kas_table_cell(table, "%d", l->tried);
    if (timed) {
        kas_table_cell(table, "%.2f", l->ratio);
        kas_table_cell(table, "%.2f to %.2f", l->ratio_low, l->ratio_high);
    } else {
        kas_table_cell(table, "-");
        kas_table_cell(table, "-");
    }
    kas_table_cell(table, "%s", l->kept ? kept : usual);
}

static kas_status print_text(const kas_tuned *t, const char *layer)
{
    static const kas_column columns[] = {
        {"kernel", KAS_LEFT},           {"default", KAS_RIGHT},       {"tried", KAS_RIGHT},
        {"tuned / default", KAS_RIGHT}, {"8 of 10 turns", KAS_RIGHT}, {"", KAS_LEFT}};
    kas_table *table = kas_table_create(columns, sizeof columns / sizeof *columns);
    kas_buf out = {0};
    double before = 0, after = 0;
    for (int i = 0; i < t->maps; i++)
        put_row(table, &t->map[i], "map ", "loops", "library stays");
    for (int i = 0; i < t->launches; i++) {
        const kas_tuned_launch *l = &t->launch[i];
        if (!l->name[0]) /* a library's convolution */
            continue;
        before += l->times * l->seconds;
        after += l->times * l->seconds * (l->kept ? l->ratio : 1);
        put_row(table, l, "", "kept", "default stays");
    }
    kas_table_end(table, &out);
    kas_buf_printf(&out, "\n%s: the generated launches take %.2f of the default's time\n", layer,
                   before > 0 ? after / before : 1);
    return kas_print_buf(&out);
}

/* ---- the command ----------------------------------------------------------------------------- */

typedef struct session {
    kas_net *net;
    kas_target *targets;
    int count;
    kas_replacement fit;
    kas_device *device;
    kas_programs programs;
    char folder[4096];
    kas_buf made; /* names of the records that this command made */
} session;

static kas_status open_session(tune_command *o, session *s)
{
    kas_assignment kernels;
    KAS_TRY(kas_cli_net_targets(&o->net, &s->net, &s->targets, &s->count));
    KAS_TRY(kas_assignment_read_file(o->path, &kernels));
    const kas_status status =
        kas_cli_fit(&o->net, o->path, s->net, s->targets, s->count, &kernels, &s->fit);
    kas_assignment_free(&kernels);
    KAS_TRY(status);
    KAS_TRY(kas_device_open(o->device, o->common.threads, &s->device));
    KAS_TRY(kas_tuned_folder(kas_device_get_info(s->device), s->folder));
    o->tune.folder = s->folder;
    o->tune.made = &s->made;
    const kas_model_options options = {.batch = o->batch       ? o->batch
                                                : o->inference ? KAS_LATENCY_BATCH
                                                               : kas_recipe_default().batch,
                                       .training = !o->inference,
                                       .precision = (kas_precision)o->precision};
    return kas_model_build_programs(&options, &s->fit, kas_device_get_info(s->device)->arch,
                                    &s->programs);
}

/* Finds the program of --layer; all of them without it: *first to *last - 1. */
static kas_status find_programs(const tune_command *o, const session *s, int *first, int *last)
{
    int t = 0;
    *first = 0;
    *last = s->programs.count;
    if (!o->layer)
        return KAS_OK;
    while (t < s->count && strcmp(s->targets[t].name, o->layer) != 0)
        t++;
    if (t == s->count || s->programs.program_of[t] < 0)
        return kas_fail(KAS_USAGE, "--layer %s: no such replaced convolution in %s", o->layer,
                        s->net->file);
    *first = s->programs.program_of[t];
    *last = *first + 1;
    return KAS_OK;
}

/* Writes the schedules that were kept, with the images for which they are. */
static kas_status write_file(const tune_command *o, const char *schedules)
{
    kas_buf text = {0};
    kas_schedule_file_put_input(o->net.c, o->net.h, o->net.w, &text);
    kas_buf_puts(&text, schedules);
    return kas_buf_save(&text, o->output, KAS_OK);
}

static kas_status tune_one(const tune_command *o, const session *s, const kas_machine *machine,
                           int p)
{
    kas_tuned tuned;
    kas_status status = kas_tune(s->device, machine, NULL, &s->programs, p, &o->tune, &tuned);
    kas_progress_wipe(o->common.quiet);
    KAS_TRY(status);
    status = (o->common.json ? print_json : print_text)(&tuned, o->tuning);
    if (status == KAS_OK && o->output)
        status = write_file(o, tuned.file);
    kas_tuned_free(&tuned);
    return status;
}

/* Tunes all programs. One that fails is warned of, and the others are tuned, unless the machine or the
 * device is at fault. */
static kas_status tune_all(tune_command *o, const session *s, const kas_machine *machine, int first,
                           int last)
{
    int failures = 0;
    for (int p = first; p < last; p++) {
        o->tuning = o->layer ? o->layer : s->targets[kas_programs_target(&s->programs, p)].name;
        const kas_status status = tune_one(o, s, machine, p);
        if (status == KAS_OK)
            continue;
        if (last - first == 1 || status == KAS_DEVICE_LOST || status == KAS_MACHINE)
            return status;
        kas_warn("%s: %s", o->tuning, kas_error());
        failures++;
    }
    return failures == 0
               ? KAS_OK
               : kas_fail(KAS_FAILURE, "%d of %d kernels were not tuned", failures, last - first);
}

/* Warns where several threads would wait for cores that others use: such times say nothing. */
static void warn_if_busy(const kas_device_info *info)
{
    double load;
    if (info->kind == KAS_DEVICE_CPU && info->threads > 1 && getloadavg(&load, 1) == 1 &&
        load > kas_cores() / 2.0)
        kas_warn("the machine is busy (load %.1f on %d cores): threads wait for cores there, and "
                 "schedules are kept that are not faster; use --threads 1, or wait",
                 load, kas_cores());
}

static kas_status tune(tune_command *o, session *s)
{
    kas_machine machine;
    int first, last;
    KAS_TRY(open_session(o, s));
    KAS_TRY(find_programs(o, s, &first, &last));
    KAS_TRY(kas_machine_of(kas_device_get_info(s->device), &machine));
    warn_if_busy(kas_device_get_info(s->device));
    KAS_TRY(kas_cli_are_inputs(o->net.name, (const char *const[]){o->path}, 1));
    if (o->output)
        KAS_TRY(kas_file_check_writable(o->output));
    o->tune.progress = on_progress;
    o->tune.progress_context = o;
    o->reported = kas_monotonic();
    return tune_all(o, s, &machine, first, last);
}

static kas_status run(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&kas_cli_net_argp, 0, NULL, 0}, {&kas_cli_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {option_list, parse, "KERNEL.json", doc, children, 0, 0};
    tune_command o = {
        .net = kas_cli_net_defaults(), .tune = {.trials = KAS_TUNE_TRIALS}, .device = "auto"};
    session s = {0};
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o));
    kas_cli_keep_on_device(&o.net, o.device, o.common.threads);
    const kas_status status = tune(&o, &s);
    kas_buf_free(&s.made);
    kas_programs_free(&s.programs);
    kas_replacement_free(&s.fit);
    kas_device_close(s.device);
    free(s.targets);
    kas_net_free(s.net);
    return status;
}

const kas_command kas_command_tune = {"tune", "Search schedules of a kernel's launches on a device",
                                      run};
