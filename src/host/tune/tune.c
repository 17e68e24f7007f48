#include "host/tune/tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/random.h"
#include "host/device/dtype.h"
#include "host/predict/predict.h"
#include "host/predict/seconds.h"
#include "host/train/stats.h"
#include "jit/compile/compile.h"
#include "jit/schedule/schedule_file.h"

enum {
    FIRST_ROUNDS = 5,
    SECOND_ROUNDS = 15,
    VERSIONS = 1 + KAS_TUNE_BEST, /* the default, and what the model likes best */
    MOST_REPEATS = 64             /* of a launch in one timing */
};

/* A timing is at least so long; and a version must gain so much to be timed a second time. */
static const double long_enough = 2e-4, worth = 0.97;

typedef struct schedule_text {
    char *text; /* with its line "kernel NAME"; owned; NULL: there is none */
    double predicted;
} schedule_text;

typedef struct tuner {
    kas_device *device;
    const kas_machine *machine;
    const kas_kernel *kernel;
    const kas_target *target;
    const kas_binding *binding;
    const kas_tune_options *options;
    kas_tuned *out;
    schedule_text (*best)[VERSIONS]; /* [launches]; the first is the default */
    kas_program *version[VERSIONS];
    kas_module *module;
    kas_timer *timer;
    void **memory; /* by buffer */
} tuner;

/* ---- programs -------------------------------------------------------------------------------- */

static kas_status build(const tuner *t, const char *prefix, uint64_t seed,
                        const kas_schedule_file *file, kas_program **out)
{
    const kas_program_options options = {
        .batch = t->options->batch,
        .training = t->options->training,
        .dtype = t->options->dtype,
        .linear_policy = kas_linear_policy_of(kas_device_get_info(t->device)->arch),
        .unwritten = file == NULL,
        .prefix = prefix,
        .schedule_file = file,
        .schedule_seed = seed,
        .list_schedules = file == NULL};
    return kas_program_build(t->kernel, t->target, t->binding, &options, out);
}

static const kas_operation *launch_of(const kas_program *p, int i)
{
    return i < p->forwards ? &p->forward[i] : &p->backward[i - p->forwards];
}

static bool is_launch(const kas_program *p, int i)
{
    return launch_of(p, i)->kind == KAS_OPERATION_LAUNCH;
}

static const char *name_of(const kas_program *p, int i)
{
    return launch_of(p, i)->function + strlen(p->prefix) + 1;
}

/* Returns a copy of what a program's schedules say of a kernel. */
static char *section_of(const kas_program *p, const char *name)
{
    char head[32];
    snprintf(head, sizeof head, "kernel %s\n", name);
    const char *from = strstr(p->schedules, head);
    const char *to = from ? strstr(from + 1, "kernel ") : NULL;
    return from ? strndup(from, to ? (size_t)(to - from) : strlen(from)) : NULL;
}

/* ---- ranking --------------------------------------------------------------------------------- */

static double predicted_seconds(const tuner *t, const kas_operation *op)
{
    const kas_sweep pass = {
        .what = "kernel", .layer = -1, .operation = -1, .bytes = op->bytes, .kernel = op};
    return kas_predict_pass(t->machine, &pass).seconds;
}

/* Puts a schedule among the best of a launch, unless it is there. Takes over the text. */
static void rank(schedule_text *best, char *text, double predicted)
{
    schedule_text one = {text, predicted};
    for (int k = 0; k < VERSIONS; k++)
        if (best[k].text && strcmp(best[k].text, text) == 0) {
            free(text);
            return;
        }
    for (int k = 1; k < VERSIONS; k++)
        if (!best[k].text || one.predicted < best[k].predicted) {
            const schedule_text worse = best[k];
            best[k] = one;
            one = worse;
            if (!one.text)
                return;
        }
    free(one.text);
}

static kas_status rank_trials(tuner *t)
{
    for (int trial = 0; trial <= t->options->trials; trial++) {
        kas_program *p;
        KAS_TRY(build(t, "t", trial ? t->options->seed + (uint64_t)trial : 0, NULL, &p));
        for (int i = 0; i < t->out->launches; i++) {
            char *text = is_launch(p, i) ? section_of(p, name_of(p, i)) : NULL;
            if (trial == 0)
                t->best[i][0].text = text;
            else if (text)
                rank(t->best[i], text, predicted_seconds(t, launch_of(p, i)));
        }
        kas_program_free(p);
    }
    return KAS_OK;
}

/* ---- versions -------------------------------------------------------------------------------- */

static void put_head(const tuner *t, kas_buf *out)
{
    const bool cpu = kas_device_get_info(t->device)->kind == KAS_DEVICE_CPU;
    kas_buf_printf(out, "layer %s\ndevice %s\nbatch %d\n\n", t->options->layer,
                   cpu ? "cpu" : "cuda", t->options->batch);
}

/* Builds the program in which each launch has its schedule number v. */
static kas_status build_version(tuner *t, int v)
{
    kas_buf text = {0};
    char prefix[16];
    kas_schedule_file *file = calloc(1, sizeof *file);
    if (!file)
        return kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was tuned");
    snprintf(prefix, sizeof prefix, "t%d", v);
    put_head(t, &text);
    for (int i = 0; i < t->out->launches && v > 0; i++)
        if (t->best[i][v].text)
            kas_buf_puts(&text, t->best[i][v].text);
    kas_status status = kas_buf_status(&text);
    if (status == KAS_OK)
        status = kas_schedule_file_parse("schedules drawn", kas_buf_text(&text), file);
    if (status == KAS_OK)
        status = build(t, prefix, 0, file, &t->version[v]);
    kas_schedule_file_free(file);
    free(file);
    kas_buf_free(&text);
    return status;
}

static kas_status compile_versions(tuner *t, const char *cache_dir)
{
    kas_buf text = {0};
    char path[4096];
    kas_compiler *compiler = NULL;
    kas_status status = KAS_OK;
    for (int v = 0; v < VERSIONS; v++) {
        KAS_TRY_GOTO(build_version(t, v), done);
        kas_buf_puts(&text, t->version[v]->source);
    }
    KAS_TRY_GOTO(kas_buf_status(&text), done);
    KAS_TRY_GOTO(kas_compiler_open(kas_device_get_info(t->device)->arch, cache_dir, &compiler),
                 done);
    KAS_TRY_GOTO(kas_compile(compiler, kas_buf_text(&text), path, NULL), done);
    status = kas_module_load(t->device, path, &t->module);
done:
    kas_compiler_close(compiler);
    kas_buf_free(&text);
    return status;
}

/* Fills all memory with normal numbers. All versions have the same buffers. */
static kas_status make_memory(tuner *t)
{
    const kas_program *p = t->version[0];
    kas_rng rng = kas_rng_make(t->options->seed, KAS_PURPOSE_TEST, 0);
    t->memory = calloc((size_t)p->buffers, sizeof *t->memory);
    if (!t->memory)
        return kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was tuned");
    for (int i = 0; i < p->buffers; i++) {
        const size_t elements = p->buffer[i].bytes / kas_dtype_size(p->buffer[i].dtype);
        void *host = malloc(p->buffer[i].bytes);
        if (!host)
            return kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was tuned");
        for (size_t k = 0; k < elements; k++)
            kas_dtype_put(host, p->buffer[i].dtype, k, 0.1f * (float)kas_rng_normal(&rng));
        kas_status status = kas_mem_alloc(t->device, p->buffer[i].bytes, &t->memory[i]);
        if (status == KAS_OK)
            status = kas_mem_upload(t->device, t->memory[i], host, p->buffer[i].bytes);
        free(host);
        KAS_TRY(status);
    }
    return KAS_OK;
}

/* ---- timing ---------------------------------------------------------------------------------- */

/* Makes a plan that runs a launch of a version so often that it takes long enough. */
static kas_status make_plan(const tuner *t, int v, int i, int repeats, kas_plan **plan)
{
    const kas_operation *op = launch_of(t->version[v], i);
    void *args[KAS_MAX_LAUNCH_ARGS];
    kas_function *function;
    for (int k = 0; k < op->args; k++)
        args[k] = t->memory[op->arg[k]];
    KAS_TRY(kas_module_function(t->module, op->function, &function));
    KAS_TRY(kas_plan_create(t->device, plan));
    for (int k = 0; k < repeats; k++)
        KAS_TRY(kas_plan_launch(*plan, function, op->grid, op->block, args,
                                sizeof *args * (size_t)op->args));
    return KAS_OK;
}

/* Times a version beside the default, in turns; each is first in every other round. */
static kas_status time_beside(const tuner *t, kas_plan *const plan[2], int rounds,
                              kas_samples *first, kas_samples *ratio)
{
    for (int round = -1; round < rounds; round++) {
        double seconds[2];
        for (int k = 0; k < 2; k++) {
            const int way = (k + round + 1) % 2;
            KAS_TRY(kas_plan_seconds(t->device, t->timer, plan[way], &seconds[way]));
        }
        if (round < 0) /* it warms caches */
            continue;
        KAS_TRY(kas_samples_add(first, seconds[0]));
        KAS_TRY(kas_samples_add(ratio, seconds[1] / seconds[0]));
    }
    return KAS_OK;
}

/* Times version v of a launch; the results are those of kas_tuned_launch. */
static kas_status time_version(const tuner *t, int v, int i, int rounds, kas_tuned_launch *result)
{
    const double expected = predicted_seconds(t, launch_of(t->version[0], i));
    const int repeats = (int)fmin(MOST_REPEATS, 1 + long_enough / expected);
    kas_plan *plan[2] = {NULL, NULL};
    kas_samples first = {0}, ratio = {0};
    kas_status status = make_plan(t, 0, i, repeats, &plan[0]);
    if (status == KAS_OK)
        status = make_plan(t, v, i, repeats, &plan[1]);
    if (status == KAS_OK)
        status = time_beside(t, plan, rounds, &first, &ratio);
    result->seconds = kas_samples_quantile(&first, 0.5) / repeats;
    result->ratio_low = kas_samples_quantile(&ratio, 0.1);
    result->ratio = kas_samples_quantile(&ratio, 0.5);
    result->ratio_high = kas_samples_quantile(&ratio, 0.9);
    kas_samples_free(&first);
    kas_samples_free(&ratio);
    kas_plan_free(plan[0]);
    kas_plan_free(plan[1]);
    return status;
}

/* Finds the fastest version of a launch, and times it again. */
static kas_status tune_launch(tuner *t, int i, kas_buf *file)
{
    kas_tuned_launch *launch = &t->out->launch[i];
    int winner = 0;
    double least = worth;
    snprintf(launch->name, sizeof launch->name, "%s", name_of(t->version[0], i));
    for (int v = 1; v < VERSIONS; v++) {
        if (!t->best[i][v].text)
            continue;
        KAS_TRY(time_version(t, v, i, FIRST_ROUNDS, launch));
        launch->tried++;
        if (launch->ratio >= least)
            continue;
        least = launch->ratio;
        winner = v;
    }
    launch->ratio = launch->ratio_low = launch->ratio_high = 1;
    if (winner == 0)
        return KAS_OK;
    KAS_TRY(time_version(t, winner, i, SECOND_ROUNDS, launch));
    launch->kept = launch->ratio_high < 1;
    if (launch->kept)
        kas_buf_puts(file, t->best[i][winner].text);
    return KAS_OK;
}

static kas_status tune_launches(tuner *t)
{
    kas_buf file = {0};
    kas_status status = KAS_OK;
    put_head(t, &file);
    for (int i = 0; i < t->out->launches && status == KAS_OK; i++)
        if (is_launch(t->version[0], i))
            status = tune_launch(t, i, &file);
    if (status == KAS_OK)
        status = kas_buf_status(&file);
    if (status == KAS_OK && !(t->out->file = strdup(kas_buf_text(&file))))
        status = kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was tuned");
    kas_buf_free(&file);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static kas_status count_launches(tuner *t)
{
    kas_program *p;
    KAS_TRY(build(t, "t", 0, NULL, &p));
    t->out->launches = p->forwards + p->backwards;
    kas_program_free(p);
    t->out->launch = calloc((size_t)t->out->launches + 1, sizeof *t->out->launch);
    t->best = calloc((size_t)t->out->launches + 1, sizeof *t->best);
    return t->out->launch && t->best
               ? KAS_OK
               : kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was tuned");
}

static void free_tuner(tuner *t)
{
    for (int i = 0; t->memory && i < t->version[0]->buffers; i++)
        kas_mem_free(t->device, t->memory[i]);
    for (int i = 0; t->best && i < t->out->launches; i++)
        for (int v = 0; v < VERSIONS; v++)
            free(t->best[i][v].text);
    kas_timer_free(t->timer);
    kas_module_free(t->module);
    for (int v = 0; v < VERSIONS; v++)
        kas_program_free(t->version[v]);
    free(t->memory);
    free(t->best);
}

kas_status kas_tune(kas_device *device, const kas_machine *machine, const char *cache_dir,
                    const kas_kernel *kernel, const kas_target *target, const kas_binding *binding,
                    const kas_tune_options *options, kas_tuned *out)
{
    tuner t = {.device = device,
               .machine = machine,
               .kernel = kernel,
               .target = target,
               .binding = binding,
               .options = options,
               .out = out};
    kas_status status;
    *out = (kas_tuned){0};
    KAS_TRY_GOTO(count_launches(&t), done);
    KAS_TRY_GOTO(rank_trials(&t), done);
    KAS_TRY_GOTO(compile_versions(&t, cache_dir), done);
    KAS_TRY_GOTO(make_memory(&t), done);
    KAS_TRY_GOTO(kas_timer_create(device, &t.timer), done);
    status = tune_launches(&t);
done:
    free_tuner(&t);
    if (status != KAS_OK)
        kas_tuned_free(out);
    return status;
}

void kas_tuned_free(kas_tuned *tuned)
{
    free(tuned->launch);
    free(tuned->file);
    *tuned = (kas_tuned){0};
}
