#include "host/leaderboard/rungs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/leaderboard/judge.h"
#include "host/leaderboard/objective.h"

int kas_rungs_last(const kas_search_options *options)
{
    const kas_int_list *rungs = &options->rungs;
    if (rungs->count == 0)
        return 0;
    return rungs->value[rungs->count - 1] < options->recipe.epochs ? rungs->count
                                                                   : rungs->count - 1;
}

int kas_rungs_epochs(const kas_search_options *options, int rung)
{
    return rung < kas_rungs_last(options) ? options->rungs.value[rung] : options->recipe.epochs;
}

/* ---- who goes on ----------------------------------------------------------------------------- */

/* Finds the generation and the rung at which candidates wait, the earliest if there are several.
 * Returns false when nobody waits, or when others of the generation are still on their way to it.
 */
static bool find_rung(const kas_work *work, int items, int *generation, int *rung)
{
    bool found = false;
    for (int i = 0; i < items; i++) {
        const kas_work *w = &work[i];
        if (w->kind != KAS_WORK_CANDIDATE || w->state != KAS_WORK_WAITING)
            continue;
        if (!found || w->generation < *generation)
            *generation = w->generation, *rung = w->rung;
        else if (w->generation == *generation && w->rung < *rung)
            *rung = w->rung;
        found = true;
    }
    for (int i = 0; i < items; i++)
        if (found && work[i].kind == KAS_WORK_CANDIDATE && work[i].generation == *generation &&
            (work[i].state == KAS_WORK_QUEUED || work[i].state == KAS_WORK_RUNNING))
            return false;
    return found;
}

/* Fills the list with those that wait, the best first. */
static kas_status list_waiting(const kas_work *work, int items, int generation, int rung,
                               kas_point *point, int *order, kas_settled *list, int *count)
{
    int64_t *id = calloc((size_t)items + 1, sizeof *id);
    if (!id)
        return kas_fail(KAS_NO_MEMORY, "a rung: out of memory");
    int n = 0;
    for (int i = 0; i < items; i++)
        if (work[i].kind == KAS_WORK_CANDIDATE && work[i].state == KAS_WORK_WAITING &&
            work[i].generation == generation && work[i].rung == rung) {
            point[n] = kas_objective_point(&work[i], NULL, kas_judge_cost(&work[i]));
            id[n++] = work[i].id;
        }
    const kas_status status = kas_objective_order(KAS_OBJECTIVE_ACCURACY, 0, point, n, order);
    for (int i = 0; i < n && status == KAS_OK; i++)
        list[i] = (kas_settled){.id = id[order[i]], .rung = rung};
    free(id);
    *count = n;
    return status;
}

kas_status kas_rungs_settle(const kas_search_options *options, const kas_work *work, int items,
                            char reason[128], kas_settled **out, int *count)
{
    int generation = 0, rung = 0, n = 0;
    *out = NULL;
    *count = 0;
    if (!find_rung(work, items, &generation, &rung))
        return KAS_OK;
    kas_point *point = calloc((size_t)items + 1, sizeof *point);
    int *order = calloc((size_t)items + 1, sizeof *order);
    kas_settled *list = calloc((size_t)items + 1, sizeof *list);
    kas_status status = point && order && list
                            ? list_waiting(work, items, generation, rung, point, order, list, &n)
                            : kas_fail(KAS_NO_MEMORY, "a rung: out of memory");
    free(point);
    free(order);
    if (status != KAS_OK) {
        free(list);
        return status;
    }
    const int promoted = (n + KAS_RUNGS_ETA - 1) / KAS_RUNGS_ETA;
    snprintf(reason, 128, "after epoch %d of %d, %d of the %d candidates of generation %d went on",
             kas_rungs_epochs(options, rung), options->recipe.epochs, promoted, n, generation);
    for (int i = 0; i < n; i++) {
        list[i].promoted = i < promoted;
        list[i].reason = reason;
    }
    *out = list;
    *count = n;
    return KAS_OK;
}

/* ---- what the rungs were worth --------------------------------------------------------------- */

/* Returns Kendall's tau b of two lists of numbers; NaN when there are fewer than 3 or one of the
 * lists has no order. */
static double agree(const double *a, const double *b, int count)
{
    double same = 0, in_a = 0, in_b = 0;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++) {
            const int x = (a[i] > a[j]) - (a[i] < a[j]), y = (b[i] > b[j]) - (b[i] < b[j]);
            same += x * y;
            in_a += x != 0;
            in_b += y != 0;
        }
    return count < 3 || in_a == 0 || in_b == 0 ? NAN : same / sqrt(in_a * in_b);
}

/* Adds one candidate to the reports; `accuracy` [rungs] gets those at the rungs if it was trained
 * to the end. */
static bool add(const kas_search_options *options, const kas_epoch *epoch, int epochs,
                kas_rung_report *out, double *accuracy)
{
    const int last = kas_rungs_last(options);
    for (int r = 0, e = 0; r <= last; r++) {
        const int until = kas_rungs_epochs(options, r);
        out[r].reached += epochs >= until;
        for (; e < epochs && e < until; e++)
            out[r].seconds += epoch[e].seconds;
        accuracy[r] = epochs >= until ? epoch[until - 1].validation_accuracy : NAN;
    }
    return isfinite(accuracy[last]);
}

kas_status kas_rungs_report(kas_store *store, const kas_search_options *options,
                            const kas_work *work, int items, kas_rung_report *out)
{
    const int last = kas_rungs_last(options);
    int ended = 0;
    kas_status status = KAS_OK;
    double *at = calloc((size_t)(last + 1) * ((size_t)items + 1), sizeof *at),
           one[KAS_INT_LIST + 1];
    if (!at)
        return kas_fail(KAS_NO_MEMORY, "rungs: out of memory");
    for (int r = 0; r <= last; r++)
        out[r] = (kas_rung_report){.epochs = kas_rungs_epochs(options, r)};
    for (int i = 0; i < items && status == KAS_OK; i++) {
        kas_epoch *epoch = NULL;
        int epochs = 0;
        if (work[i].kind != KAS_WORK_CANDIDATE || work[i].epochs == 0)
            continue;
        status = kas_store_epochs(store, work[i].id, &epoch, &epochs);
        if (status == KAS_OK && add(options, epoch, epochs, out, one)) {
            for (int r = 0; r <= last; r++)
                at[r * items + ended] = one[r];
            ended++;
        }
        free(epoch);
    }
    for (int r = 0; r <= last; r++) {
        out[r].compared = ended;
        out[r].agreement = agree(at + r * items, at + last * items, ended);
    }
    free(at);
    return status;
}
