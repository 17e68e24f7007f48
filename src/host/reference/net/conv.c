/* Convolution and its two gradients as the sums that define them.
 *
 * All three visit the same pairs (output position, tap); `visit_rows` bounds the positions whose
 * tap lies inside the image, so that padding is what is left out. */
#include "host/reference/net/layers.h"

#include <string.h>

typedef struct conv_shape {
    int n, c_in, h, w, c_out, kh, kw, stride, pad_h, pad_w;
    int out_h, out_w, in_per_group, out_per_group;
} conv_shape;

static conv_shape make_shape(int n, int c_in, int h, int w, int c_out, int kh, int kw, int stride,
                             int pad_h, int pad_w, int groups)
{
    conv_shape s = {n, c_in, h, w, c_out, kh, kw, stride, pad_h, pad_w, 0, 0, 0, 0};
    s.out_h = (h + 2 * pad_h - kh) / stride + 1;
    s.out_w = (w + 2 * pad_w - kw) / stride + 1;
    s.in_per_group = c_in / groups;
    s.out_per_group = c_out / groups;
    return s;
}

/* Visits one (image, output channel, input channel of its group): the planes of x and y and the kh
 * x kw taps between them. */
typedef void (*plane_function)(const conv_shape *s, const double *x, const double *weight,
                               const double *y, double *result);

static void for_each_plane(const conv_shape *s, const double *x, const double *weight,
                           const double *y, double *result, size_t result_stride[3],
                           plane_function function)
{
    for (int n = 0; n < s->n; n++)
        for (int co = 0; co < s->c_out; co++)
            for (int i = 0; i < s->in_per_group; i++) {
                int ci = co / s->out_per_group * s->in_per_group + i;
                size_t xp = ((size_t)n * s->c_in + ci) * s->h * s->w;
                size_t yp = ((size_t)n * s->c_out + co) * s->out_h * s->out_w;
                size_t wp = ((size_t)co * s->in_per_group + i) * s->kh * s->kw;
                function(s, x ? x + xp : NULL, weight ? weight + wp : NULL, y ? y + yp : NULL,
                         result + result_stride[0] * xp + result_stride[1] * wp +
                             result_stride[2] * yp);
            }
}

/* Runs `body` for every tap (a, b) and output position (oh, ow) whose input (ih, iw) lies
 * in the image. */
#define FOR_EACH_TAP(s, body)                                                                      \
    for (int a = 0; a < (s)->kh; a++)                                                              \
        for (int b = 0; b < (s)->kw; b++)                                                          \
            for (int oh = 0; oh < (s)->out_h; oh++) {                                              \
                int ih = oh * (s)->stride + a - (s)->pad_h;                                        \
                if (ih < 0 || ih >= (s)->h)                                                        \
                    continue;                                                                      \
                for (int ow = 0; ow < (s)->out_w; ow++) {                                          \
                    int iw = ow * (s)->stride + b - (s)->pad_w;                                    \
                    if (iw < 0 || iw >= (s)->w)                                                    \
                        continue;                                                                  \
                    body;                                                                          \
                }                                                                                  \
            }

static void plane_forward(const conv_shape *s, const double *x, const double *weight,
                          const double *unused, double *y)
{
    (void)unused;
    FOR_EACH_TAP(s, y[oh * s->out_w + ow] += weight[a * s->kw + b] * x[ih * s->w + iw])
}

static void plane_backward_data(const conv_shape *s, const double *unused, const double *weight,
                                const double *dy, double *dx)
{
    (void)unused;
    FOR_EACH_TAP(s, dx[ih * s->w + iw] += weight[a * s->kw + b] * dy[oh * s->out_w + ow])
}

static void plane_backward_weight(const conv_shape *s, const double *x, const double *unused,
                                  const double *dy, double *dweight)
{
    (void)unused;
    FOR_EACH_TAP(s, dweight[a * s->kw + b] += x[ih * s->w + iw] * dy[oh * s->out_w + ow])
}

void kas_ref_conv_forward(int n, int c_in, int h, int w, int c_out, int kh, int kw, int stride,
                          int pad_h, int pad_w, int groups, const double *x, const double *weight,
                          double *y)
{
    conv_shape s = make_shape(n, c_in, h, w, c_out, kh, kw, stride, pad_h, pad_w, groups);
    memset(y, 0, sizeof *y * n * c_out * s.out_h * s.out_w);
    for_each_plane(&s, x, weight, NULL, y, (size_t[3]){0, 0, 1}, plane_forward);
}

void kas_ref_conv_backward(int n, int c_in, int h, int w, int c_out, int kh, int kw, int stride,
                           int pad_h, int pad_w, int groups, const double *x, const double *weight,
                           const double *dy, double *dx, double *dweight)
{
    conv_shape s = make_shape(n, c_in, h, w, c_out, kh, kw, stride, pad_h, pad_w, groups);
    memset(dx, 0, sizeof *dx * n * c_in * h * w);
    memset(dweight, 0, sizeof *dweight * c_out * s.in_per_group * kh * kw);
    for_each_plane(&s, NULL, weight, dy, dx, (size_t[3]){1, 0, 0}, plane_backward_data);
    for_each_plane(&s, x, NULL, dy, dweight, (size_t[3]){0, 1, 0}, plane_backward_weight);
}
