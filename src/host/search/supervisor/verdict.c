/* Decides whether a candidate that is under way goes on: by its latency, by its curve. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/leaderboard/leaderboard.h"
#include "host/search/supervisor/supervisor_state.h"
#include "host/search/worker/worker.h"

static double baseline_latency(const kas_supervisor *s)
{
    const kas_work *baseline = kas_work_find(s->list, s->count, KAS_WORK_BASELINE);
    return baseline ? baseline->measured.latency : NAN;
}

/* Replaces what was timed by what is known of the item. */
static void keep_timed(const kas_measured *known, kas_measured *measured)
{
    measured->latency = known->latency;
    measured->latency_iqr = known->latency_iqr;
    measured->ratio = known->ratio;
    measured->ratio_low = known->ratio_low;
    measured->ratio_high = known->ratio_high;
}

kas_measured kas_verdict_measured(const kas_supervisor *s, const kas_work *work,
                                  const cJSON *message)
{
    kas_measured measured = kas_measured_from(message);
    const double unmodified = baseline_latency(s);
    if (work->kind == KAS_WORK_CANDIDATE && isfinite(measured.ratio) && isfinite(unmodified)) {
        measured.latency = measured.ratio * unmodified;
        measured.latency_iqr = (measured.ratio_high - measured.ratio_low) * unmodified;
    }
    if (work->kind == KAS_WORK_BASELINE && isfinite(work->measured.latency))
        keep_timed(&work->measured, &measured);
    return measured;
}

bool kas_verdict_too_slow(const kas_supervisor *s, const kas_work *work)
{
    const kas_search_options *options = s->options->search;
    const bool decides = work->kind == KAS_WORK_CANDIDATE && !kas_search_in_generations(options) &&
                         !*options->latency_on;
    const double limit = decides ? options->latency * baseline_latency(s) : 0;
    return limit > 0 && work->measured.latency > limit;
}

static void free_curves(kas_curve *curve, int count)
{
    for (int i = 0; i < count; i++)
        free((void *)curve[i].accuracy);
    free(curve);
}

void kas_verdict_end(kas_supervisor *s)
{
    free_curves(s->curve, s->curves);
}

static kas_status load_curve(const kas_supervisor *s, const kas_work *work, kas_curve *out)
{
    kas_epoch *epoch;
    int epochs;
    KAS_TRY(kas_store_epochs(s->store, work->id, &epoch, &epochs));
    double *accuracy = malloc(sizeof *accuracy * (size_t)(epochs ? epochs : 1));
    for (int e = 0; accuracy && e < epochs; e++)
        accuracy[e] = epoch[e].validation_accuracy;
    free(epoch);
    *out = (kas_curve){.index = work->index,
                       .generation = work->generation,
                       .latency = work->measured.latency,
                       .cost = kas_judge_cost(work),
                       .epochs = epochs,
                       .accuracy = accuracy};
    return accuracy ? KAS_OK : kas_fail(KAS_NO_MEMORY, "curves: out of memory");
}

/* Adds a curve to `curve`: the one that is known, which is final, or else the store's. */
static kas_status add_curve(kas_supervisor *s, int *known, const kas_work *work, kas_curve *out)
{
    while (*known < s->curves && s->curve[*known].index < work->index)
        free((void *)s->curve[(*known)++].accuracy); /* its candidate is in the queue again */
    if (*known == s->curves || s->curve[*known].index != work->index)
        return load_curve(s, work, out);
    *out = s->curve[(*known)++];
    return KAS_OK;
}

/* Brings the curves of the finished candidates up to date, in the order of the list. */
static kas_status update_curves(kas_supervisor *s)
{
    int count = 0, known = 0;
    kas_curve *curve = calloc((size_t)s->count + 1, sizeof *curve);
    kas_status status = curve ? KAS_OK : kas_fail(KAS_NO_MEMORY, "curves: out of memory");
    for (int i = 0; i < s->count && status == KAS_OK; i++)
        if (s->list[i].kind == KAS_WORK_CANDIDATE && s->list[i].state == KAS_WORK_FINISHED) {
            status = add_curve(s, &known, &s->list[i], &curve[count]);
            count += status == KAS_OK;
        }
    for (; known < s->curves; known++)
        free((void *)s->curve[known].accuracy);
    free(s->curve);
    s->curve = curve;
    s->curves = count;
    return status;
}

kas_status kas_verdict_prune(kas_supervisor *s, const kas_work *work, const kas_epoch *epoch,
                             bool *prune)
{
    *prune = false;
    if (work->kind != KAS_WORK_CANDIDATE || strcmp(s->options->search->prune, "none") == 0 ||
        epoch->epoch == KAS_EPOCH_OF_IMITATION) /* no part of a curve */
        return KAS_OK;
    KAS_TRY(kas_supervisor_refresh(s)); /* other supervisors have ended candidates too */
    KAS_TRY(update_curves(s));
    *prune = kas_judge_prune(s->options->search, s->curve, s->curves, work, epoch->epoch,
                             epoch->validation_accuracy);
    return KAS_OK;
}
