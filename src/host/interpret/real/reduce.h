/* Primitives along some dims of a tensor [outer][length][inner]: folds, softmax, norm; and pools
 * over the neighbours of a pixel. */
#ifndef KAS_INTERPRET_REAL_REDUCE_H
#define KAS_INTERPRET_REAL_REDUCE_H

#include "host/interpret/real/functions.h"
#include "host/interpret/real/moves.h"

static real sum_of(size_t n, const real *x)
{
    double sum = 0;
    for (size_t from = 0; from < n; from += RUN) {
        const size_t to = n - from < RUN ? n : from + RUN;
        real part = 0;
#pragma omp simd reduction(+ : part)
        for (size_t i = from; i < to; i++)
            part += x[i];
        sum += (double)part;
    }
    return (real)sum;
}

static real dot(size_t n, const real *x, const real *y)
{
    double sum = 0;
    for (size_t from = 0; from < n; from += RUN) {
        const size_t to = n - from < RUN ? n : from + RUN;
        real part = 0;
#pragma omp simd reduction(+ : part)
        for (size_t i = from; i < to; i++)
            part += x[i] * y[i];
        sum += (double)part;
    }
    return (real)sum;
}

static void set(size_t n, real *x, real value)
{
    for (size_t i = 0; i < n; i++)
        x[i] = value;
}

/* ---- folds ----------------------------------------------------------------------------------- */

static void fold_avg(const kas_step *s, const values *v, bool backward)
{
    const real share = 1 / (real)s->length;
    for (size_t o = 0; o < s->outer; o++) {
        const size_t x = o * s->length * s->inner, y = o * s->inner;
        if (s->inner == 1 && !backward) {
            v->y[y] = sum_of(s->length, v->in[0] + x) * share;
            continue;
        }
        if (!backward)
            set(s->inner, v->y + y, 0);
        for (size_t l = 0; l < s->length; l++)
            if (backward)
                EACH(s->inner, v->din[0][x + l * s->inner + i] += v->dy[y + i] * share);
            else
                EACH(s->inner, v->y[y + i] += v->in[0][x + l * s->inner + i] * share);
    }
}

/* Takes over what is larger, or NaN: the first of equal ones stays, and the first NaN. */
static void take_larger(size_t n, const real *x, const uint32_t *number, real *best,
                        uint32_t *winner)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        const bool wins = best[i] == best[i] && !(x[i] <= best[i]);
        best[i] = wins ? x[i] : best[i];
        winner[i] = wins ? number[i] : winner[i];
    }
}

static void number_all(size_t n, uint32_t from, uint32_t by, uint32_t *number)
{
    for (size_t i = 0; i < n; i++)
        number[i] = from + (uint32_t)i * by;
}

static void fold_max(const kas_step *s, const values *v, bool backward)
{
    real *best = v->work;
    uint32_t *winner = (uint32_t *)(v->work + s->inner), *number = winner + s->inner;
    for (size_t o = 0; o < s->outer; o++) {
        const real *x = v->in[0] + o * s->length * s->inner;
        memcpy(best, x, sizeof *x * s->inner);
        memset(winner, 0, sizeof *winner * s->inner);
        for (size_t l = 1; l < s->length; l++) {
            number_all(s->inner, (uint32_t)l, 0, number);
            take_larger(s->inner, x + l * s->inner, number, best, winner);
        }
        for (size_t i = 0; i < s->inner; i++)
            if (backward)
                v->din[0][(o * s->length + winner[i]) * s->inner + i] += v->dy[o * s->inner + i];
            else
                v->y[o * s->inner + i] = best[i];
    }
}

/* ---- softmax --------------------------------------------------------------------------------- */

static void softmax_row(size_t n, const real *x, real *y)
{
    real most = x[0], sum = 0;
    for (size_t i = 1; i < n; i++)
        most = x[i] > most ? x[i] : most;
    EACH(n, y[i] = exp(x[i] - most));
    sum = 1 / sum_of(n, y);
    EACH(n, y[i] *= sum);
}

/* dy becomes the gradient of the row's input. */
static void softmax_row_slope(size_t n, const real *y, real *dy)
{
    const real mean = dot(n, y, dy);
    EACH(n, dy[i] = y[i] * (dy[i] - mean));
}

static void softmax_columns(size_t length, size_t inner, const real *x, real *y, real *work)
{
    real *most = work, *sum = work + inner;
    memcpy(most, x, sizeof *x * inner);
    set(inner, sum, 0);
    for (size_t l = 1; l < length; l++)
        EACH(inner, most[i] = x[l * inner + i] > most[i] ? x[l * inner + i] : most[i]);
    for (size_t l = 0; l < length; l++)
        EACH(inner, y[l * inner + i] = exp(x[l * inner + i] - most[i]); sum[i] += y[l * inner + i]);
    for (size_t l = 0; l < length; l++)
        EACH(inner, y[l * inner + i] /= sum[i]);
}

static void softmax_columns_slope(size_t length, size_t inner, const real *y, real *dy, real *mean)
{
    set(inner, mean, 0);
    for (size_t l = 0; l < length; l++)
        EACH(inner, mean[i] += y[l * inner + i] * dy[l * inner + i]);
    for (size_t l = 0; l < length; l++)
        EACH(inner, dy[l * inner + i] = y[l * inner + i] * (dy[l * inner + i] - mean[i]));
}

static void softmax(const kas_step *s, const values *v, bool backward)
{
    const size_t part = s->length * s->inner;
    for (size_t o = 0; o < s->outer; o++) {
        real *y = v->y + o * part;
        if (!backward && s->inner == 1)
            softmax_row(part, v->in[0] + o * part, y);
        else if (!backward)
            softmax_columns(s->length, s->inner, v->in[0] + o * part, y, v->work);
        else if (s->inner == 1)
            softmax_row_slope(part, y, v->dy + o * part);
        else
            softmax_columns_slope(s->length, s->inner, y, v->dy + o * part, v->work);
    }
    if (backward)
        add_to(v->din[0], v->dy, s->elements);
}

/* ---- norm ------------------------------------------------------------------------------------ */

static const real norm_epsilon = (real)1e-5;

static void norm_row(size_t n, const real *x, real *mean, real *rstd)
{
    const real middle = sum_of(n, x) / (real)n;
    double squares = 0;
    for (size_t from = 0; from < n; from += RUN) {
        const size_t to = n - from < RUN ? n : from + RUN;
        real part = 0;
#pragma omp simd reduction(+ : part)
        for (size_t i = from; i < to; i++)
            part += (x[i] - middle) * (x[i] - middle);
        squares += (double)part;
    }
    *mean = middle;
    *rstd = 1 / sqrt((real)(squares / (double)n) + norm_epsilon);
}

static void norm_columns(size_t length, size_t inner, real eps, const real *x, real *mean,
                         real *rstd)
{
    set(inner, mean, 0);
    set(inner, rstd, 0);
    for (size_t l = 0; l < length; l++)
        EACH(inner, mean[i] += x[l * inner + i]);
    EACH(inner, mean[i] /= (real)length);
    for (size_t l = 0; l < length; l++)
        EACH(inner, const real d = x[l * inner + i] - mean[i]; rstd[i] += d * d);
    EACH(inner, rstd[i] = 1 / sqrt(rstd[i] / (real)length + eps));
}

/* `work` has 2 * inner elements here, and 4 * inner in the backward pass. */
static void norm_columns_forward(size_t length, size_t n, real eps, const real *x, real *y,
                                 real *work)
{
    real *mean = work, *rstd = work + n;
    norm_columns(length, n, eps, x, mean, rstd);
    for (size_t l = 0; l < length * n; l += n)
        EACH(n, y[l + i] = (x[l + i] - mean[i]) * rstd[i]);
}

static void norm_columns_backward(size_t length, size_t n, real eps, const real *x, const real *dy,
                                  real *dx, real *work)
{
    real *mean = work, *rstd = mean + n, *sums = rstd + n, *dots = sums + n;
    norm_columns(length, n, eps, x, mean, rstd);
    set(n, sums, 0);
    set(n, dots, 0);
    for (size_t l = 0; l < length * n; l += n)
        EACH(n, sums[i] += dy[l + i]; dots[i] += dy[l + i] * (x[l + i] - mean[i]) * rstd[i]);
    EACH(n, sums[i] /= (real)length; dots[i] /= (real)length);
    for (size_t l = 0; l < length * n; l += n)
        EACH(n, dx[l + i] +=
                (dy[l + i] - sums[i] - (x[l + i] - mean[i]) * rstd[i] * dots[i]) * rstd[i]);
}

static void norm_forward(const kas_step *s, const values *v)
{
    const size_t part = s->length * s->inner;
    real *mean = v->work, *rstd = v->work + s->inner;
    for (size_t o = 0; o < s->outer; o++) {
        const real *x = v->in[0] + o * part;
        real *y = v->y + o * part;
        if (s->inner == 1) {
            norm_row(part, x, mean, rstd);
            EACH(part, y[i] = (x[i] - mean[0]) * rstd[0]);
            continue;
        }
        norm_columns_forward(s->length, s->inner, norm_epsilon, x, y, v->work);
    }
}

static void norm_row_backward(size_t n, const real *x, const real *dy, real *dx)
{
    real mean, rstd;
    norm_row(n, x, &mean, &rstd);
    const real first = sum_of(n, dy) / (real)n;
    const real second = (dot(n, x, dy) - mean * first * (real)n) * rstd / (real)n;
    EACH(n, dx[i] += (dy[i] - first - (x[i] - mean) * rstd * second) * rstd);
}

static void norm_backward(const kas_step *s, const values *v)
{
    const size_t part = s->length * s->inner;
    for (size_t o = 0; o < s->outer; o++) {
        const real *x = v->in[0] + o * part, *dy = v->dy + o * part;
        real *dx = v->din[0] + o * part;
        if (s->inner == 1)
            norm_row_backward(part, x, dy, dx);
        else
            norm_columns_backward(s->length, s->inner, norm_epsilon, x, dy, dx, v->work);
    }
}

/* ---- pools ----------------------------------------------------------------------------------- */

/* How many rows (columns) of a window of `size` around pixel `at` are inside the image. */
static real inside(size_t at, size_t length, int size)
{
    const size_t before = (size_t)(size / 2), after = (size_t)size - before;
    const size_t from = at > before ? at - before : 0,
                 to = at + after < length ? at + after : length;
    return (real)(to - from);
}

static void pool_avg(const kas_step *s, const values *v, bool backward)
{
    const size_t area = s->h * s->w;
    for (size_t p = 0; p < s->planes; p++) {
        real *y = (backward ? v->dy : v->y) + p * area;
        if (!backward)
            set(area, y, 0);
        for (size_t row = 0; backward && row < s->h; row++)
            EACH(s->w, y[row * s->w + i] /=
                       inside(row, s->h, s->kernel_h) * inside(i, s->w, s->kernel_w));
        for (int tap = 0; tap < s->kernel_h * s->kernel_w; tap++) {
            const neighbour n = tap_of(s, tap);
            for (long row = n.top; row < n.bottom; row++) {
                const size_t at = (size_t)(row * n.w + n.left), count = (size_t)(n.right - n.left);
                const size_t from = (size_t)((row + n.down) * n.w + n.left + n.right_by);
                if (backward)
                    add_to(v->din[0] + p * area + from, y + at, count);
                else
                    add_to(y + at, v->in[0] + p * area + from, count);
            }
        }
        for (size_t row = 0; !backward && row < s->h; row++)
            EACH(s->w, y[row * s->w + i] /=
                       inside(row, s->h, s->kernel_h) * inside(i, s->w, s->kernel_w));
    }
}

/* Pixels, each with the number of the pixel that it comes from. */
typedef struct numbered {
    real *value;
    uint32_t *number;
} numbered;

/* The largest of a window of one row or column. */
static void largest_along(const kas_step *s, int size, bool down, const numbered *x,
                          const numbered *y)
{
    const size_t area = s->h * s->w;
    set(area, y->value, -INFINITY);
    memcpy(y->number, x->number, sizeof *y->number * area);
    for (int tap = 0; tap < size; tap++) {
        const long by = tap - size / 2;
        const neighbour n = neighbour_at(s->h, s->w, down ? by : 0, down ? 0 : by);
        for (long row = n.top; row < n.bottom; row++) {
            const long at = row * n.w + n.left, from = at + n.down * n.w + n.right_by;
            take_larger((size_t)(n.right - n.left), x->value + from, x->number + from,
                        y->value + at, y->number + at);
        }
    }
}

/* The first of the largest pixels, row by row; the first NaN wins over everything. Along rows
 * first: then the first of equal rows has the first of equal pixels. */
static void pool_max(const kas_step *s, const values *v, bool backward)
{
    const size_t area = s->h * s->w;
    const numbered all = {v->work, (uint32_t *)(v->work + area)};
    const numbered rows = {v->work + 2 * area, (uint32_t *)(v->work + 3 * area)};
    const numbered best = {v->work + 4 * area, (uint32_t *)(v->work + 5 * area)};
    number_all(area, 0, 1, all.number);
    for (size_t p = 0; p < s->planes; p++) {
        memcpy(all.value, v->in[0] + p * area, sizeof(real) * area);
        largest_along(s, s->kernel_w, false, &all, &rows);
        largest_along(s, s->kernel_h, true, &rows, &best);
        for (size_t i = 0; i < area; i++)
            if (backward)
                v->din[0][p * area + best.number[i]] += v->dy[p * area + i];
            else
                v->y[p * area + i] = best.value[i];
    }
}

#endif
