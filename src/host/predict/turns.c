#include "host/predict/turns.h"

#include <math.h>
#include <stdlib.h>

#include "host/predict/seconds.h"
#include "host/train/stats.h"

enum { RUNS = 3, LEAST_TURNS = 3, PASS_RUNS = 5 };

/* A network that is ready to run. */
typedef struct ready {
    kas_model *model;
    kas_plan *plan;
    int *mark;
} ready;

struct kas_turns {
    kas_device *device;
    kas_model_options options;
    kas_timer *timer;
    ready plain;
};

/* ---- ready to run ---------------------------------------------------------------------------- */

static void put_away(ready *r)
{
    kas_plan_free(r->plan);
    kas_model_free(r->model);
    free(r->mark);
    *r = (ready){0};
}

static kas_status make_ready(const kas_turns *t, kas_programs *programs, ready *r)
{
    kas_model_options options = t->options;
    kas_step_options step = {.mode = KAS_TAPE_INFER};
    options.programs = programs;
    *r = (ready){0};
    KAS_TRY(kas_model_create(t->device, &options, &r->model));
    r->mark = calloc((size_t)kas_model_operations(r->model, KAS_TAPE_INFER) + 1, sizeof *r->mark);
    if (!r->mark)
        return kas_fail(KAS_NO_MEMORY, "no memory for a forward pass");
    step.mark = r->mark;
    KAS_TRY(kas_model_init(r->model, 0));
    KAS_TRY(kas_model_record(r->model, &step, &r->plan));
    KAS_TRY(kas_model_draw_images(r->model));
    KAS_TRY(kas_plan_run(r->plan)); /* the first run is slower */
    return kas_device_sync(t->device);
}

kas_status kas_turns_create(kas_device *device, const kas_net *net, int batch,
                            kas_precision precision, const char *cache_dir, kas_turns **out)
{
    kas_turns *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        return kas_fail(KAS_NO_MEMORY, "no memory for the times of %s", net->name);
    t->device = device;
    t->options = (kas_model_options){
        .net = net, .batch = batch, .precision = precision, .cache_dir = cache_dir};
    kas_status status = kas_timer_create(device, &t->timer);
    if (status == KAS_OK)
        status = make_ready(t, NULL, &t->plain);
    if (status == KAS_OK)
        *out = t;
    else
        kas_turns_free(t);
    return status;
}

void kas_turns_free(kas_turns *turns)
{
    if (!turns)
        return;
    put_away(&turns->plain);
    kas_timer_free(turns->timer);
    free(turns);
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* Runs a network a few times; *least gets the shortest, *sum is increased by all. */
static kas_status run(kas_turns *t, const ready *r, double *least, double *sum)
{
    *least = INFINITY;
    for (int i = 0; i < RUNS; i++) {
        double seconds;
        KAS_TRY(kas_plan_seconds(t->device, t->timer, r->plan, &seconds));
        *least = seconds < *least ? seconds : *least;
        *sum += seconds;
    }
    return KAS_OK;
}

static kas_status take_turns(kas_turns *t, const ready *changed, int count, double most,
                             kas_turns_result *out)
{
    kas_samples ours = {0}, plain = {0}, ratio = {0};
    kas_status status = KAS_OK;
    double sum = 0;
    for (int i = 0; i < count && (i < LEAST_TURNS || sum < most); i++) {
        double a, b;
        KAS_TRY_GOTO(run(t, &t->plain, &a, &sum), out);
        KAS_TRY_GOTO(run(t, changed, &b, &sum), out);
        KAS_TRY_GOTO(kas_samples_add(&plain, a), out);
        KAS_TRY_GOTO(kas_samples_add(&ours, b), out);
        KAS_TRY_GOTO(kas_samples_add(&ratio, b / a), out);
    }
    out->turns = ratio.count;
    out->seconds = kas_samples_quantile(&ours, 0.5);
    out->unmodified = kas_samples_quantile(&plain, 0.5);
    out->ratio = kas_samples_quantile(&ratio, 0.5);
out:
    kas_samples_free(&ours);
    kas_samples_free(&plain);
    kas_samples_free(&ratio);
    return status;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Measures each launch by itself: the shortest of several runs. */
static kas_status time_launches(const ready *r, kas_planned_bytes *planned)
{
    const int launches = kas_plan_steps(r->plan);
    double *seconds = calloc(2 * ((size_t)launches + 1), sizeof *seconds);
    kas_status status = KAS_OK;
    if (!seconds)
        return kas_fail(KAS_NO_MEMORY, "no memory for the times of %d launches", launches);
    double *least = seconds + launches + 1;
    for (int i = 0; i < PASS_RUNS && status == KAS_OK; i++) {
        status = kas_plan_time_steps(r->plan, seconds);
        for (int k = 0; k < launches; k++)
            least[k] = i == 0 || seconds[k] < least[k] ? seconds[k] : least[k];
    }
    if (status == KAS_OK)
        kas_planned_bytes_give(planned, r->mark, least);
    free(seconds);
    return status;
}

kas_status kas_turns_measure(kas_turns *t, kas_programs *programs, int count, double seconds,
                             kas_turns_result *out)
{
    ready changed;
    *out = (kas_turns_result){0};
    kas_status status = make_ready(t, programs, &changed);
    if (status == KAS_OK)
        status = take_turns(t, &changed, count, seconds, out);
    if (status == KAS_OK)
        status = kas_planned_bytes_count(changed.model, KAS_TAPE_INFER, &out->planned);
    if (status == KAS_OK)
        status = time_launches(&changed, &out->planned);
    if (status != KAS_OK)
        kas_planned_bytes_free(&out->planned);
    put_away(&changed);
    return status;
}
