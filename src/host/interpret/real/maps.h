/* Primitives with a weight: fc, conv, conv_depthwise, mix, scale. */
#ifndef KAS_INTERPRET_REAL_MAPS_H
#define KAS_INTERPRET_REAL_MAPS_H

#include "host/interpret/real/moves.h"

/* y[out][columns] = weight[out][in] x[in][columns] */
static void map_forward(size_t out, size_t in, size_t columns, const real *weight, const real *x,
                        real *y)
{
    matmul(out, columns, in, (matrix){weight, in, 1}, x, columns, y, columns, false);
}

/* dx += or = weight^T dy */
static void map_backward(size_t out, size_t in, size_t columns, const real *weight, const real *dy,
                         real *dx, bool add)
{
    matmul(in, columns, out, (matrix){weight, 1, in}, dy, columns, dx, columns, add);
}

/* dweight += dy x^T; `work` has in * columns elements. */
static void map_weight(size_t out, size_t in, size_t columns, const real *x, const real *dy,
                       real *dweight, real *work)
{
    transpose(in, columns, x, work);
    matmul(out, in, columns, (matrix){dy, columns, 1}, work, in, dweight, in, true);
}

/* The input of fc and conv as [group][in][positions]: the input itself, or gathered into `work`. */
static const real *map_input(const kas_step *s, const real *x, real *work)
{
    const size_t taps = (size_t)(s->kernel_h * s->kernel_w);
    if (!s->order && taps == 1)
        return x;
    for (size_t k = 0; k < s->planes; k++)
        gather_taps(s, x + (s->order ? s->order[k] : k) * s->positions,
                    work + k * taps * s->positions);
    return work;
}

static void fc_forward(const kas_step *s, const values *v)
{
    const real *x = map_input(s, v->in[0], v->work);
    for (size_t g = 0; g < s->groups; g++)
        map_forward(s->fan_out, s->fan_in, s->positions, v->weight + g * s->fan_out * s->fan_in,
                    x + g * s->fan_in * s->positions, v->y + g * s->fan_out * s->positions);
}

static void fc_dweight(const kas_step *s, const values *v, const real *x, real *work)
{
    for (size_t g = 0; g < s->groups; g++)
        map_weight(s->fan_out, s->fan_in, s->positions, x + g * s->fan_in * s->positions,
                   v->dy + g * s->fan_out * s->positions, v->dweight + g * s->fan_out * s->fan_in,
                   work);
}

static void fc_backward(const kas_step *s, const values *v)
{
    const size_t taps = (size_t)(s->kernel_h * s->kernel_w);
    const bool plain = !s->order && taps == 1;
    real *dx = plain ? v->din[0] : v->work;
    if (v->dweight) {
        const real *x = map_input(s, v->in[0], v->work);
        fc_dweight(s, v, x, v->work + s->work);
    }
    for (size_t g = 0; g < s->groups; g++)
        map_backward(s->fan_out, s->fan_in, s->positions, v->weight + g * s->fan_out * s->fan_in,
                     v->dy + g * s->fan_out * s->positions, dx + g * s->fan_in * s->positions,
                     plain);
    for (size_t k = 0; !plain && k < s->planes; k++)
        scatter_taps(s, dx + k * taps * s->positions,
                     v->din[0] + (s->order ? s->order[k] : k) * s->positions);
}

static void depthwise(const kas_step *s, const values *v, bool backward)
{
    const size_t area = s->h * s->w;
    const int taps = s->kernel_h * s->kernel_w;
    for (size_t p = 0; p < s->planes; p++)
        for (int tap = 0; tap < taps; tap++) {
            const size_t at = p * (size_t)taps + (size_t)tap;
            const neighbour n = tap_of(s, tap);
            const real weight = v->weight[at];
            if (!backward || v->dweight)
                gather(&n, v->in[0] + p * area, v->work);
            if (!backward) {
                real *y = v->y + p * area;
                for (size_t i = 0; i < area; i++)
                    y[i] = (tap ? y[i] : 0) + weight * v->work[i];
                continue;
            }
            const real *dy = v->dy + p * area;
            real sum = 0;
            if (v->dweight) {
#pragma omp simd reduction(+ : sum)
                for (size_t i = 0; i < area; i++)
                    sum += dy[i] * v->work[i];
                v->dweight[at] += sum;
            }
            for (size_t i = 0; i < area; i++)
                v->work[i] = weight * dy[i];
            scatter(&n, v->work, v->din[0] + p * area);
        }
}

static void mix(const kas_step *s, const values *v, bool backward)
{
    const size_t in = s->length * s->inner, out = s->fan_out * s->inner;
    for (size_t o = 0; o < s->outer; o++) {
        if (!backward) {
            map_forward(s->fan_out, s->length, s->inner, v->weight, v->in[0] + o * in,
                        v->y + o * out);
            continue;
        }
        if (v->dweight)
            map_weight(s->fan_out, s->length, s->inner, v->in[0] + o * in, v->dy + o * out,
                       v->dweight, v->work);
        map_backward(s->fan_out, s->length, s->inner, v->weight, v->dy + o * out,
                     v->din[0] + o * in, true);
    }
}

static void scale(const kas_step *s, const values *v, bool backward)
{
    for (size_t o = 0; o < s->outer; o++)
        for (size_t l = 0; l < s->length; l++) {
            const size_t at = (o * s->length + l) * s->inner;
            const real weight = v->weight[l];
            real sum = 0;
            if (!backward) {
                for (size_t i = 0; i < s->inner; i++)
                    v->y[at + i] = weight * v->in[0][at + i];
                continue;
            }
            if (v->dweight) {
#pragma omp simd reduction(+ : sum)
                for (size_t i = 0; i < s->inner; i++)
                    sum += v->dy[at + i] * v->in[0][at + i];
                v->dweight[l] += sum;
            }
            for (size_t i = 0; i < s->inner; i++)
                v->din[0][at + i] += weight * v->dy[at + i];
        }
}

#endif
