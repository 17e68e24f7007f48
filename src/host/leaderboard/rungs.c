#include "host/leaderboard/rungs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/leaderboard/judge.h"
#include "host/leaderboard/objective.h"

int kas_rungs_last(const kas_search_options *options)
{
    const kas_int_list *rungs = &options->rungs;
    if (rungs->count == 0)
        return 0;
    return rungs->value[rungs->count - 1] < kas_search_recipe(options, true).epochs
               ? rungs->count
               : rungs->count - 1;
}

int kas_rungs_epochs(const kas_search_options *options, int rung)
{
    return rung < kas_rungs_last(options) ? options->rungs.value[rung]
                                          : kas_search_recipe(options, true).epochs;
}

const char *kas_rungs_name(int epochs, char out[KAS_RUNG_NAME])
{
    if (epochs == KAS_RUNG_OF_IMITATION)
        return strcpy(out, "imitation");
    snprintf(out, KAS_RUNG_NAME, "epoch %d", epochs);
    return out;
}

/* Writes behind what a rung comes: "epoch 3 of 30", "imitation". */
enum { AFTER = KAS_RUNG_NAME + 16 };
static const char *after(const kas_search_options *options, int rung, char out[AFTER])
{
    const int epochs = kas_rungs_epochs(options, rung);
    kas_rungs_name(epochs, out);
    if (epochs != KAS_RUNG_OF_IMITATION)
        snprintf(out + strlen(out), 16, " of %d", kas_search_recipe(options, true).epochs);
    return out;
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
static kas_status list_waiting(const kas_search_options *options, const kas_work *work, int items,
                               int generation, int rung, kas_point *point, int *order,
                               kas_settled *list, int *count)
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
    const kas_status status = kas_objective_select(options, point, n, order);
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
    kas_status status = point && order && list ? list_waiting(options, work, items, generation,
                                                              rung, point, order, list, &n)
                                               : kas_fail(KAS_NO_MEMORY, "a rung: out of memory");
    free(point);
    free(order);
    if (status != KAS_OK) {
        free(list);
        return status;
    }
    const int promoted = (n + KAS_RUNGS_ETA - 1) / KAS_RUNGS_ETA;
    char where[AFTER];
    snprintf(reason, 128, "after %s, %d of the %d candidates of generation %d went on",
             after(options, rung, where), promoted, n, generation);
    for (int i = 0; i < n; i++) {
        list[i].promoted = i < promoted;
        list[i].reason = reason;
    }
    *out = list;
    *count = n;
    return KAS_OK;
}

/* ---- asynchronous ---------------------------------------------------------------------------- */

/* Those that have reached a rung, the best first. */
typedef struct field {
    const kas_work **work; /* [count], in order */
    int count;
} field;

static int by_id(const void *a, const void *b)
{
    const int64_t x = ((const kas_reached *)a)->id, y = ((const kas_reached *)b)->id;
    return (x > y) - (x < y);
}

static kas_status rank_at(const kas_reached *list, int count, const kas_search_options *options,
                          const kas_work *work, int items, kas_point *point, int *order,
                          const kas_work **found, field *out)
{
    int n = 0;
    for (int i = 0; i < items; i++) {
        const kas_reached key = {.id = work[i].id},
                          *at =
                              count ? bsearch(&key, list, (size_t)count, sizeof key, by_id) : NULL;
        if (!at || !isfinite(at->accuracy))
            continue;
        point[n] = kas_objective_point(&work[i], NULL, kas_judge_cost(&work[i]));
        point[n].accuracy = at->accuracy;
        found[n++] = &work[i];
    }
    KAS_TRY(kas_objective_select(options, point, n, order));
    for (int i = 0; i < n; i++)
        out->work[i] = found[order[i]];
    out->count = n;
    return KAS_OK;
}

/* Ranks those that have reached a rung. The caller frees out->work. */
static kas_status reach(kas_store *store, const kas_search_options *options, const kas_work *work,
                        int items, int epochs, field *out)
{
    kas_point *point = calloc((size_t)items + 1, sizeof *point);
    int *order = calloc((size_t)items + 1, sizeof *order);
    const kas_work **found = calloc((size_t)items + 1, sizeof *found);
    *out = (field){.work = calloc((size_t)items + 1, sizeof *out->work)};
    kas_reached *list = NULL;
    int count = 0;
    const int epoch = epochs == KAS_RUNG_OF_IMITATION ? KAS_EPOCH_OF_IMITATION : epochs - 1;
    kas_status status = point && order && found && out->work
                            ? kas_store_reached(store, epoch, &list, &count)
                            : kas_fail(KAS_NO_MEMORY, "a rung: out of memory");
    if (status == KAS_OK)
        status = rank_at(list, count, options, work, items, point, order, found, out);
    free(list);
    free(found);
    free(order);
    free(point);
    return status;
}

static bool waits_at(const kas_work *w, int rung)
{
    return w->kind == KAS_WORK_CANDIDATE && w->state == KAS_WORK_WAITING && w->rung == rung;
}

static int count_at(const kas_work *work, int items, int rung)
{
    int count = 0;
    for (int i = 0; i < items; i++)
        count += waits_at(&work[i], rung);
    return count;
}

/* Finds the best candidate that waits at a rung and is among those that go on; NULL: none. */
static kas_status find_promoted(kas_store *store, const kas_search_options *options,
                                const kas_work *work, int items, int rung, bool coming,
                                char reason[128], const kas_work **out)
{
    char where[AFTER];
    field field;
    *out = NULL;
    if (count_at(work, items, rung) == 0)
        return KAS_OK;
    const kas_status status =
        reach(store, options, work, items, kas_rungs_epochs(options, rung), &field);
    const int best = (field.count + (coming ? 0 : KAS_RUNGS_ETA - 1)) / KAS_RUNGS_ETA;
    for (int i = 0; status == KAS_OK && i < best && !*out; i++)
        if (waits_at(field.work[i], rung)) {
            *out = field.work[i];
            snprintf(reason, 128, "candidate %lld goes on after %s: place %d of %d",
                     (long long)(*out)->index, after(options, rung, where), i + 1, field.count);
        }
    free(field.work);
    return status;
}

static bool any_under_way(const kas_work *work, int items)
{
    for (int i = 0; i < items; i++)
        if (work[i].kind == KAS_WORK_CANDIDATE &&
            (work[i].state == KAS_WORK_QUEUED || work[i].state == KAS_WORK_RUNNING))
            return true;
    return false;
}

kas_status kas_rungs_promote(kas_store *store, const kas_search_options *options,
                             const kas_work *work, int items, bool coming, char reason[128],
                             kas_settled **out, int *count)
{
    const int last = kas_rungs_last(options);
    const kas_work *best = NULL;
    *count = 0;
    *out = NULL;
    for (int i = 0; i < last && !best; i++)
        KAS_TRY(find_promoted(store, options, work, items, coming ? last - 1 - i : i, coming,
                              reason, &best));
    if (!best && (coming || any_under_way(work, items)))
        return KAS_OK;
    kas_settled *list = *out = calloc((size_t)items + 1, sizeof *list);
    if (!list)
        return kas_fail(KAS_NO_MEMORY, "a rung: out of memory");
    if (best)
        list[(*count)++] = (kas_settled){.id = best->id, .rung = best->rung, .promoted = true};
    else
        snprintf(reason, 128, "others at its rung were better; no new candidates come");
    for (int i = 0; i < items && !best; i++)
        if (work[i].kind == KAS_WORK_CANDIDATE && work[i].state == KAS_WORK_WAITING)
            list[(*count)++] =
                (kas_settled){.id = work[i].id, .rung = work[i].rung, .reason = reason};
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

/* Adds what a candidate did for a rung: epochs `from` to `until` of those that it has. Returns its
 * accuracy at the rung, NaN when it has not reached it. */
static double add_epochs(const kas_epoch *epoch, int epochs, int from, int until,
                         kas_rung_report *out)
{
    for (int e = from; e < epochs && e < until; e++)
        out->seconds += epoch[e].seconds;
    out->reached += epochs >= until;
    return epochs >= until ? epoch[until - 1].validation_accuracy : NAN;
}

/* Adds one candidate to the reports; `accuracy` [rungs] gets those at the rungs. */
static kas_status add(kas_store *store, const kas_search_options *options, const kas_work *w,
                      kas_rung_report *out, double *accuracy)
{
    kas_epoch *epoch = NULL, *imitation = NULL;
    int epochs = 0, imitations = 0;
    kas_status status = KAS_OK;
    if (kas_search_rung_imitates(options, 0))
        status = kas_store_imitation(store, w->id, &imitation, &imitations);
    if (status == KAS_OK && w->epochs > 0)
        status = kas_store_epochs(store, w->id, &epoch, &epochs);
    for (int r = 0, from = 0; status == KAS_OK && r <= kas_rungs_last(options); r++) {
        const int until = kas_rungs_epochs(options, r);
        accuracy[r] = until == KAS_RUNG_OF_IMITATION
                          ? add_epochs(imitation, imitations, 0, 1, &out[r])
                          : add_epochs(epoch, epochs, from, until, &out[r]);
        from = until;
    }
    free(imitation);
    free(epoch);
    return status;
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
        if (work[i].kind != KAS_WORK_CANDIDATE || kas_work_discarded(work[i].state))
            continue;
        status = add(store, options, &work[i], out, one);
        for (int r = 0; status == KAS_OK && r <= last; r++)
            at[r * items + ended] = one[r];
        ended += status == KAS_OK && isfinite(one[last]);
    }
    for (int r = 0; r <= last; r++) {
        out[r].compared = ended;
        out[r].agreement = agree(at + r * items, at + last * items, ended);
    }
    free(at);
    return status;
}
