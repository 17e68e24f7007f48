#include "host/study/options.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "host/core/json/fields.h"
#include "host/net/net.h"
#include "host/score/interval.h"
#include "host/study/study_dir.h"
#include "host/train/prune.h"

const char *const kas_objective_names[] = {"accuracy", "latency", "frontier", NULL};

const char *const kas_tuning_names[] = {"none", "frontier", "all", NULL};

#define AT(member) .offset = offsetof(kas_search_options, member)
#define TEXT(member)                                                                               \
    .type = KAS_FIELD_TEXT, AT(member), .size = sizeof(((kas_search_options *)0)->member)
#define INTEGER(member) .type = KAS_FIELD_INTEGER, AT(member)
#define NUMBER(member) .type = KAS_FIELD_NUMBER, AT(member)

const char *const kas_strategy_names[] = {"random", "evolution", "tree", NULL};

/* All fields except those of the sampler and the recipe, which follow in the text. */
static const kas_field fields[] = {
    {"net", "--net", TEXT(net)},
    {"network", "--net", KAS_FIELD_KEPT, AT(network), .optional = true},
    {"space", "--space", KAS_FIELD_CHOICE, AT(sample.space), .choices = kas_space_names,
     .optional = true},
    {"scaling", "--dataset", TEXT(scaling), .optional = true},
    {"targets", "--targets", TEXT(targets)},
    {"seed", "--seed", KAS_FIELD_SEED, AT(seed)},
    {"candidates", "--candidates", INTEGER(candidates), .high = 1e9},
    {"time_limit", "--time", NUMBER(time_limit), .high = 1e12},
    {"flops", "--flops", NUMBER(flops), .high = KAS_MOST_RATIO},
    {"params", "--params", NUMBER(params), .high = KAS_MOST_RATIO},
    {"latency", "--latency", NUMBER(latency), .high = KAS_MOST_RATIO},
    {"validation", "--validation", NUMBER(validation), .high = 1},
    {"prune", "--prune", TEXT(prune)},
    {"prune_window", "--prune-window", INTEGER(prune_window), .high = 1e6},
    {"init", "--init", TEXT(init), .optional = true},
    {"init_partial", "--init-partial", KAS_FIELD_FLAG, AT(init_partial), .optional = true},
    {"device", "--device", TEXT(device)},
    {"threads", "--threads", INTEGER(threads), .high = 4096},
    {"stream", "--stream", KAS_FIELD_FLAG, AT(stream), .optional = true},
    {"read_threads", "--read-threads", INTEGER(read_threads), .high = 256, .optional = true},
    {"strategy", "--strategy", KAS_FIELD_CHOICE, AT(strategy), .choices = kas_strategy_names,
     .optional = true},
    {"population", "--population", INTEGER(population), .high = 1e6, .optional = true},
    {"tournament", "--tournament", INTEGER(tournament), .high = 1e6, .optional = true},
    {"generation", "--generation", INTEGER(generation), .high = 1e6, .optional = true},
    {"ancestors", "--ancestors", INTEGER(ancestors), .high = KAS_ANCESTORS_MOST, .optional = true},
    {"ancestry", "--ancestors", TEXT(ancestry), .optional = true},
    {"known", "--known", KAS_FIELD_FLAG, AT(known), .optional = true},
    {"from", "--from", TEXT(from), .optional = true},
    {"rungs", "--rungs", KAS_FIELD_LIST, AT(rungs), .low = KAS_RUNG_OF_IMITATION, .high = 1e6,
     .optional = true},
    {"theta", "--theta", NUMBER(theta), .high = 1, .optional = true, .absent = KAS_PRUNE_THETA},
    {"latency_on", "--latency-on", TEXT(latency_on), .optional = true},
    {"machine", "--latency-on", TEXT(machine), .optional = true},
    {"warm_start", "--warm-start", KAS_FIELD_FLAG, AT(warm_start), .optional = true},
    {"imitate", "--imitate", INTEGER(imitate), .high = 1e6, .optional = true},
    {"most_missed", "--most-missed", NUMBER(most_missed), .high = 1e3, .optional = true},
    {"objective", "--objective", KAS_FIELD_CHOICE, AT(objective), .choices = kas_objective_names,
     .optional = true, .absent = KAS_OBJECTIVE_ACCURACY},
    {"max_loss", "--max-loss", NUMBER(max_loss), .high = 100, .optional = true, .absent = 1},
    {"halves", "--halves", KAS_FIELD_FLAG, AT(halves), .optional = true},
    {"finalists", "--finalists", INTEGER(finalists), .low = 0, .high = KAS_FINALISTS_MOST,
     .optional = true, .absent = 1},
    {"seeds", "--seeds", INTEGER(seeds), .low = 1, .high = KAS_REPEATS_MOST, .optional = true,
     .absent = 1},
    {"exploration", "--exploration", NUMBER(exploration), .high = 1e3, .optional = true},
    {"asynchronous", "--asynchronous", KAS_FIELD_FLAG, AT(asynchronous), .optional = true},
    {"keep_slower", "--keep-slower", KAS_FIELD_FLAG, AT(keep_slower), .optional = true},
    {"legality", "--legality", TEXT(legality), .optional = true},
    {"prefilter", "--prefilter", TEXT(prefilter), .optional = true},
    {"tune", "--tune", KAS_FIELD_CHOICE, AT(tune), .choices = kas_tuning_names, .optional = true},
    {"ranks", "--ranks", INTEGER(ranks), .low = 1, .high = KAS_MAX_DEVICES, .optional = true,
     .absent = 1},
    {"sync_batch_norm", "--sync-batch-norm", KAS_FIELD_FLAG, AT(sync_batch_norm), .optional = true},
    {"capture_exchange", "--capture-exchange", KAS_FIELD_FLAG, AT(capture_exchange),
     .optional = true},
};
enum { FIELDS = sizeof fields / sizeof *fields, MOST_KEYS = 160, MAX_BYTES = 1 << 20 };

kas_search_options kas_search_options_default(void)
{
    return (kas_search_options){.net = "resnet18",
                                .network = "",
                                .candidates = 48,
                                .strategy = KAS_STRATEGY_EVOLUTION,
                                .flops = 0.5,
                                .params = 1.0,
                                .latency = 1.0,
                                .sample = kas_sample_defaults(),
                                .validation = 0.1,
                                .prune = "curve",
                                .prune_window = 8,
                                .theta = KAS_PRUNE_THETA,
                                .objective = KAS_OBJECTIVE_FRONTIER,
                                .max_loss = 1,
                                .halves = true,
                                .finalists = 1,
                                .seeds = 1,
                                .ranks = 1};
}

bool kas_search_rung_imitates(const kas_search_options *options, int rung)
{
    return rung == 0 && options->rungs.count && options->rungs.value[0] == KAS_RUNG_OF_IMITATION;
}

bool kas_search_warm(const kas_search_options *options, int rung)
{
    return options->warm_start || options->imitate > 0 || kas_search_rung_imitates(options, rung);
}

kas_recipe kas_search_recipe(const kas_search_options *options, bool candidate)
{
    kas_recipe recipe = options->recipe;
    if (!candidate || !options->imitate)
        return recipe;
    recipe.warmup_epochs *= (double)options->imitate / recipe.epochs;
    recipe.epochs = options->imitate;
    if (recipe.schedule == KAS_STEPS) {
        recipe.schedule = KAS_COSINE;
        recipe.steps = (kas_int_list){0};
    }
    return recipe;
}

bool kas_search_in_generations(const kas_search_options *options)
{
    return options->strategy != KAS_STRATEGY_RANDOM || options->generation > 0 ||
           (options->rungs.count > 0 && !options->asynchronous);
}

/* Sets *size to `chosen` unless it was asked for. */
static void choose(int *size, int chosen, int least)
{
    if (*size == 0)
        *size = chosen > least ? chosen : least;
}

/* With rungs a generation has nine candidates at least: a third of them goes on, and then a third of
 * these. After an imitation all three of the best are worth a training. */
static int least_generation(const kas_search_options *o)
{
    return o->rungs.count > 1 || kas_search_rung_imitates(o, 0) ? 9 : 2;
}

/* A population is at most a quarter of the candidates, so that three quarters are children. */
static kas_status size_evolution(kas_search_options *o)
{
    choose(&o->population, o->candidates > 0 && o->candidates < 400 ? o->candidates / 4 : 100, 8);
    choose(&o->tournament, o->population / 10, 2);
    choose(&o->generation, o->population / 5, least_generation(o));
    if (o->tournament > o->population)
        return kas_fail(KAS_USAGE,
                        "--tournament %d: larger than the population of %d; choose a smaller one, "
                        "or a larger --population",
                        o->tournament, o->population);
    return KAS_OK;
}

/* A generation is as large as evolution's. */
static void size_tree(kas_search_options *o)
{
    choose(&o->generation, o->candidates > 0 && o->candidates < 400 ? o->candidates / 20 : 20,
           least_generation(o));
    if (o->exploration == 0)
        o->exploration = 4 * sqrt(2);
}

/* Without generations nothing can depend on a whole one. */
static kas_status check_asynchronous(const kas_search_options *o)
{
    if (o->rungs.count == 0)
        return kas_fail(KAS_USAGE, "--asynchronous needs --rungs: it says when candidates go on "
                                   "from a rung");
    if (o->strategy != KAS_STRATEGY_RANDOM)
        return kas_fail(KAS_USAGE,
                        "--asynchronous: candidates of --strategy %s follow from the results of "
                        "whole generations, and there are none; use --strategy random",
                        kas_strategy_names[o->strategy]);
    if (o->generation)
        return kas_fail(KAS_USAGE, "--generation: with --asynchronous there are no generations");
    if (strcmp(o->prune, "deterministic") == 0)
        return kas_fail(KAS_USAGE,
                        "--prune deterministic compares with candidates that have ended, "
                        "and with --asynchronous those wait at rungs; use --prune curve "
                        "or none");
    return KAS_OK;
}

kas_status kas_search_generations(kas_search_options *o)
{
    const kas_int_list *rungs = &o->rungs;
    const int last = rungs->count ? rungs->value[rungs->count - 1] : 0;
    const int epochs = kas_search_recipe(o, true).epochs;
    if (o->imitate && kas_search_rung_imitates(o, 0))
        return kas_fail(KAS_USAGE,
                        "--rungs imitate: with --imitate candidates imitate at every rung; "
                        "give one of the two");
    if (last > epochs)
        return kas_fail(KAS_USAGE,
                        "--rungs: the last rung is after %d epochs, and a candidate is trained for "
                        "%d; choose rungs up to %d, or more epochs",
                        last, epochs, epochs);
    if (o->exploration > 0 && o->strategy != KAS_STRATEGY_TREE)
        return kas_fail(KAS_USAGE, "--exploration is an option of --strategy tree");
    if (o->asynchronous)
        KAS_TRY(check_asynchronous(o));
    if (o->strategy == KAS_STRATEGY_EVOLUTION)
        return size_evolution(o);
    if (o->population || o->tournament)
        return kas_fail(KAS_USAGE, "--population and --tournament are options of --strategy "
                                   "evolution");
    if (o->ancestors)
        return kas_fail(KAS_USAGE, "--ancestors is an option of --strategy evolution");
    if (o->strategy == KAS_STRATEGY_TREE && *o->prefilter)
        return kas_fail(KAS_USAGE, "--prefilter: the tree chooses each candidate and learns what "
                                   "became of it; use --strategy random or evolution");
    if (o->strategy == KAS_STRATEGY_TREE) {
        size_tree(o);
        return KAS_OK;
    }
    if (rungs->count && !o->asynchronous)
        choose(&o->generation, 27, 1); /* 9, 3 and 1 of them go on */
    return KAS_OK;
}

kas_int_list kas_search_rungs(const kas_search_options *options)
{
    const int epochs = kas_search_recipe(options, true).epochs;
    kas_int_list list = {0};
    int parts = 1;
    while (epochs / (3 * parts) >= 1 && list.count < 3) {
        parts *= 3;
        list.count++;
    }
    for (int i = 0; i < list.count; i++, parts /= 3)
        list.value[i] = epochs / parts;
    list.value[list.count++] = epochs;
    return list;
}

bool kas_search_judges_early(const kas_search_options *options)
{
    return options->rungs.count && !kas_search_warm(options, 0) &&
           3 * options->rungs.value[0] < kas_search_recipe(options, true).epochs;
}

int kas_search_ancestors(int strategy)
{
    return strategy == KAS_STRATEGY_EVOLUTION ? 1000 : 0;
}

double kas_search_latency(int objective)
{
    return objective == KAS_OBJECTIVE_ACCURACY ? 0 : 1;
}

const char *kas_search_legality(int strategy)
{
    return strategy == KAS_STRATEGY_RANDOM ? "" : "imitation:0.9";
}

void kas_search_options_write(const kas_search_options *options, kas_buf *out)
{
    int count;
    const kas_field *sample = kas_sample_fields(&count);
    kas_buf_puts(out, "{");
    kas_fields_write(fields, FIELDS, options, out);
    kas_buf_puts(out, ",");
    kas_fields_write(sample, count, &options->sample, out);
    kas_buf_puts(out, ",");
    kas_fields_write(kas_recipe_fields, kas_recipe_field_count, &options->recipe, out);
    kas_buf_puts(out, "}");
}

/* Appends " --option=value" when the value is not the default. A flag that has a text for its help
 * takes on or off, as in a recipe; another one stands alone. */
static void write_option(const kas_field *f, const void *options, const void *defaults,
                         kas_buf *out)
{
    kas_buf value = {0}, usual = {0};
    kas_field_print(f, options, &value);
    kas_field_print(f, defaults, &usual);
    if (strcmp(kas_buf_text(&value), kas_buf_text(&usual)) != 0) {
        kas_buf_printf(out, " \\\n    %s", f->option);
        if (f->type != KAS_FIELD_FLAG || f->argument) {
            kas_buf_puts(out, "="); /* an argument that may be left out needs it */
            kas_buf_shell_word(out, kas_buf_text(&value));
        }
    }
    out->failed |= value.failed || usual.failed;
    kas_buf_free(&value);
    kas_buf_free(&usual);
}

/* Appends an option whose file lies in the study; `more` stands behind its path. */
static void write_kept(const char *option, const char *study, const char *file, const char *more,
                       kas_buf *out)
{
    kas_buf path = {0};
    kas_buf_printf(&path, "%s/%s%s", study, file, more);
    kas_buf_printf(out, " \\\n    %s ", option);
    kas_buf_shell_word(out, kas_buf_text(&path));
    out->failed |= path.failed;
    kas_buf_free(&path);
}

void kas_search_options_command(const kas_search_options *options, const char *dataset,
                                const char *study, kas_buf *out)
{
    kas_search_options given = *options, defaults = kas_search_options_default();
    int samples;
    const kas_field *sample = kas_sample_fields(&samples);
    defaults.recipe = kas_recipe_default();
    defaults.network = given.network;
    if (given.strategy != KAS_STRATEGY_RANDOM)
        defaults.rungs = kas_search_rungs(&given);
    defaults.ancestors = kas_search_ancestors(given.strategy);
    strcpy(defaults.legality, kas_search_legality(given.strategy));
    defaults.latency = kas_search_latency(given.objective);
    if (!given.candidates)
        given.candidates = defaults.candidates; /* --time says how many */
    kas_buf_puts(out, "kas-gpu search --study ");
    kas_buf_shell_word(out, study);
    kas_buf_puts(out, " \\\n    --dataset ");
    kas_buf_shell_word(out, dataset);
    if (*given.network) {
        write_kept("--net", study, KAS_STUDY_NETWORK,
                   given.network + kas_net_kept_file(given.network), out);
        memcpy(given.net, defaults.net, sizeof given.net);
    }
    if (given.init[0])
        write_kept("--init", study, KAS_STUDY_INIT, "", out);
    if (given.from[0])
        write_kept("--from", study, KAS_STUDY_FROM, "", out);
    /* The default depends on what else is given. */
    kas_buf_printf(out, " \\\n    --objective=%s", kas_objective_names[given.objective]);
    if (given.known != (given.strategy != KAS_STRATEGY_RANDOM))
        kas_buf_printf(out, " \\\n    --known=%s", given.known ? "yes" : "no");
    if (given.rungs.count == 0 && defaults.rungs.count > 0) {
        kas_buf_puts(out, " \\\n    --rungs=none");
        given.rungs = defaults.rungs;
    }
    if (kas_search_rung_imitates(&given, 0)) {
        kas_buf_puts(out, " \\\n    --rungs=imitate");
        for (int i = 1; i < given.rungs.count; i++)
            kas_buf_printf(out, ",%d", given.rungs.value[i]);
        given.rungs = defaults.rungs;
    }
    if (!*given.legality && *defaults.legality) {
        kas_buf_puts(out, " \\\n    --legality=none");
        strcpy(given.legality, defaults.legality);
    }
    given.init[0] = given.from[0] = given.machine[0] = given.ancestry[0] = given.scaling[0] = 0;
    given.known = defaults.known;
    given.threads = defaults.threads; /* those of each worker, and the option is for all */
    given.objective = defaults.objective;
    given.halves = defaults.halves; /* no option */
    for (int i = 0; i < FIELDS; i++)
        write_option(&fields[i], &given, &defaults, out);
    for (int i = 0; i < samples; i++)
        if (sample[i].help)
            write_option(&sample[i], &given.sample, &defaults.sample, out);
    for (int i = 0; i < kas_recipe_field_count; i++)
        if (!kas_recipe_without_effect(&given.recipe, &kas_recipe_fields[i]))
            write_option(&kas_recipe_fields[i], &given.recipe, &defaults.recipe, out);
}

static kas_status check_keys(const cJSON *root, const char *where)
{
    const char *keys[MOST_KEYS] = {0};
    int count = 0, samples;
    const kas_field *sample = kas_sample_fields(&samples);
    keys[count++] = "sampler"; /* of studies begun when there were two */
    for (int i = 0; i < FIELDS; i++)
        keys[count++] = fields[i].key;
    for (int i = 0; i < samples; i++)
        keys[count++] = sample[i].key;
    for (int i = 0; i < kas_recipe_field_count && count + 1 < MOST_KEYS; i++)
        keys[count++] = kas_recipe_fields[i].key;
    return kas_json_only(root, where, keys);
}

kas_status kas_search_options_read(const char *where, const char *text, kas_search_options *out)
{
    cJSON *root;
    int count;
    const kas_field *sample = kas_sample_fields(&count);
    *out = (kas_search_options){0};
    KAS_TRY(kas_json_parse(where, text, strlen(text), (kas_json_limits){MAX_BYTES, 4}, &root));
    kas_status status = check_keys(root, where);
    if (status == KAS_OK)
        status = kas_fields_read(fields, FIELDS, root, where, out);
    if (status == KAS_OK)
        status = kas_fields_read(sample, count, root, where, &out->sample);
    if (status == KAS_OK)
        status =
            kas_fields_read(kas_recipe_fields, kas_recipe_field_count, root, where, &out->recipe);
    cJSON_Delete(root);
    return status;
}

/* Returns whether a field is not compared: the study decides it, another field covers it, or it
 * affects no result. */
static bool left_to_the_study(const kas_field *f, const kas_search_options *given)
{
    if (strcmp(f->key, "threads") == 0)
        return given->threads == 0;
    if (strcmp(f->key, "network") == 0)
        return true; /* long, and covered by the digest in the name */
    if (strcmp(f->key, "stream") == 0 || strcmp(f->key, "read_threads") == 0)
        return true; /* affect no result */
    if (strcmp(f->key, "population") == 0)
        return given->population == 0;
    if (strcmp(f->key, "tournament") == 0)
        return given->tournament == 0;
    if (strcmp(f->key, "generation") == 0)
        return given->generation == 0;
    if (strcmp(f->key, "exploration") == 0)
        return given->exploration == 0;
    if (strcmp(f->key, "scaling") == 0)
        return true; /* compared with the data itself */
    if (strcmp(f->key, "ancestry") == 0)
        return true; /* follows from the other options */
    if (strcmp(f->key, "machine") == 0)
        return true; /* the model of latency_on when the study began */
    if (strcmp(f->key, "halves") == 0)
        return true; /* no option: it came with a version of kas-gpu */
    return strcmp(f->key, "device") == 0 && !given->device[0];
}

/* Returns what stands behind an option that is kept as the digest of a file; NULL for others. */
static const char *kept_as_digest(const kas_field *f)
{
    return strcmp(f->key, "from") == 0 ? "kernels" : strcmp(f->key, "init") == 0 ? "weights" : NULL;
}

/* Returns words behind an option whose number the workers share: the study has that of each. */
static const char *shared_out(const kas_field *f)
{
    return strcmp(f->key, "threads") == 0 ? ", shared by the workers: threads of each" : "";
}

/* Adds "--option (the study has x, this command y)" when the two differ. Digests tell a reader
 * nothing. */
static void compare(const kas_field *f, const void *stored, const void *given, kas_buf *list)
{
    const char *what = kept_as_digest(f);
    kas_buf a = {0}, b = {0};
    kas_field_write(f, stored, &a);
    kas_field_write(f, given, &b);
    const bool differ = strcmp(kas_buf_text(&a), kas_buf_text(&b)) != 0;
    if (differ && what)
        kas_buf_printf(list, "%s%s (%s %s)", list->size ? ", " : "", f->option,
                       a.size <= 2   ? "the study was begun without such"
                       : b.size <= 2 ? "the study was begun with such"
                                     : "the study was begun with other",
                       what);
    else if (differ)
        kas_buf_printf(list, "%s%s%s (the study has %s, this command %s)", list->size ? ", " : "",
                       f->option, shared_out(f), kas_buf_text(&a), kas_buf_text(&b));
    list->failed |= a.failed || b.failed;
    kas_buf_free(&a);
    kas_buf_free(&b);
}

kas_status kas_search_options_same(const char *study, const kas_search_options *stored,
                                   const kas_search_options *given)
{
    kas_buf list = {0}, word = {0};
    kas_buf_shell_word(&word, study);
    for (int i = 0; i < FIELDS; i++)
        if (!left_to_the_study(&fields[i], given))
            compare(&fields[i], stored, given, &list);
    int samples;
    const kas_field *sample = kas_sample_fields(&samples);
    for (int i = 0; i < samples; i++)
        if (strcmp(sample[i].key, "per_layer") != 0 ||
            given->sample.per_layer != KAS_PER_LAYER_AUTO)
            compare(&sample[i], &stored->sample, &given->sample, &list);
    for (int i = 0; i < kas_recipe_field_count; i++)
        if (!kas_recipe_without_effect(&stored->recipe, &kas_recipe_fields[i]) ||
            !kas_recipe_without_effect(&given->recipe, &kas_recipe_fields[i]))
            compare(&kas_recipe_fields[i], &stored->recipe, &given->recipe, &list);
    kas_status status = KAS_OK;
    if (list.failed || word.failed)
        status = kas_fail(KAS_NO_MEMORY, "%s: out of memory", study);
    else if (list.size)
        status = kas_fail(KAS_USAGE,
                          "%s: the study was begun with other options: %s; use the same options, "
                          "`kas-gpu resume %s`, or another --study",
                          study, kas_buf_text(&list), kas_buf_text(&word));
    kas_buf_free(&list);
    kas_buf_free(&word);
    return status;
}
