#include "host/strategy/select.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/leaderboard/judge.h"
#include "host/leaderboard/leaderboard.h"
#include "host/leaderboard/objective.h"
#include "host/leaderboard/rungs.h"
#include "host/space/file/assignment.h"
#include "host/strategy/tournament.h"

void kas_population_free(kas_population *population)
{
    free(population->member);
    *population = (kas_population){0};
}

/* A candidate on its way into the population. */
typedef struct entrant {
    const kas_work *work;
    int stage; /* how far it was evaluated: the rung that it reached, or one of the following */
    int rank;
} entrant;

enum { WITHOUT_RESULT = -2, ONLY_IMITATED = -1 };

/* What imitates too badly to be trained has what it misses as its result. */
static int stage_of(const kas_work *w)
{
    if (w->state == KAS_WORK_SCREENED)
        return isfinite(w->measured.missed) ? ONLY_IMITATED : WITHOUT_RESULT;
    const bool trained = w->state == KAS_WORK_FINISHED || w->state == KAS_WORK_NOT_PROMOTED;
    return trained && isfinite(w->measured.accuracy) ? w->rung : WITHOUT_RESULT;
}

static kas_point point_of(const entrant *e, const kas_work *baseline)
{
    kas_point point = kas_objective_point(e->work, baseline, kas_judge_cost(e->work));
    if (e->stage < 0) /* a negative accuracy has nothing in its reach */
        point.accuracy = e->stage == ONLY_IMITATED ? -e->work->measured.missed : NAN;
    return point;
}

/* Sets the ranks, from `first` on, of entrants of one stage. With the unmodified network among those
 * that were trained to the end, where its cost is known, an objective can prefer what it does not
 * beat. */
static kas_status rank_stage(const kas_search_options *options, const kas_work *baseline,
                             entrant *list, int count, int first)
{
    kas_point *point = calloc((size_t)count + 1, sizeof *point);
    int *order = calloc((size_t)count + 1, sizeof *order), all = count;
    kas_status status = point && order ? KAS_OK : kas_fail(KAS_NO_MEMORY, "ranks: out of memory");
    for (int i = 0; status == KAS_OK && i < count; i++)
        point[i] = point_of(&list[i], baseline);
    if (status == KAS_OK && baseline && baseline->predicted > 0 &&
        list->stage == kas_rungs_last(options)) {
        point[all] = kas_objective_point(baseline, baseline, baseline->predicted);
        point[all++].number = -1;
    }
    if (status == KAS_OK)
        status = kas_objective_select(options, point, all, order);
    for (int i = 0; status == KAS_OK && i < all; i++)
        if (order[i] < count)
            list[order[i]].rank = first++;
    free(point);
    free(order);
    return status;
}

static int farthest_first(const void *a, const void *b)
{
    const entrant *x = a, *y = b;
    return (x->stage < y->stage) - (x->stage > y->stage);
}

/* Sets the rank of every entrant, and sorts them by stage: results after few epochs are not compared
 * with those after many. */
static kas_status rank_all(const kas_search_options *options, const kas_work *baseline,
                           entrant *list, int count)
{
    qsort(list, (size_t)count, sizeof *list, farthest_first);
    for (int first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && list[end].stage == list[first].stage;)
            end++;
        KAS_TRY(rank_stage(options, baseline, list + first, end - first, first));
    }
    return KAS_OK;
}

static int newest_first(const void *a, const void *b)
{
    const entrant *x = a, *y = b;
    if (x->work->generation != y->work->generation)
        return x->work->generation > y->work->generation ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int best_first(const void *a, const void *b)
{
    const entrant *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Reads the kernel, which only parents need. */
static kas_status read_parent(const kas_search_options *o, const entrant *e, kas_parent *out)
{
    const kas_work *w = e->work;
    kas_assignment kernels;
    *out = (kas_parent){.fertile = false};
    memcpy(out->name, w->name, sizeof out->name);
    if (e->stage == WITHOUT_RESULT || !w->kernel)
        return KAS_OK;
    KAS_TRY(kas_assignment_read_json(w->name, w->kernel, strlen(w->kernel), &kernels));
    /* With --keep-slower its child loses slower layers again */
    out->fertile = kernels.layers == 0 || (o->keep_slower && kernels.kernels == 1);
    if (out->fertile)
        out->kernel = kernels.kernel[0];
    kas_assignment_free(&kernels);
    return out->fertile ? kas_kernel_infer(&out->kernel) : KAS_OK;
}

static kas_status fill(const kas_search_options *o, const entrant *list, int count,
                       kas_population *out)
{
    out->member = calloc((size_t)count + 1, sizeof *out->member);
    if (!out->member)
        return kas_fail(KAS_NO_MEMORY, "a population: out of memory");
    for (int i = 0; i < count; i++) {
        kas_parent *next = &out->member[out->fertile];
        KAS_TRY(read_parent(o, &list[i], next));
        out->fertile += next->fertile;
    }
    out->count = count;
    return KAS_OK;
}

/* Lists and ranks the candidates of generations before `generation` that were trained. The caller
 * frees *out. */
static kas_status list_entrants(const kas_search_options *options, const kas_work *items, int count,
                                int generation, entrant **out, int *entrants)
{
    entrant *list = calloc((size_t)count + 1, sizeof *list);
    *out = list;
    *entrants = 0;
    if (!list)
        return kas_fail(KAS_NO_MEMORY, "results of generations: out of memory");
    for (int i = 0; i < count; i++)
        if (items[i].kind == KAS_WORK_CANDIDATE && items[i].generation < generation &&
            !kas_work_discarded(items[i].state))
            list[(*entrants)++] = (entrant){.work = &items[i], .stage = stage_of(&items[i])};
    return rank_all(options, kas_work_find(items, count, KAS_WORK_BASELINE), list, *entrants);
}

kas_status kas_population_select(const kas_search_options *options, const kas_work *items,
                                 int count, int generation, int size, kas_population *out)
{
    entrant *list;
    int entrants;
    *out = (kas_population){0};
    kas_status status = list_entrants(options, items, count, generation, &list, &entrants);
    if (status == KAS_OK) {
        qsort(list, (size_t)entrants, sizeof *list, newest_first);
        entrants = entrants < size ? entrants : size;
        qsort(list, (size_t)entrants, sizeof *list, best_first);
        status = fill(options, list, entrants, out);
    }
    free(list);
    if (status != KAS_OK)
        kas_population_free(out);
    return status;
}

kas_status kas_rewards(const kas_search_options *options, const kas_work *items, int count,
                       int generation, int64_t candidates, double *reward)
{
    entrant *list;
    int entrants, results = 0;
    kas_status status = list_entrants(options, items, count, generation, &list, &entrants);
    for (int64_t k = 0; k < candidates; k++)
        reward[k] = 0;
    if (status == KAS_OK) {
        qsort(list, (size_t)entrants, sizeof *list, best_first);
        while (results < entrants && list[results].stage != WITHOUT_RESULT)
            results++;
        for (int i = 0; i < results; i++)
            if (list[i].work->index < candidates)
                reward[list[i].work->index] = pow((double)(results - i) / results, 4);
    }
    free(list);
    return status;
}

const kas_parent *kas_population_draw(const kas_population *population, int tournament,
                                      kas_rng *rng)
{
    return &population->member[kas_tournament(population->fertile, tournament, rng)];
}
