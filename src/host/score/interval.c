#include "host/score/interval.h"

#include <math.h>

/* The 97.5% quantile of Student's t with 1, 2, ... degrees of freedom. */
static const double quantile[KAS_REPEATS_MOST - 1] = {
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045};

kas_interval kas_interval_of(const double *value, int count)
{
    if (count < 1 || count > KAS_REPEATS_MOST)
        return (kas_interval){NAN, NAN, NAN, NAN};
    double sum = 0, squares = 0;
    for (int i = 0; i < count; i++)
        sum += value[i];
    const double mean = sum / count;
    if (count == 1)
        return (kas_interval){mean, NAN, NAN, NAN};
    for (int i = 0; i < count; i++)
        squares += (value[i] - mean) * (value[i] - mean);
    const double spread = sqrt(squares / (count - 1));
    const double half = quantile[count - 2] * spread / sqrt(count);
    return (kas_interval){mean, spread, mean - half, mean + half};
}
