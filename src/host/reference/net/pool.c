/* Layers that move or average pixels: pools and the parameter-free shortcut. */
#include "host/reference/net/layers.h"

#include <math.h>
#include <string.h>

/* Rows top .. bottom and columns left .. right of a window, the ends not included; the padding that
 * lies in the window is part of it, what lies beyond the padding is not. */
typedef struct window {
    int top, bottom, left, right;
} window;

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static window window_at(const kas_ref_pool *p, int h, int w, int oh, int ow)
{
    int top = oh * p->stride - p->pad_h, left = ow * p->stride - p->pad_w;
    return (window){top, smaller(top + p->kernel_h, h + p->pad_h), left,
                    smaller(left + p->kernel_w, w + p->pad_w)};
}

static window inside(window v, int h, int w)
{
    return (window){larger(v.top, 0), smaller(v.bottom, h), larger(v.left, 0), smaller(v.right, w)};
}

static double area(window v)
{
    return (double)(v.bottom - v.top) * (v.right - v.left);
}

static double sum_of(window v, int w, const double *x)
{
    double sum = 0;
    for (int i = v.top; i < v.bottom; i++)
        for (int j = v.left; j < v.right; j++)
            sum += x[(size_t)i * w + j];
    return sum;
}

static void spread(window v, int w, double value, double *dx)
{
    for (int i = v.top; i < v.bottom; i++)
        for (int j = v.left; j < v.right; j++)
            dx[(size_t)i * w + j] += value;
}

#define FOR_EACH_OUTPUT(n, c, out_h, out_w)                                                        \
    for (int p = 0; p < (n) * (c); p++)                                                            \
        for (int oh = 0; oh < (out_h); oh++)                                                       \
            for (int ow = 0; ow < (out_w); ow++)

void kas_ref_avg_pool_forward(const kas_ref_pool *pool, int n, int c, int h, int w, int out_h,
                              int out_w, const double *x, double *y)
{
    FOR_EACH_OUTPUT(n, c, out_h, out_w)
    {
        window whole = window_at(pool, h, w, oh, ow), real = inside(whole, h, w);
        y[((size_t)p * out_h + oh) * out_w + ow] =
            sum_of(real, w, x + (size_t)p * h * w) / area(pool->count_include_pad ? whole : real);
    }
}

void kas_ref_avg_pool_backward(const kas_ref_pool *pool, int n, int c, int h, int w, int out_h,
                               int out_w, const double *dy, double *dx)
{
    memset(dx, 0, sizeof *dx * n * c * h * w);
    FOR_EACH_OUTPUT(n, c, out_h, out_w)
    {
        window whole = window_at(pool, h, w, oh, ow), real = inside(whole, h, w);
        double d = dy[((size_t)p * out_h + oh) * out_w + ow];
        spread(real, w, d / area(pool->count_include_pad ? whole : real), dx + (size_t)p * h * w);
    }
}

/* Pixel (i, j) of the window that is its maximum: the first of equal ones, the last NaN. */
static size_t place_of_maximum(window v, int w, const double *x)
{
    size_t best = (size_t)v.top * w + v.left;
    for (int i = v.top; i < v.bottom; i++)
        for (int j = v.left; j < v.right; j++)
            if (x[(size_t)i * w + j] > x[best] || isnan(x[(size_t)i * w + j]))
                best = (size_t)i * w + j;
    return best;
}

void kas_ref_max_pool_forward(const kas_ref_pool *pool, int n, int c, int h, int w, int out_h,
                              int out_w, const double *x, double *y)
{
    FOR_EACH_OUTPUT(n, c, out_h, out_w)
    {
        const double *plane = x + (size_t)p * h * w;
        window real = inside(window_at(pool, h, w, oh, ow), h, w);
        y[((size_t)p * out_h + oh) * out_w + ow] = plane[place_of_maximum(real, w, plane)];
    }
}

void kas_ref_max_pool_backward(const kas_ref_pool *pool, int n, int c, int h, int w, int out_h,
                               int out_w, const double *x, const double *dy, double *dx)
{
    memset(dx, 0, sizeof *dx * n * c * h * w);
    FOR_EACH_OUTPUT(n, c, out_h, out_w)
    {
        const double *plane = x + (size_t)p * h * w;
        window real = inside(window_at(pool, h, w, oh, ow), h, w);
        dx[(size_t)p * h * w + place_of_maximum(real, w, plane)] +=
            dy[((size_t)p * out_h + oh) * out_w + ow];
    }
}

/* Rows floor(i h / out_h) to ceil((i + 1) h / out_h). */
static window adaptive_window(int h, int w, int out_h, int out_w, int oh, int ow)
{
    return (window){oh * h / out_h, ((oh + 1) * h + out_h - 1) / out_h, ow * w / out_w,
                    ((ow + 1) * w + out_w - 1) / out_w};
}

void kas_ref_adaptive_pool_forward(int n, int c, int h, int w, int out_h, int out_w,
                                   const double *x, double *y)
{
    FOR_EACH_OUTPUT(n, c, out_h, out_w)
    {
        window v = adaptive_window(h, w, out_h, out_w, oh, ow);
        y[((size_t)p * out_h + oh) * out_w + ow] = sum_of(v, w, x + (size_t)p * h * w) / area(v);
    }
}

void kas_ref_adaptive_pool_backward(int n, int c, int h, int w, int out_h, int out_w,
                                    const double *dy, double *dx)
{
    memset(dx, 0, sizeof *dx * n * c * h * w);
    FOR_EACH_OUTPUT(n, c, out_h, out_w)
    {
        window v = adaptive_window(h, w, out_h, out_w, oh, ow);
        spread(v, w, dy[((size_t)p * out_h + oh) * out_w + ow] / area(v), dx + (size_t)p * h * w);
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
