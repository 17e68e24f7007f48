#include "host/leaderboard/objective.h"

#include <math.h>
#include <stdlib.h>

typedef struct placed {
    kas_point point;
    int at;
} placed;

/* Compares numbers of which NaN is the largest. */
static int smaller_first(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}

static int by_merit(const void *a, const void *b)
{
    const kas_point *x = &((const placed *)a)->point, *y = &((const placed *)b)->point;
    const int accuracy = smaller_first(-x->accuracy, -y->accuracy);
    const int cost = accuracy ? accuracy : smaller_first(x->cost, y->cost);
    return cost ? cost : (x->number > y->number) - (x->number < y->number);
}

kas_status kas_objective_order(int objective, double max_loss, const kas_point *point, int count,
                               int *order)
{
    (void)objective, (void)max_loss;
    placed *list = calloc((size_t)count + 1, sizeof *list);
    if (!list)
        return kas_fail(KAS_NO_MEMORY, "an order of candidates: out of memory");
    for (int i = 0; i < count; i++)
        list[i] = (placed){point[i], i};
    qsort(list, (size_t)count, sizeof *list, by_merit);
    for (int i = 0; i < count; i++)
        order[i] = list[i].at;
    free(list);
    return KAS_OK;
}

kas_point kas_objective_point(const kas_work *work, const kas_work *baseline, double cost)
{
    return (kas_point){
        .accuracy = work->measured.accuracy,
        .cost = cost,
        .loss = baseline ? 100 * (baseline->measured.accuracy - work->measured.accuracy) : NAN,
        .number = work->index};
}
