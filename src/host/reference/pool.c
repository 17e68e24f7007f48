/* Layers that move or average pixels: average pools and the parameter-free shortcut. */
#include "host/reference/layers.h"

#include <string.h>

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* Ceil mode: a window at the border holds the pixels that exist, and divides by their number. */
void kas_ref_avg_pool_forward(int n, int c, int h, int w, int s, const double *x, double *y)
{
    int out_h = (h + s - 1) / s, out_w = (w + s - 1) / s;
    for (int p = 0; p < n * c; p++)
        for (int oh = 0; oh < out_h; oh++)
            for (int ow = 0; ow < out_w; ow++) {
                int end_h = smaller(h, (oh + 1) * s), end_w = smaller(w, (ow + 1) * s);
                double sum = 0;
                for (int i = oh * s; i < end_h; i++)
                    for (int j = ow * s; j < end_w; j++)
                        sum += x[((size_t)p * h + i) * w + j];
                y[((size_t)p * out_h + oh) * out_w + ow] =
                    sum / ((end_h - oh * s) * (end_w - ow * s));
            }
}

void kas_ref_avg_pool_backward(int n, int c, int h, int w, int s, const double *dy, double *dx)
{
    int out_h = (h + s - 1) / s, out_w = (w + s - 1) / s;
    for (int p = 0; p < n * c; p++)
        for (int i = 0; i < h; i++)
            for (int j = 0; j < w; j++) {
                int oh = i / s, ow = j / s;
                int rows = smaller(h, (oh + 1) * s) - oh * s;
                int columns = smaller(w, (ow + 1) * s) - ow * s;
                dx[((size_t)p * h + i) * w + j] =
                    dy[((size_t)p * out_h + oh) * out_w + ow] / (rows * columns);
            }
}

void kas_ref_global_avg_pool_forward(int n, int c, int h, int w, const double *x, double *y)
{
    for (int p = 0; p < n * c; p++) {
        double sum = 0;
        for (int i = 0; i < h * w; i++)
            sum += x[(size_t)p * h * w + i];
        y[p] = sum / (h * w);
    }
}

void kas_ref_global_avg_pool_backward(int n, int c, int h, int w, const double *dy, double *dx)
{
    for (int p = 0; p < n * c; p++)
        for (int i = 0; i < h * w; i++)
            dx[(size_t)p * h * w + i] = dy[p] / (h * w);
}

/* He et al. 2015, option A: every stride-th pixel; the new channels are zero, half of them before
 * the old ones and half after. */
void kas_ref_shortcut_a_forward(int n, int c_in, int h, int w, int c_out, int stride,
                                const double *x, double *y)
{
    int out_h = (h + stride - 1) / stride, out_w = (w + stride - 1) / stride;
    int before = (c_out - c_in) / 2;
    memset(y, 0, sizeof *y * n * c_out * out_h * out_w);
    for (int b = 0; b < n; b++)
        for (int k = 0; k < c_in; k++)
            for (int oh = 0; oh < out_h; oh++)
                for (int ow = 0; ow < out_w; ow++)
                    y[(((size_t)b * c_out + before + k) * out_h + oh) * out_w + ow] =
                        x[(((size_t)b * c_in + k) * h + oh * stride) * w + ow * stride];
}

void kas_ref_shortcut_a_backward(int n, int c_in, int h, int w, int c_out, int stride,
                                 const double *dy, double *dx)
{
    int out_h = (h + stride - 1) / stride, out_w = (w + stride - 1) / stride;
    int before = (c_out - c_in) / 2;
    memset(dx, 0, sizeof *dx * n * c_in * h * w);
    for (int b = 0; b < n; b++)
        for (int k = 0; k < c_in; k++)
            for (int oh = 0; oh < out_h; oh++)
                for (int ow = 0; ow < out_w; ow++)
                    dx[(((size_t)b * c_in + k) * h + oh * stride) * w + ow * stride] =
                        dy[(((size_t)b * c_out + before + k) * out_h + oh) * out_w + ow];
}
