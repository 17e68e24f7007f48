/* kas-gpu search: the main command. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/cli/dry_run.h"
#include "host/cli/given.h"
#include "host/cli/net_options.h"
#include "host/cli/recipe_options.h"
#include "host/cli/sampler_options.h"
#include "host/cli/search_run.h"
#include "host/cli/untrained/untrained.h"
#include "host/core/log.h"
#include "host/score/interval.h"

typedef struct search_command {
    kas_cli_common common;
    kas_session_request request;
    kas_cli_recipe recipe;
    bool dry, by_count, by_time;
    bool known_given, legality_given, rungs_given, auto_rungs;
    int objective; /* kas_objective; -1 = not given */
    bool limits_loss;
    double shrink; /* 0 = no rounds */
    kas_cli_untrained untrained;
} search_command;

enum {
    OPTION_TARGETS = 256,
    OPTION_PRUNE,
    OPTION_WINDOW,
    OPTION_DRY,
    OPTION_FLOPS,
    OPTION_PARAMS,
    OPTION_LATENCY,
    OPTION_VALIDATION,
    OPTION_INIT,
    OPTION_INIT_PARTIAL,
    OPTION_WARM_START,
    OPTION_IMITATE,
    OPTION_SPACE,
    OPTION_LATENCY_ON,
    OPTION_LEGALITY,
    OPTION_PREFILTER,
    OPTION_TUNE,
    OPTION_STRATEGY,
    OPTION_POPULATION,
    OPTION_TOURNAMENT,
    OPTION_EXPLORATION,
    OPTION_GENERATION,
    OPTION_KNOWN,
    OPTION_ANCESTORS,
    OPTION_FROM,
    OPTION_RUNGS,
    OPTION_THETA,
    OPTION_OBJECTIVE,
    OPTION_MAX_LOSS,
    OPTION_FINALISTS,
    OPTION_SEEDS,
    OPTION_SHRINK,
    OPTION_ASYNCHRONOUS,
    OPTION_KEEP_SLOWER,
    OPTION_STORE,
    OPTION_NO_TRAINING,
    OPTION_CONFIGURATIONS,
    OPTION_SCORE_ALL,
    OPTION_MEASURE,
    OPTION_MOST_MISSED,
    OPTION_RANKS,
    OPTION_SYNC_BATCH_NORM,
    OPTION_CAPTURE_EXCHANGE
};

static const struct argp_option option_list[] = {
    {"dataset", 'd', "F.h5", 0, "Labelled images (kas-gpu dataset makes such files)", 1},
    {"net", 'n', "NAME", 0, "Backbone: a name or a network file (default resnet18; kas-gpu net)",
     1},
    {"study", 's', "DIR", 0, "Folder of the study (default studies/NET-DATASET-SEED)", 1},
    {"store", OPTION_STORE, "URL", 0,
     "PostgreSQL database in which the study is kept, for several machines: @FILE with its URL "
     "(DIR/url of `kas-gpu store start DIR`), or a URL without a password (default: KAS_STORE, "
     "else "
     "a file in DIR)",
     1},
    {"candidates", 'c', "N", 0, "Evaluate the first N kernels of the seed's list (default 48)", 1},
    {"time", 't', "T", 0,
     "Begin new candidates until T has passed, all runs together: 90s, 30m, 12h, 2d", 1},
    {"seed", 'S', "S", 0, "Seed of the list of kernels, the weights and the splits (default 0)", 1},
    {"validation", OPTION_VALIDATION, "X", 0,
     "Share of the training set that candidates are validated on (default 0.1)", 2},
    {"init", OPTION_INIT, "F.safetensors", 0,
     "Start every training from these weights; kernels begin at random (docs/search.md)", 2},
    {"init-partial", OPTION_INIT_PARTIAL, 0, 0,
     "Leave out tensors that do not fit, such as a classifier of other classes", 2},
    {"warm-start", OPTION_WARM_START, 0, 0,
     "Begin candidates with the weights of the study's own baseline, which is trained first; "
     "kernels begin at random (docs/search.md)",
     2},
    {"imitate", OPTION_IMITATE, "N", 0,
     "Like --warm-start, but kernels first learn to imitate the baseline's convolutions, and "
     "candidates are trained for N epochs in the search",
     2},
    {"most-missed", OPTION_MOST_MISSED, "X", 0,
     "With --imitate or --rungs imitate: a candidate whose kernels then miss more than this share "
     "of the convolutions' variance is not trained (default: all are)",
     2},
    {"flops", OPTION_FLOPS, "R", 0,
     "Limit on the FLOPs of a kernel, relative to the convolutions that it replaces; 0 = no limit "
     "(default 0.5, with --no-training 0)",
     3},
    {"params", OPTION_PARAMS, "R", 0, "Limit on the parameters, likewise (default 1)", 3},
    {"latency", OPTION_LATENCY, "R", 0,
     "Limit on the latency, relative to the unmodified network: candidates that are predicted "
     "slower are not trained, and those that are measured slower are no finalists and, where there "
     "are no generations, not trained either; 0 = no limit (default 1, with --objective accuracy "
     "0)",
     3},
    {"latency-on", OPTION_LATENCY_ON, "MACHINE", 0,
     "Limit the predicted latency on another machine: a name of `kas-gpu predict`, such as h100, "
     "or "
     "a file of `kas-gpu doctor --calibrate`",
     3},
    {"legality", OPTION_LEGALITY, "SCORE[:T]", 0,
     "Reject candidates whose score, fisher or imitation, is below that of the unmodified network, "
     "or below 1 - T of it (default: imitation:0.9; random: none)",
     3},
    {"prefilter", OPTION_PREFILTER, "SCORE:K", 0,
     "Of each K proposals of like FLOPs train the one with the best score (docs/scores.md), such "
     "as "
     "naswot:4",
     3},
    {"tune", OPTION_TUNE, "WHOSE", 0,
     "Search the schedules of these candidates' kernels on the device before their latency is "
     "measured: frontier (those of finalists), none (default) or all",
     3},
    {"targets", OPTION_TARGETS, "LIST", 0, KAS_CLI_TARGETS_HELP, 3},
    {"space", OPTION_SPACE, "SPACE", 0,
     "canvas: kernels grown from primitives (default); nas-pte: convolutions, transformed layer by "
     "layer",
     3},
    {"prune", OPTION_PRUNE, "RULE", 0,
     "curve: give up candidates far below the best curve (default); none; deterministic: the "
     "same ones whatever the number of workers",
     3},
    {"prune-window", OPTION_WINDOW, "L", 0,
     "deterministic: candidate k is compared with those before k - L (default 8)", 3},
    {"theta", OPTION_THETA, "X", 0,
     "Share of the best curve that a candidate needs after the first epoch; all of it after the "
     "last (default 0.5)",
     3},
    {"strategy", OPTION_STRATEGY, "NAME", 0,
     "evolution: known kernels, then children of the best so far (default); random: kernels of the "
     "sampler (default with --space nas-pte and --asynchronous); tree: Monte-Carlo tree search "
     "over how kernels begin",
     4},
    {"population", OPTION_POPULATION, "N", 0,
     "evolution: candidates from which parents are chosen, and size of generation 0 (default a "
     "quarter of --candidates, at most 100)",
     4},
    {"tournament", OPTION_TOURNAMENT, "N", 0,
     "evolution: a parent is the best of so many (default a tenth of the population)", 4},
    {"generation", OPTION_GENERATION, "N", 0,
     "Candidates in a generation (default: evolution a fifth of the population; tree a twentieth "
     "of --candidates, at most 20; both at least 9 with rungs; random with --rungs 27, with "
     "--propose 8)",
     4},
    {"exploration", OPTION_EXPLORATION, "C", 0,
     "tree: weight of what is uncertain against what was good so far; few candidates may want less "
     "(default 4 sqrt 2 = 5.66)",
     4},
    {"known", OPTION_KNOWN, "yes|no", 0,
     "Begin with the known kernels that fit the budget (default: evolution and tree yes, random "
     "no)",
     4},
    {"ancestors", OPTION_ANCESTORS, "N", 0,
     "evolution: before anything is trained, evolve N kernels by how well they imitate, and begin "
     "with the best of these and of the known ones; 0 = none (default 1000)",
     4},
    {"from", OPTION_FROM, "STUDY|FOLDER|FILE", 0,
     "Begin with the finished kernels of a study, the kernel files of a folder, or the file in "
     "which "
     "a study keeps such kernels (from.json)",
     4},
    {"rungs", OPTION_RUNGS, "LIST", 0,
     "Epochs at which only the best third of a generation goes on, such as 1,3,10; imitate,10: "
     "first by an imitation of the trained baseline and an epoch, the best are then trained from "
     "random weights; auto: a 27th, a ninth and a third of the epochs (default of evolution and "
     "tree); none (default of random)",
     4},
    {"asynchronous", OPTION_ASYNCHRONOUS, 0, 0,
     "With --rungs and --strategy random: a candidate goes on as soon as it is among the best "
     "third "
     "of those that reached its rung, so that no worker waits; which ones do differs from run to "
     "run",
     4},
    {"keep-slower", OPTION_KEEP_SLOWER, 0, 0,
     "A layer keeps its convolution where a candidate's kernel does not fit, or is predicted to be "
     "slower",
     4},
    {"objective", OPTION_OBJECTIVE, "WHAT", 0,
     "frontier: accuracy and latency (default); latency: the fastest kernel within --max-loss; "
     "accuracy: the most accurate",
     4},
    {"max-loss", OPTION_MAX_LOSS, "POINTS", 0,
     "Points of accuracy that may be lost against the unmodified network (default 1); without "
     "--objective it sets that to latency",
     4},
    {"finalists", OPTION_FINALISTS, "N", 0,
     "Candidates that are trained on the whole training set (default 1); 0: the search ends with "
     "its candidates, for another one's --from; with --no-training legal configurations to find "
     "(default 5)",
     4},
    {"seeds", OPTION_SEEDS, "N", 0,
     "Trainings of each finalist and of the unmodified network, by different seeds (default 1)", 4},
    {"ranks", OPTION_RANKS, "N", 0,
     "Workers that share each final training, and each of its batches (default 1; "
     "docs/parallel.md)",
     4},
    {"sync-batch-norm", OPTION_SYNC_BATCH_NORM, 0, 0,
     "With --ranks: batch norms take the statistics of all ranks' images (default: of each rank's "
     "own)",
     4},
    {"capture-exchange", OPTION_CAPTURE_EXCHANGE, 0, 0,
     "With --ranks on GPUs: a step is one graph with NCCL's calls in it (default: they lie between "
     "graphs)",
     4},
    {"shrink", OPTION_SHRINK, "FACTOR", 0,
     "Search in rounds, STUDY/round-0, STUDY/round-1, ...: each begins with the kernels of the "
     "round before and has FACTOR times its limit on FLOPs (with --flops 0: on latency); a round "
     "without a kernel within --max-loss is the last",
     4},
    {"no-training", OPTION_NO_TRAINING, 0, 0,
     "With --space nas-pte: draw configurations, reject by --legality (default fisher), and take "
     "the fastest as predicted; nothing is trained or compiled",
     4},
    {"configurations", OPTION_CONFIGURATIONS, "N", 0, "--no-training: how many (default 1000)", 4},
    {"score-all", OPTION_SCORE_ALL, 0, 0,
     "--no-training: score also those that are slower than the legal ones found", 4},
    {"measure", OPTION_MEASURE, 0, 0,
     "--no-training: compile the legal ones found and take the one that is measured fastest", 4},
    {"dry-run", OPTION_DRY, 0, 0, "Say what would be done, and sample, but train nothing", 5},
    {0}};

static double parse_time(struct argp_state *state, const char *text)
{
    static const char units[] = "smhd";
    static const double seconds[] = {1, 60, 3600, 86400};
    char *end;
    double value = strtod(text, &end);
    const char *unit = *end && end[1] == 0 ? strchr(units, *end) : NULL;
    if (end == text || (*end && !unit) || !(value > 0 && value < 1e9))
        argp_error(state, "--time: expected a time such as 90s, 30m, 12h or 2d, found \"%s\"",
                   text);
    return value * (unit ? seconds[unit - units] : 1);
}

static const char *const answers[] = {"no", "yes", NULL};
static const char *const prunings[] = {"curve", "none", "deterministic", NULL};

/* Sets what the command left open: the strategy, the objective, and with it the limit on the
 * latency. */
static void set_defaults(search_command *c)
{
    kas_search_options *o = &c->request.search;
    if (o->strategy < 0)
        o->strategy = o->sample.space == KAS_SPACE_NAS_PTE || o->asynchronous
                          ? KAS_STRATEGY_RANDOM
                          : kas_search_options_default().strategy;
    if (o->ancestors < 0)
        o->ancestors = kas_search_ancestors(o->strategy);
    if (!c->legality_given)
        strcpy(o->legality, c->untrained.given ? "fisher" : kas_search_legality(o->strategy));
    if (c->objective >= 0)
        o->objective = c->objective;
    else if (c->limits_loss || c->shrink > 0)
        o->objective = KAS_OBJECTIVE_LATENCY;
    if (isnan(o->latency))
        o->latency = kas_search_latency(o->objective);
    if (isnan(o->flops))
        o->flops = c->untrained.given ? 0 : 0.5;
    if (o->finalists < 0)
        o->finalists = c->untrained.given ? KAS_UNTRAINED_WANTED : 1;
}

static bool has_option(const struct argp *argp, const char *name)
{
    for (const struct argp_option *o = argp->options; o->name; o++)
        if (strcmp(o->name, name) == 0)
            return true;
    return false;
}

/* Refuses options that have no effect on a search that trains nothing. */
static void check_untrained_options(struct argp_state *state)
{
    static const char effective[] = "dataset net study seed targets space flops params latency "
                                    "precision legality finalists device latency-on measure "
                                    "score-all no-training configurations";
    kas_cli_given given;
    kas_cli_given_read(state, &given);
    for (int i = 0; i < given.options; i++) {
        const char *name = given.option[i];
        if (!kas_cli_names_have(effective, name) && !has_option(kas_cli_sampler_argp(), name) &&
            !has_option(&kas_cli_common_argp, name))
            argp_error(state,
                       "--%s has no effect with --no-training, which trains no candidates; "
                       "--configurations says how many are drawn, and --finalists how many legal "
                       "ones are wanted",
                       name);
    }
}

/* Of a search that trains nothing. */
static void check_untrained(const search_command *c, struct argp_state *state)
{
    const kas_cli_untrained *u = &c->untrained;
    if (!u->given && (u->configurations || u->score_all || u->measure))
        argp_error(state, "--configurations, --score-all and --measure need --no-training");
    if (u->given && c->request.search.sample.space != KAS_SPACE_NAS_PTE)
        argp_error(state, "--no-training needs --space nas-pte: its configurations are sequences "
                          "of transformations");
    if (u->given && u->measure && *c->request.search.latency_on)
        argp_error(state, "--measure measures on --device, and --latency-on names another machine; "
                          "give one of them");
    if (u->given)
        check_untrained_options(state);
}

/* Refuses what would have no effect, so that nobody believes that it had one. */
static void check_effects(const search_command *c, struct argp_state *state)
{
    const kas_search_options *o = &c->request.search;
    const bool accuracy = o->objective == KAS_OBJECTIVE_ACCURACY;
    if (accuracy && c->limits_loss)
        argp_error(state, "--max-loss has no effect with --objective accuracy, which takes the "
                          "most accurate kernel; leave out one of them");
    if (accuracy && *o->latency_on && o->latency <= 0 && !o->keep_slower)
        argp_error(state, "--latency-on limits the latency on another machine, and with "
                          "--objective accuracy there is no limit; give --latency too");
    const kas_search_options usual = kas_search_options_default();
    if (o->prune_window != usual.prune_window && strcmp(o->prune, "deterministic") != 0)
        argp_error(state, "--prune-window is an option of --prune deterministic");
    if (o->theta != usual.theta && strcmp(o->prune, "none") == 0)
        argp_error(state, "--theta is an option of --prune curve and deterministic");
    if (o->finalists == 0 && (o->seeds > 1 || o->ranks > 1 || o->tune == KAS_TUNE_FRONTIER))
        argp_error(state, "%s has no effect with --finalists 0, which trains no finalists",
                   o->seeds > 1   ? "--seeds"
                   : o->ranks > 1 ? "--ranks"
                                  : "--tune frontier");
}

static error_t check(const search_command *c, struct argp_state *state)
{
    if (!c->request.dataset)
        argp_error(state, "--dataset is needed; `kas-gpu dataset make shapes -o shapes.h5` makes a "
                          "small one");
    if (c->request.search.init_partial && !c->request.init)
        argp_error(state, "--init-partial needs --init");
    if (c->request.search.sync_batch_norm && c->request.search.ranks == 1)
        argp_error(state, "--sync-batch-norm needs --ranks");
    if (c->request.search.capture_exchange && c->request.search.ranks == 1)
        argp_error(state, "--capture-exchange needs --ranks");
    if (c->request.search.most_missed > 0 && !c->request.search.imitate &&
        !kas_search_rung_imitates(&c->request.search, 0))
        argp_error(state, "--most-missed needs --imitate, or --rungs imitate");
    if (c->request.search.sample.space == KAS_SPACE_NAS_PTE &&
        c->request.search.strategy != KAS_STRATEGY_RANDOM)
        argp_error(state, "--strategy %s: only kernels of --space canvas are made step by step",
                   kas_strategy_names[c->request.search.strategy]);
    if (c->shrink > 0 && !*c->request.study)
        argp_error(state, "--shrink needs --study: its rounds are studies in that folder");
    if (c->shrink > 0 && c->request.search.objective != KAS_OBJECTIVE_LATENCY)
        argp_error(state, "--shrink needs --objective latency: it ends where no kernel is within "
                          "--max-loss");
    if (c->shrink > 0 && c->request.search.flops <= 0 && c->request.search.latency <= 0)
        argp_error(state, "--shrink needs a limit that can fall: --flops or --latency");
    if (c->request.search.finalists == 0 && (c->shrink > 0 || c->untrained.given))
        argp_error(state, "--finalists 0 names no answer, which %s needs",
                   c->shrink > 0 ? "--shrink" : "--no-training");
    if (c->by_count && c->by_time)
        argp_error(state, "--candidates and --time exclude each other; give one of them");
    check_untrained(c, state);
    check_effects(c, state);
    return 0;
}

static const kas_cli_value values[] = {
    {'d', KAS_CLI_TEXT(search_command, request.dataset)},
    {'n', KAS_CLI_TEXT(search_command, request.net)},
    {'s', KAS_CLI_TEXT(search_command, request.study)},
    {'S', KAS_CLI_SEED(search_command, request.search.seed)},
    {OPTION_TARGETS,
     {.type = KAS_FIELD_TEXT,
      .offset = offsetof(search_command, request.search.targets),
      .size = sizeof((search_command *)0)->request.search.targets}},
    {OPTION_LATENCY_ON,
     {.type = KAS_FIELD_TEXT,
      .offset = offsetof(search_command, request.search.latency_on),
      .size = sizeof((search_command *)0)->request.search.latency_on}},
    {OPTION_PREFILTER,
     {.type = KAS_FIELD_TEXT,
      .offset = offsetof(search_command, request.search.prefilter),
      .size = sizeof((search_command *)0)->request.search.prefilter}},
    {OPTION_TUNE, KAS_CLI_CHOICE(search_command, request.search.tune, kas_tuning_names)},
    {OPTION_STORE, KAS_CLI_TEXT(search_command, request.store)},
    {OPTION_INIT, KAS_CLI_TEXT(search_command, request.init)},
    {OPTION_INIT_PARTIAL, KAS_CLI_FLAG(search_command, request.search.init_partial)},
    {OPTION_WARM_START, KAS_CLI_FLAG(search_command, request.search.warm_start)},
    {OPTION_ASYNCHRONOUS, KAS_CLI_FLAG(search_command, request.search.asynchronous)},
    {OPTION_KEEP_SLOWER, KAS_CLI_FLAG(search_command, request.search.keep_slower)},
    {OPTION_IMITATE, KAS_CLI_INT(search_command, request.search.imitate, 1, 1e6)},
    {OPTION_MOST_MISSED, KAS_CLI_NUMBER(search_command, request.search.most_missed, 0.01, 1e3)},
    {OPTION_RANKS, KAS_CLI_INT(search_command, request.search.ranks, 1, KAS_MAX_DEVICES)},
    {OPTION_SYNC_BATCH_NORM, KAS_CLI_FLAG(search_command, request.search.sync_batch_norm)},
    {OPTION_CAPTURE_EXCHANGE, KAS_CLI_FLAG(search_command, request.search.capture_exchange)},
    {OPTION_DRY, KAS_CLI_FLAG(search_command, dry)},
    {OPTION_NO_TRAINING, KAS_CLI_FLAG(search_command, untrained.given)},
    {OPTION_CONFIGURATIONS, KAS_CLI_INT(search_command, untrained.configurations, 1, 1000000)},
    {OPTION_SCORE_ALL, KAS_CLI_FLAG(search_command, untrained.score_all)},
    {OPTION_MEASURE, KAS_CLI_FLAG(search_command, untrained.measure)},
    {OPTION_VALIDATION, KAS_CLI_NUMBER(search_command, request.search.validation, 0.001, 0.9)},
    {OPTION_FLOPS, KAS_CLI_NUMBER(search_command, request.search.flops, 0, KAS_MOST_RATIO)},
    {OPTION_PARAMS, KAS_CLI_NUMBER(search_command, request.search.params, 0, KAS_MOST_RATIO)},
    {OPTION_LATENCY, KAS_CLI_NUMBER(search_command, request.search.latency, 0, KAS_MOST_RATIO)},
    {OPTION_SHRINK, KAS_CLI_NUMBER(search_command, shrink, 0.01, 0.99)},
    {OPTION_OBJECTIVE, KAS_CLI_CHOICE(search_command, objective, kas_objective_names)},
    {OPTION_FINALISTS,
     KAS_CLI_INT(search_command, request.search.finalists, 0, KAS_FINALISTS_MOST)},
    {OPTION_SEEDS, KAS_CLI_INT(search_command, request.search.seeds, 1, KAS_REPEATS_MOST)},
    {OPTION_WINDOW, KAS_CLI_INT(search_command, request.search.prune_window, 0, 100000)},
    {OPTION_STRATEGY, KAS_CLI_CHOICE(search_command, request.search.strategy, kas_strategy_names)},
    {OPTION_POPULATION, KAS_CLI_INT(search_command, request.search.population, 2, 100000)},
    {OPTION_TOURNAMENT, KAS_CLI_INT(search_command, request.search.tournament, 1, 100000)},
    {OPTION_EXPLORATION, KAS_CLI_NUMBER(search_command, request.search.exploration, 0.001, 1000)},
    {OPTION_GENERATION, KAS_CLI_INT(search_command, request.search.generation, 1, 100000)},
    {OPTION_ANCESTORS,
     KAS_CLI_INT(search_command, request.search.ancestors, 0, KAS_ANCESTORS_MOST)},
    {OPTION_FROM, KAS_CLI_TEXT(search_command, request.from)},
    {OPTION_THETA, KAS_CLI_NUMBER(search_command, request.search.theta, 0, 1)},
    {OPTION_SPACE, KAS_CLI_CHOICE(search_command, request.search.sample.space, kas_space_names)},
    {0}};

static void parse_rungs(search_command *c, struct argp_state *state, const char *arg)
{
    const size_t word = strlen("imitate");
    const bool imitates = strncmp(arg, "imitate", word) == 0 && (!arg[word] || arg[word] == ',');
    const kas_field field = {.option = "--rungs",
                             .type = KAS_FIELD_LIST,
                             .low = imitates ? KAS_RUNG_OF_IMITATION : 1,
                             .high = 1e6};
    char text[256];
    snprintf(text, sizeof text, "%s%s", imitates ? "0" : "", imitates ? arg + word : arg);
    c->rungs_given = true;
    c->auto_rungs = strcmp(arg, "auto") == 0;
    if (c->auto_rungs || strcmp(arg, "none") == 0)
        c->request.search.rungs = (kas_int_list){0};
    else if (kas_field_parse(&field, text, &c->request.search.rungs) != KAS_OK)
        argp_error(state, "%s; imitate may be the first; or auto, or none", kas_error());
}

static void parse_legality(search_command *c, struct argp_state *state, const char *arg)
{
    char *legality = c->request.search.legality;
    const size_t room = sizeof c->request.search.legality;
    c->legality_given = true;
    if (strlen(arg) >= room)
        argp_error(state, "--legality: expected at most %zu characters, found \"%s\"", room - 1,
                   arg);
    snprintf(legality, room, "%s", strcmp(arg, "none") == 0 ? "" : arg);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    search_command *c = state->input;
    kas_search_options *o = &c->request.search;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &c->request;
        state->child_inputs[1] = &c->recipe;
        state->child_inputs[2] = &o->sample;
        state->child_inputs[3] = &c->common;
        state->child_inputs[4] = &c->request;
        return 0;
    case 'c':
        c->by_count = true;
        o->candidates = (int)kas_cli_int(state, "--candidates", arg, 1, 1000000);
        return 0;
    case 't':
        c->by_time = true;
        o->candidates = 0;
        o->time_limit = parse_time(state, arg);
        return 0;
    case OPTION_MAX_LOSS:
        c->limits_loss = true;
        o->max_loss = kas_cli_number(state, "--max-loss", arg, 0, 100);
        return 0;
    case OPTION_PRUNE:
        strcpy(o->prune, prunings[kas_cli_choice(state, "--prune", arg, prunings)]);
        return 0;
    case OPTION_KNOWN:
        c->known_given = true;
        o->known = kas_cli_choice(state, "--known", arg, answers);
        return 0;
    case OPTION_LEGALITY:
        parse_legality(c, state, arg);
        return 0;
    case OPTION_RUNGS:
        parse_rungs(c, state, arg);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument \"%s\"", arg);
        return 0;
    case ARGP_KEY_END:
        set_defaults(c);
        return check(c, state);
    default:
        return kas_cli_set(state, option_list, values, key, arg);
    }
}

static const char doc[] =
    "Search kernels that replace a network's convolutions.\n\n"
    "  kas-gpu search --dataset shapes.h5 --net resnet20 --candidates 12 --epochs 3\n"
    "  kas-gpu search --dataset cifar100.h5 --time 12h --flops 0.5 --latency 1.0\n"
    "  kas-gpu search --dataset cifar100.h5 --dry-run\n"
    "  kas-gpu search --dataset cifar100.h5 --max-loss 1 --finalists 2 --seeds 3\n"
    "  kas-gpu search -d cifar100.h5 --space nas-pte --no-training\n"
    "\vThe unmodified network is trained first, as the baseline; then the candidates; at the end "
    "the best ones and the unmodified network are trained on the whole training set and scored "
    "once on the test set. Ctrl-C saves; the same command again goes on. Exit code 6: no candidate "
    "finished within --latency, or, with --objective latency, none is faster and within "
    "--max-loss.";

static kas_status dry_run(const search_command *c)
{
    kas_session session;
    kas_status status = kas_session_begin(&c->request, true, &session);
    if (status == KAS_OK)
        status = kas_dry_run(&session, &c->common);
    kas_session_close(&session);
    return status;
}

/* Before a study is made. */
static kas_status check_recipe(const search_command *c)
{
    kas_dataset *d;
    if (!c->recipe.name && c->recipe.overrides == 0)
        return KAS_OK;
    KAS_TRY(kas_dataset_open_without_images(c->request.dataset, &d));
    const kas_status status = kas_cli_recipe_suits(&c->recipe, &c->request.search.recipe, d);
    kas_dataset_close(d);
    return status;
}

static kas_status run(int argc, char **argv)
{
    const struct argp_child children[] = {
        {&kas_search_work_argp, 0, NULL, 0},  {kas_cli_recipe_argp("search"), 0, NULL, 0},
        {kas_cli_sampler_argp(), 0, NULL, 0}, {&kas_cli_common_argp, 0, NULL, 0},
        {&kas_search_lead_argp, 0, NULL, 0},  {0}};
    const struct argp argp = {option_list, parse, "", doc, children, 0, 0};
    search_command c = {.objective = -1, .request = kas_search_request()};
    c.request.search = kas_search_options_default();
    c.request.search.latency = c.request.search.flops = NAN;
    c.request.search.finalists = c.request.search.strategy = c.request.search.ancestors = -1;
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &c));
    KAS_TRY(kas_cli_recipe_get(&c.recipe, &c.request.search.recipe));
    KAS_TRY(check_recipe(&c));
    if (!c.known_given)
        c.request.search.known = c.request.search.strategy != KAS_STRATEGY_RANDOM;
    if (c.auto_rungs || (!c.rungs_given && c.request.search.strategy != KAS_STRATEGY_RANDOM))
        c.request.search.rungs = kas_search_rungs(&c.request.search);
    if (c.request.search.imitate > c.request.search.recipe.epochs)
        kas_warn("--imitate %d: candidates are trained for more epochs than the unmodified network "
                 "(--epochs %d) with which they are compared",
                 c.request.search.imitate, c.request.search.recipe.epochs);
    c.request.threads = c.common.threads;
    c.request.may_grow = c.by_count;
    if (c.untrained.given)
        return kas_untrained_run(&c.request, &c.untrained, &c.common);
    if (!c.request.init && kas_search_judges_early(&c.request.search))
        kas_warn("--rungs: the first rung is after epoch %d of %d, and the order there says little "
                 "about the order at the end; --rungs imitate costs more and says more "
                 "(docs/search.md, \"Rungs\")",
                 c.request.search.rungs.value[0],
                 kas_search_recipe(&c.request.search, true).epochs);
    if (c.shrink > 0 && !c.dry)
        return kas_search_rounds(&c.request, c.shrink, &c.common);
    return c.dry ? dry_run(&c) : kas_search_once(&c.request, &c.common);
}

const kas_command kas_command_search = {"search", "Search kernels for a network and a data set",
                                        run};
