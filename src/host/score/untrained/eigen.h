/* Small symmetric matrices: eigenvalues, and the matrix of correlations. */
#ifndef KAS_SCORE_UNTRAINED_EIGEN_H
#define KAS_SCORE_UNTRAINED_EIGEN_H

#include <stddef.h>

#include "host/core/status.h"

/* Finds the `count` smallest eigenvalues of the symmetric matrix [n][n], ascending, in value
 * [count]. The matrix is overwritten; its lower triangle is not read. All are NaN when an element
 * is not finite. Their error is some 1e-15 of the largest magnitude: Householder's tridiagonal
 * form, then bisection. */
kas_status kas_eigenvalues(int n, double *matrix, int count, double *value);

/* Multiplies a symmetric matrix, which need not be in memory, with v [n]. */
typedef void kas_symmetric(void *context, const double *v, double *out);
/* Finds the largest eigenvalue of a matrix [n][n] that has none below 0, by Lanczos' iteration: within
 * some 1e-12 of it after about as many products as it has distinct eigenvalues, at most 300. NaN when
 * a product is not finite. */
kas_status kas_largest_eigenvalue(int n, kas_symmetric *multiply, void *context, double *value);

/* Returns the correlation matrix of the rows of x [n][columns], of which only the upper triangle is
 * filled; a constant row gives NaN. The caller frees it; NULL: no memory. */
double *kas_correlation(int n, size_t columns, const float *x);

#endif
