/* Layer norm over the channels of each pixel (Ba et al. 2016), PyTorch's conventions. */
#include <math.h>
#include <string.h>

#include "host/reference/net/layers.h"

/* Element k of the pixel that begins at `base`: channels are h * w apart. */
typedef struct pixel {
    size_t base, step;
    double mean, rstd;
} pixel;

static pixel pixel_at(int c, int pixels, int image, int place, double eps, const double *x)
{
    pixel p = {.base = (size_t)image * c * pixels + place, .step = pixels};
    double squares = 0;
    for (int k = 0; k < c; k++)
        p.mean += x[p.base + k * p.step] / c;
    for (int k = 0; k < c; k++) {
        double d = x[p.base + k * p.step] - p.mean;
        squares += d * d;
    }
    p.rstd = 1 / sqrt(squares / c + eps);
    return p;
}

void kas_ref_layer_norm_forward(int n, int c, int h, int w, double eps, const double *x,
                                const double *gamma, const double *beta, double *y)
{
    for (int b = 0; b < n; b++)
        for (int i = 0; i < h * w; i++) {
            pixel p = pixel_at(c, h * w, b, i, eps, x);
            for (int k = 0; k < c; k++) {
                size_t e = p.base + k * p.step;
                y[e] = (x[e] - p.mean) * p.rstd * gamma[k] + beta[k];
            }
        }
}

/* With g = dy * gamma and xhat = (x - mean) * rstd:
 * dx = rstd * (g - mean(g) - xhat * mean(g * xhat)). */
void kas_ref_layer_norm_backward(int n, int c, int h, int w, double eps, const double *x,
                                 const double *gamma, const double *dy, double *dx, double *dgamma,
                                 double *dbeta)
{
    memset(dgamma, 0, sizeof *dgamma * c);
    memset(dbeta, 0, sizeof *dbeta * c);
    for (int b = 0; b < n; b++)
        for (int i = 0; i < h * w; i++) {
            pixel p = pixel_at(c, h * w, b, i, eps, x);
            double sum = 0, dot = 0;
            for (int k = 0; k < c; k++) {
                size_t e = p.base + k * p.step;
                double xhat = (x[e] - p.mean) * p.rstd;
                sum += dy[e] * gamma[k];
                dot += dy[e] * gamma[k] * xhat;
                dgamma[k] += dy[e] * xhat;
                dbeta[k] += dy[e];
            }
            for (int k = 0; k < c; k++) {
                size_t e = p.base + k * p.step;
                double xhat = (x[e] - p.mean) * p.rstd;
                dx[e] = p.rstd * (dy[e] * gamma[k] - sum / c - xhat * dot / c);
            }
        }
}
