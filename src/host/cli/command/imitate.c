/* kas-gpu imitate: kernels learn to imitate the convolutions that they replace. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/cli/cli.h"
#include "host/cli/given.h"
#include "host/cli/interrupt.h"
#include "host/cli/net_options.h"
#include "host/cli/progress.h"
#include "host/cli/recipe_options.h"
#include "host/core/file/files.h"
#include "host/model/model.h"
#include "host/train/imitate.h"
#include "host/train/trained_on.h"

enum { USUAL_IMAGES = 6400 }; /* 100 batches of 64 */

typedef struct imitate_cli {
    kas_cli_common common;
    kas_cli_net net; /* the data set has the shape of images */
    const char *dataset, *kernel, *weights, *out, *device;
    kas_cli_recipe recipe_options;
    kas_recipe recipe;
    uint64_t seed;
    double validation;
    int images;
    double reported; /* seconds */
} imitate_cli;

static const struct argp_option option_list[] = {
    {"dataset", 'd', "F.h5", 0, "Images and labels (kas-gpu dataset)", 1},
    {"kernel", 'k', "KERNEL.json", 0, "The kernel, or a file of layers", 1},
    {"weights", 'w', "F.safetensors", 0, "The trained network, without kernels", 1},
    {"out", 'o', "F.safetensors", 0,
     "Write the network with the imitating kernels: `kas-gpu train --init` goes on from it", 1},
    {"images", 'i', "N", 0,
     "Use N of the training images, at random (default 6400, or all where there are fewer)", 2},
    {"seed", 's', "S", 0, "Seed of weights, split, order and augmentation (default 0)", 2},
    {"validation", 'v', "FRACTION", 0,
     "Share of the training images that is held out (default 0.1): as in the training of the "
     "network",
     2},
    {"device", 'D', "D", 0, "auto (default), cpu, cuda, cuda:N", 3},
    {0}};

static const kas_cli_value values[] = {
    {'d', KAS_CLI_TEXT(imitate_cli, dataset)},
    {'k', KAS_CLI_TEXT(imitate_cli, kernel)},
    {'w', KAS_CLI_TEXT(imitate_cli, weights)},
    {'o', KAS_CLI_TEXT(imitate_cli, out)},
    {'i', KAS_CLI_INT(imitate_cli, images, 1, INT32_MAX)},
    {'s', KAS_CLI_SEED(imitate_cli, seed)},
    {'v', KAS_CLI_NUMBER(imitate_cli, validation, 1e-6, 1 - 1e-6)},
    {'D', KAS_CLI_TEXT(imitate_cli, device)},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    imitate_cli *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->net;
        state->child_inputs[1] = &o->recipe_options;
        state->child_inputs[2] = &o->common;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument \"%s\"", arg);
        return 0;
    case ARGP_KEY_END:
        if (!o->net.name || !o->dataset || !o->kernel || !o->weights)
            argp_error(state, "--net, --dataset, --kernel and --weights are needed");
        kas_cli_refuse(state, "label-smoothing ema weight-decay decay-all",
                       "has no effect on an imitation, which has no labels, averages no weights "
                       "and decays none");
        return 0;
    default:
        return kas_cli_set(state, option_list, values, key, arg);
    }
}

static const char doc[] =
    "Let a kernel learn to imitate the convolutions that it replaces.\n\n"
    "  kas-gpu imitate --net resnet20 --dataset cifar100.h5 --kernel mine.json \\\n"
    "                  --weights trained.safetensors --out start.safetensors\n"
    "  kas-gpu train --net resnet20 --dataset cifar100.h5 --kernel mine.json \\\n"
    "                --init start.safetensors\n"
    "\vFor each target the share of the convolution's variance is printed that its kernel misses "
    "(0: it gives the same; 1: it gives nothing of it), and then the accuracy of the network with "
    "these kernels, which has not been trained (docs/training.md). The default recipe is "
    "`imitation`. --label-smoothing, --ema, --weight-decay and --decay-all have no effect and are "
    "refused.";

/* ---- progress -------------------------------------------------------------------------------- */

static kas_verdict on_progress(void *context, uint64_t step, uint64_t steps, double missed)
{
    imitate_cli *o = context;
    kas_progress_show(o->common.quiet, 0.2, &o->reported,
                      "step %" PRIu64 " of %" PRIu64 ", %.1f%% missed", step, steps, 100 * missed);
    return kas_interrupted() ? KAS_STOP : KAS_CONTINUE;
}

/* ---- results --------------------------------------------------------------------------------- */

static void print_json(const kas_imitate_result *r)
{
    for (int i = 0; i < r->targets; i++)
        printf("{\"schema_version\":1,\"event\":\"target\",\"layer\":\"%s\",\"missed\":%.9g}\n",
               r->target[i]->name, r->missed[i]);
    printf("{\"schema_version\":1,\"event\":\"result\",\"missed\":%.9g,"
           "\"validation_accuracy\":%.9g,\"trained_validation_accuracy\":%.9g,\"steps\":%" PRIu32
           ",\"seconds\":%.9g,\"compile_seconds\":%.9g,\"device_memory_bytes\":%zu}\n",
           r->mean, r->accuracy, r->trained_accuracy, r->steps, r->seconds, r->compile_seconds,
           r->memory);
}

static void print_text(const kas_imitate_result *r)
{
    for (int i = 0; i < r->targets; i++)
        printf("%-32s misses %5.1f%% of the variance\n", r->target[i]->name, 100 * r->missed[i]);
    printf("mean of %d: %.1f%% after %" PRIu32 " steps in %.1f s, %.1f MiB on the device\n",
           r->targets, 100 * r->mean, r->steps, r->seconds, (double)r->memory / (1 << 20));
    printf("validation accuracy %.2f%% with these kernels, not trained; %.2f%% of the trained "
           "network\n",
           100 * r->accuracy, 100 * r->trained_accuracy);
}

/* ---- the run --------------------------------------------------------------------------------- */

static kas_status imitate_on(kas_device *device, const imitate_cli *o,
                             const kas_imitate_options *options)
{
    kas_imitate_result result;
    kas_interrupt_watch();
    const kas_status status = kas_imitate(device, options, &result);
    kas_progress_wipe(o->common.quiet);
    if (status == KAS_OK)
        (o->common.json ? print_json : print_text)(&result);
    kas_imitate_result_free(&result);
    return status == KAS_INTERRUPTED ? kas_interrupt_status() : status;
}

static kas_status run_with(imitate_cli *o, const kas_dataset *dataset, const kas_net *net,
                           kas_replacement *replacement)
{
    const kas_model_options model = {.batch = o->recipe.batch,
                                     .training = true,
                                     .precision = (kas_precision)o->recipe.precision};
    kas_device *device = NULL;
    kas_programs programs = {0};
    kas_imitate_options options = {.train = {.net = net,
                                             .dataset = dataset,
                                             .programs = &programs,
                                             .recipe = o->recipe,
                                             .seed = o->seed,
                                             .on_progress = on_progress,
                                             .context = o,
                                             .weights_in = o->weights,
                                             .weights_out = o->out},
                                   .images = (uint32_t)o->images};
    kas_train_options *train = &options.train;
    uint32_t *index = NULL;
    kas_status status = KAS_OK;
    KAS_TRY(kas_trained_on_check(o->weights, dataset, o->seed, o->validation));
    KAS_TRY(kas_dataset_split(dataset, o->seed, o->validation, &index, &train->train_count,
                              &train->validation_count));
    if (!o->images)
        options.images = train->train_count < USUAL_IMAGES ? 0 : USUAL_IMAGES;
    train->train_index = index;
    train->validation_index = index + train->train_count;
    KAS_TRY_GOTO(kas_imitate_check(&options), out);
    KAS_TRY_GOTO(kas_device_open(o->device, o->common.threads, &device), out);
    KAS_TRY_GOTO(kas_cli_set_gains(device, train, replacement), out);
    KAS_TRY_GOTO(
        kas_model_build_programs(&model, replacement, kas_device_get_info(device)->arch, &programs),
        out);
    status = imitate_on(device, o, &options);
out:
    kas_programs_free(&programs);
    kas_device_close(device);
    free(index);
    return status;
}

/* Checks before minutes of work that the output can be written, and that no input would be
 * overwritten. */
static kas_status check_files(const imitate_cli *o)
{
    const char *const inputs[] = {o->dataset, o->kernel, o->weights, o->recipe_options.name};
    KAS_TRY(kas_cli_are_inputs(o->net.name, inputs, sizeof inputs / sizeof *inputs));
    return o->out ? kas_file_check_writable(o->out) : KAS_OK;
}

static kas_status run(int argc, char **argv)
{
    const struct argp_child children[] = {{&kas_cli_target_argp, 0, NULL, 0},
                                          {kas_cli_recipe_argp("imitation"), 0, NULL, 0},
                                          {&kas_cli_common_argp, 0, NULL, 0},
                                          {0}};
    const struct argp argp = {option_list, parse, "", doc, children, 0, 0};
    imitate_cli o = {.validation = 0.1, .device = "auto"};
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o));
    if (!o.recipe_options.name)
        o.recipe_options.name = "imitation";
    KAS_TRY(kas_cli_recipe_get(&o.recipe_options, &o.recipe));
    KAS_TRY(check_files(&o));
    kas_cli_keep_on_device(&o.net, o.device, o.common.threads);
    kas_cli_training t;
    kas_status status = kas_cli_training_open(o.dataset, false, &o.net, o.kernel, &t);
    if (status == KAS_OK)
        status = kas_cli_recipe_suits(&o.recipe_options, &o.recipe, t.dataset);
    if (status == KAS_OK)
        status = run_with(&o, t.dataset, t.net, &t.replacement);
    kas_cli_training_close(&t);
    return status;
}

const kas_command kas_command_imitate = {
    "imitate", "Let kernels imitate the convolutions of a trained network", run};
