/* The objective of a study: which candidates are better than others. Pure functions of the study's
 * options and of the store's contents; other folders include this header. */
#ifndef KAS_LEADERBOARD_OBJECTIVE_H
#define KAS_LEADERBOARD_OBJECTIVE_H

#include "host/store/store.h"

typedef struct kas_point {
    double accuracy; /* NaN: not evaluated */
    double cost;     /* predicted seconds or FLOPs: any unit, the same for all; NaN: unknown */
    double loss;     /* points lost against the unmodified network; NaN: unknown */
    int64_t number;  /* of the candidate */
} kas_point;

/* Sorts points for selection, the best first: order[0] is the index of the best. By accuracy, then
 * by cost. A point without an accuracy comes last; ties go to the smaller number. */
kas_status kas_objective_order(int objective, double max_loss, const kas_point *point, int count,
                               int *order);

/* Makes the point of a work item whose cost the caller knows. */
kas_point kas_objective_point(const kas_work *work, const kas_work *baseline, double cost);

#endif
