#include "host/leaderboard/pareto.h"

#include <math.h>
#include <stdlib.h>

typedef struct placed {
    const kas_point *point;
    int at, front;
} placed;

static bool known(const kas_point *p)
{
    return !isnan(p->accuracy) && !isnan(p->cost);
}

/* Most accurate first, then the cheaper, then the smaller place. */
static int by_accuracy(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    if (x->point->accuracy != y->point->accuracy)
        return x->point->accuracy > y->point->accuracy ? -1 : 1;
    if (x->point->cost != y->point->cost)
        return x->point->cost < y->point->cost ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static int by_front(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    return x->front != y->front ? (x->front > y->front) - (x->front < y->front) : by_accuracy(a, b);
}

/* Lists the points that have both figures; the caller frees *out. */
static kas_status list(const kas_point *point, int count, const int *front, placed **out, int *size)
{
    *size = 0;
    *out = calloc((size_t)count + 1, sizeof **out);
    if (!*out)
        return kas_fail(KAS_NO_MEMORY, "a frontier: out of memory");
    for (int i = 0; i < count; i++)
        if (known(&point[i]))
            (*out)[(*size)++] = (placed){&point[i], i, front ? front[i] : 0};
    qsort(*out, (size_t)*size, sizeof **out, by_front);
    return KAS_OK;
}

/* Returns whether the last point of a front dominates p. Points come in falling order of accuracy,
 * so the last of a front is its cheapest, and it is at least as accurate as p. */
static bool dominates(const kas_point *last, const kas_point *p)
{
    return last->cost < p->cost || (last->cost == p->cost && last->accuracy > p->accuracy);
}

kas_status kas_pareto_fronts(const kas_point *point, int count, int *front)
{
    placed *order;
    int size, fronts = 0;
    const kas_point **last = calloc((size_t)count + 1, sizeof *last);
    kas_status status = last ? list(point, count, NULL, &order, &size)
                             : kas_fail(KAS_NO_MEMORY, "a frontier: out of memory");
    if (status != KAS_OK) {
        free(last);
        return status;
    }
    for (int i = 0; i < count; i++)
        front[i] = count;
    for (int i = 0; i < size; i++) {
        int f = 0;
        while (f < fronts && dominates(last[f], order[i].point))
            f++;
        fronts += f == fronts;
        last[f] = order[i].point;
        front[order[i].at] = f;
    }
    free(order);
    free(last);
    return KAS_OK;
}

static double share(double part, double whole)
{
    return whole > 0 ? fabs(part) / whole : 0;
}

kas_status kas_pareto_crowding(const kas_point *point, int count, const int *front,
                               double *distance)
{
    placed *order;
    int size;
    KAS_TRY(list(point, count, front, &order, &size));
    for (int i = 0; i < count; i++)
        distance[i] = 0;
    for (int first = 0, end; first < size; first = end) {
        for (end = first; end < size && order[end].front == order[first].front;)
            end++;
        const kas_point *a = order[first].point, *z = order[end - 1].point;
        const double width = fabs(a->accuracy - z->accuracy), height = fabs(a->cost - z->cost);
        distance[order[first].at] = distance[order[end - 1].at] = INFINITY;
        for (int i = first + 1; i + 1 < end; i++) {
            const kas_point *before = order[i - 1].point, *behind = order[i + 1].point;
            distance[order[i].at] = share(before->accuracy - behind->accuracy, width) +
                                    share(before->cost - behind->cost, height);
        }
    }
    free(order);
    return KAS_OK;
}
