/* conv, conv_depthwise:
 *     y[g*fan_out + o, h, w] = sum over i, kh, kw of
 *         weight[g][o][i][kh][kw] * x[g, i, h + d (kh - K_H/2), w + d (kw - K_W/2)]
 * zero outside; g and i as in a fully-connected map (depthwise: g is every channel, i is none). */
#include "host/reference/evaluate.h"

typedef struct image {
    long h, w; /* 1 for a dim that the tensor has lost */
} image;

static image image_of(const kas_ref_shape *shape)
{
    return (image){shape->has_h ? shape->size[shape->channels] : 1,
                   shape->has_w ? shape->size[shape->channels + shape->has_h] : 1};
}

/* Calls `add` for every multiply-add: index of the output, the weight and the input. */
typedef void accumulate(const kas_ref_values *v, const kas_ref_gradients *g, size_t y, size_t w,
                        size_t x);

static void add_pixels(const kas_ref_node *n, const kas_ref_values *v, const kas_ref_gradients *g,
                       accumulate *add, size_t out, size_t weight, size_t in, long dh, long dw)
{
    const image size = image_of(&n->out);
    const size_t area = (size_t)(size.h * size.w);
    for (long h = 0; h < size.h; h++)
        for (long w = 0; w < size.w; w++)
            if (h + dh >= 0 && h + dh < size.h && w + dw >= 0 && w + dw < size.w)
                add(v, g, out * area + (size_t)(h * size.w + w), weight,
                    in * area + (size_t)((h + dh) * size.w + w + dw));
}

static void each(const kas_ref_node *n, const kas_ref_values *v, const kas_ref_gradients *d,
                 accumulate *add)
{
    const size_t taps = (size_t)n->kernel_h * n->kernel_w;
    const size_t channels = n->groups * n->fan_in / taps;
    for (size_t c = 0; c < channels; c++) {
        size_t g, i;
        kas_ref_split_channel(n, c, &g, &i);
        for (size_t o = 0; o < n->fan_out; o++)
            for (size_t tap = 0; tap < taps; tap++) {
                const size_t out = g * n->fan_out + o;
                const long kh = (long)(tap / n->kernel_w), kw = (long)(tap % n->kernel_w);
                add_pixels(n, v, d, add, out, out * n->fan_in + i * taps + tap, c,
                           n->dilation * (kh - (long)n->kernel_h / 2),
                           n->dilation * (kw - (long)n->kernel_w / 2));
            }
    }
}

static void add_forward(const kas_ref_values *v, const kas_ref_gradients *g, size_t y, size_t w,
                        size_t x)
{
    (void)g;
    v->y[y] += v->weight[w] * v->in[0][x];
}

static void add_backward(const kas_ref_values *v, const kas_ref_gradients *g, size_t y, size_t w,
                         size_t x)
{
    g->din[0][x] += v->weight[w] * g->dy[y];
    g->dweight[w] += v->in[0][x] * g->dy[y];
}

static void forward(const kas_ref_node *n, const kas_ref_values *v)
{
    for (size_t e = 0; e < n->out.elements; e++)
        v->y[e] = 0;
    each(n, v, NULL, add_forward);
}

static void backward(const kas_ref_node *n, const kas_ref_values *v, const kas_ref_gradients *g)
{
    each(n, v, g, add_backward);
}

const kas_ref_op kas_ref_conv = {forward, backward};
