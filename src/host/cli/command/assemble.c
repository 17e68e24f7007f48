/* kas-gpu assemble: chooses for each layer of a network its convolution or one of the given
 * kernels, and trains the result. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host/assemble/blockswap.h"
#include "host/cli/assemble/assemble.h"
#include "host/cli/given.h"
#include "host/cli/interrupt.h"
#include "host/cli/study_open.h"
#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/core/sha256.h"
#include "host/model/pretrained.h"
#include "host/model/safetensors.h"
#include "host/strategy/from.h"
#include "host/study/code_version.h"
#include "host/study/study_store.h"
#include "host/train/trained_on.h"

const char *const kas_assemble_strategy_names[] = {"knapsack", "blockswap", "fbnet", NULL};
const char *const kas_assemble_loss_names[] = {"imitation", "fisher", NULL};

enum {
    KEY_LATENCY = 0x200,
    KEY_STRATEGY,
    KEY_LOSS,
    KEY_INIT,
    KEY_SAMPLES,
    KEY_BEST,
    KEY_MACHINE,
    KEY_MEASURE,
    KEY_DRY_RUN
};
enum { FISHER_BATCH = 16 };

static const struct argp_option option_list[] = {
    {"dataset", 'd', "F.h5", 0, "Images and labels (kas-gpu dataset)", 1},
    {"output", 'o', "DIR", 0,
     "Folder of the result, and of what has been measured: the same command goes on from it", 1},
    {"latency", KEY_LATENCY, "R", 0,
     "Latency allowed, relative to the unmodified network; more than 0, at most 1", 1},
    {"init", KEY_INIT, "F.safetensors", 0,
     "The trained network, without kernels (default: it is trained first where that is needed)", 1},
    {"strategy", KEY_STRATEGY, "S", 0,
     "knapsack (default): the least sum of losses, exactly; blockswap: of networks drawn at random "
     "the one of the largest Fisher potential; fbnet: the most probable network after a supernet "
     "has learned",
     2},
    {"loss", KEY_LOSS, "L", 0,
     "Of a kernel at a layer, for knapsack: imitation (default), the share of the convolution's "
     "variance that it misses; fisher, the share of the network's Fisher potential that is lost",
     2},
    {"best", KEY_BEST, "N", 0, "Take the best N kernels of a study (default 8)", 2},
    {"images", 'i', "N", 0,
     "Imitate on N of the training images, at random (default 6400, or all where there are fewer)",
     2},
    {"samples", KEY_SAMPLES, "N", 0, "blockswap: networks to compare (default 1000)", 2},
    {"machine", KEY_MACHINE, "MACHINE", 0,
     "Predict latencies on this machine (as of predict; default: this machine)", 3},
    {"measure", KEY_MEASURE, 0, 0, "Measure latencies on --device instead", 3},
    {"seed", 's', "S", 0, "Seed of weights, split, order, augmentation and draws (default 0)", 4},
    {"validation", 'v', "FRACTION", 0,
     "Share of the training images that is held out (default 0.1): as in the training of --init",
     4},
    {"device", 'D', "D", 0, "auto (default), cpu, cuda, cuda:N", 5},
    {"dry-run", KEY_DRY_RUN, 0, 0, "Choose and write the file of layers, and do not train it", 5},
    {0}};

static const kas_cli_value values[] = {
    {'d', KAS_CLI_TEXT(kas_assemble, dataset_path)},
    {'o', KAS_CLI_TEXT(kas_assemble, dir)},
    {KEY_LATENCY, KAS_CLI_NUMBER(kas_assemble, latency, 1e-6, 1)},
    {KEY_INIT, KAS_CLI_TEXT(kas_assemble, init)},
    {KEY_STRATEGY, KAS_CLI_CHOICE(kas_assemble, strategy, kas_assemble_strategy_names)},
    {KEY_LOSS, KAS_CLI_CHOICE(kas_assemble, loss, kas_assemble_loss_names)},
    {KEY_BEST, KAS_CLI_INT(kas_assemble, best, 1, KAS_CHOICES_KERNELS)},
    {'i', KAS_CLI_INT(kas_assemble, images, 1, INT32_MAX)},
    {KEY_SAMPLES, KAS_CLI_INT(kas_assemble, samples, 1, 1000000)},
    {KEY_MACHINE, KAS_CLI_TEXT(kas_assemble, machine_name)},
    {KEY_MEASURE, KAS_CLI_FLAG(kas_assemble, measure)},
    {'s', KAS_CLI_SEED(kas_assemble, seed)},
    {'v', KAS_CLI_NUMBER(kas_assemble, validation, 1e-6, 1 - 1e-6)},
    {'D', KAS_CLI_TEXT(kas_assemble, device_name)},
    {KEY_DRY_RUN, KAS_CLI_FLAG(kas_assemble, dry_run)},
    {0}};

static bool takes_study(const kas_assemble *a)
{
    for (int i = 0; i < a->froms; i++)
        if (kas_study_exists(a->from[i]))
            return true;
    return false;
}

/* Refuses what has no effect on the strategy and the kernels. */
static void check_effects(const kas_assemble *a, struct argp_state *state)
{
    if (a->strategy != KAS_ASSEMBLE_BLOCKSWAP)
        kas_cli_refuse(state, "samples", "is an option of --strategy blockswap");
    if (a->strategy != KAS_ASSEMBLE_KNAPSACK)
        kas_cli_refuse(state, "loss", "is an option of --strategy knapsack");
    if (!kas_assemble_imitates(a))
        kas_cli_refuse(state, "images",
                       "has no effect here: kernels imitate for --strategy knapsack with --loss "
                       "imitation, and with --init before they are trained");
    if (!takes_study(a))
        kas_cli_refuse(state, "best", "chooses among the kernels of a study, and none is given");
}

static void check_options(const kas_assemble *a, struct argp_state *state)
{
    const bool budget = a->net.budget.max_flops_ratio > 0 || a->net.budget.max_params_ratio > 0;
    if (!a->net.name || !a->dataset_path || !a->dir || !a->froms)
        argp_error(state, "--net, --dataset, --output and a study or kernel files are needed");
    else if (a->strategy != KAS_ASSEMBLE_BLOCKSWAP && !a->latency)
        argp_error(state, "--latency is needed");
    else if (!a->latency && !budget)
        argp_error(state, "--params, --flops or --latency is needed");
    else if (a->measure && a->machine_name)
        argp_error(state, "--machine and --measure exclude each other");
    else
        check_effects(a, state);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    kas_assemble *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->net;
        state->child_inputs[1] = &a->recipe_options;
        state->child_inputs[2] = &a->common;
        return 0;
    case ARGP_KEY_ARGS:
        a->from = state->argv + state->next;
        a->froms = state->argc - state->next;
        return 0;
    case ARGP_KEY_END:
        check_options(a, state);
        return 0;
    default:
        return kas_cli_set(state, option_list, values, key, arg);
    }
}

static const char doc[] =
    "Choose for each layer of a network its convolution or one of the given kernels, so that the "
    "whole is fast enough and loses least, and train the result.\n\n"
    "  kas-gpu assemble STUDY --net resnet20 --dataset cifar100.h5 --latency 0.5 \\\n"
    "                   --init trained.safetensors -o half\n"
    "  kas-gpu assemble kernels/*.json --net resnet20 --dataset cifar100.h5 \\\n"
    "                   --latency 0.7 -o seventy --dry-run\n"
    "  kas-gpu assemble kernels/*.json --net resnet20 --dataset cifar100.h5 \\\n"
    "                   --strategy blockswap --params 0.4 -o swapped\n"
    "\vThe result is a file of layers, DIR/NAME/layers.json, which train, bench, predict and "
    "export "
    "take, and its trained weights beside it. Ctrl-C loses nothing that was measured; the same "
    "command goes on (docs/assemble.md).";

/* ---- kernels --------------------------------------------------------------------------------- */

static kas_status take_kernel(void *context, const char *name, const char *text)
{
    kas_assemble *a = context;
    kas_assignment kernels;
    if (a->best-- <= 0)
        return KAS_OK;
    KAS_TRY(kas_assignment_read_json(name, text, strlen(text), &kernels));
    const kas_status status = kas_choices_add(&a->choices, name, &kernels);
    kas_assignment_free(&kernels);
    return status;
}

/* The kernels of a study, and they alone, have the sizes that its budget gave them, unless the
 * command has another; what is assembled of them has no such limit. */
static kas_status take_budget(kas_assemble *a, const char *study)
{
    kas_budget *b = &a->choices.sizes;
    kas_study_view view = {0};
    if (b->max_flops_ratio > 0 || b->max_params_ratio > 0)
        return KAS_OK;
    const kas_status status = kas_study_view_open(study, &view);
    if (status == KAS_OK) {
        b->max_flops_ratio = view.options.flops;
        b->max_params_ratio = view.options.params;
    }
    kas_study_view_close(&view);
    return status;
}

static kas_status take_folder(kas_assemble *a, const char *path)
{
    const int best = a->best;
    const kas_budget sizes = a->choices.sizes;
    kas_buf text = {0};
    kas_status status = KAS_OK;
    if (kas_study_exists(path))
        status = take_budget(a, path);
    else
        a->best = KAS_FROM_KERNELS;
    if (status == KAS_OK)
        status = kas_from_collect(path, &text);
    if (status == KAS_OK)
        status = kas_from_read(kas_buf_text(&text), take_kernel, a);
    kas_buf_free(&text);
    a->best = best;
    a->choices.sizes = sizes;
    return status;
}

static kas_status take_path(kas_assemble *a, const char *path)
{
    kas_assignment kernels;
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return take_folder(a, path);
    KAS_TRY(kas_assignment_read_file(path, &kernels));
    const kas_status status = kas_choices_add(&a->choices, path, &kernels);
    kas_assignment_free(&kernels);
    return status;
}

static kas_status take_kernels(kas_assemble *a)
{
    a->choices.net = a->data.net;
    a->choices.sizes = a->choices.limit = a->net.budget;
    KAS_TRY(kas_net_targets(a->data.net, a->net.filter, &a->data.targets, &a->choices.targets));
    a->choices.target = a->data.targets;
    for (int i = 0; i < a->froms; i++)
        KAS_TRY(take_path(a, a->from[i]));
    if (a->choices.kernels == 0)
        return kas_fail(
            KAS_NOTHING_VALID,
            "no kernel fits a layer of network %s within the budget; give other kernels, "
            "or a larger --flops or --params",
            a->net.name);
    const size_t targets = (size_t)a->choices.targets;
    a->chosen = calloc(targets, sizeof *a->chosen);
    a->option = calloc(targets * (size_t)kas_choices_options(&a->choices), sizeof *a->option);
    return a->chosen && a->option ? KAS_OK
                                  : kas_fail(KAS_NO_MEMORY, "no memory for %zu layers", targets);
}

/* ---- strategies ------------------------------------------------------------------------------ */

static double limit_of(const kas_assemble *a)
{
    return a->latency ? (a->latency - 1) * a->unmodified : INFINITY;
}

static bool has_limits(const kas_assemble *a)
{
    return a->choices.limit.max_flops_ratio > 0 || a->choices.limit.max_params_ratio > 0;
}

/* Returns the options that limit the size of the network; "" = none was given. */
static const char *limits_given(const kas_assemble *a)
{
    const bool flops = a->choices.limit.max_flops_ratio > 0;
    const bool params = a->choices.limit.max_params_ratio > 0;
    return flops && params ? "--flops or --params" : flops ? "--flops" : params ? "--params" : "";
}

/* A kernel whose free sizes no numbers can replace has other sizes in another network, so that the
 * whole may be above what is allowed. */
static kas_status fail_point(const kas_assemble *a, const kas_frontier *f)
{
    const char *limits = limits_given(a);
    if (kas_frontier_within(f, limit_of(a)) >= 0)
        return kas_fail(KAS_NOTHING_VALID,
                        "kernels whose free sizes no numbers can replace put every network that "
                        "was chosen above --latency %g%s%s; allow more, or give other kernels",
                        a->latency, *limits ? " or " : "", limits);
    return kas_fail(KAS_NOTHING_VALID,
                    "--latency %g: the network reaches %.3g at least with these kernels%s%s; allow "
                    "more, or give faster kernels",
                    a->latency, 1 + f->point[0].cost / a->unmodified,
                    *limits ? " and not above " : "", limits);
}

/* Says that no network is within --flops and --params, or that none was found where choices were left
 * out. */
static kas_status fail_frontier(const kas_assemble *a, bool all)
{
    if (all)
        return kas_fail(KAS_NOTHING_VALID,
                        "with these kernels every network is above %s; allow more, or give smaller "
                        "kernels",
                        limits_given(a));
    return kas_fail(
        KAS_NOTHING_VALID,
        "every network that was looked at is above %s; not all were looked at, so allow "
        "a little more, or give fewer or smaller kernels",
        limits_given(a));
}

/* Goes down the frontier to the first network that is within the limits as a whole. */
static kas_status take_point(kas_assemble *a, const kas_frontier *f, kas_replacement *out,
                             double *seconds)
{
    for (int i = kas_frontier_within(f, limit_of(a)); i >= 0; i--) {
        kas_frontier_choice(f, i, a->chosen);
        const kas_status status = kas_choices_replacement(&a->choices, a->chosen, out);
        if (status == KAS_OVER_BUDGET)
            continue;
        KAS_TRY(status);
        KAS_TRY(kas_assemble_seconds(a, out, seconds));
        /* Of a measured point the repeated measurement is only reported: noise decides nothing. */
        if (a->measure || *seconds <= a->latency * a->unmodified * (1 + 1e-9))
            return KAS_OK;
        kas_replacement_free(out);
    }
    return fail_point(a, f);
}

static kas_status find_frontier(kas_assemble *a, kas_frontier *out)
{
    const kas_choices *c = &a->choices;
    double limit[KAS_FRONTIER_FURTHER];
    KAS_TRY(kas_choices_limits(c, a->option, limit));
    const kas_status status =
        kas_frontier_find(a->option, c->targets, kas_choices_options(c),
                          has_limits(a) ? limit : NULL, KAS_FRONTIER_MOST, out);
    return status == KAS_OVER_BUDGET ? fail_frontier(a, out->gap == 0) : status;
}

static kas_status find_losses(kas_assemble *a)
{
    if (a->strategy == KAS_ASSEMBLE_FBNET)
        return kas_assemble_fbnet(a);
    if (a->loss == KAS_ASSEMBLE_IMITATION)
        KAS_TRY(kas_assemble_baseline(a));
    return kas_assemble_losses(a);
}

static kas_status choose_least(kas_assemble *a, kas_replacement *out, double *seconds)
{
    kas_frontier frontier;
    KAS_TRY(find_losses(a));
    KAS_TRY(find_frontier(a, &frontier));
    kas_status status = kas_assemble_print_frontier(a, &frontier);
    if (status == KAS_OK)
        status = take_point(a, &frontier, out, seconds);
    kas_frontier_free(&frontier);
    return status;
}

static kas_status choose_blockswap(kas_assemble *a, kas_replacement *out, double *seconds)
{
    const kas_blockswap_options options = {.choices = &a->choices,
                                           .option = a->option,
                                           .limit = limit_of(a),
                                           .draws = a->samples,
                                           .seed = a->seed,
                                           .potentials = kas_assemble_potentials,
                                           .context = a};
    kas_blockswap_result result;
    KAS_TRY(kas_blockswap(&options, &result));
    memcpy(a->chosen, result.chosen, sizeof *a->chosen * (size_t)a->choices.targets);
    free(result.chosen);
    kas_info(
        "BlockSwap: %d networks within the budget, of %llu drawn; the largest Fisher potential is "
        "%.5g",
        result.scored, (unsigned long long)result.drawn, result.potential);
    KAS_TRY(kas_choices_replacement(&a->choices, a->chosen, out));
    return kas_assemble_seconds(a, out, seconds);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Without --init the recipe says what the trained network will be. */
static kas_status digest_recipe(const kas_recipe *recipe, char hex[65])
{
    kas_buf text = {0};
    kas_fields_write(kas_recipe_fields, kas_recipe_field_count, recipe, &text);
    const kas_status status = kas_buf_status(&text);
    if (status == KAS_OK)
        kas_sha256_hex(text.data, text.size, hex);
    kas_buf_free(&text);
    return status;
}

static kas_status describe_setting(kas_assemble *a)
{
    char code[KAS_CODE_VERSION_SIZE], name[KAS_NET_KEPT_NAME], init[65], scaling[KAS_SCALING_TEXT];
    char targets[65];
    const char *text, *filter = a->net.filter ? a->net.filter : "";
    KAS_TRY(kas_code_version(code));
    KAS_TRY(kas_net_keep(a->net.name, name, &text));
    KAS_TRY(a->init ? kas_file_digest(a->init, KAS_WEIGHTS_LIMIT, init)
                    : digest_recipe(&a->recipe, init));
    kas_sha256_hex(filter, strlen(filter), targets);
    kas_dataset_scaling(a->data.dataset, scaling);
    snprintf(a->setting, sizeof a->setting,
             "code %s net %s targets %s data %s scaling %s init %s seed %llu validation %.17g "
             "batch %d",
             code, name, targets, a->data.dataset->digest, scaling, init,
             (unsigned long long)a->seed, a->validation, a->recipe.batch);
    return KAS_OK;
}

static kas_status open_all(kas_assemble *a)
{
    char path[PATH_MAX];
    KAS_TRY(kas_cli_training_open(a->dataset_path, false, &a->net, NULL, &a->data));
    KAS_TRY(kas_cli_recipe_suits(&a->recipe_options, &a->recipe, a->data.dataset));
    KAS_TRY(take_kernels(a));
    KAS_TRY(kas_assemble_check_images(a));
    if (a->init) {
        KAS_TRY(kas_pretrained_check(a->init, a->data.net, NULL, false));
        KAS_TRY(kas_trained_on_check(a->init, a->data.dataset, a->seed, a->validation));
    }
    /* The threads are those of --device here, and say nothing of another machine. */
    KAS_TRY(a->machine_name ? kas_machine_find(a->machine_name, a->device_name, 0, &a->machine)
                            : kas_machine_here(a->device_name, a->common.threads, &a->machine));
    KAS_TRY(describe_setting(a));
    if (a->strategy == KAS_ASSEMBLE_BLOCKSWAP || a->loss == KAS_ASSEMBLE_FISHER)
        KAS_TRY(kas_minibatches_draw(a->data.dataset, FISHER_BATCH, 1, a->seed, a->minibatch));
    KAS_TRY(kas_mkdirs(a->dir));
    if (snprintf(path, sizeof path, "%s/measured.jsonl", a->dir) >= (int)sizeof path)
        return kas_fail(KAS_BAD_INPUT, "%.100s...: path too long", a->dir);
    KAS_TRY(kas_measured_open(path, &a->measured));
    return kas_device_open(a->device_name, a->common.threads, &a->device);
}

static kas_status assemble(kas_assemble *a)
{
    kas_replacement r = {0};
    char folder[PATH_MAX];
    double seconds;
    kas_status status;
    kas_interrupt_watch();
    KAS_TRY(open_all(a));
    KAS_TRY(kas_assemble_costs(a));
    for (int i = 0; i < a->choices.targets * kas_choices_options(&a->choices); i++)
        a->option[i].loss = NAN;
    KAS_TRY_GOTO(
        (a->strategy == KAS_ASSEMBLE_BLOCKSWAP ? choose_blockswap : choose_least)(a, &r, &seconds),
        out);
    if (kas_replacement_replaced(&r) == 0) {
        status =
            kas_fail(KAS_NOTHING_VALID,
                     "every layer keeps its convolution: within the budget no kernel is better; "
                     "nothing was assembled");
        goto out;
    }
    if (!kas_choices_same_sizes(&a->choices, a->chosen, &r))
        kas_warn(
            "a kernel's free sizes differ from those that were measured, because no numbers can "
            "take their place");
    KAS_TRY_GOTO(kas_assemble_write(a, &r, folder), out);
    KAS_TRY_GOTO(kas_assemble_print_choice(a, &r, folder, seconds), out);
    if (a->init)
        KAS_TRY_GOTO(kas_assemble_baseline(a), out);
    if (!a->dry_run)
        status = kas_assemble_finish(a, &r, folder);
out:
    kas_replacement_free(&r);
    return status;
}

static void close_all(kas_assemble *a)
{
    kas_turns_free(a->turns);
    kas_predictor_free(a->predictor);
    kas_device_close(a->device);
    kas_measured_close(a->measured);
    for (int i = 0; i < KAS_SCORE_MINIBATCHES; i++)
        kas_minibatch_free(&a->minibatch[i]);
    kas_choices_free(&a->choices);
    free(a->option);
    free(a->chosen);
    kas_cli_training_close(&a->data);
}

static kas_status run(int argc, char **argv)
{
    const struct argp_child children[] = {{&kas_cli_plain_target_argp, 0, NULL, 0},
                                          {kas_cli_recipe_argp("search"), 0, NULL, 0},
                                          {&kas_cli_common_argp, 0, NULL, 0},
                                          {0}};
    const struct argp argp = {option_list, parse, "STUDY|KERNEL.json...", doc, children, 0, 0};
    kas_assemble *a = calloc(1, sizeof *a);
    if (!a)
        return kas_fail(KAS_NO_MEMORY, "no memory");
    a->validation = 0.1;
    a->device_name = "auto";
    a->samples = 1000;
    a->best = 8;
    kas_status status = kas_cli_parse(&argp, argc, argv, a);
    if (status == KAS_OK) {
        status = kas_cli_recipe_get(&a->recipe_options, &a->recipe);
        if (status == KAS_OK)
            status = assemble(a);
        close_all(a);
    }
    free(a);
    return status;
}

const kas_command kas_command_assemble = {
    "assemble", "Choose a kernel or the convolution for each layer, and train the result", run};
