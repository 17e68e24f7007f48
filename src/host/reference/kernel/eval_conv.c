/* conv, conv_depthwise:
 *     y[g*fan_out + o, h, w] = sum over i, kh, kw of
 *         weight[g][o][i][kh][kw] * x[g, i, h + d (kh - K_H/2), w + d (kw - K_W/2)]
 * zero outside; g and i as in a fully-connected map (depthwise: g is every channel, i is none). */
#include "host/reference/kernel/evaluate.h"

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

/* The range [begin, end) of pixels along a row or column whose neighbour at a distance is inside
 * the image too. */
static long begin(long distance)
{
    return distance < 0 ? -distance : 0;
}

static long end(long distance, long size)
{
    return distance > 0 ? size - distance : size;
}

/* Visits one tap for every output channel of a group; `weight` is the index for the first of
 * them. */
static void add_tap(const kas_ref_node *n, const kas_ref_values *v, const kas_ref_gradients *d,
                    accumulate *add, size_t group, size_t weight, size_t in, long dh, long dw)
{
    const image size = image_of(&n->out);
    const size_t area = (size_t)(size.h * size.w);
    for (long h = begin(dh); h < end(dh, size.h); h++)
        for (long w = begin(dw); w < end(dw, size.w); w++)
            for (size_t o = 0; o < n->fan_out; o++)
                add(v, d, (group * n->fan_out + o) * area + (size_t)(h * size.w + w),
                    weight + o * n->fan_in, in * area + (size_t)((h + dh) * size.w + w + dw));
}

static void each(const kas_ref_node *n, const kas_ref_values *v, const kas_ref_gradients *d,
                 accumulate *add)
{
    const long taps = (long)n->kernel_h * n->kernel_w;
    const size_t channels = n->groups * n->fan_in / (size_t)taps;
    for (size_t c = 0; c < channels; c++) {
        size_t g, i;
        kas_ref_split_channel(n, c, &g, &i);
        for (long tap = 0; tap < taps; tap++)
            add_tap(n, v, d, add, g, g * n->fan_out * n->fan_in + i * (size_t)taps + (size_t)tap, c,
                    n->dilation * (tap / n->kernel_w - (long)n->kernel_h / 2),
                    n->dilation * (tap % n->kernel_w - (long)n->kernel_w / 2));
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

const kas_ref_op kas_eval_conv = {forward, backward, kas_eval_fc_sizes};
