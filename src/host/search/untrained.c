#include "host/search/untrained.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/clock.h"
#include "host/core/log.h"
#include "host/core/random.h"
#include "host/core/thread.h"
#include "host/predict/turns.h"
#include "host/search/worker/programs.h"
#include "host/space/name_set.h"
#include "host/space/sample/sampler.h"

const char *const kas_configuration_states[] = {"unscored", "slow", "broken", "rejected", "legal"};

enum {
    MOST_IN_VAIN = 100, /* draws for each configuration that is wanted */
    TURNS = 10,         /* of a measurement */
    REPORT_SECONDS = 60
};
static const double most_turn_seconds = 2;

static kas_stage_seconds now(void)
{
    return (kas_stage_seconds){kas_monotonic(), kas_processor_seconds()};
}

static kas_stage_seconds since(kas_stage_seconds begin)
{
    const kas_stage_seconds end = now();
    return (kas_stage_seconds){end.wall - begin.wall, end.processor - begin.processor};
}

/* ---- draw ------------------------------------------------------------------------------------ */

/* Chooses which layers of a sample have their kernel: from one to all of them, each number alike,
 * and then each choice alike. Returns how many. */
static int choose_layers(const kas_sample *sample, uint64_t seed, int *kernel_of)
{
    const kas_replacement *r = &sample->replacement;
    const int targets = r->solution.targets;
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_BLOCK, sample->attempt);
    uint32_t layer[KAS_TARGETS_MAX], layers = 0;
    for (int t = 0; t < targets; t++) {
        kernel_of[t] = KAS_KEPT;
        if (kas_replacement_kernel(r, t))
            layer[layers++] = (uint32_t)t;
    }
    const uint32_t changed = layers ? 1 + kas_rng_below(&rng, layers) : 0;
    kas_rng_shuffle(&rng, layer, layers);
    for (uint32_t i = 0; i < changed; i++)
        kernel_of[layer[i]] = r->kernel_of ? r->kernel_of[layer[i]] : 0;
    return (int)changed;
}

static kas_status write_text(const kas_assignment *kernels, char **out)
{
    kas_buf text = {0};
    kas_status status = kas_assignment_write_json(kernels, &text);
    if (status == KAS_OK)
        status = kas_buf_status(&text);
    if (status == KAS_OK)
        *out = text.data; /* malloc'ed; the caller owns it now */
    else
        kas_buf_free(&text);
    return status;
}

/* Makes a configuration of a sample. KAS_OVER_BUDGET where it costs too much. */
static kas_status configure(const kas_untrained_options *o, const kas_sample *sample,
                            kas_configuration *out)
{
    const kas_problem *p = o->problem;
    const kas_budget budget = kas_search_budget(o->search);
    int kernel_of[KAS_TARGETS_MAX];
    *out = (kas_configuration){
        .predicted = NAN, .potential = NAN, .ratio = NAN, .ratio_low = NAN, .ratio_high = NAN};
    out->changed = choose_layers(sample, o->search->seed, kernel_of);
    if (out->changed == 0)
        return kas_fail(KAS_ILLEGAL, "a configuration changes no layer");
    kas_replacement r = sample->replacement;
    kas_assignment kernels;
    r.kernel_of = kernel_of;
    KAS_TRY(kas_assignment_make(&r, &kernels));
    kas_status status = kas_assignment_name(&kernels, out->name);
    if (status == KAS_OK)
        status = kas_assignment_fit(&kernels, p->target, p->targets, &budget, &r);
    if (status == KAS_OK) {
        out->flops = r.solution.flops / r.solution.conv_flops;
        out->params = r.solution.params / r.solution.conv_params;
        kas_replacement_free(&r);
        status = write_text(&kernels, &out->text);
    }
    kas_assignment_free(&kernels);
    return status;
}

static kas_status add_sample(const kas_untrained_options *o, const kas_sample *sample,
                             kas_name_set *names, kas_untrained *u)
{
    kas_configuration *to = &u->configuration[u->count];
    bool is_new;
    const bool quiet = kas_quiet(true);
    const kas_status status = configure(o, sample, to);
    kas_quiet(quiet);
    if (kas_is_misfit(status)) {
        u->over_budget += status == KAS_OVER_BUDGET;
        return KAS_OK;
    }
    KAS_TRY(status);
    u->count++; /* owns its text from here on */
    KAS_TRY(kas_name_set_add(names, to->name, &is_new));
    if (is_new)
        return KAS_OK;
    free(to->text);
    u->count--;
    u->twice++;
    return KAS_OK;
}

static kas_status draw_from(const kas_untrained_options *o, kas_sampler *sampler, kas_untrained *u)
{
    kas_name_set names = {0};
    kas_status status = KAS_OK;
    for (int64_t draws = 0; u->count < o->configurations && status == KAS_OK; draws++) {
        kas_sample sample;
        if (draws >= (int64_t)MOST_IN_VAIN * o->configurations) {
            status = kas_fail(KAS_NOTHING_VALID,
                              "%d of %lld draws gave one of the %d configurations wanted, and %d "
                              "were over the budget; allow a larger --flops or --params",
                              u->count, (long long)draws, o->configurations, u->over_budget);
            break;
        }
        status = kas_sampler_next(sampler, 0, &sample);
        if (status != KAS_OK)
            break;
        status = add_sample(o, &sample, &names, u);
        kas_sample_free(&sample);
    }
    kas_name_set_free(&names);
    return status;
}

/* The budget is one of configurations, not of samples, of which they have a part. */
static kas_status draw(const kas_untrained_options *o, kas_untrained *u)
{
    kas_sample_options sample = o->search->sample;
    kas_sampler *sampler;
    sample.seed = o->search->seed;
    sample.budget = (kas_budget){0};
    KAS_TRY(kas_sample_options_check(&sample));
    KAS_TRY(kas_sampler_create(&sample, o->problem->target, o->problem->targets, &sampler));
    const kas_status status = draw_from(o, sampler, u);
    kas_sampler_free(sampler);
    return status;
}

/* ---- predict and score ----------------------------------------------------------------------- */

typedef struct session {
    const kas_untrained_options *o;
    kas_untrained *u;
    kas_predictor *predictor;
    kas_legality *legality;
    pthread_mutex_t lock; /* of the states while they are scored */
    int scored;
    double reported; /* when progress was last shown */
} session;

static kas_status place(const session *s, const kas_configuration *c, kas_replacement *out)
{
    return kas_problem_place(s->o->search, c->name, c->text, NULL, s->o->problem->target,
                             s->o->problem->targets, out);
}

static kas_status predict_one(void *context, int thread, int item)
{
    session *s = context;
    kas_configuration *c = &s->u->configuration[item];
    kas_replacement r;
    double seconds = NAN;
    (void)thread;
    KAS_TRY(place(s, c, &r));
    const bool quiet = kas_quiet(true);
    const kas_status status = kas_predict_candidate(s->predictor, &r, &seconds);
    kas_quiet(quiet);
    kas_replacement_free(&r);
    c->predicted = status == KAS_OK ? seconds : NAN;
    return kas_is_misfit(status) ? KAS_OK : status;
}

static int faster(const void *a, const void *b)
{
    const kas_configuration *x = a, *y = b;
    if (isnan(x->predicted) || isnan(y->predicted))
        return isnan(x->predicted) - isnan(y->predicted);
    if (x->predicted != y->predicted)
        return x->predicted < y->predicted ? -1 : 1;
    return strcmp(x->name, y->name);
}

static kas_status predict(session *s)
{
    kas_untrained *u = s->u;
    const double limit = s->o->search->latency;
    u->predicted = kas_predictor_unmodified(s->predictor);
    KAS_TRY(kas_thread_each(s->o->threads, u->count, predict_one, s));
    qsort(u->configuration, (size_t)u->count, sizeof *u->configuration, faster);
    for (int i = 0; i < u->count; i++) {
        kas_configuration *c = &u->configuration[i];
        if (isnan(c->predicted))
            c->state = KAS_CONFIGURATION_BROKEN;
        else if (limit > 0 && c->predicted > limit * u->predicted)
            c->state = KAS_CONFIGURATION_SLOW;
    }
    return KAS_OK;
}

/* Returns whether the legal ones wanted are found among those that are faster than number
 * `item`. */
static bool is_enough(const session *s, int item)
{
    int legal = 0;
    for (int i = 0; i < item && !s->o->score_all; i++)
        legal += s->u->configuration[i].state == KAS_CONFIGURATION_LEGAL;
    return legal >= s->o->wanted && !s->o->score_all;
}

static void report(session *s)
{
    int legal = 0;
    if (kas_monotonic() < s->reported + REPORT_SECONDS)
        return;
    s->reported = kas_monotonic();
    for (int i = 0; i < s->u->count; i++)
        legal += s->u->configuration[i].state == KAS_CONFIGURATION_LEGAL;
    kas_info("scored %d of %d configurations, from the fastest on: %d legal", s->scored,
             s->u->count, legal);
}

static kas_status potential_of(const session *s, kas_score_memory *memory,
                               const kas_configuration *c, double *potential)
{
    kas_replacement r;
    KAS_TRY(place(s, c, &r));
    const bool quiet = kas_quiet(true);
    const kas_status status = kas_legality_score(s->legality, &r, memory, potential);
    kas_quiet(quiet);
    kas_replacement_free(&r);
    return status;
}

static kas_status score_one(void *context, kas_score_memory *memory, int item)
{
    session *s = context;
    kas_configuration *c = &s->u->configuration[item];
    double potential = NAN;
    pthread_mutex_lock(&s->lock);
    const bool skip = c->state != KAS_CONFIGURATION_UNSCORED || is_enough(s, item);
    pthread_mutex_unlock(&s->lock);
    if (skip)
        return KAS_OK;
    const kas_status status = potential_of(s, memory, c, &potential);
    if (status != KAS_OK && !kas_is_misfit(status))
        return status;
    pthread_mutex_lock(&s->lock);
    c->potential = potential;
    c->state = status != KAS_OK                               ? KAS_CONFIGURATION_BROKEN
               : potential >= kas_legality_least(s->legality) ? KAS_CONFIGURATION_LEGAL
                                                              : KAS_CONFIGURATION_REJECTED;
    s->scored++;
    report(s);
    pthread_mutex_unlock(&s->lock);
    return KAS_OK;
}

/* Threads score a few more than are needed. They do not count, so that the result is the same for
 * any number of threads. */
static void forget_rest(session *s)
{
    for (int i = 0; i < s->u->count; i++) {
        kas_configuration *c = &s->u->configuration[i];
        const bool scored = c->state == KAS_CONFIGURATION_LEGAL ||
                            c->state == KAS_CONFIGURATION_REJECTED ||
                            (c->state == KAS_CONFIGURATION_BROKEN && isfinite(c->predicted));
        if (scored && is_enough(s, i)) {
            c->state = KAS_CONFIGURATION_UNSCORED;
            c->potential = NAN;
        }
    }
}

static kas_status score(session *s)
{
    s->reported = kas_monotonic();
    const kas_status status = kas_score_each(s->o->threads, s->u->count, score_one, s);
    forget_rest(s);
    return status;
}

/* ---- all ------------------------------------------------------------------------------------- */

static kas_status list_legal(kas_untrained *u)
{
    int legal = 0;
    u->legal = calloc((size_t)u->count + 1, sizeof *u->legal);
    if (!u->legal)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d configurations", u->count);
    for (int i = 0; i < u->count; i++) {
        u->states[u->configuration[i].state]++;
        if (u->configuration[i].state == KAS_CONFIGURATION_LEGAL)
            u->legal[legal++] = i;
    }
    return KAS_OK;
}

static kas_status run(session *s)
{
    kas_untrained *u = s->u;
    kas_stage_seconds begin = now();
    KAS_TRY(kas_legality_open(s->o->search, s->o->problem, KAS_SCORE_LEAST_BATCH, &s->legality));
    u->potential = kas_legality_original(s->legality);
    u->least = kas_legality_least(s->legality);
    KAS_TRY(draw(s->o, u));
    u->draw = since(begin);
    begin = now();
    KAS_TRY(predict(s));
    u->predict = since(begin);
    begin = now();
    KAS_TRY(score(s));
    u->score = since(begin);
    return list_legal(u);
}

kas_status kas_untrained_search(const kas_untrained_options *o, kas_untrained *out)
{
    session s = {.o = o, .u = out, .lock = PTHREAD_MUTEX_INITIALIZER};
    *out = (kas_untrained){0};
    if (o->problem->targets > KAS_TARGETS_MAX)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: %d convolutions are replaced, more than %d; choose "
                        "fewer with --targets",
                        o->search->net, o->problem->targets, KAS_TARGETS_MAX);
    out->configuration = calloc((size_t)o->configurations, sizeof *out->configuration);
    if (!out->configuration)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d configurations", o->configurations);
    kas_status status =
        kas_predictor_create(o->machine, o->problem->net, KAS_LATENCY_BATCH,
                             (kas_precision)o->search->recipe.precision, &s.predictor);
    if (status == KAS_OK)
        status = run(&s);
    kas_legality_close(s.legality);
    kas_predictor_free(s.predictor);
    return status;
}

void kas_untrained_free(kas_untrained *u)
{
    for (int i = 0; i < u->count; i++)
        free(u->configuration[i].text);
    free(u->configuration);
    free(u->legal);
    *u = (kas_untrained){0};
}

/* ---- measure --------------------------------------------------------------------------------- */

static kas_status measure_one(const kas_untrained_options *o, kas_turns *turns,
                              kas_configuration *c)
{
    kas_replacement r;
    kas_programs programs;
    kas_turns_result found = {0};
    KAS_TRY(kas_problem_place(o->search, c->name, c->text, NULL, o->problem->target,
                              o->problem->targets, &r));
    kas_status status =
        kas_stage_build(&r, o->search, KAS_STAGE_LATENCY, o->search->device, NULL, &programs);
    if (status == KAS_OK) {
        status = kas_turns_measure(turns, &programs, TURNS, most_turn_seconds, &found);
        kas_planned_bytes_free(&found.planned);
        kas_programs_free(&programs);
    }
    kas_replacement_free(&r);
    KAS_TRY(status);
    c->ratio = found.ratio;
    c->ratio_low = found.ratio_low;
    c->ratio_high = found.ratio_high;
    if (found.disturbed)
        kas_warn("the machine was busy while %s was measured; its latency may be wrong", c->name);
    return KAS_OK;
}

static double order_of(const kas_untrained *u, int number)
{
    const double ratio = u->configuration[u->legal[number]].ratio;
    return isnan(ratio) ? INFINITY : ratio;
}

static void order_by_ratio(kas_untrained *u)
{
    for (int i = 1; i < u->states[KAS_CONFIGURATION_LEGAL]; i++)
        for (int k = i; k > 0 && order_of(u, k) < order_of(u, k - 1); k--) {
            const int faster_one = u->legal[k];
            u->legal[k] = u->legal[k - 1];
            u->legal[k - 1] = faster_one;
        }
}

kas_status kas_untrained_measure(const kas_untrained_options *o, kas_device *device,
                                 kas_untrained *u)
{
    const kas_stage_seconds begin = now();
    kas_turns *turns;
    KAS_TRY(kas_turns_create(device, o->problem->net, KAS_LATENCY_BATCH,
                             (kas_precision)o->search->recipe.precision, NULL, &turns));
    for (int i = 0; i < u->states[KAS_CONFIGURATION_LEGAL]; i++) {
        kas_configuration *c = &u->configuration[u->legal[i]];
        if (measure_one(o, turns, c) != KAS_OK)
            kas_warn("%s could not be measured: %s", c->name, kas_error());
    }
    kas_turns_free(turns);
    order_by_ratio(u);
    u->measure = since(begin);
    return KAS_OK;
}
