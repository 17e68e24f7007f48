/* kas-gpu train: trains a network, unmodified or with a kernel in it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/cli/cli.h"
#include "host/cli/interrupt.h"
#include "host/cli/net_options.h"
#include "host/cli/progress.h"
#include "host/cli/ranks/slurm.h"
#include "host/cli/recipe_options.h"
#include "host/core/clock.h"
#include "host/core/file/files.h"
#include "host/core/file/target.h"
#include "host/core/log.h"
#include "host/core/machine.h"
#include "host/model/model.h"
#include "host/model/pretrained.h"
#include "host/train/train.h"
#include "host/train/trained_on.h"
#include "jit/tuned.h"

typedef struct train_cli {
    kas_cli_common common;
    kas_cli_net net; /* the data set has the shape of images */
    const char *dataset, *kernel, *device;
    const char *checkpoint, *weights, *init, *nodes;
    kas_cli_recipe recipe_options;
    kas_recipe recipe;
    uint64_t seed;
    double validation;
    bool test, validation_given, dry_run, stream, init_partial, recompute;
    bool sync_batch_norm, shard_optimiser, tuned;
    int read_threads, asked_ranks;
    kas_cli_ranks ranks;
    int argc;
    char **argv;
    double until;    /* seconds since 1970; 0 = never */
    double reported; /* seconds */
} train_cli;

enum {
    OPT_INIT = 256,
    OPT_INIT_PARTIAL,
    OPT_DRY_RUN,
    OPT_TEST,
    OPT_STREAM,
    OPT_READ_THREADS,
    OPT_RECOMPUTE,
    OPT_RANKS,
    OPT_RANK_TIMEOUT,
    OPT_SYNC_BATCH_NORM,
    OPT_NODES,
    OPT_SHARD_OPTIMISER,
    OPT_CAPTURE_EXCHANGE,
    OPT_TUNED,
    OPT_UNTIL
};

static const struct argp_option option_list[] = {
    {"dataset", 'd', "F.h5", 0, "Images and labels (kas-gpu dataset)", 1},
    {"kernel", 'k', "KERNEL.json", 0,
     "Put this kernel in place of the convolutions, or the kernels of a file of layers", 1},
    {"seed", 's', "S", 0, "Seed of weights, order and augmentation (default 0)", 2},
    {"validation", 'v', "FRACTION", 0,
     "Share of the training images that is held out (default 0.1)", 3},
    {"test", OPT_TEST, 0, 0, "Train on all training images and score on the test images", 3},
    {"checkpoint", 'c', "F", 0,
     "File that is saved after each epoch; if it exists, training goes on from it", 4},
    {"until", OPT_UNTIL, "TIME", 0,
     "Stop as upon SIGTERM at this time (seconds since 1970, as `date +%s` has them), and do not "
     "begin in the last half minute before it",
     4},
    {"weights", 'w', "F.safetensors", 0, "Write the final weights", 4},
    {"init", OPT_INIT, "F.safetensors", 0, "Start from these weights", 4},
    {"init-partial", OPT_INIT_PARTIAL, 0, 0,
     "Leave out tensors that do not fit, such as a classifier of other classes", 4},
    {"device", 'D', "D", 0,
     "auto (default), cpu, cuda, cuda:N, or cuda:N,M,...: a process for each, which train together",
     5},
    {"ranks", OPT_RANKS, "N", 0,
     "Processes that train together, which share each batch (default: one for each GPU that is "
     "named)",
     5},
    {"sync-batch-norm", OPT_SYNC_BATCH_NORM, 0, 0,
     "Batch norms take the statistics of all ranks' images (default: of each rank's own)", 5},
    {"shard-optimiser", OPT_SHARD_OPTIMISER, 0, 0,
     "Each rank keeps the optimiser's state of its share of the parameters only: less memory, the "
     "same result",
     5},
    {"capture-exchange", OPT_CAPTURE_EXCHANGE, 0, 0,
     "On GPUs: a step is one graph with NCCL's calls in it (default: they lie between graphs)", 5},
    {"rank-timeout", OPT_RANK_TIMEOUT, "SECONDS", 0,
     "End when a rank waits longer than this for the others (default 600)", 5},
    {"nodes", OPT_NODES, "FOLDER", 0,
     "Under srun: each task of the job step is a rank, on one node or several, which all see this "
     "folder (docs/cluster.md)",
     5},
    {"stream", OPT_STREAM, 0, 0, "Read images while training, even if they fit in memory", 5},
    {"read-threads", OPT_READ_THREADS, "N", 0,
     "Threads that read and decode streamed images (default: all cores for JPEG and PNG, else 4)",
     5},
    {"recompute", OPT_RECOMPUTE, 0, 0,
     "Compute batch norms again in the backward pass instead of keeping them: less memory, the "
     "same "
     "result (default: only where the run does not fit the device otherwise)",
     5},
    {"tuned", OPT_TUNED, 0, 0,
     "Run the kernels by the schedules that kas-gpu tune found on this device; sums may round in "
     "another order",
     5},
    {"dry-run", OPT_DRY_RUN, 0, 0, "Print the memory needed and train nothing", 5},
    {0}};

static const kas_cli_value values[] = {
    {'d', KAS_CLI_TEXT(train_cli, dataset)},
    {'k', KAS_CLI_TEXT(train_cli, kernel)},
    {'c', KAS_CLI_TEXT(train_cli, checkpoint)},
    {'w', KAS_CLI_TEXT(train_cli, weights)},
    {OPT_INIT, KAS_CLI_TEXT(train_cli, init)},
    {'D', KAS_CLI_TEXT(train_cli, device)},
    {'s', KAS_CLI_SEED(train_cli, seed)},
    {OPT_TEST, KAS_CLI_FLAG(train_cli, test)},
    {OPT_STREAM, KAS_CLI_FLAG(train_cli, stream)},
    {OPT_READ_THREADS, KAS_CLI_INT(train_cli, read_threads, 1, 256)},
    {OPT_RECOMPUTE, KAS_CLI_FLAG(train_cli, recompute)},
    {OPT_RANKS, KAS_CLI_INT(train_cli, asked_ranks, 1, KAS_MAX_DEVICES)},
    {OPT_RANK_TIMEOUT, KAS_CLI_NUMBER(train_cli, ranks.timeout, 0.1, 86400)},
    {OPT_SYNC_BATCH_NORM, KAS_CLI_FLAG(train_cli, sync_batch_norm)},
    {OPT_SHARD_OPTIMISER, KAS_CLI_FLAG(train_cli, shard_optimiser)},
    {OPT_CAPTURE_EXCHANGE, KAS_CLI_FLAG(train_cli, ranks.capture)},
    {OPT_NODES, KAS_CLI_TEXT(train_cli, nodes)},
    {OPT_DRY_RUN, KAS_CLI_FLAG(train_cli, dry_run)},
    {OPT_UNTIL, KAS_CLI_NUMBER(train_cli, until, 1e9, 1e11)},
    {OPT_TUNED, KAS_CLI_FLAG(train_cli, tuned)},
    {OPT_INIT_PARTIAL, KAS_CLI_FLAG(train_cli, init_partial)},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    train_cli *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->net;
        state->child_inputs[1] = &o->recipe_options;
        state->child_inputs[2] = &o->common;
        return 0;
    case 'v':
        o->validation = kas_cli_number(state, "--validation", arg, 1e-6, 1 - 1e-6);
        o->validation_given = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument \"%s\"", arg);
        return 0;
    case ARGP_KEY_END:
        if (!o->net.name || !o->dataset)
            argp_error(state, "--net and --dataset are needed");
        if (o->until > 0 && !o->checkpoint)
            argp_error(state, "--until needs --checkpoint, where the training is saved");
        if (o->init_partial && !o->init)
            argp_error(state, "--init-partial needs --init");
        if (o->test && o->validation_given)
            argp_error(state, "--validation and --test exclude each other");
        if (!o->kernel && o->tuned)
            argp_error(state, "--tuned is about kernels: it needs --kernel");
        if (!o->kernel && (o->net.filter || o->net.keep.machine || o->net.budget.max_flops_ratio ||
                           o->net.budget.max_params_ratio))
            argp_error(state, "--targets, --keep-slower, --flops and --params need --kernel");
        return 0;
    default:
        return kas_cli_set(state, option_list, values, key, arg);
    }
}

static const char doc[] =
    "Train a network, as it is or with a kernel in place of its convolutions.\n\n"
    "  kas-gpu train --net resnet20 --dataset cifar100.h5\n"
    "  kas-gpu train --net resnet20 --dataset cifar100.h5 --kernel best.json \\\n"
    "                --checkpoint run.ckpt --weights best.safetensors\n"
    "  kas-gpu train --net resnet18 --dataset cifar100.h5 --recipe cifar200 --test\n"
    "\vdocs/training.md says what the numbers of a recipe mean. The same options give the same "
    "bits on the same kind of device. Ctrl-C saves "
    "the checkpoint; the same command goes on from it.";

/* ---- progress -------------------------------------------------------------------------------- */

static kas_verdict on_progress(void *context, uint64_t step, uint64_t steps, double loss)
{
    train_cli *o = context;
    char what[32] = "evaluating";
    if (!isnan(loss))
        snprintf(what, sizeof what, "loss %.4f", loss);
    kas_progress_show(o->common.quiet || o->ranks.rank > 0, 0.2, &o->reported,
                      "step %" PRIu64 " of %" PRIu64 ", %s", step, steps, what);
    return kas_interrupted() ? KAS_STOP : KAS_CONTINUE;
}

/* Writes a number, or null if it is not finite, because JSON has no NaN. */
static void json_number(kas_buf *out, const char *name, double value)
{
    if (isfinite(value))
        kas_buf_printf(out, ",\"%s\":%.9g", name, value);
    else
        kas_buf_printf(out, ",\"%s\":null", name);
}

static void put_line(kas_buf *line)
{
    if (kas_buf_status(line) == KAS_OK)
        printf("%s\n", kas_buf_text(line));
    kas_buf_free(line);
    kas_print_flush();
}

/* Prints the validation figures. It prints nothing for an epoch that was not evaluated; the test
 * set is evaluated only after the last one. */
static void print_held_out(const train_cli *o, const kas_epoch *e)
{
    if (isnan(e->validation_accuracy))
        return;
    char loss[32] = "not finite"; /* batch norm's averages can be inaccurate in the first steps */
    if (isfinite(e->validation_loss))
        snprintf(loss, sizeof loss, "%.4f", e->validation_loss);
    printf("%s loss %s accuracy %5.2f%%  ", o->test ? "test" : "validation", loss,
           100 * e->validation_accuracy);
}

static kas_verdict on_epoch(void *context, const kas_epoch *e)
{
    train_cli *o = context;
    if (o->ranks.rank > 0)
        return kas_interrupted() ? KAS_STOP : KAS_CONTINUE;
    kas_progress_wipe(o->common.quiet);
    if (o->common.json) {
        kas_buf line = {0};
        kas_buf_printf(&line, "{\"schema_version\":1,\"event\":\"epoch\",\"epoch\":%d", e->epoch);
        json_number(&line, "train_loss", e->train_loss);
        json_number(&line, "train_accuracy", e->train_accuracy);
        json_number(&line, o->test ? "test_loss" : "validation_loss", e->validation_loss);
        json_number(&line, o->test ? "test_accuracy" : "validation_accuracy",
                    e->validation_accuracy);
        json_number(&line, "seconds", e->seconds);
        kas_buf_puts(&line, "}");
        put_line(&line);
    } else {
        printf("epoch %3d  train loss %.4f accuracy %5.2f%%  ", e->epoch + 1, e->train_loss,
               100 * e->train_accuracy);
        print_held_out(o, e);
        printf("%.1f s\n", e->seconds);
        kas_print_flush();
    }
    return kas_interrupted() ? KAS_STOP : KAS_CONTINUE;
}

/* ---- the run --------------------------------------------------------------------------------- */

static const char *state_name(kas_train_state state)
{
    static const char *const names[] = {[KAS_TRAINED] = "trained",
                                        [KAS_PRUNED] = "pruned",
                                        [KAS_STOPPED] = "stopped",
                                        [KAS_PAUSED] = "paused",
                                        [KAS_DIVERGED] = "diverged"};
    return names[state];
}

/* Returns how many words of the command line are the option --until: 0 to 2. */
static int words_of_until(const char *word)
{
    const size_t length = strcspn(word, "=");
    return length < 4 || length > 7 || strncmp(word, "--until", length) != 0 ? 0
           : word[length]                                                    ? 1
                                                                             : 2;
}

/* The time of --until belongs to this run only. */
static void print_command(const train_cli *o)
{
    kas_buf command = {0};
    for (int i = 1; i < o->argc; i++) {
        const int left_out = words_of_until(o->argv[i]);
        if (left_out) {
            i += left_out - 1;
            continue;
        }
        kas_buf_puts(&command, " ");
        kas_buf_shell_word(&command, o->argv[i]);
    }
    fprintf(stderr, "to go on: %skas-gpu train%s\n", o->nodes ? "srun " : "",
            kas_buf_text(&command));
    kas_buf_free(&command);
}

static void print_result(const train_cli *o, const kas_train_result *r)
{
    if (o->common.json) {
        kas_buf line = {0};
        kas_buf_printf(&line,
                       "{\"schema_version\":1,\"event\":\"result\",\"state\":\"%s\",\"epochs\":%d",
                       state_name(r->state), r->epochs);
        json_number(&line, o->test ? "test_accuracy" : "validation_accuracy", r->accuracy);
        json_number(&line, "step_seconds", r->step_seconds);
        json_number(&line, "compile_seconds", r->compile_seconds);
        if (o->recipe.precision == KAS_PRECISION_FP16)
            kas_buf_printf(&line, ",\"skipped_steps\":%" PRIu32 ",\"loss_scale\":%.9g", r->skipped,
                           (double)r->scale);
        kas_buf_printf(&line, ",\"device_memory_bytes\":%zu}", r->memory);
        put_line(&line);
        return;
    }
    printf("%s after %d epoch%s: ", state_name(r->state), r->epochs, r->epochs == 1 ? "" : "s");
    if (isfinite(r->accuracy))
        printf("%s accuracy %.2f%%, ", o->test ? "test" : "validation", 100 * r->accuracy);
    if (isfinite(r->step_seconds)) /* else all steps were taken before a stop */
        printf("median step %.1f ms, ", 1e3 * r->step_seconds);
    if (o->recipe.precision == KAS_PRECISION_FP16)
        printf("%" PRIu32 " steps skipped, loss scale %g, ", r->skipped, (double)r->scale);
    printf("%.1f MiB on the device\n", (double)r->memory / (1 << 20));
}

static kas_status finish(const train_cli *o, const kas_train_result *r)
{
    if (o->ranks.rank > 0) /* rank 0 says it */
        return r->state == KAS_STOPPED ? kas_interrupt_status() : KAS_OK;
    print_result(o, r);
    if (r->state == KAS_DIVERGED)
        return kas_fail(KAS_FAILURE,
                        "%s was not finite after %d of %d epochs: the network diverged, and no "
                        "weights are written; try a smaller --lr than %g",
                        r->not_finite, r->epochs, o->recipe.epochs, o->recipe.lr);
    if (r->state != KAS_STOPPED)
        return KAS_OK;
    if (o->checkpoint)
        print_command(o);
    else
        kas_warn("nothing was saved: --checkpoint was not given");
    return kas_interrupt_status();
}

static kas_status train_on(kas_device *device, const train_cli *o, kas_train_options *options)
{
    kas_train_result result = {0};
    if (o->ranks.started)
        kas_interrupt_watch_all();
    else
        kas_interrupt_watch();
    kas_interrupt_at(o->until);
    KAS_TRY(kas_cli_ranks_join(&o->ranks, device, &options->group));
    kas_status status = kas_train(device, options, &result);
    kas_group_close(options->group);
    kas_progress_wipe(o->common.quiet);
    if (status == KAS_OK)
        status = finish(o, &result);
    kas_train_result_free(&result);
    return status;
}

static kas_status dry_run(const train_cli *o, const kas_train_options *options)
{
    const kas_replacement *replacement = options->programs->replacement;
    kas_memory_plan plan, less;
    kas_train_options again = *options;
    again.recompute = true;
    if (o->init)
        KAS_TRY(kas_pretrained_check(o->init, options->net, options->programs, o->init_partial));
    KAS_TRY(kas_train_plan_memory(options, &plan));
    KAS_TRY(kas_train_plan_memory(&again, &less));
    if (o->common.json) {
        printf("{\"schema_version\":1,\"event\":\"plan\",\"device_memory_bytes\":%zu,"
               "\"kept_bytes\":%zu,\"gradient_bytes\":%zu,\"activation_bytes\":%zu,"
               "\"image_bytes\":%zu,\"recompute_memory_bytes\":%zu,"
               "\"train_images\":%" PRIu32 ",\"batch\":%d,\"epochs\":%d}\n",
               plan.total, plan.kept, plan.gradients, plan.activations, plan.images, less.total,
               options->train_count, options->recipe.batch, options->recipe.epochs);
        return KAS_OK;
    }
    const double mib = 1 << 20;
    const int epochs = options->recipe.epochs;
    const uint32_t steps = options->train_count / (uint32_t)options->recipe.batch;
    printf("%s: %.1f MiB of device memory, %d epoch%s of %" PRIu32 " step%s of %d images\n",
           o->net.name, (double)plan.total / mib, epochs, epochs == 1 ? "" : "s", steps,
           steps == 1 ? "" : "s", options->recipe.batch);
    printf("memory: weights and optimiser %.1f MiB, gradients %.1f, activations %.1f, images %.1f",
           (double)plan.kept / mib, (double)plan.gradients / mib, (double)plan.activations / mib,
           (double)plan.images / mib);
    if (options->recompute)
        printf("\n");
    else
        printf("; %.1f in all with --recompute\n", (double)less.total / mib);
    if (replacement)
        printf("kernel: %.1f%% of the FLOPs and %.1f%% of the parameters that it replaces\n",
               100 * replacement->solution.flops / replacement->solution.conv_flops,
               100 * replacement->solution.params / replacement->solution.conv_params);
    return KAS_OK;
}

/* Returns the CPU threads of this process: ranks share the cores, but a batch system gives each of
 * its tasks its own. */
static int threads(const train_cli *o)
{
    const int cores = kas_cores() / o->ranks.ranks;
    return o->common.threads || o->ranks.ranks == 1 || o->nodes ? o->common.threads
           : cores > 1                                          ? cores
                                                                : 1;
}

static kas_status run_with(train_cli *o, const kas_dataset *dataset, const kas_net *net,
                           kas_replacement *replacement)
{
    kas_model_options model = {.batch = o->recipe.batch / o->ranks.ranks,
                               .training = true,
                               .precision = (kas_precision)o->recipe.precision};
    char tuned[4096];
    kas_device *device = NULL;
    kas_programs programs = {0};
    kas_train_options options = {.net = net,
                                 .dataset = dataset,
                                 .programs = &programs,
                                 .recipe = o->recipe,
                                 .seed = o->seed,
                                 .evaluate_test = o->test,
                                 .recompute = o->recompute,
                                 .stream = o->stream,
                                 .read_threads = o->read_threads,
                                 .train_count = dataset->train.count,
                                 .on_epoch = on_epoch,
                                 .on_progress = on_progress,
                                 .context = o,
                                 .checkpoint = o->checkpoint,
                                 .weights_out = o->weights,
                                 .weights_in = o->init,
                                 .init_partial = o->init_partial,
                                 .ranks = o->ranks.ranks,
                                 .sync_batch_norm = o->sync_batch_norm,
                                 .shard_optimiser = o->shard_optimiser};
    uint32_t *index = NULL;
    if (!o->test) {
        KAS_TRY(kas_dataset_split(dataset, o->seed, o->validation, &index, &options.train_count,
                                  &options.validation_count));
        options.train_index = index;
        options.validation_index = index + options.train_count;
    }
    kas_status status = KAS_OK;
    if (o->init && !o->test && o->ranks.rank == 0)
        KAS_TRY_GOTO(kas_trained_on_check(o->init, dataset, o->seed, o->validation), out);
    if (!o->dry_run)
        KAS_TRY_GOTO(kas_device_open(o->ranks.device, threads(o), &device), out);
    if (device && o->tuned) {
        KAS_TRY_GOTO(kas_tuned_folder(kas_device_get_info(device), tuned), out);
        model.tuned = tuned;
    }
    if (replacement)
        KAS_TRY_GOTO(kas_cli_set_gains(device, &options, replacement), out);
    KAS_TRY_GOTO(kas_model_build_programs(&model, replacement,
                                          device ? kas_device_get_info(device)->arch : o->device,
                                          &programs),
                 out);
    status = device ? train_on(device, o, &options) : dry_run(o, &options);
out:
    kas_programs_free(&programs);
    kas_device_close(device);
    free(index);
    return status;
}

/* Checks before hours of work that the outputs can be written, and that none would overwrite an input
 * or another output. */
static kas_status check_files(const train_cli *o)
{
    const char *const inputs[] = {o->dataset, o->kernel, o->init, o->recipe_options.name};
    const char *const outputs[] = {o->weights, o->checkpoint};
    char target[2][PATH_MAX];
    KAS_TRY(kas_cli_are_inputs(o->net.name, inputs, sizeof inputs / sizeof *inputs));
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        if (outputs[i]) {
            KAS_TRY(kas_file_check_writable(outputs[i]));
            KAS_TRY(kas_file_target(outputs[i], target[i]));
        }
    if (o->weights && o->checkpoint && strcmp(target[0], target[1]) == 0)
        return kas_fail(KAS_USAGE, "--weights and --checkpoint are the same file, %s", target[0]);
    return KAS_OK;
}

static kas_status run(int argc, char **argv)
{
    const struct argp_child children[] = {{&kas_cli_target_argp, 0, NULL, 0},
                                          {kas_cli_recipe_argp("search"), 0, NULL, 0},
                                          {&kas_cli_common_argp, 0, NULL, 0},
                                          {0}};
    const struct argp argp = {option_list, parse, "", doc, children, 0, 0};
    train_cli o = {
        .validation = 0.1, .device = "auto", .ranks.timeout = 600, .argc = argc, .argv = argv};
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o));
    KAS_TRY(kas_cli_recipe_get(&o.recipe_options, &o.recipe));
    KAS_TRY(check_files(&o));
    KAS_TRY(o.nodes ? kas_cli_slurm_find(o.device, o.asked_ranks, o.nodes, &o.ranks)
                    : kas_cli_ranks_find(o.device, o.asked_ranks, &o.ranks));
    if (o.recipe.batch % o.ranks.ranks != 0)
        return kas_fail(KAS_USAGE, "--batch %d cannot be shared by %d ranks; use a multiple of %d",
                        o.recipe.batch, o.ranks.ranks, o.ranks.ranks);
    if ((o.shard_optimiser || o.ranks.capture) && o.ranks.ranks == 1)
        return kas_fail(KAS_USAGE, "%s; give --ranks, or several GPUs as --device",
                        o.shard_optimiser ? "--shard-optimiser: one rank has the whole state"
                                          : "--capture-exchange: one rank exchanges nothing");
    if (o.dry_run && o.ranks.rank > 0) /* rank 0 says it */
        return KAS_OK;
    if (kas_seconds_until(o.until) < KAS_UNTIL_LEAST && (o.nodes || !o.ranks.started))
        return kas_fail(KAS_PREEMPTED,
                        "a training does not begin in the last %d s before --until: how long it "
                        "needs to its first checkpoint is not known",
                        KAS_UNTIL_LEAST);
    if (o.ranks.ranks > 1 && !o.ranks.started && !o.dry_run)
        return kas_cli_ranks_run(&o.ranks, argv);
    kas_cli_keep_on_device(&o.net, o.ranks.device, o.common.threads);
    kas_cli_training t;
    kas_status status = kas_cli_training_open(o.dataset, o.stream, &o.net, o.kernel, &t);
    if (status == KAS_OK)
        status = kas_cli_recipe_suits(&o.recipe_options, &o.recipe, t.dataset);
    if (status == KAS_OK)
        status = run_with(&o, t.dataset, t.net, o.kernel ? &t.replacement : NULL);
    kas_cli_training_close(&t);
    return status;
}

const kas_command kas_command_train = {"train", "Train a network, with or without a kernel", run};
