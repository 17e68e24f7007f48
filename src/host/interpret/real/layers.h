/* The layers of a network. A backward function overwrites dx. */
#ifndef KAS_INTERPRET_REAL_LAYERS_H
#define KAS_INTERPRET_REAL_LAYERS_H

#include "host/interpret/real/kernel.h"

/* A layer with its first input. */
typedef struct place {
    const kas_interpreter *p;
    const kas_layer *l, *in;
    size_t n, area, in_area; /* images, pixels of the output and of the input */
    const real *x;
    real *y;
    const real *dy;
    real *dx;    /* never NULL */
    bool wanted; /* of the backward pass: somebody reads dx */
} place;

/* ---- convolution, linear layer --------------------------------------------------------------- */

static bool is_same(const place *a)
{
    return a->l->stride == 1 && a->l->h == a->in->h && a->l->w == a->in->w;
}

/* One tap of one channel for every pixel of the output: from x, or added to dx. */
static void tap(const place *a, int kh, int kw, const real *x, real *column, real *dx)
{
    const kas_layer *l = a->l;
    if (is_same(a)) {
        const neighbour n = neighbour_at((size_t)l->h, (size_t)l->w, kh - l->pad_h, kw - l->pad_w);
        if (dx)
            scatter(&n, column, dx);
        else
            gather(&n, x, column);
        return;
    }
    for (int h = 0; h < l->h; h++)
        for (int w = 0; w < l->w; w++) {
            const int i = h * l->stride + kh - l->pad_h, j = w * l->stride + kw - l->pad_w;
            const bool in = i >= 0 && j >= 0 && i < a->in->h && j < a->in->w;
            const size_t at = in ? (size_t)i * (size_t)a->in->w + (size_t)j : 0;
            if (!dx)
                column[h * l->w + w] = in ? x[at] : 0;
            else if (in)
                dx[at] += column[h * l->w + w];
        }
}

/* The taps of `channels` channels, as [channel][kh][kw][pixel]. */
static void taps(const place *a, size_t channels, const real *x, real *columns, real *dx)
{
    for (size_t c = 0; c < channels; c++)
        for (int kh = 0; kh < a->l->kernel_h; kh++)
            for (int kw = 0; kw < a->l->kernel_w; kw++, columns += a->area)
                tap(a, kh, kw, x ? x + c * a->in_area : NULL, columns,
                    dx ? dx + c * a->in_area : NULL);
}

static bool is_pointwise(const place *a)
{
    return is_same(a) && a->l->kernel_h == 1 && a->l->kernel_w == 1;
}

typedef struct conv {
    size_t groups, in, out, fan_in; /* channels of a group */
    const kas_interpret_weight *weight;
} conv;

static conv conv_of(const place *a)
{
    const kas_layer *l = a->l;
    const size_t groups = (size_t)l->groups, in = (size_t)a->in->c / groups;
    const int layer = (int)(l - a->p->options.net->layer);
    return (conv){groups, in, (size_t)l->c / groups, in * (size_t)(l->kernel_h * l->kernel_w),
                  &a->p->weight[a->p->first[layer]]};
}

static void conv_forward(const place *a)
{
    const conv c = conv_of(a);
    const real *weight = (real *)a->p->value + c.weight->at;
    const real *bias = a->l->bias ? (real *)a->p->value + c.weight[1].at : NULL;
    for (size_t n = 0; n < a->n; n++)
        for (size_t g = 0; g < c.groups; g++) {
            const real *x = a->x + (n * c.groups + g) * c.in * a->in_area;
            real *y = a->y + (n * c.groups + g) * c.out * a->area;
            if (!is_pointwise(a))
                taps(a, c.in, x, a->p->work, NULL);
            map_forward(c.out, c.fan_in, a->area, weight + g * c.out * c.fan_in,
                        is_pointwise(a) ? x : a->p->work, y);
            for (size_t o = 0; bias && o < c.out; o++)
                EACH(a->area, y[o * a->area + i] += bias[g * c.out + o]);
        }
}

static void bias_slopes(const place *a, const kas_interpret_weight *bias)
{
    real *slope = (real *)a->p->slope + bias->at;
    for (size_t k = 0; k < a->n * (size_t)a->l->c; k++)
        slope[k % (size_t)a->l->c] += sum_of(a->area, a->dy + k * a->area);
}

static void conv_backward(const place *a)
{
    const conv c = conv_of(a);
    const real *weight = (real *)a->p->value + c.weight->at;
    real *work = a->p->work, *slope = a->p->slope ? (real *)a->p->slope + c.weight->at : NULL;
    if (a->wanted)
        set(a->n * (size_t)a->in->c * a->in_area, a->dx, 0);
    for (size_t n = 0; n < a->n; n++)
        for (size_t g = 0; g < c.groups; g++) {
            const real *x = a->x + (n * c.groups + g) * c.in * a->in_area;
            const real *dy = a->dy + (n * c.groups + g) * c.out * a->area;
            if (slope) {
                taps(a, c.in, x, work, NULL);
                map_weight(c.out, c.fan_in, a->area, work, dy, slope + g * c.out * c.fan_in,
                           work + c.fan_in * a->area);
            }
            if (!a->wanted)
                continue;
            map_backward(c.out, c.fan_in, a->area, weight + g * c.out * c.fan_in, dy, work, false);
            taps(a, c.in, NULL, work, a->dx + (n * c.groups + g) * c.in * a->in_area);
        }
    if (slope && a->l->bias)
        bias_slopes(a, &c.weight[1]);
}

static void linear_forward(const place *a)
{
    const conv c = conv_of(a);
    const real *bias = a->l->bias ? (real *)a->p->value + c.weight[1].at : NULL;
    transpose(c.out, c.in, (real *)a->p->value + c.weight->at, a->p->work);
    matmul(a->n, c.out, c.in, (matrix){a->x, c.in, 1}, a->p->work, c.out, a->y, c.out, false);
    for (size_t k = 0; bias && k < a->n * c.out; k++)
        a->y[k] += bias[k % c.out];
}

static void linear_backward(const place *a)
{
    const conv c = conv_of(a);
    matmul(a->n, c.in, c.out, (matrix){a->dy, c.out, 1}, (real *)a->p->value + c.weight->at, c.in,
           a->dx, c.in, false);
    if (!a->p->slope)
        return;
    matmul(c.out, c.in, a->n, (matrix){a->dy, 1, c.out}, a->x, c.in,
           (real *)a->p->slope + c.weight->at, c.in, true);
    if (a->l->bias)
        bias_slopes(a, &c.weight[1]);
}

/* ---- norms ----------------------------------------------------------------------------------- */

static real *channel(const place *a, const real *tensor, size_t n, size_t c)
{
    return (real *)tensor + (n * (size_t)a->l->c + c) * a->area;
}

static void batch_norm_forward(const place *a, real *mean, real *rstd)
{
    const double count = (double)(a->n * a->area);
    for (size_t c = 0; c < (size_t)a->l->c; c++) {
        double sum = 0, squares = 0;
        for (size_t n = 0; n < a->n; n++)
            sum += (double)sum_of(a->area, channel(a, a->x, n, c));
        const real middle = (real)(sum / count);
        for (size_t n = 0; n < a->n; n++) {
            const real *x = channel(a, a->x, n, c);
            real part = 0;
#pragma omp simd reduction(+ : part)
            for (size_t i = 0; i < a->area; i++)
                part += (x[i] - middle) * (x[i] - middle);
            squares += (double)part;
        }
        mean[c] = middle;
        rstd[c] = (real)(1 / sqrt(squares / count + a->l->eps));
        for (size_t n = 0; n < a->n; n++) {
            const real *x = channel(a, a->x, n, c), factor = rstd[c];
            real *y = channel(a, a->y, n, c);
            EACH(a->area, y[i] = (x[i] - middle) * factor);
        }
    }
}

static void batch_norm_backward(const place *a, const real *mean, const real *rstd)
{
    const double count = (double)(a->n * a->area);
    for (size_t c = 0; c < (size_t)a->l->c; c++) {
        double sum = 0, product = 0;
        for (size_t n = 0; n < a->n; n++) {
            sum += (double)sum_of(a->area, channel(a, a->dy, n, c));
            product += (double)dot(a->area, channel(a, a->x, n, c), channel(a, a->dy, n, c));
        }
        const real factor = rstd[c], middle = mean[c], first = (real)(sum / count);
        const real second =
            (real)((product - (double)middle * sum) * (double)factor / count) * factor;
        for (size_t n = 0; n < a->n; n++) {
            const real *x = channel(a, a->x, n, c), *dy = channel(a, a->dy, n, c);
            real *dx = channel(a, a->dx, n, c);
            EACH(a->area, dx[i] = (dy[i] - first - (x[i] - middle) * second) * factor);
        }
    }
}

/* Over the channels of each pixel. */
static void layer_norm(const place *a, bool backward)
{
    const size_t c = (size_t)a->l->c, part = c * a->area;
    for (size_t n = 0; n < a->n; n++)
        if (backward) {
            set(part, a->dx + n * part, 0);
            norm_columns_backward(c, a->area, (real)a->l->eps, a->x + n * part, a->dy + n * part,
                                  a->dx + n * part, a->p->work);
        } else {
            norm_columns_forward(c, a->area, (real)a->l->eps, a->x + n * part, a->y + n * part,
                                 a->p->work);
        }
}

/* Multiplies each channel of a norm's output by its factor, and adds its offset. */
static void norm_affine(const place *a, const real *factor, const real *offset)
{
    for (size_t n = 0; n < a->n; n++)
        for (size_t c = 0; c < (size_t)a->l->c; c++) {
            real *y = channel(a, a->y, n, c);
            EACH(a->area, y[i] = y[i] * factor[c] + offset[c]);
        }
}

/* ---- activations ----------------------------------------------------------------------------- */

static inline real between(real x, real low, real high)
{
    return x <= low ? low : x >= high ? high : x;
}

static void activation_forward(kas_layer_op op, size_t n, const real *x, real *y)
{
    switch (op) {
    case KAS_LAYER_RELU:
        function_forward(KAS_OP_RELU, n, x, y);
        return;
    case KAS_LAYER_RELU6:
        EACH(n, y[i] = between(x[i], 0, 6));
        return;
    case KAS_LAYER_SILU:
        EACH(n, y[i] = x[i] / (1 + exp(-x[i])));
        return;
    case KAS_LAYER_HARD_SWISH:
        EACH(n, y[i] = x[i] * between(x[i] + 3, 0, 6) / 6);
        return;
    case KAS_LAYER_HARD_SIGMOID:
        EACH(n, y[i] = between(x[i] + 3, 0, 6) / 6);
        return;
    case KAS_LAYER_GELU:
        function_forward(KAS_OP_GELU, n, x, y);
        return;
    default: /* sigmoid */
        function_forward(KAS_OP_SIGMOID, n, x, y);
    }
}

static void activation_backward(kas_layer_op op, size_t n, const real *x, const real *dy, real *dx)
{
    switch (op) {
    case KAS_LAYER_RELU:
        EACH(n, dx[i] = x[i] <= 0 ? 0 : dy[i]);
        return;
    case KAS_LAYER_RELU6:
        EACH(n, dx[i] = x[i] <= 0 || x[i] >= 6 ? 0 : dy[i]);
        return;
    case KAS_LAYER_SILU:
        EACH(n, const real s = 1 / (1 + exp(-x[i])); dx[i] = dy[i] * (s + x[i] * s * (1 - s)));
        return;
    case KAS_LAYER_HARD_SWISH:
        EACH(n, dx[i] = x[i] <= -3 ? 0 : x[i] >= 3 ? dy[i] : dy[i] * (x[i] / 3 + (real)0.5));
        return;
    case KAS_LAYER_HARD_SIGMOID:
        EACH(n, dx[i] = x[i] <= -3 || x[i] >= 3 ? 0 : dy[i] / 6);
        return;
    default:
        set(n, dx, 0);
        function_backward(op == KAS_LAYER_GELU ? KAS_OP_GELU : KAS_OP_SIGMOID, n, x, dy, dx);
    }
}

/* ---- pools ----------------------------------------------------------------------------------- */

typedef struct window {
    int top, bottom, left, right; /* inside the image */
    real count;                   /* by which a mean divides */
} window;

static int least(int a, int b)
{
    return a < b ? a : b;
}

static window window_at(const place *a, int h, int w)
{
    const kas_layer *l = a->l, *in = a->in;
    if (l->op == KAS_LAYER_GLOBAL_AVG_POOL)
        return (window){0, in->h, 0, in->w, (real)(in->h * in->w)};
    if (l->op == KAS_LAYER_ADAPTIVE_AVG_POOL) {
        window v = {h * in->h / l->h, ((h + 1) * in->h + l->h - 1) / l->h, w * in->w / l->w,
                    ((w + 1) * in->w + l->w - 1) / l->w, 0};
        v.count = (real)((v.bottom - v.top) * (v.right - v.left));
        return v;
    }
    const int top = h * l->stride - l->pad_h, left = w * l->stride - l->pad_w;
    const int bottom = least(top + l->kernel_h, in->h + l->pad_h);
    const int right = least(left + l->kernel_w, in->w + l->pad_w);
    window v = {top > 0 ? top : 0, least(bottom, in->h), left > 0 ? left : 0, least(right, in->w),
                0};
    v.count = l->count_include_pad ? (real)((bottom - top) * (right - left))
                                   : (real)((v.bottom - v.top) * (v.right - v.left));
    return v;
}

/* The first of the largest pixels of a window. */
static size_t largest(const place *a, const window *v, const real *x)
{
    size_t best = (size_t)v->top * (size_t)a->in->w + (size_t)v->left;
    for (int i = v->top; i < v->bottom; i++)
        for (int j = v->left; j < v->right; j++) {
            const size_t at = (size_t)i * (size_t)a->in->w + (size_t)j;
            if (x[at] > x[best] || (isnan(x[at]) && !isnan(x[best])))
                best = at;
        }
    return best;
}

static void pool_window(const place *a, const window *v, const real *x, real *y, const real *dy,
                        real *dx)
{
    if (a->l->op == KAS_LAYER_MAX_POOL) {
        const size_t at = largest(a, v, x);
        if (dx)
            dx[at] += *dy;
        else
            *y = x[at];
        return;
    }
    real sum = 0;
    for (int i = v->top; i < v->bottom; i++)
        for (int j = v->left; j < v->right; j++) {
            const size_t at = (size_t)i * (size_t)a->in->w + (size_t)j;
            if (dx)
                dx[at] += *dy / v->count;
            else
                sum += x[at];
        }
    if (!dx)
        *y = sum / v->count;
}

static void pool(const place *a, bool backward)
{
    const size_t planes = a->n * (size_t)a->l->c;
    if (backward)
        set(planes * a->in_area, a->dx, 0);
    for (size_t p = 0; p < planes; p++)
        for (int h = 0; h < a->l->h; h++)
            for (int w = 0; w < a->l->w; w++) {
                const window v = window_at(a, h, w);
                const size_t at = p * a->area + (size_t)(h * a->l->w + w);
                pool_window(a, &v, a->x + p * a->in_area, a->y + at, backward ? a->dy + at : NULL,
                            backward ? a->dx + p * a->in_area : NULL);
            }
}

/* Every stride-th pixel; the new channels are zero, half of them in front. */
static void shortcut(const place *a, bool backward)
{
    const kas_layer *l = a->l, *in = a->in;
    const size_t before = (size_t)(l->c - in->c) / 2;
    if (backward)
        set(a->n * (size_t)in->c * a->in_area, a->dx, 0);
    else
        set(a->n * (size_t)l->c * a->area, a->y, 0);
    for (size_t n = 0; n < a->n; n++)
        for (size_t c = 0; c < (size_t)in->c; c++)
            for (int h = 0; h < l->h; h++)
                for (int w = 0; w < l->w; w++) {
                    const size_t y =
                        (n * (size_t)l->c + before + c) * a->area + (size_t)(h * l->w + w);
                    const size_t x = (n * (size_t)in->c + c) * a->in_area +
                                     (size_t)(h * l->stride * in->w + w * l->stride);
                    if (backward)
                        a->dx[x] = a->dy[y];
                    else
                        a->y[y] = a->x[x];
                }
}

#endif
