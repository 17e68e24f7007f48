/* A growing list of measurements, and what is said of it: median and quartiles, because times on a
 * shared machine have a long tail. */
#ifndef KAS_TRAIN_STATS_H
#define KAS_TRAIN_STATS_H

#include "host/core/status.h"

typedef struct kas_samples {
    double *value; /* owned */
    int count, capacity;
} kas_samples;

void kas_samples_free(kas_samples *samples);
kas_status kas_samples_add(kas_samples *samples, double value);
/* Linear between neighbours, q in 0..1; sorts the list. 0 when it is empty. */
double kas_samples_quantile(kas_samples *samples, double q);

#endif
