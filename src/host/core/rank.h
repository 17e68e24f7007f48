/* Ranks of values. A value that is not finite has no rank. */
#ifndef KAS_CORE_RANK_H
#define KAS_CORE_RANK_H

#include "host/core/status.h"

/* Gives each value its rank, 1 for the smallest; equal values share the mean of their ranks; NaN
 * for a value that is not finite. *ranked is how many have a rank. */
kas_status kas_ranks(int count, const double *value, double *rank, int *ranked);

/* Spearman's rank correlation over the pairs of which both are finite; NaN when there are fewer
 * than three or one side is constant. */
kas_status kas_spearman(int count, const double *a, const double *b, double *out);

/* AZ-NAS's combination (Lee and Ham, CVPR 2024, equation 9): the sum over `scores` lists [count] of
 * log(rank / number of kernels that have all of them). NaN for a kernel of which one is not
 * finite. */
kas_status kas_combine_ranks(int count, int scores, const double *const *value, double *out);

#endif
