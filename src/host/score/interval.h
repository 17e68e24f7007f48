/* Mean, spread and the interval of confidence of a few repeated measurements. */
#ifndef KAS_SCORE_INTERVAL_H
#define KAS_SCORE_INTERVAL_H

enum { KAS_REPEATS_MOST = 30 };

typedef struct kas_interval {
    double mean;
    double spread;    /* sample standard deviation; NaN for one value */
    double low, high; /* of 95% confidence in the mean (Student 1908); NaN for one value */
} kas_interval;

/* Returns the figures of `count` values, 1 to KAS_REPEATS_MOST; all NaN for none. */
kas_interval kas_interval_of(const double *value, int count);

#endif
