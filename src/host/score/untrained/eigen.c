#include "host/score/untrained/eigen.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "host/core/random.h"

/* Turns the part [k, n) of the matrix so that row k has nothing beyond its second element, with the
 * reflection v. Returns that element. */
static double reflect(int n, int k, double *a, double *v, double *w)
{
    double length = 0, square = 0, projection = 0;
    for (int i = k + 1; i < n; i++)
        length += a[k * n + i] * a[k * n + i];
    length = sqrt(length);
    const double first = a[k * n + k + 1], turned = first > 0 ? -length : length;
    if (length == 0)
        return 0;
    for (int i = k + 1; i < n; i++) {
        v[i] = a[k * n + i] - (i == k + 1 ? turned : 0);
        square += v[i] * v[i];
    }
    for (int i = k + 1; i < n; i++)
        v[i] /= sqrt(square);
    for (int i = k + 1; i < n; i++)
        w[i] = a[i * n + i] * v[i];
    for (int i = k + 1; i < n; i++) /* the upper triangle, along its rows */
        for (int j = i + 1; j < n; j++) {
            w[i] += a[i * n + j] * v[j];
            w[j] += a[i * n + j] * v[i];
        }
    for (int i = k + 1; i < n; i++)
        projection += v[i] * w[i];
    for (int i = k + 1; i < n; i++)
        w[i] = 2 * (w[i] - projection * v[i]);
    for (int i = k + 1; i < n; i++)
        for (int j = i; j < n; j++)
            a[i * n + j] -= v[i] * w[j] + w[i] * v[j];
    return turned;
}

/* How many eigenvalues of the tridiagonal matrix are below x (Sturm's sequence). */
static int below(int n, const double *diagonal, const double *beside, double x)
{
    int count = 0;
    double q = 1;
    for (int i = 0; i < n; i++) {
        const double before = i > 0 ? beside[i - 1] * beside[i - 1] / q : 0;
        q = diagonal[i] - x - before;
        if (q == 0)
            q = 1e-300;
        count += q < 0;
    }
    return count;
}

static double bound_of(int n, const double *diagonal, const double *beside)
{
    double bound = 0;
    for (int i = 0; i < n; i++)
        bound = fmax(bound, fabs(diagonal[i]) + (i > 0 ? fabs(beside[i - 1]) : 0) +
                                (i + 1 < n ? fabs(beside[i]) : 0));
    return bound;
}

static void bisect(int n, const double *diagonal, const double *beside, int count, double *value)
{
    const double bound = bound_of(n, diagonal, beside);
    for (int i = 0; i < count; i++) {
        double low = i > 0 ? value[i - 1] - 1e-15 * bound : -bound, high = bound;
        for (int turn = 0; turn < 64 && low < high; turn++) {
            const double middle = low + (high - low) / 2;
            if (below(n, diagonal, beside, middle) > i)
                high = middle;
            else
                low = middle;
        }
        value[i] = low + (high - low) / 2;
    }
}

kas_status kas_eigenvalues(int n, double *a, int count, double *value)
{
    double *work = calloc(4 * (size_t)n, sizeof *work);
    if (!work)
        return kas_fail(KAS_NO_MEMORY, "no memory for the eigenvalues of %d rows", n);
    double *diagonal = work, *beside = work + n, *v = beside + n, *w = v + n;
    bool finite = true;
    for (int i = 0; i < n; i++)
        for (int j = i; j < n; j++)
            finite &= isfinite(a[i * n + j]) != 0;
    for (int k = 0; finite && k < n; k++) {
        diagonal[k] = a[k * n + k];
        if (k + 1 < n)
            beside[k] = k + 2 < n ? reflect(n, k, a, v, w) : a[k * n + k + 1];
    }
    if (finite)
        bisect(n, diagonal, beside, count, value);
    for (int i = 0; !finite && i < count; i++)
        value[i] = NAN;
    free(work);
    return KAS_OK;
}

/* ---- the largest one ------------------------------------------------------------------------- */

static double largest(int n, const double *diagonal, const double *beside)
{
    double high = bound_of(n, diagonal, beside), low = -high;
    for (int turn = 0; turn < 64 && low < high; turn++) {
        const double middle = low + (high - low) / 2;
        if (below(n, diagonal, beside, middle) == n)
            high = middle;
        else
            low = middle;
    }
    return low + (high - low) / 2;
}

static double dot(int n, const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void add(int n, double factor, const double *a, double *to)
{
    for (int i = 0; i < n; i++)
        to[i] += factor * a[i];
}

/* Begins with signs at random: no eigenvector that means anything is orthogonal to them. */
static void draw_signs(int n, double *v)
{
    kas_rng rng = kas_rng_make(0, KAS_PURPOSE_TEST, 15);
    for (int i = 0; i < n; i++)
        v[i] = (kas_rng_u32(&rng) & 1 ? 1 : -1) / sqrt(n);
}

/* Lanczos' matrix grows by a row a turn, until two turns change its largest eigenvalue no more, or
 * what is left to look at is 0. `v`, `before` and `next` have n elements each. */
static double iterate(int n, kas_symmetric *multiply, void *context, double *v, double *before,
                      double *next)
{
    enum { MOST = 300, STILL = 2 };
    const double same = 1e-14;
    double diagonal[MOST], beside[MOST], found = 0;
    for (int k = 0, still = 0; k < n && k < MOST && still < STILL; k++) {
        multiply(context, v, next);
        if (k > 0)
            add(n, -beside[k - 1], before, next);
        diagonal[k] = dot(n, next, v);
        add(n, -diagonal[k], v, next);
        beside[k] = sqrt(dot(n, next, next));
        if (!isfinite(diagonal[k]) || !isfinite(beside[k]))
            return NAN;
        const double now = largest(k + 1, diagonal, beside);
        still = fabs(now - found) <= same * fabs(now) ? still + 1 : 0;
        found = now;
        if (beside[k] <= same * fabs(now))
            break;
        double *turned = before;
        before = v;
        v = next;
        next = turned;
        for (int i = 0; i < n; i++)
            v[i] /= beside[k];
    }
    return found;
}

kas_status kas_largest_eigenvalue(int n, kas_symmetric *multiply, void *context, double *value)
{
    double *work = calloc(3 * (size_t)n, sizeof *work);
    if (!work)
        return kas_fail(KAS_NO_MEMORY, "no memory for the largest eigenvalue of %d rows", n);
    draw_signs(n, work);
    *value = iterate(n, multiply, context, work, work + n, work + 2 * n);
    free(work);
    return KAS_OK;
}

/* ---- correlations ---------------------------------------------------------------------------- */

double *kas_correlation(int n, size_t pixels, const float *x)
{
    double *matrix = malloc(sizeof *matrix * (size_t)n * (size_t)n);
    double *mean = calloc((size_t)n, sizeof *mean);
    for (int i = 0; matrix && mean && i < n; i++) {
        for (size_t k = 0; k < pixels; k++)
            mean[i] += (double)x[(size_t)i * pixels + k] / (double)pixels;
        for (int j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t k = 0; k < pixels; k++)
                sum += ((double)x[(size_t)i * pixels + k] - mean[i]) *
                       ((double)x[(size_t)j * pixels + k] - mean[j]);
            matrix[j * n + i] = sum;
        }
    }
    for (int i = 0; matrix && mean && i < n; i++)
        for (int j = i + 1; j < n; j++)
            matrix[i * n + j] /= sqrt(matrix[i * n + i] * matrix[j * n + j]);
    for (int i = 0; matrix && mean && i < n; i++)
        matrix[i * n + i] /= matrix[i * n + i];
    if (!mean) {
        free(matrix);
        matrix = NULL;
    }
    free(mean);
    return matrix;
}
