/* A convolution or linear layer of a network that a kernel may replace, as the search space sees
 * it. A linear layer is a 1x1 convolution of one pixel.
 *
 * net/targets.h fills it by the replacement rules of docs/design.md; the solvers, the JIT and the
 * reference read it. With c = gcd(c_in, c_out), the layer is made of parts_in x parts_out instances
 * of the template [c, h, w] -> [c, h, w] (paper, Figure 2, extended to channels where neither
 * number divides the other):
 *
 *     instance (q, p), q < parts_out, p < parts_in, reads input channels [p*c, (p+1)*c) and adds to
 *     output channels [q*c, (q+1)*c);  output part q = sum over p / sqrt(parts_in).
 *
 * Every instance has weights of its own. Its number is r = q * parts_in + p. */
#ifndef KAS_SPACE_TARGET_H
#define KAS_SPACE_TARGET_H

#include <stdint.h>

#include "host/device/epilogue.h"

typedef struct kas_target {
    char name[64];                /* name of the layer in the network, e.g. "layer2.0.conv1" */
    int layer;                    /* index of the layer in the network */
    uint32_t c_in, c_out;         /* channels of the convolution */
    uint32_t c;                   /* channels of the template: gcd(c_in, c_out) */
    uint32_t parts_in, parts_out; /* c_in / c, c_out / c */
    uint32_t h, w; /* height and width of the OUTPUT: the stride is taken before the kernel */
    uint32_t kernel_h, kernel_w;
    /* Stride of the convolution; becomes an average pool before the kernel */
    uint32_t stride;
    kas_epilogue epilogue; /* what the network does with the layer's output */
    /* Of the convolution that is replaced; 0 = 1. They count in its cost alone: the template spans
     * all channels, so that a kernel may bring together what groups keep apart. */
    uint32_t groups;
    uint32_t in_h, in_w; /* height and width of the layer's input; 0: h * stride, w * stride */
} kas_target;

/* Initialises a plain target: as many output channels as input channels, stride 1. It is a constant
 * initialiser; `label` is a string literal. */
#define KAS_TARGET_PLAIN(label, channels, height, width, kernel)                                   \
    {                                                                                              \
        .name = label, .c_in = (channels), .c_out = (channels), .c = (channels), .parts_in = 1,    \
        .parts_out = 1, .h = (height), .w = (width), .kernel_h = (kernel), .kernel_w = (kernel),   \
        .stride = 1                                                                                \
    }

/* Returns a plain target without a name. */
static inline kas_target kas_target_plain(uint32_t channels, uint32_t h, uint32_t w,
                                          uint32_t kernel)
{
    return (kas_target)KAS_TARGET_PLAIN("", channels, h, w, kernel);
}

/* Gets height and width of what a kernel reads at a target: of the layer's input where the kernel
 * takes the stride, else of its output. */
static inline void kas_target_read(const kas_target *t, bool stride_inside, uint32_t *h,
                                   uint32_t *w)
{
    const bool whole = stride_inside && t->stride > 1;
    *h = !whole ? t->h : t->in_h ? t->in_h : t->h * t->stride;
    *w = !whole ? t->w : t->in_w ? t->in_w : t->w * t->stride;
}

/* Returns whether two targets are convolutions of the same sizes, at inputs of the same size. */
static inline bool kas_target_same_sizes(const kas_target *a, const kas_target *b)
{
    return a->c_in == b->c_in && a->c_out == b->c_out && a->h == b->h && a->w == b->w &&
           a->kernel_h == b->kernel_h && a->kernel_w == b->kernel_w && a->stride == b->stride &&
           a->groups == b->groups && a->in_h == b->in_h && a->in_w == b->in_w;
}

/* Returns which of the targets is layer `layer`; -1: none. */
static inline int kas_target_at(const kas_target *targets, int count, int layer)
{
    for (int t = 0; t < count; t++)
        if (targets[t].layer == layer)
            return t;
    return -1;
}

/* Return the cost of the convolution that is replaced, per image. A multiply-add counts
 * as one FLOP. */
static inline double kas_target_conv_flops(const kas_target *t)
{
    return (double)t->c_in * t->c_out * t->kernel_h * t->kernel_w * t->h * t->w /
           (t->groups > 1 ? t->groups : 1);
}

static inline double kas_target_conv_params(const kas_target *t)
{
    return (double)t->c_in * t->c_out * t->kernel_h * t->kernel_w / (t->groups > 1 ? t->groups : 1);
}

/* Returns the FLOPs around the instances of a kernel: the sum of the input parts, and the average
 * pool that takes the stride, unless the kernel does (docs/primitives.md, "Cost of a layer"). */
static inline double kas_target_fixed_flops(const kas_target *t, bool stride_inside)
{
    double sum = t->parts_in > 1 ? (double)t->parts_in * t->c_out * t->h * t->w : 0;
    double h = (double)t->h * t->stride, w = (double)t->w * t->stride;
    return sum + (t->stride > 1 && !stride_inside ? (double)t->c_in * h * w : 0);
}

#endif
