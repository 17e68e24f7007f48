/* Convolutions of stride 1 that oneDNN computes slowly, over lines of pixels: windows of groups with
 * few channels, depthwise windows whose taps lie apart, and maps with very few outputs or inputs.
 * Shared by conv_lines.cu and conv_lines_weights.cu, which are built by the compiler for device
 * code, and by cpu_conv_lines.c. */
#ifndef KAS_DEVICE_CPU_CONV_LINES_H
#define KAS_DEVICE_CPU_CONV_LINES_H

#include "cuda/kernels/prelude.h"

#include "cuda/kernels/args.h"

enum {
    KAS_LINE_LANES = 16, /* channels of a vector */
    KAS_LINE_RUN = 8,    /* pixels computed together */
    KAS_LINE_FEW = 4,    /* most channels of the narrow side of a map */
    KAS_LINE_READS = 16, /* most channels that a group reads */
    KAS_LINE_SPAN = 32,  /* most neighbouring channels that the groups of a vector read */
    KAS_LINE_FLOATS = 32768,
    KAS_LINE_WEIGHTS = 8192,
    KAS_LINE_WIDTH = 512, /* most pixels of a line of results */
    KAS_LINE_SLOTS = 16   /* blocks that share the images, whatever the number of threads */
};

/* A pass over the padded lines of `from`, [n][h][width] pixels: x or dy. `to` has the pixels
 * [n][out_h][out_w]: the result, y or dx, or, for the gradient of the weights, dy or x. */
typedef struct kas_lines_args {
    const kas_real *from, *w;
    kas_real *to;
    float *dw, *partial;      /* partial: [slots][weights] */
    const float *bias;        /* of an epilogue, [channels of `to`]; else NULL */
    const kas_real *residual; /* of one, like `to`; else NULL */
    int n, h, width, out_h, out_w, from_pitch, to_pitch;
    int channels; /* of the wide side, which is read; of groups: all of the side with the lanes */
    int few;      /* channels of the narrow side; of groups: 0 */
    /* Channels of a group, 1 and 1 for depthwise windows: those that are read, and those on the
     * side with the lanes, which is the result's, or the one that lies at `to`. */
    int reads, lanes;
    int kernel_h, kernel_w, dilation, pad_h, pad_w;
    int flipped; /* `from` is dy: the taps of w are read backwards, and outputs are its wide side */
    int images;  /* of a vector: 2 where all channels are at most half of one */
    int slots;   /* grid y; grid x counts vectors of channels, or is 1 */
} kas_lines_args;

/* Returns the channels of the wide side, in whole vectors. */
static inline int kas_lines_vectors(const kas_lines_args *a)
{
    return (a->channels + KAS_LINE_LANES - 1) / KAS_LINE_LANES;
}
/* Returns the pixels of a padded line. */
static inline int kas_lines_padded(const kas_lines_args *a)
{
    return (a->out_w < KAS_LINE_RUN ? KAS_LINE_RUN : a->out_w) + (a->kernel_w - 1) * a->dilation;
}
/* Returns how many rows of results are computed from lines that are kept together, where each line
 * has `floats` a pixel; less than 1: none. */
static inline int kas_lines_band(const kas_lines_args *a, int floats)
{
    const int lines = KAS_LINE_FLOATS / (kas_lines_padded(a) * floats);
    const int band = lines - (a->kernel_h - 1) * a->dilation;
    return band < a->out_h ? band : a->out_h;
}

#endif
