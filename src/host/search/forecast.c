#include "host/search/forecast.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/thread.h"
#include "host/study/problem.h"

kas_status kas_search_machine(const kas_search_options *options, const kas_devices *devices,
                              kas_machine *out)
{
    const char *spec = *options->latency_on ? options->latency_on : "auto";
    kas_device_info gpu = {.kind = KAS_DEVICE_CUDA};
    if (strcmp(spec, "auto") != 0 || !*devices->name)
        /* the threads are those of a worker here, and say nothing of a machine with a name */
        return kas_machine_find(spec, devices->spec[0],
                                strcmp(spec, "auto") == 0 ? options->threads : 0, out);
    memcpy(gpu.name, devices->name, sizeof gpu.name); /* the driver is not asked here (devices.h) */
    return kas_machine_of(&gpu, out);
}

kas_status kas_search_forecast_open(const kas_search_options *options, const kas_machine *machine,
                                    const kas_net *net, kas_search_forecast *out)
{
    *out = (kas_search_forecast){.latency = options->latency, .budget = kas_search_budget(options)};
    snprintf(out->machine, sizeof out->machine, "%s", machine->name);
    KAS_TRY(kas_predictor_create(machine, net, KAS_LATENCY_BATCH,
                                 (kas_precision)options->recipe.precision, &out->predictor));
    out->limit = options->latency * kas_predictor_margin(out->predictor);
    return KAS_OK;
}

/* What a search says of data that cannot be scored: the options with which it needs no scores. */
static kas_status without(kas_status status, const char *option, const char *value,
                          const char *ways_out)
{
    return status == KAS_BAD_INPUT
               ? kas_fail_context(status, "%s %s (%s goes without)", option, value, ways_out)
               : status;
}

kas_status kas_search_forecast_open_scores(const kas_search_options *options,
                                           const kas_problem *problem, kas_search_forecast *out)
{
    kas_status status = KAS_OK;
    if (!out->legality)
        status = kas_legality_open(options, problem, KAS_LEGALITY_BATCH, &out->legality);
    KAS_TRY(without(status, "--legality", options->legality,
                    options->ancestors ? "--ancestors 0 --legality none" : "--legality none"));
    if (!out->prefilter)
        status = kas_prefilter_open(options, problem, out->predictor, &out->prefilter);
    return without(status, "--prefilter", options->prefilter, "leaving it out");
}

void kas_search_forecast_close(kas_search_forecast *forecast)
{
    kas_predictor_free(forecast->predictor);
    kas_legality_close(forecast->legality);
    kas_prefilter_close(forecast->prefilter);
    *forecast = (kas_search_forecast){0};
}

double kas_search_forecast_unmodified(const kas_search_forecast *forecast)
{
    return forecast->predictor ? kas_predictor_unmodified(forecast->predictor) : 0;
}

static kas_status predict(const kas_search_forecast *f, const kas_replacement *replacement,
                          kas_work *work)
{
    double seconds;
    const kas_status status = kas_predict_candidate(f->predictor, replacement, &seconds);
    if (status == KAS_ILLEGAL || status == KAS_UNSUPPORTED)
        return KAS_OK;
    KAS_TRY(status);
    const double ratio = seconds / kas_predictor_unmodified(f->predictor);
    work->predicted = seconds;
    if (f->limit > 0 && ratio > f->limit) {
        work->state = KAS_WORK_PREDICTED_SLOW;
        snprintf(work->reason, sizeof work->reason,
                 "predicted to take %.2f times as long as the unmodified network on %.100s; "
                 "--latency %g, with the prediction's margin, allows %.2f",
                 ratio, f->machine, f->latency, f->limit);
    }
    return KAS_OK;
}

/* Returns the candidate as an assignment, which the caller frees. */
static kas_status assignment_of(const kas_replacement *r, kas_assignment *out)
{
    if (r->kernel_of)
        return kas_assignment_make(r, out);
    *out = (kas_assignment){.kernels = 1, .kernel = malloc(sizeof *out->kernel)};
    if (!out->kernel)
        return kas_fail(KAS_NO_MEMORY, "a candidate: out of memory");
    *out->kernel = *r->kernel;
    return KAS_OK;
}

static kas_status keep(void *context, kas_replacement *replacement, char name[KAS_NAME_SIZE])
{
    const kas_search_forecast *f = context;
    const kas_target *targets = replacement->target;
    const int count = replacement->solution.targets;
    kas_assignment kernels;
    kas_replacement kept;
    KAS_TRY(assignment_of(replacement, &kernels));
    kas_status status = kas_keep_slower(f->predictor, targets, count, &f->budget, &kernels);
    if (status == KAS_OK && kernels.layers) {
        status = kas_assignment_name(&kernels, name);
        if (status == KAS_OK)
            status = kas_assignment_fit(&kernels, targets, count, &f->budget, &kept);
        if (status == KAS_OK) {
            kas_replacement_free(replacement);
            *replacement = kept;
        }
    }
    kas_assignment_free(&kernels);
    return status;
}

static kas_status judge(void *context, const kas_replacement *replacement, kas_work *work)
{
    const kas_search_forecast *f = context;
    if (f->predictor)
        KAS_TRY(predict(f, replacement, work));
    if (f->legality && !kas_work_discarded(work->state))
        KAS_TRY(kas_legality_judge(f->legality, replacement, work));
    return KAS_OK;
}

static kas_status remember(void *context, const kas_work *work)
{
    const kas_search_forecast *f = context;
    return kas_legality_remember(f->legality, work);
}

typedef struct preparing {
    const kas_search_forecast *forecast;
    const kas_coming *list;
} preparing;

static kas_status prepare_one(void *context, int thread, int item)
{
    const preparing *p = context;
    const kas_coming *one = &p->list[item];
    kas_work work = {.state = KAS_WORK_QUEUED};
    if (p->forecast->predictor)
        KAS_TRY(predict(p->forecast, one->replacement, &work));
    return kas_work_discarded(work.state) ? KAS_OK
                                          : kas_legality_prepare(p->forecast->legality, one->name,
                                                                 one->replacement, thread, item);
}

/* Only the scores are worth it: a prediction takes milliseconds, and is made once more. */
static kas_status prepare(void *context, const kas_coming *list, int count)
{
    preparing p = {context, list};
    return kas_thread_each(count, count, prepare_one, &p);
}

_Static_assert((int)KAS_LEGALITY_PREPARED >= (int)KAS_COMING_MOST, "each has a place");
_Static_assert((int)KAS_BUCKET_SCORES == (int)KAS_SCORE_PARTS, "a bucket compares all parts");

static kas_status score(void *context, const kas_replacement *replacement,
                        double out[KAS_BUCKET_SCORES])
{
    const kas_search_forecast *f = context;
    return kas_prefilter_score(f->prefilter, replacement, out);
}

kas_status kas_search_forecast_ask(kas_search_forecast *f, const kas_search_options *options,
                                   kas_forecast *out)
{
    *out = (kas_forecast){.judge = judge,
                          .context = f,
                          .keep = options->keep_slower ? keep : NULL,
                          .remember = f->legality ? remember : NULL,
                          .prepare = f->legality ? prepare : NULL};
    if (options->keep_slower && !f->predictor)
        return kas_fail(KAS_USAGE, "--keep-slower needs a machine model, and the study has none");
    if (f->prefilter) {
        int id;
        KAS_TRY(kas_prefilter_parse(options->prefilter, &id, &out->proposals));
        out->scores = kas_prefilter_scores(f->prefilter);
        out->score = score;
        out->score_name = kas_score_get(id)->name;
    }
    return KAS_OK;
}
