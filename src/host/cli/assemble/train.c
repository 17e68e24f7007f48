/* What `kas-gpu assemble` trains: the unmodified network, kernels that imitate it, and the
 * result. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/assemble/fbnet.h"
#include "host/cli/assemble/assemble.h"
#include "host/cli/interrupt.h"
#include "host/cli/progress.h"
#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/train/imitate.h"

enum { MOST_WORDS = 512, USUAL_IMAGES = 6400 };

/* ---- `kas-gpu train` ------------------------------------------------------------------------- */

typedef struct command {
    char *word[MOST_WORDS];
    int words;
    bool failed;
} command;

static void add(command *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(command *c, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (c->words >= MOST_WORDS - 1 || vasprintf(&c->word[c->words], format, list) < 0)
        c->failed = true;
    else
        c->words++;
    va_end(list);
}

static void add_options(const kas_assemble *a, command *c)
{
    const kas_cli_recipe *r = &a->recipe_options;
    add(c, "kas-gpu train");
    add(c, "--net=%s", a->net.name);
    add(c, "--dataset=%s", a->dataset_path);
    add(c, "--seed=%" PRIu64, a->seed);
    add(c, "--validation=%.17g", a->validation);
    add(c, "--device=%s", a->device_name);
    if (a->common.threads)
        add(c, "--threads=%d", a->common.threads);
    if (a->common.json)
        add(c, "--json");
    if (a->common.quiet)
        add(c, "--quiet");
    if (r->name)
        add(c, "--recipe=%s", r->name);
    for (int i = 0; i < r->overrides; i++)
        add(c, "%s=%s", r->override[i].field->option, r->override[i].text);
}

/* Trains by the command, which checks, prints, saves and goes on as it always does. */
static kas_status train(const kas_assemble *a, const char *kernel, const char *init,
                        const char *checkpoint, const char *weights)
{
    command c = {0};
    add_options(a, &c);
    add(&c, "--checkpoint=%s", checkpoint);
    add(&c, "--weights=%s", weights);
    if (init)
        add(&c, "--init=%s", init);
    if (kernel) {
        add(&c, "--kernel=%s", kernel);
        if (a->net.filter)
            add(&c, "--targets=%s", a->net.filter);
    }
    const kas_status status = c.failed ? kas_fail(KAS_NO_MEMORY, "no memory for a command")
                                       : kas_command_train.run(c.words, c.word);
    for (int i = 0; i < c.words; i++)
        free(c.word[i]);
    return status;
}

static kas_status path_in(char path[PATH_MAX], const char *folder, const char *file)
{
    if (snprintf(path, PATH_MAX, "%s/%s", folder, file) >= PATH_MAX)
        return kas_fail(KAS_BAD_INPUT, "%.100s...: path too long", folder);
    return KAS_OK;
}

/* ---- the trained network --------------------------------------------------------------------- */

/* Describes what a supernet learns from: the kernels, and the latencies, which are in its loss. */
static kas_status describe_supernet(const kas_assemble *a, kas_buf *out)
{
    kas_buf_printf(out, "%.9g", a->unmodified);
    for (int i = 0; i < a->choices.targets * kas_choices_options(&a->choices); i++)
        kas_buf_printf(out, " %.9g", a->option[i].cost);
    for (int k = 0; k < a->choices.kernels; k++)
        KAS_TRY(kas_assemble_describe(&a->choices.everywhere[k], out));
    return KAS_OK;
}

/* Names a file of a training: the recipe is part of the name, so that another one does not find
 * it. */
static kas_status file_of(const kas_assemble *a, const char *folder, const char *kind,
                          char path[PATH_MAX])
{
    char key[KAS_MEASURED_KEY], name[64];
    kas_buf text = {0};
    kas_status status = KAS_OK;
    kas_buf_printf(&text, "%d %s ", a->images, a->setting);
    if (strcmp(kind, "supernet") == 0)
        status = describe_supernet(a, &text);
    kas_fields_write(kas_recipe_fields, kas_recipe_field_count, &a->recipe, &text);
    kas_measured_key(kas_buf_text(&text), key);
    if (status == KAS_OK)
        status = kas_buf_status(&text);
    kas_buf_free(&text);
    KAS_TRY(status);
    snprintf(name, sizeof name, "%s-%.16s%s", kind, key,
             strcmp(kind, "trained") == 0 || strcmp(kind, "start") == 0 ? ".safetensors" : "");
    return path_in(path, folder, name);
}

kas_status kas_assemble_baseline(kas_assemble *a)
{
    char checkpoint[PATH_MAX];
    if (a->init) {
        snprintf(a->trained, sizeof a->trained, "%s", a->init);
        return KAS_OK;
    }
    KAS_TRY(file_of(a, a->dir, "trained", a->trained));
    KAS_TRY(file_of(a, a->dir, "checkpoint", checkpoint));
    if (kas_file_exists(a->trained))
        return KAS_OK;
    kas_info("the unmodified network is trained first, because --init was not given: %s",
             a->trained);
    return train(a, NULL, NULL, checkpoint, a->trained);
}

/* ---- imitation ------------------------------------------------------------------------------- */

typedef struct progress {
    kas_assemble *a;
    const char *what, *unit; /* whose steps these are; of the number that is shown */
    double scale;
} progress;

static kas_verdict on_progress(void *context, uint64_t step, uint64_t steps, double value)
{
    const progress *p = context;
    kas_progress_show(p->a->common.quiet, 0.2, &p->a->reported,
                      "%s: step %" PRIu64 " of %" PRIu64 ", %.4g%s", p->what, step, steps,
                      p->scale * value, p->unit);
    return kas_interrupted() ? KAS_STOP : KAS_CONTINUE;
}

static kas_status run_imitation(kas_assemble *a, kas_imitate_options *options, double *missed)
{
    kas_imitate_result result;
    const int targets = a->choices.targets;
    kas_interrupt_watch();
    kas_status status = kas_imitate(a->device, options, &result);
    kas_progress_wipe(a->common.quiet);
    for (int t = 0; t < targets && status == KAS_OK && missed; t++) {
        missed[t] = NAN;
        for (int i = 0; i < result.targets; i++)
            if (result.target[i]->layer == a->choices.target[t].layer)
                missed[t] = result.missed[i];
    }
    kas_imitate_result_free(&result);
    return status == KAS_INTERRUPTED ? kas_interrupt_status() : status;
}

/* The options of an imitation; the caller frees *index. */
static kas_status imitation_options(const kas_assemble *a, kas_imitate_options *out,
                                    uint32_t **index)
{
    kas_train_options *t = &out->train;
    *out = (kas_imitate_options){.train = {.net = a->data.net,
                                           .dataset = a->data.dataset,
                                           .seed = a->seed,
                                           .on_progress = on_progress,
                                           .weights_in = a->trained},
                                 .images = (uint32_t)a->images};
    KAS_TRY(kas_recipe_load("imitation", &t->recipe, NULL));
    if (a->recipe.batch < t->recipe.batch)
        t->recipe.batch = a->recipe.batch;
    KAS_TRY(kas_dataset_split(t->dataset, a->seed, a->validation, index, &t->train_count,
                              &t->validation_count));
    if (!a->images)
        out->images = t->train_count < USUAL_IMAGES ? 0 : USUAL_IMAGES;
    t->train_index = *index;
    t->validation_index = *index + t->train_count;
    return KAS_OK;
}

bool kas_assemble_imitates(const kas_assemble *a)
{
    const bool losses = a->strategy == KAS_ASSEMBLE_KNAPSACK && a->loss == KAS_ASSEMBLE_IMITATION;
    return losses || (a->init && !a->dry_run);
}

kas_status kas_assemble_check_images(const kas_assemble *a)
{
    kas_imitate_options options;
    uint32_t *index = NULL;
    if (!kas_assemble_imitates(a))
        return KAS_OK;
    kas_status status = imitation_options(a, &options, &index);
    if (status == KAS_OK)
        status = kas_imitate_check(&options);
    free(index);
    return status;
}

kas_status kas_assemble_imitate(kas_assemble *a, kas_replacement *replacement, const char *what,
                                const char *weights, double *missed)
{
    progress shown = {a, what, "% missed", 100};
    kas_programs programs = {0};
    kas_imitate_options options;
    uint32_t *index = NULL;
    kas_status status = KAS_OK;
    const bool had_gains = replacement->gain != NULL;
    KAS_TRY_GOTO(imitation_options(a, &options, &index), out);
    KAS_TRY_GOTO(kas_cli_set_gains(a->device, &options.train, replacement), out);
    options.train.programs = &programs;
    options.train.context = &shown;
    options.train.weights_out = weights;
    const kas_model_options model = {.batch = options.train.recipe.batch, .training = true};
    KAS_TRY_GOTO(kas_model_build_programs(&model, replacement, kas_device_get_info(a->device)->arch,
                                          &programs),
                 out);
    status = run_imitation(a, &options, missed);
out:
    kas_programs_free(&programs);
    if (!had_gains) /* they belong to these weights */
        (void)kas_replacement_set_gains(replacement, NULL);
    free(index);
    return status;
}

/* ---- FBNet ----------------------------------------------------------------------------------- */

/* The loss of an option is the negative logarithm of its probability, so the least sum is that of
 * the most probable network. */
static void take_probabilities(kas_assemble *a, const double *theta)
{
    const int options = kas_choices_options(&a->choices);
    double weight[KAS_CHOICES_KERNELS + 1];
    for (int t = 0; t < a->choices.targets; t++) {
        kas_fbnet_softmax(&theta[t * options], NULL, options, 1, weight);
        for (int o = 0; o < options; o++)
            a->option[t * options + o].loss = -log(weight[o]);
    }
}

kas_status kas_assemble_fbnet(kas_assemble *a)
{
    progress shown = {a, "supernet", " loss", 1};
    char checkpoint[PATH_MAX];
    uint32_t *index = NULL;
    kas_fbnet_options options = {.choices = &a->choices,
                                 .option = a->option,
                                 .unmodified = a->unmodified,
                                 .train = {.net = a->data.net,
                                           .dataset = a->data.dataset,
                                           .recipe = a->recipe,
                                           .seed = a->seed,
                                           .on_progress = on_progress,
                                           .context = &shown,
                                           .weights_in = a->init,
                                           .checkpoint = checkpoint}};
    kas_train_options *t = &options.train;
    const size_t count = (size_t)a->choices.targets * (size_t)kas_choices_options(&a->choices);
    KAS_TRY(file_of(a, a->dir, "supernet", checkpoint));
    double *theta = calloc(count, sizeof *theta);
    if (!theta)
        return kas_fail(KAS_NO_MEMORY, "no memory for %zu options", count);
    kas_status status = kas_dataset_split(t->dataset, a->seed, a->validation, &index,
                                          &t->train_count, &t->validation_count);
    t->train_index = index;
    if (status == KAS_OK)
        status = kas_fbnet(a->device, &options, theta);
    kas_progress_wipe(a->common.quiet);
    if (status == KAS_OK)
        take_probabilities(a, theta);
    free(theta);
    free(index);
    return status == KAS_INTERRUPTED ? kas_interrupt_status() : status;
}

/* ---- the result ------------------------------------------------------------------------------ */

kas_status kas_assemble_write(kas_assemble *a, const kas_replacement *replacement,
                              char folder[PATH_MAX])
{
    kas_assignment layers;
    char name[KAS_NAME_SIZE], path[PATH_MAX];
    kas_buf text = {0};
    KAS_TRY(kas_assignment_make(replacement, &layers));
    kas_status status = kas_assignment_name(&layers, name);
    if (status == KAS_OK)
        status = kas_assignment_write_json(&layers, &text);
    kas_assignment_free(&layers);
    if (status == KAS_OK)
        status = path_in(folder, a->dir, name);
    if (status == KAS_OK)
        status = kas_mkdirs(folder);
    if (status == KAS_OK)
        status = path_in(path, folder, "layers.json");
    if (status == KAS_OK)
        status = kas_file_write_atomic(path, text.data, text.size);
    kas_buf_free(&text);
    return status;
}

kas_status kas_assemble_finish(kas_assemble *a, kas_replacement *replacement, const char *folder)
{
    char layers[PATH_MAX], start[PATH_MAX], checkpoint[PATH_MAX], weights[PATH_MAX];
    KAS_TRY(path_in(layers, folder, "layers.json"));
    KAS_TRY(file_of(a, folder, "start", start));
    KAS_TRY(file_of(a, folder, "checkpoint", checkpoint));
    KAS_TRY(path_in(weights, folder, "weights.safetensors"));
    if (a->trained[0] && !kas_file_exists(start))
        KAS_TRY(kas_assemble_imitate(a, replacement, "the assembled network", start, NULL));
    return train(a, layers, a->trained[0] ? start : NULL, checkpoint, weights);
}
