/* A growing list of measurements and its quantiles. Reports use median and quartiles, because times
 * on a shared machine have a long tail. */
#ifndef KAS_TRAIN_STATS_H
#define KAS_TRAIN_STATS_H

#include "host/core/status.h"

typedef struct kas_samples {
    double *value; /* owned */
    int count;
} kas_samples;

void kas_samples_free(kas_samples *samples);
kas_status kas_samples_add(kas_samples *samples, double value);
/* Returns the quantile q in 0..1, interpolated linearly between neighbours; 0 when the list is
 * empty. Sorts the list. */
double kas_samples_quantile(kas_samples *samples, double q);

#endif
