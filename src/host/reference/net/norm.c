/* Batch norm in training and in evaluation mode (Ioffe and Szegedy 2015), PyTorch's conventions. */
#include "host/reference/net/layers.h"

#include <math.h>

/* Element (image b, channel k, pixel i) of [n][c][h*w]. */
static size_t at(int c, int pixels, int b, int k, int i)
{
    return ((size_t)b * c + k) * pixels + i;
}

static void statistics(int n, int c, int pixels, int k, const double *x, double *mean,
                       double *biased)
{
    double sum = 0, squares = 0;
    for (int b = 0; b < n; b++)
        for (int i = 0; i < pixels; i++)
            sum += x[at(c, pixels, b, k, i)];
    *mean = sum / ((double)n * pixels);
    for (int b = 0; b < n; b++)
        for (int i = 0; i < pixels; i++) {
            double d = x[at(c, pixels, b, k, i)] - *mean;
            squares += d * d;
        }
    *biased = squares / ((double)n * pixels);
}

static void normalize(int n, int c, int pixels, int k, double mean, double rstd, double gamma,
                      double beta, const double *x, double *y)
{
    for (int b = 0; b < n; b++)
        for (int i = 0; i < pixels; i++) {
            size_t e = at(c, pixels, b, k, i);
            y[e] = (x[e] - mean) * rstd * gamma + beta;
        }
}

void kas_ref_batch_norm_forward(int n, int c, int h, int w, double eps, double momentum,
                                const double *x, const double *gamma, const double *beta,
                                double *running_mean, double *running_var, double *saved_mean,
                                double *saved_rstd, double *y)
{
    double count = (double)n * h * w;
    for (int k = 0; k < c; k++) {
        double mean, biased;
        statistics(n, c, h * w, k, x, &mean, &biased);
        /* One value a channel has no unbiased variance; PyTorch refuses it, here it stays 0. */
        double unbiased = count > 1 ? biased * count / (count - 1) : 0;
        running_mean[k] += momentum * (mean - running_mean[k]);
        running_var[k] += momentum * (unbiased - running_var[k]);
        saved_mean[k] = mean;
        saved_rstd[k] = 1 / sqrt(biased + eps);
        normalize(n, c, h * w, k, mean, saved_rstd[k], gamma[k], beta[k], x, y);
    }
}

void kas_ref_batch_norm_eval(int n, int c, int h, int w, double eps, const double *x,
                             const double *gamma, const double *beta, const double *running_mean,
                             const double *running_var, double *y)
{
    for (int k = 0; k < c; k++)
        normalize(n, c, h * w, k, running_mean[k], 1 / sqrt(running_var[k] + eps), gamma[k],
                  beta[k], x, y);
}

/* With xhat = (x - mean) * rstd:
 * dx = gamma * rstd * (dy - mean(dy) - xhat * mean(dy * xhat)). */
void kas_ref_batch_norm_backward(int n, int c, int h, int w, const double *x, const double *gamma,
                                 const double *saved_mean, const double *saved_rstd,
                                 const double *dy, double *dx, double *dgamma, double *dbeta)
{
    int pixels = h * w;
    double count = (double)n * pixels;
    for (int k = 0; k < c; k++) {
        double sum = 0, dot = 0;
        for (int b = 0; b < n; b++)
            for (int i = 0; i < pixels; i++) {
                size_t e = at(c, pixels, b, k, i);
                sum += dy[e];
                dot += dy[e] * (x[e] - saved_mean[k]) * saved_rstd[k];
            }
        dbeta[k] = sum;
        dgamma[k] = dot;
        for (int b = 0; b < n; b++)
            for (int i = 0; i < pixels; i++) {
                size_t e = at(c, pixels, b, k, i);
                double xhat = (x[e] - saved_mean[k]) * saved_rstd[k];
                dx[e] = gamma[k] * saved_rstd[k] * (dy[e] - sum / count - xhat * dot / count);
            }
    }
}
