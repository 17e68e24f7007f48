/* Element-wise functions and broadcasts. */
#ifndef KAS_INTERPRET_REAL_FUNCTIONS_H
#define KAS_INTERPRET_REAL_FUNCTIONS_H

#include "host/interpret/real/values.h"
#include "host/interpret/vector.h"

#include <tgmath.h>

#define EACH(n, statement)                                                                         \
    do {                                                                                           \
        _Pragma("omp simd") for (size_t i = 0; i < (n); i++)                                       \
        {                                                                                          \
            statement;                                                                             \
        }                                                                                          \
    } while (0)

static const real root_half = (real)0.70710678118654752440, density = (real)0.39894228040143267794;
static const real exp_limit = 8, sqrt_offset = (real)0.01, square_limit = 100;

/* Comparisons are such that NaN comes through, in values and as a slope of 1. */
static void function_forward(kas_op op, size_t n, const real *x, real *y)
{
    switch (op) {
    case KAS_OP_RELU:
        EACH(n, y[i] = x[i] <= 0 ? 0 : x[i]);
        return;
    case KAS_OP_GELU:
        EACH(n, y[i] = x[i] / 2 * (1 + erf(x[i] * root_half)));
        return;
    case KAS_OP_SIGMOID:
        EACH(n, y[i] = 1 / (1 + exp(-x[i])));
        return;
    case KAS_OP_TANH:
        EACH(n, y[i] = tanh(x[i]));
        return;
    case KAS_OP_ABS:
        EACH(n, y[i] = fabs(x[i]));
        return;
    case KAS_OP_EXP:
        EACH(n, y[i] = exp(x[i] >= exp_limit ? exp_limit : x[i]));
        return;
    case KAS_OP_NEG:
        EACH(n, y[i] = -x[i]);
        return;
    case KAS_OP_SIN:
        EACH(n, y[i] = sin(x[i]));
        return;
    case KAS_OP_SQRT:
        EACH(n, y[i] = sqrt((x[i] <= 0 ? 0 : x[i]) + sqrt_offset));
        return;
    default: /* square */
        EACH(n, y[i] = fabs(x[i]) >= square_limit ? square_limit * square_limit : x[i] * x[i]);
    }
}

static void function_backward(kas_op op, size_t n, const real *x, const real *dy, real *dx)
{
    switch (op) {
    case KAS_OP_RELU:
        EACH(n, dx[i] += x[i] <= 0 ? 0 : dy[i]);
        return;
    case KAS_OP_GELU:
        EACH(n, dx[i] +=
                dy[i] * ((1 + erf(x[i] * root_half)) / 2 + x[i] * density * exp(-x[i] * x[i] / 2)));
        return;
    case KAS_OP_SIGMOID:
        EACH(n, const real s = 1 / (1 + exp(-x[i])); dx[i] += dy[i] * s * (1 - s));
        return;
    case KAS_OP_TANH:
        EACH(n, const real t = tanh(x[i]); dx[i] += dy[i] * (1 - t * t));
        return;
    case KAS_OP_ABS:
        EACH(n, dx[i] += x[i] < 0 ? -dy[i] : x[i] == 0 ? 0 : dy[i]);
        return;
    case KAS_OP_EXP:
        EACH(n, dx[i] += x[i] >= exp_limit ? 0 : dy[i] * exp(x[i]));
        return;
    case KAS_OP_NEG:
        EACH(n, dx[i] -= dy[i]);
        return;
    case KAS_OP_SIN:
        EACH(n, dx[i] += dy[i] * cos(x[i]));
        return;
    case KAS_OP_SQRT:
        EACH(n, dx[i] += x[i] <= 0 ? 0 : dy[i] / (2 * sqrt(x[i] + sqrt_offset)));
        return;
    default: /* square */
        EACH(n, dx[i] += fabs(x[i]) >= square_limit ? 0 : dy[i] * 2 * x[i]);
    }
}

/* y = lhs OP rhs where both have n elements. NaN in either makes min and max NaN. */
static void broadcast_forward(kas_op op, size_t n, const real *l, const real *r, real *y)
{
    switch (op) {
    case KAS_OP_ADD:
        EACH(n, y[i] = l[i] + r[i]);
        return;
    case KAS_OP_SUB:
        EACH(n, y[i] = l[i] - r[i]);
        return;
    case KAS_OP_MUL:
        EACH(n, y[i] = l[i] * r[i]);
        return;
    case KAS_OP_MIN:
        EACH(n, y[i] = isnan(l[i] + r[i]) ? l[i] + r[i] : l[i] < r[i] ? l[i] : r[i]);
        return;
    default: /* max */
        EACH(n, y[i] = isnan(l[i] + r[i]) ? l[i] + r[i] : l[i] > r[i] ? l[i] : r[i]);
    }
}

/* The slopes in the direction of lhs and of rhs, times dy. */
static void broadcast_slopes(kas_op op, size_t n, const real *l, const real *r, const real *dy,
                             real *dl, real *dr)
{
    switch (op) {
    case KAS_OP_ADD:
        EACH(n, dl[i] += dy[i]; dr[i] += dy[i]);
        return;
    case KAS_OP_SUB:
        EACH(n, dl[i] += dy[i]; dr[i] -= dy[i]);
        return;
    case KAS_OP_MUL:
        EACH(n, dl[i] += dy[i] * r[i]; dr[i] += dy[i] * l[i]);
        return;
    case KAS_OP_MIN: /* the smaller one takes it all; equal ones share it; beside NaN both have
                      * it */
        EACH(n, dl[i] += l[i] > r[i]    ? 0
                         : l[i] == r[i] ? dy[i] / 2
                                        : dy[i];
             dr[i] += l[i] < r[i]    ? 0
                      : l[i] == r[i] ? dy[i] / 2
                                     : dy[i]);
        return;
    default: /* max */
        EACH(n, dl[i] += l[i] < r[i]    ? 0
                         : l[i] == r[i] ? dy[i] / 2
                                        : dy[i];
             dr[i] += l[i] > r[i]    ? 0
                      : l[i] == r[i] ? dy[i] / 2
                                     : dy[i]);
    }
}

/* LHS [prefix][tile] is repeated over RHS [prefix][repeat][tile]. Where a tile is one value, it is
 * spread over a run of RHS, so that loops are long. */
enum { RUN = 256 };

static void broadcast_runs(const kas_step *s, const values *v, bool backward)
{
    real left[RUN], slope[RUN];
    for (size_t p = 0; p < s->prefix; p++)
        for (size_t r = 0; r < s->repeat; r += RUN) {
            const size_t n = s->repeat - r < RUN ? s->repeat - r : RUN, at = p * s->repeat + r;
            for (size_t i = 0; i < n; i++) {
                left[i] = v->in[0] ? v->in[0][p] : 0;
                slope[i] = 0;
            }
            if (!backward) {
                broadcast_forward(s->op, n, left, v->in[1] + at, v->y + at);
                continue;
            }
            broadcast_slopes(s->op, n, left, v->in[1] + at, v->dy + at, slope, v->din[1] + at);
            for (size_t i = 0; i < n; i++)
                v->din[0][p] += slope[i];
        }
}

static void broadcast(const kas_step *s, const values *v, bool backward)
{
    if (s->tile == 1) {
        broadcast_runs(s, v, backward);
        return;
    }
    for (size_t p = 0; p < s->prefix; p++)
        for (size_t r = 0; r < s->repeat; r++) {
            const size_t at = (p * s->repeat + r) * s->tile, l = p * s->tile;
            if (backward)
                broadcast_slopes(s->op, s->tile, v->in[0] + l, v->in[1] + at, v->dy + at,
                                 v->din[0] + l, v->din[1] + at);
            else
                broadcast_forward(s->op, s->tile, v->in[0] + l, v->in[1] + at, v->y + at);
        }
}

#endif
