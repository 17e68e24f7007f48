/* Products, biases and dropout. */
#include <math.h>
#include <string.h>

#include "host/core/random.h"
#include "host/reference/net/layers.h"

void kas_ref_multiply_forward(int n, int c, int h, int w, int other_h, int other_w, const double *x,
                              const double *other, double *y)
{
    int pixels = h * w, others = other_h * other_w;
    for (int p = 0; p < n * c; p++)
        for (int i = 0; i < pixels; i++)
            y[(size_t)p * pixels + i] =
                x[(size_t)p * pixels + i] * other[(size_t)p * others + i % others];
}

void kas_ref_multiply_backward(int n, int c, int h, int w, int other_h, int other_w,
                               const double *x, const double *other, const double *dy, double *dx,
                               double *dother)
{
    int pixels = h * w, others = other_h * other_w;
    memset(dother, 0, sizeof *dother * n * c * others);
    for (int p = 0; p < n * c; p++)
        for (int i = 0; i < pixels; i++) {
            size_t e = (size_t)p * pixels + i, o = (size_t)p * others + i % others;
            dx[e] = dy[e] * other[o];
            dother[o] += dy[e] * x[e];
        }
}

void kas_ref_dropout(int n, int c, int h, int w, double probability, uint64_t seed, uint32_t layer,
                     uint32_t step, const double *x, double *y)
{
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_DROPOUT, 0);
    for (int b = 0; b < n; b++)
        for (int k = 0; k < c; k++)
            for (int i = 0; i < h * w; i++) {
                size_t e = ((size_t)b * c + k) * h * w + i;
                uint32_t counter[4] = {(uint32_t)k, (uint32_t)(b * h * w + i), step, layer};
                uint32_t bits[4];
                kas_philox4x32(counter, rng.key, bits);
                const bool dropped = bits[0] < (uint32_t)(probability * 4294967296.0);
                y[e] = !dropped ? x[e] / (1 - probability) : isfinite(x[e]) ? 0 : NAN;
            }
}

void kas_ref_bias_forward(int n, int c, int h, int w, const double *bias, double *y)
{
    for (int p = 0; p < n * c; p++)
        for (int i = 0; i < h * w; i++)
            y[(size_t)p * h * w + i] += bias[p % c];
}

void kas_ref_bias_backward(int n, int c, int h, int w, const double *dy, double *dbias)
{
    memset(dbias, 0, sizeof *dbias * c);
    for (int p = 0; p < n * c; p++)
        for (int i = 0; i < h * w; i++)
            dbias[p % c] += dy[(size_t)p * h * w + i];
}
