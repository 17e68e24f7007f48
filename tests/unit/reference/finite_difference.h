/* Central differences of a scalar over every element of some arrays, for tests. */
#ifndef KAS_TESTS_UNIT_REFERENCE_FINITE_DIFFERENCE_H
#define KAS_TESTS_UNIT_REFERENCE_FINITE_DIFFERENCE_H

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "host/core/random.h"

typedef struct fd_array {
    double *value;
    const double *grad; /* analytic */
    size_t size;
} fd_array;

/* Returns the largest |analytic - numeric| / max(1, |analytic|) over all elements; NaN when any is
 * not finite. */
static inline double fd_worst(double (*loss)(void *), void *context, const fd_array *array,
                              int arrays)
{
    const double h = 1e-5;
    double worst = 0;
    for (int a = 0; a < arrays; a++)
        for (size_t i = 0; i < array[a].size; i++) {
            double saved = array[a].value[i];
            array[a].value[i] = saved + h;
            double up = loss(context);
            array[a].value[i] = saved - h;
            double down = loss(context);
            array[a].value[i] = saved;
            double analytic = array[a].grad[i], numeric = (up - down) / (2 * h);
            double error = fabs(analytic - numeric) / fmax(1, fabs(analytic));
            if (!(error <= worst))
                worst = error;
            if (isnan(worst))
                return worst;
        }
    return worst;
}

static inline void fd_random(double *x, size_t size, uint64_t stream)
{
    kas_rng rng = kas_rng_make(7, KAS_PURPOSE_TEST, stream);
    for (size_t i = 0; i < size; i++)
        x[i] = kas_rng_normal(&rng);
}

static inline void fd_nan(double *x, size_t size)
{
    for (size_t i = 0; i < size; i++)
        x[i] = NAN;
}

static inline double fd_dot(const double *a, const double *b, size_t size)
{
    double sum = 0;
    for (size_t i = 0; i < size; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Returns the larger of two errors; NaN counts as the largest. */
static inline double fd_larger(double worst, double error)
{
    return isnan(worst) || error <= worst ? worst : error;
}

/* Prints the error and its tolerance; returns whether it is within (NaN is not). */
static inline int fd_within(const char *what, double error, double tolerance)
{
    printf("%s: largest error %.3g, tolerance %.3g\n", what, error, tolerance);
    return error <= tolerance;
}

#endif
