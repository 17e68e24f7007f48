/* Launches of our own convolution kernels on the GPU. */
#include "cuda/conv_cuda.h"
#include "device_code/prelude.h"
#include "device_code/args.h"

/* KAS_THREADS gives each lane a thread of its own, so a block is as wide as the lanes; rows of
 * pixels fill it up. */
enum { ROWS = KAS_BLOCK_MAX / KAS_CONV_LANES };

static bool is_depthwise(const kas_conv_desc *d)
{
    return d->c_in == d->groups && d->c_out == d->groups;
}

static unsigned chunks(int channels)
{
    return (unsigned)(channels + KAS_CONV_LANES - 1) / KAS_CONV_LANES;
}

static kas_conv_args args_of(const kas_conv_desc *d)
{
    return (kas_conv_args){
        .n = d->n,
        .h = d->h,
        .width = d->w,
        .c_in = d->c_in,
        .c_out = d->c_out,
        .groups = d->groups,
        .group_in = d->c_in / d->groups,
        .group_out = d->c_out / d->groups,
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
    };
}

static void grid_of(const kas_conv_desc *d, const kas_conv_args *a, kas_conv_pass pass,
                    unsigned grid[3])
{
    const unsigned taps = (unsigned)(a->kernel_h * a->kernel_w);
    const bool depthwise = is_depthwise(d), forward = pass == KAS_CONV_FORWARD;
    if (pass == KAS_CONV_BACKWARD_WEIGHTS) {
        grid[0] = depthwise ? taps : (unsigned)a->c_out;
        grid[1] = depthwise ? chunks(a->c_in) : taps;
        grid[2] = depthwise ? 1 : chunks(a->group_in);
        return;
    }
    grid[0] = (unsigned)a->n * (unsigned)(forward ? a->out_h : a->h);
    grid[1] = depthwise ? chunks(a->c_in) : (unsigned)a->groups;
    grid[2] = depthwise ? 1 : chunks(forward ? a->group_out : a->group_in);
}

kas_status kas_direct_create(kas_cuda *cuda, const kas_conv_desc *desc, kas_direct *out)
{
    static const char *const name[2][3] = {
        {"kas_dev_conv_forward", "kas_dev_conv_backward_data", "kas_dev_conv_backward_weights"},
        {"kas_dev_depthwise_forward", "kas_dev_depthwise_backward_data",
         "kas_dev_depthwise_backward_weights"}};
    kas_module *module;
    if (desc->c_in / desc->groups > 65535 || desc->groups > 65535 ||
        desc->kernel_h * desc->kernel_w > 65535)
        return kas_fail(KAS_UNSUPPORTED, "convolution: at most 65535 groups, channels of a group "
                                         "and taps are allowed on a GPU");
    KAS_TRY(kas_cuda_module_builtin(&cuda->base, desc->number, &module));
    KAS_TRY(kas_cuda_module_function(module, "kas_dev_conv_weights", &out->weights));
    for (int pass = 0; pass < 3; pass++)
        KAS_TRY(kas_cuda_module_function(module, name[is_depthwise(desc)][pass], &out->pass[pass]));
    const size_t weights = (size_t)desc->c_out * (size_t)(desc->c_in / desc->groups) *
                           (size_t)(desc->kernel_h * desc->kernel_w);
    if (weights > KAS_CUDA_MAX_WORKSPACE / sizeof(float))
        return kas_fail(KAS_UNSUPPORTED,
                        "convolution: %zu weights; at most %zu are allowed on a GPU", weights,
                        KAS_CUDA_MAX_WORKSPACE / sizeof(float));
    return kas_cuda_reserve_workspace(cuda, weights * sizeof(float));
}

kas_status kas_direct_run(kas_cuda *cuda, const kas_direct *direct, const kas_conv_desc *desc,
                          kas_conv_pass pass, void *x, void *w, void *y)
{
    kas_conv_args args = args_of(desc);
    unsigned grid[3];
    args.x = x, args.w = w, args.dw = (float *)w, args.y = y;
    args.wt = (float *)(uintptr_t)cuda->workspace;
    if (pass == KAS_CONV_FORWARD || (pass == KAS_CONV_BACKWARD_DATA && is_depthwise(desc))) {
        const unsigned transpose[3] = {(unsigned)(desc->kernel_h * desc->kernel_w),
                                       (unsigned)args.group_in, 1};
        KAS_TRY(kas_cuda_launch(cuda, direct->weights, transpose,
                                (unsigned[3]){KAS_CONV_LANES, 1, 1}, &args));
    }
    grid_of(desc, &args, pass, grid);
    const unsigned rows = pass == KAS_CONV_BACKWARD_WEIGHTS ? 1 : ROWS;
    return kas_cuda_launch(cuda, direct->pass[pass], grid, (unsigned[3]){KAS_CONV_LANES, rows, 1},
                           &args);
}
