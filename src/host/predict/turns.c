#include "host/predict/turns.h"

#include <math.h>
#include <stdlib.h>

#include "host/predict/seconds.h"
#include "host/train/stats.h"

enum { RUNS = 3, PATIENCE = 4 }; /* PATIENCE: times the turns and the seconds that were asked for */

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
    ready plain, changed; /* changed: all zero where none is prepared */
    double fastest;       /* run of the unmodified network so far */
};

/* What was measured beside one network. */
typedef struct turns_taken {
    kas_samples witness; /* the unmodified network: before the first turn, and after each */
    kas_samples ours;    /* [turns] */
    double *least;       /* [launches]: the shortest time of each */
    double sum;          /* seconds that all runs took */
} turns_taken;

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
    t->fastest = INFINITY;
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
    put_away(&turns->changed);
    kas_timer_free(turns->timer);
    free(turns);
}

/* ---- the rule -------------------------------------------------------------------------------- */

kas_status kas_turns_judge(const double *witness, const double *ours, int turns, double fastest,
                           kas_turns_result *out)
{
    kas_samples seconds = {0}, plain = {0}, ratio = {0};
    kas_status status = KAS_OK;
    int quiet = 0;
    for (int i = 0; i < turns; i++)
        quiet += kas_turns_is_quiet(fmax(witness[i], witness[i + 1]), fastest);
    out->disturbed = quiet < KAS_LEAST_TURNS;
    for (int i = 0; i < turns && status == KAS_OK; i++) {
        const double slower = fmax(witness[i], witness[i + 1]);
        if (!out->disturbed && !kas_turns_is_quiet(slower, fastest))
            continue;
        status = kas_samples_add(&seconds, ours[i]);
        if (status == KAS_OK)
            status = kas_samples_add(&plain, slower);
        if (status == KAS_OK)
            status = kas_samples_add(&ratio, 2 * ours[i] / (witness[i] + witness[i + 1]));
    }
    out->turns = ratio.count;
    out->seconds = kas_samples_quantile(&seconds, 0.5);
    out->unmodified = kas_samples_quantile(&plain, 0.5);
    out->ratio = kas_samples_quantile(&ratio, 0.5);
    out->ratio_low = kas_samples_quantile(&ratio, 0.25);
    out->ratio_high = kas_samples_quantile(&ratio, 0.75);
    kas_samples_free(&seconds);
    kas_samples_free(&plain);
    kas_samples_free(&ratio);
    return status;
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* Runs a network a few times and adds the shortest time to `to`. */
static kas_status run(kas_turns *t, const ready *r, kas_samples *to, double *sum)
{
    double least = INFINITY;
    for (int i = 0; i < RUNS; i++) {
        double seconds;
        KAS_TRY(kas_plan_seconds(t->device, t->timer, r->plan, &seconds));
        least = fmin(least, seconds);
        *sum += seconds;
    }
    return kas_samples_add(to, least);
}

static kas_status run_plain(kas_turns *t, turns_taken *taken)
{
    KAS_TRY(run(t, &t->plain, &taken->witness, &taken->sum));
    t->fastest = fmin(t->fastest, taken->witness.value[taken->witness.count - 1]);
    return KAS_OK;
}

/* Times each launch by itself. */
static kas_status time_launches(const ready *r, turns_taken *taken)
{
    const int launches = kas_plan_steps(r->plan);
    double *seconds = calloc((size_t)launches + 1, sizeof *seconds);
    if (!seconds)
        return kas_fail(KAS_NO_MEMORY, "no memory for the times of %d launches", launches);
    const kas_status status = kas_plan_time_steps(r->plan, seconds);
    for (int k = 0; k < launches && status == KAS_OK; k++)
        if (taken->ours.count == 1 || seconds[k] < taken->least[k])
            taken->least[k] = seconds[k];
    free(seconds);
    return status;
}

/* Takes turns until `count` of them are quiet, at least KAS_LEAST_TURNS are and `most` seconds have
 * passed, or there is no more patience. */
static kas_status take_turns(kas_turns *t, const ready *changed, int count, double most,
                             turns_taken *taken, kas_turns_result *out)
{
    taken->least = calloc((size_t)kas_plan_steps(changed->plan) + 1, sizeof *taken->least);
    if (!taken->least)
        return kas_fail(KAS_NO_MEMORY, "no memory for the times of launches");
    KAS_TRY(run_plain(t, taken));
    bool enough = false;
    while (!enough) {
        KAS_TRY(run(t, changed, &taken->ours, &taken->sum));
        KAS_TRY(time_launches(changed, taken));
        KAS_TRY(run_plain(t, taken));
        KAS_TRY(kas_turns_judge(taken->witness.value, taken->ours.value, taken->ours.count,
                                t->fastest, out));
        enough = taken->ours.count >= KAS_LEAST_TURNS &&
                 (taken->ours.count >= PATIENCE * count ||
                  taken->sum >= (out->disturbed ? PATIENCE * most : most) ||
                  (!out->disturbed && out->turns >= count));
    }
    return KAS_OK;
}

kas_status kas_turns_prepare(kas_turns *t, kas_programs *programs)
{
    put_away(&t->changed);
    return make_ready(t, programs, &t->changed);
}

kas_status kas_turns_measure(kas_turns *t, kas_programs *programs, int count, double seconds,
                             kas_turns_result *out)
{
    turns_taken taken = {0};
    *out = (kas_turns_result){0};
    kas_status status = t->changed.plan ? KAS_OK : kas_turns_prepare(t, programs);
    if (status == KAS_OK)
        status = take_turns(t, &t->changed, count, seconds, &taken, out);
    if (status == KAS_OK)
        status = kas_planned_bytes_count(t->changed.model, KAS_TAPE_INFER, &out->planned);
    if (status == KAS_OK)
        kas_planned_bytes_give(&out->planned, t->changed.mark, taken.least);
    kas_samples_free(&taken.witness);
    kas_samples_free(&taken.ours);
    free(taken.least);
    put_away(&t->changed);
    return status;
}
