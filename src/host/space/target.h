/* A convolution of a network that a kernel may replace, as the search space sees it.
 *
 * Filled by net/targets.h (the replacement rules of docs/design.md), read by the solvers, the JIT
 * and the reference.  With c = gcd(c_in, c_out), the layer is made of parts_in x parts_out
 * instances of the template [c, h, w] -> [c, h, w] (paper, Figure 2, and its completion for
 * channels where neither divides the other):
 *
 *     instance (q, p), q < parts_out, p < parts_in, reads input channels [p*c, (p+1)*c) and adds to
 *     output channels [q*c, (q+1)*c);  output part q = sum over p / sqrt(parts_in).
 *
 * Every instance has weights of its own. Instance number r = q * parts_in + p.
 */
#ifndef KAS_SPACE_TARGET_H
#define KAS_SPACE_TARGET_H

#include <stdint.h>

#include "host/device/epilogue.h"

typedef struct kas_target {
    char name[64];                /* of the layer in the network, e.g. "layer2.0.conv1" */
    int layer;                    /* index of the layer in the network */
    uint32_t c_in, c_out;         /* channels of the convolution */
    uint32_t c;                   /* channels of the template: gcd(c_in, c_out) */
    uint32_t parts_in, parts_out; /* c_in / c, c_out / c */
    uint32_t h, w; /* height, width of the OUTPUT: the stride is taken before the kernel */
    uint32_t kernel_h, kernel_w;
    uint32_t stride;       /* of the convolution; an average pool before the kernel */
    kas_epilogue epilogue; /* behind the layer */
} kas_target;

/* The plain one: as many channels out as in, stride 1. A constant: `{...}` of a literal name. */
#define KAS_TARGET_PLAIN(label, channels, height, width, kernel)                                   \
    {                                                                                              \
        .name = label, .c_in = (channels), .c_out = (channels), .c = (channels), .parts_in = 1,    \
        .parts_out = 1, .h = (height), .w = (width), .kernel_h = (kernel), .kernel_w = (kernel),   \
        .stride = 1                                                                                \
    }

/* The same at run time; its name is empty. */
static inline kas_target kas_target_plain(uint32_t channels, uint32_t h, uint32_t w,
                                          uint32_t kernel)
{
    return (kas_target)KAS_TARGET_PLAIN("", channels, h, w, kernel);
}

/* Cost of the convolution that is replaced, per image. A multiply-add counts as one. */
static inline double kas_target_conv_flops(const kas_target *t)
{
    return (double)t->c_in * t->c_out * t->kernel_h * t->kernel_w * t->h * t->w;
}

static inline double kas_target_conv_params(const kas_target *t)
{
    return (double)t->c_in * t->c_out * t->kernel_h * t->kernel_w;
}

/* Elements of the convolution's input an image, unfolded by its window, of all instances: what a
 * kernel that is the convolution itself has as its largest tensor. */
static inline double kas_target_unfolded(const kas_target *t)
{
    return (double)t->parts_in * t->parts_out * t->c * t->kernel_h * t->kernel_w * t->h * t->w;
}

/* FLOPs around the instances of a kernel: the sum of the input parts, and the average pool that
 * takes the stride (docs/primitives.md, "Cost of a layer"). */
static inline double kas_target_fixed_flops(const kas_target *t)
{
    double sum = t->parts_in > 1 ? (double)t->parts_in * t->c_out * t->h * t->w : 0;
    double h = (double)t->h * t->stride, w = (double)t->w * t->stride;
    return sum + (t->stride > 1 ? (double)t->c_in * h * w : 0);
}

#endif
