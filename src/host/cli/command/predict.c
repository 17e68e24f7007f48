/* kas-gpu predict: tells how long inference will take, without compiling or running anything. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/cli/net_options.h"
#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/predict/predict.h"
#include "host/report/line.h"
#include "host/report/table.h"
#include "host/space/file/assignment.h"
#include "host/study/options.h"

typedef struct predict_options {
    kas_cli_common common;
    kas_cli_net net;
    const char *machine, *output;
    char **path; /* [paths] kernel files */
    int paths, batch, precision;
    bool launches;
} predict_options;

enum { KEY_MACHINE = 0x200, KEY_PRECISION, KEY_LAUNCHES, MOST_BATCH = 1 << 16 };

static const struct argp_option option_list[] = {
    {"machine", KEY_MACHINE, "M", 0,
     "a100, h100, h200, l4, rtx4090, orin, orin-nano, cpu, cpu-avx2; a file of doctor --calibrate; "
     "auto: "
     "this machine (default)",
     0},
    {"batch", 'b', "N", 0, "Images of a forward pass (default 32, as in a search)", 0},
    {"precision", KEY_PRECISION, "P", 0, "fp32 (default), tf32, bf16 or fp16", 0},
    {"output", 'o', "FILE", 0,
     "Write the file of layers that says which layers have the kernel (with --keep-slower)", 0},
    {"launches", KEY_LAUNCHES, 0, 0, "Show every launch with its bound, also of several kernels",
     0},
    {0}};

static const kas_cli_value values[] = {
    {KEY_MACHINE, KAS_CLI_TEXT(predict_options, machine)},
    {'b', KAS_CLI_INT(predict_options, batch, 1, MOST_BATCH)},
    {KEY_PRECISION, KAS_CLI_CHOICE(predict_options, precision, kas_precision_names)},
    {'o', KAS_CLI_TEXT(predict_options, output)},
    {KEY_LAUNCHES, KAS_CLI_FLAG(predict_options, launches)},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    predict_options *o = state->input;
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
        if (!o->net.name)
            argp_error(state, "no network is given; give one, for example --net resnet18");
        if (o->output && o->paths != 1)
            argp_error(state, "--output needs one kernel");
        return 0;
    default:
        return kas_cli_set(state, option_list, values, key, arg);
    }
}

static const char doc[] =
    "Predicts the time of a network's inference, unmodified and with kernels, on this or another "
    "machine. Nothing is compiled or run.\n\n"
    "  kas-gpu predict --net resnet18 --machine h100\n"
    "  kas-gpu predict kernels/conv.json --net resnet18 --precision bf16\n"
    "  kas-gpu predict kernels/*.json --net resnet20 --input 3x32x32\n"
    "  kas-gpu doctor --calibrate && kas-gpu predict best.json --net resnet18\n"
    "\vThe bound of a launch is what it waits for longest: memory, arithmetic, latency, or the "
    "launch itself. docs/predict.md says how times are predicted, and how far to trust them.";

typedef struct session {
    const predict_options *o;
    kas_machine machine;
    kas_net *net;
    kas_target *target;
    int targets;
    double unmodified;
    kas_table *table; /* of networks */
} session;

/* A predicted network. */
typedef struct predicted {
    const char *path; /* NULL: unmodified */
    char name[KAS_NAME_SIZE];
    kas_prediction prediction;
} predicted;

static const char *layer_name(const session *s, const kas_sweep *pass)
{
    return pass->layer < 0 ? "-" : s->net->layer[pass->layer].name;
}

static kas_bound bound_of(const kas_prediction *p)
{
    double sum[KAS_BOUNDS] = {0};
    int most = 0;
    for (int i = 0; i < p->planned.passes; i++)
        sum[p->estimate[i].bound] += p->estimate[i].seconds;
    for (int i = 1; i < KAS_BOUNDS; i++)
        most = sum[i] > sum[most] ? i : most;
    return (kas_bound)most;
}

/* ---- for people ------------------------------------------------------------------------------ */

static kas_status print_launches(const session *s, const predicted *p)
{
    static const kas_column columns[] = {{"layer", KAS_LEFT},    {"launch", KAS_LEFT},
                                         {"time", KAS_RIGHT},    {"of all", KAS_RIGHT},
                                         {"memory", KAS_RIGHT},  {"arithmetic", KAS_RIGHT},
                                         {"latency", KAS_RIGHT}, {"bound", KAS_LEFT}};
    const kas_prediction *q = &p->prediction;
    kas_table *table = kas_table_create(columns, sizeof columns / sizeof *columns);
    kas_buf out = {0};
    char human[32];
    kas_buf_printf(&out, "%s\n", p->path ? p->path : "unmodified network");
    for (int i = 0; i < q->planned.passes; i++) {
        const kas_sweep *pass = &q->planned.pass[i];
        const kas_estimate *e = &q->estimate[i];
        kas_table_cell(table, "%s", layer_name(s, pass));
        kas_table_cell(table, "%s%s", pass->what, pass->kernel && pass->library ? ", library" : "");
        kas_table_cell(table, "%s", kas_human_seconds(e->seconds, human));
        kas_table_cell(table, "%.1f%%", 100 * e->seconds / q->seconds);
        for (int part = 0; part < KAS_BOUND_LAUNCH; part++)
            kas_table_cell(table, "%s",
                           e->part[part] > 0 ? kas_human_seconds(e->part[part], human) : "-");
        kas_table_cell(table, "%s", kas_bound_names[e->bound]);
    }
    kas_table_end(table, &out);
    kas_buf_puts(&out, "\n");
    return kas_print_buf(&out);
}

static void add_row(session *s, const predicted *p)
{
    const kas_prediction *q = &p->prediction;
    char human[32];
    kas_table_cell(s->table, "%s", p->path ? p->path : "unmodified network");
    kas_table_cell(s->table, "%s", p->name);
    kas_table_cell(s->table, "%s", kas_human_seconds(q->seconds, human));
    kas_table_cell(s->table, "%.2fx", q->seconds / s->unmodified);
    kas_table_cell(s->table, "%s", kas_human_seconds(q->floor, human));
    kas_table_cell(s->table, "%d", q->planned.passes);
    kas_table_cell(s->table, "%s", kas_bound_names[bound_of(q)]);
}

static kas_status print_networks(const session *s)
{
    kas_buf out = {0};
    kas_table_write(s->table, &out);
    kas_buf_printf(&out, "\ninference of %d images of %dx%dx%d by %s on %s, %s; %s\n", s->o->batch,
                   s->o->net.c, s->o->net.h, s->o->net.w, s->net->name, s->machine.name,
                   kas_precision_names[s->o->precision],
                   s->machine.calibrated ? "calibrated" : "never calibrated");
    return kas_print_buf(&out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static const char *const part_fields[KAS_BOUNDS] = {"memory", "arithmetic", "latency",
                                                    "launch_seconds"};

static void json_launches(const session *s, const kas_prediction *q, kas_buf *out)
{
    for (int i = 0; i < q->planned.passes; i++) {
        const kas_sweep *pass = &q->planned.pass[i];
        const kas_estimate *e = &q->estimate[i];
        kas_buf_puts(out, i ? ", {\"layer\": " : "[{\"layer\": ");
        kas_buf_json_string(out, layer_name(s, pass));
        kas_buf_puts(out, ", \"launch\": ");
        kas_buf_json_string(out, pass->what);
        kas_line_bool(out, "library", pass->library);
        kas_line_number(out, "seconds", e->seconds);
        kas_line_number(out, "floor_seconds", e->floor);
        kas_line_number(out, "bytes", pass->bytes);
        for (int part = 0; part < KAS_BOUNDS; part++)
            kas_line_number(out, part_fields[part], e->part[part]);
        kas_line_text(out, "bound", kas_bound_names[e->bound]);
        kas_buf_puts(out, "}");
    }
    kas_buf_puts(out, q->planned.passes ? "]" : "[]");
}

static kas_status print_json(const session *s, const predicted *p)
{
    const kas_prediction *q = &p->prediction;
    kas_buf line = {0};
    kas_line_begin(&line);
    kas_line_text(&line, "kind", "prediction");
    kas_line_text(&line, "file", p->path);
    kas_line_text(&line, "kernel", p->path ? p->name : NULL);
    kas_line_text(&line, "net", s->net->name);
    kas_line_int(&line, "batch", s->o->batch);
    kas_line_text(&line, "precision", kas_precision_names[s->o->precision]);
    kas_line_text(&line, "machine", s->machine.name);
    kas_line_bool(&line, "calibrated", s->machine.calibrated);
    kas_line_number(&line, "error", s->machine.calibrated ? s->machine.error : 0);
    kas_line_number(&line, "seconds", q->seconds);
    kas_line_number(&line, "ratio_to_unmodified", q->seconds / s->unmodified);
    kas_line_number(&line, "floor_seconds", q->floor);
    kas_line_text(&line, "bound", kas_bound_names[bound_of(q)]);
    kas_line_key(&line, "launches");
    json_launches(s, q, &line);
    kas_line_end(&line);
    return kas_print_buf(&line);
}

/* ---- one network ----------------------------------------------------------------------------- */

static kas_status tell(session *s, const predicted *p)
{
    if (s->o->common.json)
        return print_json(s, p);
    add_row(s, p);
    const bool only = s->o->paths == 0 || (p->path && s->o->paths == 1);
    return only || s->o->launches ? print_launches(s, p) : KAS_OK;
}

static kas_status predict(session *s, kas_programs *programs, predicted *p)
{
    KAS_TRY(kas_predict(&s->machine, s->net, programs, s->o->batch, (kas_precision)s->o->precision,
                        &p->prediction));
    if (!p->path)
        s->unmodified = p->prediction.seconds;
    const kas_status status = tell(s, p);
    kas_prediction_free(&p->prediction);
    return status;
}

static kas_status write_layers(const char *path, const kas_assignment *kernels)
{
    kas_buf text = {0};
    const kas_status status = kas_assignment_write_json(kernels, &text);
    return kas_buf_save(&text, path, status);
}

static kas_status predict_kernel(session *s, const char *path)
{
    predicted p = {.path = path};
    kas_assignment kernels;
    kas_replacement replacement;
    kas_programs programs;
    KAS_TRY(kas_assignment_read_file(path, &kernels));
    kas_status status =
        kas_cli_fit(&s->o->net, path, s->net, s->target, s->targets, &kernels, &replacement);
    if (status == KAS_OK)
        status = kas_assignment_name(&kernels, p.name);
    if (status == KAS_OK && s->o->output)
        status = kas_cli_are_inputs(s->o->net.name, (const char *const[]){path, s->o->machine}, 2);
    if (status == KAS_OK && s->o->output)
        status = write_layers(s->o->output, &kernels);
    kas_assignment_free(&kernels);
    KAS_TRY(status);
    status = kas_predict_lower(&s->machine, &replacement, s->o->batch,
                               (kas_precision)s->o->precision, false, &programs);
    if (status == KAS_OK) {
        status = predict(s, &programs, &p);
        kas_programs_free(&programs);
    } else {
        status = kas_fail_context(status, "%s", path);
    }
    kas_replacement_free(&replacement);
    return status;
}

/* Among several kernels, one that does not fit the network is left out with a message. */
static kas_status predict_or_leave_out(session *s, const char *path)
{
    const kas_status status = predict_kernel(s, path);
    const bool misfit = kas_is_misfit(status);
    if (!misfit || s->o->paths == 1)
        return status;
    kas_warn("left out: %s", kas_error());
    return KAS_OK;
}

static kas_status run_all(session *s)
{
    static const kas_column columns[] = {
        {"network", KAS_LEFT}, {"kernel", KAS_LEFT},    {"time", KAS_RIGHT}, {"ratio", KAS_RIGHT},
        {"floor", KAS_RIGHT},  {"launches", KAS_RIGHT}, {"bound", KAS_LEFT}};
    predicted plain = {0};
    if (!s->machine.calibrated)
        kas_warn("the machine \"%s\" was never calibrated: times come from %s, so compare kernels "
                 "with them and trust no time; kas-gpu doctor --calibrate measures the machine on "
                 "which it runs",
                 s->machine.name,
                 s->machine.gpu ? "data sheets and from what is usual"
                 : s->machine.cores == 2
                     ? "what was measured on a server's two cores"
                     : "what was measured on a server's two cores and scaled to another number");
    if (!s->o->common.json)
        s->table = kas_table_create(columns, sizeof columns / sizeof *columns);
    KAS_TRY(predict(s, NULL, &plain));
    for (int i = 0; i < s->o->paths; i++)
        KAS_TRY(predict_or_leave_out(s, s->o->path[i]));
    return s->o->common.json ? KAS_OK : print_networks(s);
}

static kas_status run(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&kas_cli_net_argp, 0, NULL, 0}, {&kas_cli_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {option_list, parse, "[KERNEL.json...]", doc, children, 0, 0};
    predict_options o = {
        .net = kas_cli_net_defaults(), .machine = "auto", .batch = KAS_LATENCY_BATCH};
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o));
    kas_cli_keep_on_machine(&o.net, o.machine);
    o.net.keep.threads = o.common.threads;
    o.net.keep.batch = o.batch;
    o.net.keep.precision = (kas_precision)o.precision;
    session s = {.o = &o};
    kas_status status = kas_machine_find(o.machine, "auto", o.common.threads, &s.machine);
    if (status == KAS_OK)
        status = kas_cli_net_targets(&o.net, &s.net, &s.target, &s.targets);
    if (status == KAS_OK)
        status = run_all(&s);
    kas_table_free(s.table);
    free(s.target);
    kas_net_free(s.net);
    return status;
}

const kas_command kas_command_predict = {
    "predict", "Predict the time of inference, also on another machine", run};
