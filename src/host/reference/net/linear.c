/* The classifier and the loss. */
#include "host/reference/net/layers.h"

#include <math.h>
#include <string.h>

void kas_ref_linear_forward(int n, int in, int out, const double *x, const double *weight,
                            const double *bias, double *y)
{
    for (int b = 0; b < n; b++)
        for (int o = 0; o < out; o++) {
            double sum = bias ? bias[o] : 0;
            for (int i = 0; i < in; i++)
                sum += weight[(size_t)o * in + i] * x[(size_t)b * in + i];
            y[(size_t)b * out + o] = sum;
        }
}

void kas_ref_linear_backward(int n, int in, int out, const double *x, const double *weight,
                             const double *dy, double *dx, double *dweight, double *dbias)
{
    memset(dx, 0, sizeof *dx * n * in);
    memset(dweight, 0, sizeof *dweight * out * in);
    if (dbias)
        memset(dbias, 0, sizeof *dbias * out);
    for (int b = 0; b < n; b++)
        for (int o = 0; o < out; o++) {
            double d = dy[(size_t)b * out + o];
            if (dbias)
                dbias[o] += d;
            for (int i = 0; i < in; i++) {
                dx[(size_t)b * in + i] += d * weight[(size_t)o * in + i];
                dweight[(size_t)o * in + i] += d * x[(size_t)b * in + i];
            }
        }
}

/* Returns the log of the sum of exponentials; the largest is factored out so
 * that nothing overflows. */
static double log_sum_exp(int classes, const double *logits)
{
    double largest = logits[0], sum = 0;
    for (int k = 1; k < classes; k++)
        largest = fmax(largest, logits[k]);
    for (int k = 0; k < classes; k++)
        sum += exp(logits[k] - largest);
    return largest + log(sum);
}

/* loss = -mean over images of sum over k of q_k log p_k, q = (1 - smoothing) at the label plus
 * smoothing / classes everywhere; its gradient is (p - q) / n. */
double kas_ref_cross_entropy(int n, int classes, double smoothing, const double *logits,
                             const uint16_t *labels, double *dlogits)
{
    double loss = 0;
    for (int b = 0; b < n; b++) {
        const double *z = logits + (size_t)b * classes;
        double norm = log_sum_exp(classes, z);
        for (int k = 0; k < classes; k++) {
            double q = smoothing / classes + (k == labels[b] ? 1 - smoothing : 0);
            loss -= q * (z[k] - norm) / n;
            if (dlogits)
                dlogits[(size_t)b * classes + k] = (exp(z[k] - norm) - q) / n;
        }
    }
    return loss;
}
