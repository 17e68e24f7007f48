/* kas-gpu export: writes a kernel and its network as files that do not need this program. */
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

#include "host/cli/net_options.h"
#include "host/core/file/target.h"
#include "host/core/log.h"
#include "host/export/model.h"
#include "host/report/line.h"

typedef struct export_cli {
    kas_cli_common common;
    const char *from, *dir, *weights, *device, *candidate; /* candidate: NULL = the best */
    kas_cli_net net; /* for a kernel file; a study has its own */
    uint64_t seed;
    bool seeded, verify, tuned;
} export_cli;

enum { KEY_TUNED = 0x200 };

static const struct argp_option option_list[] = {
    {"output", 'o', "DIR", 0, "Folder to write to; made when missing", 1},
    {"verify", 'v', 0, 0,
     "Compare the logits of the device and of the PyTorch module with the float64 reference", 1},
    {"device", 'D', "D", 0, "For --verify and --tuned: auto (default), cpu, cuda, cuda:N", 1},
    {"tuned", KEY_TUNED, 0, 0,
     "Write the source for the device, with the schedules that kas-gpu tune found on it at batch "
     "64",
     1},
    {"candidate", 'k', "K", 0,
     "STUDY: this candidate instead of the best: its number, or the beginning of its kernel's name",
     2},
    {"weights", 'w', "F.safetensors", 0,
     "Weights of `kas-gpu train --weights` (default: the study's, else initial ones)", 2},
    {"seed", 's', "S", 0, "Seed of initial weights (default 0)", 3},
    {0}};

static const kas_cli_value values[] = {
    {'o', KAS_CLI_TEXT(export_cli, dir)},         {'v', KAS_CLI_FLAG(export_cli, verify)},
    {KEY_TUNED, KAS_CLI_FLAG(export_cli, tuned)}, {'D', KAS_CLI_TEXT(export_cli, device)},
    {'w', KAS_CLI_TEXT(export_cli, weights)},     {'k', KAS_CLI_TEXT(export_cli, candidate)},
    {'s', KAS_CLI_SEED(export_cli, seed)},        {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    export_cli *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->net;
        state->child_inputs[1] = &o->common;
        return 0;
    case ARGP_KEY_ARG:
        if (o->from)
            argp_error(state, "unexpected argument \"%s\"", arg);
        o->from = arg;
        return 0;
    case ARGP_KEY_END:
        if (!o->from)
            argp_error(state, "nothing to export is given; give a study's folder or a kernel file");
        else if (!o->dir)
            argp_error(state, "-o DIR is needed");
        else if (o->device && !o->verify && !o->tuned && !o->net.keep.machine)
            argp_error(state, "--device has no effect without --verify, --tuned or --keep-slower");
        return 0;
    case 's':
        o->seeded = true;
        return kas_cli_set(state, option_list, values, key, arg);
    default:
        return kas_cli_set(state, option_list, values, key, arg);
    }
}

static const char doc[] =
    "Write a kernel as files that do not need this program: PyTorch modules of the kernel and "
    "of the whole network, weights, generated source, a picture.\n\n"
    "  kas-gpu export STUDY -o best --verify\n"
    "  kas-gpu export STUDY --candidate 7 -o candidate7\n"
    "  kas-gpu export STUDY --candidate 3f9c -o DIR\n"
    "  kas-gpu export kernels/involution.json -o involution --net resnet18 --verify\n"
    "  kas-gpu export K.json -o DIR --net resnet20 --weights trained.safetensors\n"
    "\vDIR/README.md says what each file is for. --verify needs a Python with torch; where there "
    "is none it says so, and `python3 network.py --check` can be run later on any machine.";

static kas_status load_study(const export_cli *o, kas_export_model *model)
{
    const kas_cli_net *n = &o->net;
    kas_cli_net none = kas_cli_net_defaults();
    if (n->name || n->filter || n->c != none.c || n->h != none.h || n->w != none.w ||
        n->classes != none.classes || n->budget.max_flops_ratio != none.budget.max_flops_ratio ||
        n->budget.max_params_ratio != none.budget.max_params_ratio || n->keep.machine)
        return kas_fail(
            KAS_USAGE, "a study knows its network, input, targets and budget: leave out "
                       "--net, --input, --classes, --targets, --keep-slower, --flops and --params");
    return kas_export_model_from_study(o->from, o->candidate, model);
}

static kas_status load_file(const export_cli *o, kas_export_model *model)
{
    kas_export_setting setting = {.net = o->net.name ? o->net.name : "resnet20",
                                  .c = o->net.c,
                                  .h = o->net.h,
                                  .w = o->net.w,
                                  .classes = o->net.classes,
                                  .targets = o->net.filter,
                                  .budget = kas_sample_defaults().budget,
                                  .keep = o->net.keep};
    if (o->candidate)
        return kas_fail(KAS_USAGE, "--candidate needs a study; %s is a file", o->from);
    if (o->net.budget.max_flops_ratio > 0)
        setting.budget.max_flops_ratio = o->net.budget.max_flops_ratio;
    if (o->net.budget.max_params_ratio > 0)
        setting.budget.max_params_ratio = o->net.budget.max_params_ratio;
    return kas_export_model_from_file(o->from, &setting, model);
}

static kas_status load(const export_cli *o, kas_export_model *model)
{
    struct stat info;
    if (stat(o->from, &info) != 0)
        return kas_fail(KAS_BAD_INPUT, "%s: no such study or kernel file", o->from);
    return S_ISDIR(info.st_mode) ? load_study(o, model) : load_file(o, model);
}

/* The findings of --verify. */
typedef struct verification {
    bool done;
    kas_device_verified device;
    kas_verified python;
    kas_buf report; /* of Python */
} verification;

static kas_status verify(const export_cli *o, const kas_export_options *options, verification *v)
{
    KAS_TRY(kas_export_verify_device(options, o->device, o->common.threads, &v->device));
    KAS_TRY(kas_export_verify(o->dir, &v->python, &v->report));
    v->done = true;
    return KAS_OK;
}

static void put_json(const export_cli *o, bool trained, const verification *v, kas_buf *out)
{
    static const char *const words[] = {"ok", "failed", "skipped"};
    kas_line_begin(out);
    kas_line_text(out, "folder", o->dir);
    kas_line_bool(out, "trained", trained);
    kas_line_text(out, "device", !v->done ? NULL : words[v->device.verdict]);
    kas_line_number(out, "device_error", v->done ? v->device.error : NAN);
    kas_line_number(out, "device_tolerance", v->done ? v->device.tolerance : NAN);
    kas_line_text(out, "pytorch", v->done ? words[v->python] : NULL);
    kas_line_text(out, "pytorch_report", v->done ? kas_buf_text(&v->report) : NULL);
    kas_line_end(out);
}

static void put_text(const export_cli *o, const verification *v, kas_buf *out)
{
    kas_buf_printf(out, "%s: kernel and network written; README.md there says how to use them\n",
                   o->dir);
    if (!v->done)
        return;
    if (v->device.verdict == KAS_VERIFY_SKIPPED)
        kas_buf_puts(out,
                     "device: SKIPPED: with these weights the network amplifies rounding so much "
                     "that float32 tells nothing\n");
    else
        kas_buf_printf(out,
                       "device: %s: largest error %.3g of the largest logit of the float64 "
                       "reference, tolerance %.3g\n",
                       v->device.verdict == KAS_VERIFY_OK ? "ok" : "FAILED", v->device.error,
                       v->device.tolerance);
    kas_buf_printf(out, "PyTorch: %s%s\n", v->python == KAS_VERIFY_SKIPPED ? "SKIPPED: " : "",
                   kas_buf_text(&v->report));
}

static kas_status print_result(const export_cli *o, bool trained, const verification *v)
{
    kas_buf out = {0};
    if (o->common.json)
        put_json(o, trained, v, &out);
    else
        put_text(o, v, &out);
    kas_status status = kas_buf_status(&out);
    printf("%s", kas_buf_text(&out));
    kas_buf_free(&out);
    if (status == KAS_OK && v->done && v->python == KAS_VERIFY_FAILED)
        status = kas_fail(KAS_FAILURE,
                          "%s: the logits of the PyTorch module differ from those of the reference",
                          o->dir);
    if (status == KAS_OK && v->done && v->device.verdict == KAS_VERIFY_FAILED)
        status = kas_fail(
            KAS_FAILURE, "%s: the logits of the device differ from those of the reference", o->dir);
    return status;
}

static kas_status write_and_verify(const export_cli *o, const kas_export_model *m)
{
    const char *weights = o->weights ? o->weights : m->weights[0] ? m->weights : NULL;
    if (weights && o->seeded)
        return kas_fail(KAS_USAGE,
                        "--seed has no effect: it draws initial weights, and %s are trained; leave "
                        "it out",
                        weights);
    kas_export_options options = {.dir = o->dir,
                                  .title = m->title,
                                  .kernel_text = kas_buf_text(&m->kernel_text),
                                  .net = {m->net, &m->replacement},
                                  .weights = weights,
                                  .weights_note = o->weights ? "trained weights"
                                                  : weights  ? m->weights_note
                                                             : NULL,
                                  .facts = m->facts.size ? kas_buf_text(&m->facts) : NULL,
                                  .seed = o->seed};
    verification v = {0};
    kas_device_info info;
    if (o->tuned) {
        kas_device *device;
        KAS_TRY(kas_device_open(o->device, o->common.threads, &device));
        info = *kas_device_get_info(device);
        kas_device_close(device);
        options.tuned_on = &info;
    }
    KAS_TRY(kas_export(&options));
    if (*m->note)
        kas_warn("%s: %s", o->from, m->note);
    if (!weights)
        kas_warn("%s has no trained weights: initial ones were written (--weights gives others)",
                 m->title);
    kas_status status = o->verify ? verify(o, &options, &v) : KAS_OK;
    if (status == KAS_OK)
        status = print_result(o, weights != NULL, &v);
    kas_buf_free(&v.report);
    return status;
}

static kas_status name_inputs(const export_cli *o, const kas_export_model *model)
{
    const char *const inputs[] = {o->from, o->weights, model->weights};
    struct stat info;
    KAS_TRY(kas_cli_net_is_input(o->net.name));
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (inputs[i] && stat(inputs[i], &info) == 0 && S_ISREG(info.st_mode))
            KAS_TRY(kas_file_is_input(inputs[i]));
    return KAS_OK;
}

static kas_status run(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&kas_cli_net_argp, 0, "Around a kernel file (default: resnet20):", 3},
        {&kas_cli_common_argp, 0, NULL, 0},
        {0}};
    static const struct argp argp = {option_list, parse, "STUDY|KERNEL.json", doc, children, 0, 0};
    export_cli o = {.net = kas_cli_net_defaults()};
    kas_export_model model = {0};
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o));
    if (!o.device)
        o.device = "auto";
    kas_cli_keep_on_device(&o.net, o.device, o.common.threads);
    kas_status status = load(&o, &model);
    if (status == KAS_OK)
        status = name_inputs(&o, &model);
    if (status == KAS_OK && o.weights)
        status = kas_export_model_weights(o.weights, &model);
    if (status == KAS_OK)
        status = write_and_verify(&o, &model);
    kas_export_model_free(&model);
    return status;
}

const kas_command kas_command_export = {
    "export", "Write a kernel and its network as files to take away", run};
