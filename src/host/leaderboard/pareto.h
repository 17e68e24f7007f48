/* The trade between accuracy and cost: non-dominated sorting and crowding distance (NSGA-II; Deb et
 * al. 2002). Pure functions; other folders include this header. */
#ifndef KAS_LEADERBOARD_PARETO_H
#define KAS_LEADERBOARD_PARETO_H

#include <stdint.h>

#include "host/core/status.h"

typedef struct kas_point {
    double accuracy; /* on the images that select; NaN: not evaluated */
    double cost;     /* seconds or FLOPs: any unit, the same for all points; NaN: unknown */
    double loss;     /* points of accuracy that it loses against the unmodified network, and one
                        standard error more; NaN: unknown */
    int64_t number;  /* of the candidate */
} kas_point;

/* Gives each point the number of its front. A point of front 0 is dominated by no point: none is at
 * least as good in both and better in one. Front 1 is what is then dominated by front 0 alone, and
 * so on. Points with a NaN belong to no front: they get `count`. */
kas_status kas_pareto_fronts(const kas_point *point, int count, int *front);

/* Gives each point its crowding distance: the sum over accuracy and cost of the distance between
 * its two neighbours in its front, relative to the width of the front. The ends of a front get
 * infinity, points of no front 0. */
kas_status kas_pareto_crowding(const kas_point *point, int count, const int *front,
                               double *distance);

#endif
