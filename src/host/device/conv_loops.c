#include "host/device/conv_loops.h"

#include <math.h>

const char *kas_conv_loops_name(const kas_conv_desc *desc, kas_conv_pass pass)
{
    static const char *const name[2][3] = {
        {"kas_dev_conv_forward", "kas_dev_conv_backward_data", "kas_dev_conv_backward_weights"},
        {"kas_dev_depthwise_forward", "kas_dev_depthwise_backward_data",
         "kas_dev_depthwise_backward_weights"}};
    return name[kas_conv_is_depthwise(desc)][pass];
}

bool kas_conv_loops_transpose(const kas_conv_desc *desc, kas_conv_pass pass)
{
    return pass == KAS_CONV_FORWARD ||
           (pass == KAS_CONV_BACKWARD_DATA && kas_conv_is_depthwise(desc));
}

/* Returns whether all 16-byte accesses are aligned: pixels have `pitch` elements, in groups of
 * `channels` lanes. */
static bool whole(const kas_conv_desc *d, int channels, int pitch, const void *pixels,
                  const void *weights)
{
    const int width = 16 / (int)kas_dtype_size(d->dtype);
    return channels % width == 0 && pitch % width == 0 && kas_is_aligned(pixels) &&
           kas_is_aligned(weights);
}

kas_conv_args kas_conv_loops_args(const kas_conv_desc *d, void *x, void *w, void *y, float *wt)
{
    const bool depthwise = kas_conv_is_depthwise(d); /* its groups are lanes */
    const int group_in = d->c_in / d->groups, group_out = d->c_out / d->groups;
    return (kas_conv_args){
        .x = x,
        .w = w,
        .dw = w,
        .wt = wt,
        .y = y,
        .parts = 1,
        .n = d->n,
        .h = d->h,
        .width = d->w,
        .c_in = d->c_in,
        .c_out = d->c_out,
        .groups = d->groups,
        .group_in = group_in,
        .group_out = group_out,
        .kernel_h = d->kernel_h,
        .kernel_w = d->kernel_w,
        .stride = d->stride,
        .pad_h = d->pad_h,
        .pad_w = d->pad_w,
        .dilation = kas_conv_dilation(d),
        .out_h = kas_conv_out_h(d),
        .out_w = kas_conv_out_w(d),
        .x_pitch = d->x_pitch,
        .y_pitch = d->y_pitch,
        .whole_x = whole(d, depthwise ? d->c_in : group_in, d->x_pitch, x, w),
        .whole_y = whole(d, depthwise ? d->c_out : group_out, d->y_pitch, y, wt),
        .least = -INFINITY,
        .most = INFINITY,
    };
}

static unsigned chunks(int channels)
{
    return (unsigned)(channels + KAS_CONV_LANES - 1) / KAS_CONV_LANES;
}

/* Sets the block: a thread for each 16 bytes of the lanes, and as many rows of threads as `rows`
 * can use. */
static void set_block(kas_conv_launch *launch, const kas_conv_desc *d, int lanes, int rows)
{
    const unsigned width = 16 / (unsigned)kas_dtype_size(d->dtype);
    const unsigned threads =
        ((unsigned)(lanes < KAS_CONV_LANES ? lanes : KAS_CONV_LANES) + width - 1) / width;
    unsigned x = 1, y = 1;
    while (x < threads)
        x *= 2;
    while (y < (unsigned)rows && x * y < KAS_MAX_BLOCK)
        y *= 2;
    launch->block[0] = x;
    launch->block[1] = y;
    launch->block[2] = 1;
}

kas_conv_launch kas_conv_loops_launch(const kas_conv_desc *d, kas_conv_pass pass)
{
    const unsigned taps = (unsigned)(d->kernel_h * d->kernel_w);
    const bool depthwise = kas_conv_is_depthwise(d), forward = pass == KAS_CONV_FORWARD;
    const int lanes = depthwise ? d->c_in : (forward ? d->c_out : d->c_in) / d->groups;
    kas_conv_launch launch = {.grid = {1, 1, 1}};
    if (pass == KAS_CONV_BACKWARD_WEIGHTS) {
        launch.grid[0] = depthwise ? taps : (unsigned)d->c_out;
        launch.grid[1] = depthwise ? chunks(lanes) : taps;
        launch.grid[2] = depthwise ? 1 : chunks(lanes);
        set_block(&launch, d, lanes, KAS_CONV_TEAMS);
        return launch;
    }
    launch.grid[0] = (unsigned)d->n * (unsigned)(forward ? kas_conv_out_h(d) : d->h);
    launch.grid[1] = depthwise ? chunks(lanes) : (unsigned)d->groups;
    launch.grid[2] = depthwise ? 1 : chunks(lanes);
    set_block(&launch, d, lanes, forward ? kas_conv_out_w(d) : d->w);
    return launch;
}

kas_conv_launch kas_conv_loops_transpose_launch(const kas_conv_desc *d)
{
    const unsigned taps = (unsigned)(d->kernel_h * d->kernel_w);
    return (kas_conv_launch){.grid = {taps, (unsigned)(d->c_in / d->groups), 1},
                             .block = {KAS_CONV_LANES, 1, 1}};
}
