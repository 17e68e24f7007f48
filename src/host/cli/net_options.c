#include "host/cli/net_options.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/file/target.h"
#include "host/core/log.h"
#include "host/model/pretrained.h"
#include "host/score/calibrate.h"
#include "host/space/file/assignment.h"
#include "host/study/options.h"

enum { KEY_FLOPS = 0x100, KEY_PARAMS, KEY_KEEP };

static const struct argp_option target_options[] = {
    {"net", 'n', "NAME", 0, "Network: a name or a network file (kas-gpu net)", 10},
    {"targets", 't', "LIST", 0, KAS_CLI_TARGETS_HELP, 10},
    {"flops", KEY_FLOPS, "R", 0,
     "FLOPs allowed, relative to the replaced convolutions (default 0: no kernel is refused, free "
     "sizes grow up to 1)",
     11},
    {"params", KEY_PARAMS, "R", 0, "Parameters allowed, likewise", 11},
    {0}};
static const struct argp_option keep_options[] = {
    {"keep-slower", KEY_KEEP, "MACHINE", OPTION_ARG_OPTIONAL,
     "Keep the convolution of a layer at which a kernel does not fit, or is predicted to be slower "
     "on MACHINE (as of predict; default: the device of the command, or this machine)",
     10},
    {0}};

#define IMAGE_OPTIONS(input)                                                                       \
    {                                                                                              \
        {"input", 'i', "CxHxW", 0, "Shape of an image (default " input ")", 10},                   \
            {"classes", 'c', "N", 0, "Number of classes (default 10)", 10},                        \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }
static const struct argp_option image_options[] = IMAGE_OPTIONS("3x32x32");
static const struct argp_option small_image_options[] = IMAGE_OPTIONS("3x16x16");
static const struct argp_option bench_image_options[] = IMAGE_OPTIONS("each suite's own");

void kas_cli_shape(struct argp_state *state, const char *text, int *c, int *h, int *w)
{
    char end;
    if (sscanf(text, "%4dx%4dx%4d%c", c, h, w, &end) != 3 || *c < 1 || *h < 1 || *w < 1)
        argp_error(state,
                   "--input: expected channels, height and width such as 3x32x32, found \"%s\"",
                   text);
}

static const kas_cli_value target_values[] = {
    {'n', KAS_CLI_TEXT(kas_cli_net, name)},
    {'t', KAS_CLI_TEXT(kas_cli_net, filter)},
    {KEY_FLOPS, KAS_CLI_NUMBER(kas_cli_net, budget.max_flops_ratio, 0, KAS_MOST_RATIO)},
    {KEY_PARAMS, KAS_CLI_NUMBER(kas_cli_net, budget.max_params_ratio, 0, KAS_MOST_RATIO)},
    {0}};

static error_t parse_target(int key, char *arg, struct argp_state *state)
{
    return kas_cli_set(state, target_options, target_values, key, arg);
}

static error_t parse_keep(int key, char *arg, struct argp_state *state)
{
    kas_cli_net *o = state->input;
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = o;
    else if (key == KEY_KEEP)
        o->keep.machine = arg ? arg : "auto";
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

static error_t parse_image(int key, char *arg, struct argp_state *state)
{
    kas_cli_net *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = o;
        return 0;
    case 'i':
        kas_cli_shape(state, arg, &o->c, &o->h, &o->w);
        return 0;
    case 'c':
        o->classes = (int)kas_cli_int(state, "--classes", arg, 2, 65536);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp kas_cli_plain_target_argp = {target_options, parse_target, 0, 0, 0, 0, 0};
static const struct argp_child plain_child[] = {{&kas_cli_plain_target_argp, 0, NULL, 0}, {0}};
const struct argp kas_cli_target_argp = {keep_options, parse_keep, 0, 0, plain_child, 0, 0};
static const struct argp_child target_child[] = {{&kas_cli_target_argp, 0, NULL, 0}, {0}};
const struct argp kas_cli_net_argp = {image_options, parse_image, 0, 0, target_child, 0, 0};
const struct argp kas_cli_plain_net_argp = {image_options, parse_image, 0, 0, plain_child, 0, 0};
const struct argp kas_cli_check_net_argp = {small_image_options, parse_image, 0, 0,
                                            target_child,        0,           0};
const struct argp kas_cli_bench_net_argp = {bench_image_options, parse_image, 0, 0,
                                            target_child,        0,           0};

kas_cli_net kas_cli_net_defaults(void)
{
    return (kas_cli_net){.c = 3, .h = 32, .w = 32, .classes = 10};
}

static bool keeps_on_auto(const kas_cli_net *o)
{
    return o->keep.machine && strcmp(o->keep.machine, "auto") == 0;
}

void kas_cli_keep_on_device(kas_cli_net *o, const char *device, int threads)
{
    o->keep.device = device;
    if (keeps_on_auto(
            o)) /* the threads are those of the device, and say nothing of another machine */
        o->keep.threads = threads;
}

void kas_cli_keep_on_machine(kas_cli_net *o, const char *machine)
{
    if (keeps_on_auto(o))
        o->keep.machine = machine;
}

kas_status kas_cli_net_targets(const kas_cli_net *o, kas_net **net, kas_target **targets,
                               int *count)
{
    KAS_TRY(kas_net_build(o->name, o->h, o->w, o->c, o->classes, net));
    kas_status status = kas_net_targets(*net, o->filter, targets, count);
    if (status != KAS_OK) {
        kas_net_free(*net);
        *net = NULL;
    }
    return status;
}

kas_status kas_cli_net_is_input(const char *spec)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", spec ? spec : "");
    for (char *end = path + strlen(path); end; end = strrchr(path, ':')) {
        *end = '\0';
        KAS_TRY(kas_file_is_input(path));
    }
    return KAS_OK;
}

kas_status kas_cli_are_inputs(const char *net, const char *const *path, int paths)
{
    for (int i = 0; i < paths; i++)
        if (path[i])
            KAS_TRY(kas_file_is_input(path[i]));
    return kas_cli_net_is_input(net);
}

kas_status kas_cli_fit(const kas_cli_net *o, const char *name, const kas_net *net,
                       const kas_target *targets, int count, kas_assignment *kernels,
                       kas_replacement *out)
{
    *out = (kas_replacement){0};
    KAS_TRY(kas_keep_apply(&o->keep, name, net, targets, count, &o->budget, kernels));
    const kas_status status = kas_assignment_fit(kernels, targets, count, &o->budget, out);
    return status == KAS_OK ? status : kas_fail_context(status, "%s", name);
}

/* Reads a kernel or a file of layers and places it at the targets of `net`, within the budget. The
 * caller frees both (free, kas_replacement_free), also after a failure. */
static kas_status read_kernel(const char *path, const kas_cli_net *options, const kas_net *net,
                              kas_target **targets, kas_replacement *out)
{
    kas_assignment kernels;
    int count = 0;
    KAS_TRY(kas_net_targets(net, options->filter, targets, &count));
    KAS_TRY(kas_assignment_read_file(path, &kernels));
    const kas_status status = kas_cli_fit(options, path, net, *targets, count, &kernels, out);
    kas_assignment_free(&kernels);
    return status;
}

kas_status kas_cli_training_open(const char *dataset, bool stream, const kas_cli_net *options,
                                 const char *kernel, kas_cli_training *out)
{
    *out = (kas_cli_training){0};
    KAS_TRY((stream ? kas_dataset_open_streamed : kas_dataset_open)(dataset, &out->dataset));
    const kas_dataset *d = out->dataset;
    KAS_TRY(
        kas_net_build(options->name, (int)d->h, (int)d->w, (int)d->c, (int)d->classes, &out->net));
    return kernel ? read_kernel(kernel, options, out->net, &out->targets, &out->replacement)
                  : KAS_OK;
}

void kas_cli_training_close(kas_cli_training *training)
{
    kas_replacement_free(&training->replacement);
    free(training->targets);
    kas_net_free(training->net);
    kas_dataset_close(training->dataset);
}

static void tell_gains(const kas_replacement *r)
{
    int scaled = 0;
    float least = INFINITY, most = 0;
    for (int t = 0; t < r->solution.targets; t++) {
        if (!kas_replacement_kernel(r, t))
            continue;
        scaled += kas_replacement_gain(r, t) != 1;
        least = fminf(least, kas_replacement_gain(r, t));
        most = fmaxf(most, kas_replacement_gain(r, t));
    }
    if (scaled)
        kas_info(
            "calibrated: the kernel's output is multiplied by a gain at %d of %d layers, %g to %g",
            scaled, kas_replacement_replaced(r), (double)least, (double)most);
}

kas_status kas_cli_set_gains(kas_device *device, const kas_train_options *o,
                             kas_replacement *replacement)
{
    const kas_model_options model = {.batch = KAS_LATENCY_BATCH};
    kas_programs programs;
    kas_calibration found;
    char reason[256];
    if (o->weights_in)
        KAS_TRY(kas_pretrained_gains(o->weights_in, replacement));
    if (replacement->gain || !device)
        return KAS_OK;
    KAS_TRY(kas_model_build_programs(&model, replacement, kas_device_get_info(device)->arch,
                                     &programs));
    const kas_calibrate_options calibrate = {.net = o->net,
                                             .programs = &programs,
                                             .dataset = o->dataset,
                                             .index = o->train_index,
                                             .count = o->train_count,
                                             .seed = o->seed,
                                             .init = o->weights_in,
                                             .init_partial = o->init_partial};
    const kas_status status = kas_calibrate(device, &calibrate, replacement, &found);
    kas_programs_free(&programs);
    KAS_TRY(status);
    if (found.result == KAS_CALIBRATE_OK) {
        tell_gains(replacement);
        return KAS_OK;
    }
    kas_calibration_reason(&found, reason, sizeof reason);
    kas_warn("%s; a search would not train it, and it has no gains here", reason);
    return KAS_OK;
}
