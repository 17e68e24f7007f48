/* Launches of the convolution kernels that are our own. */
#include "host/device/cpu_conv.h"

#include "device_code/prelude.h"
#include "device_code/args.h"

static bool is_depthwise(const kas_conv_desc *d)
{
    return d->c_in == d->groups && d->c_out == d->groups;
}

kas_status kas_loop_conv_create(kas_cpu *cpu, const kas_conv_desc *desc, kas_loop_conv *out)
{
    static const char *const name[2][3] = {
        {"kas_dev_conv_forward", "kas_dev_conv_backward_data", "kas_dev_conv_backward_weights"},
        {"kas_dev_depthwise_forward", "kas_dev_depthwise_backward_data",
         "kas_dev_depthwise_backward_weights"}};
    kas_module *module;
    KAS_TRY(kas_module_builtin(&cpu->base, desc->number, &module));
    KAS_TRY(kas_module_function(module, "kas_dev_conv_weights", &out->weights));
    for (int pass = 0; pass < 3; pass++)
        KAS_TRY(kas_module_function(module, name[is_depthwise(desc)][pass], &out->pass[pass]));
    return KAS_OK;
}

static unsigned chunks(int channels)
{
    return (unsigned)(channels + KAS_CONV_LANES - 1) / KAS_CONV_LANES;
}

static void grid_of(const kas_conv_desc *d, const kas_conv_args *a, kas_conv_pass pass,
                    unsigned grid[3])
{
    const unsigned taps = (unsigned)(a->kernel_h * a->kernel_w);
    const bool depthwise = is_depthwise(d);
    if (pass == KAS_CONV_BACKWARD_WEIGHTS) {
        grid[0] = depthwise ? taps : (unsigned)a->c_out;
        grid[1] = depthwise ? chunks(a->c_in) : taps;
        grid[2] = depthwise ? 1 : chunks(a->group_in);
        return;
    }
    const bool forward = pass == KAS_CONV_FORWARD;
    grid[0] = (unsigned)a->n * (unsigned)(forward ? a->out_h : a->h);
    grid[1] = depthwise ? chunks(a->c_in) : (unsigned)a->groups;
    grid[2] = depthwise ? 1 : chunks(forward ? a->group_out : a->group_in);
}

void kas_loop_conv_run(const kas_cpu *cpu, const kas_loop_conv *loops, const kas_conv_desc *d,
                       kas_conv_pass pass, void *x, void *w, float *wt, void *y)
{
    const kas_conv_args args = {
        .x = x,
        .w = w,
        .dw = w,
        .wt = wt,
        .y = y,
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
    if (pass == KAS_CONV_FORWARD || (pass == KAS_CONV_BACKWARD_DATA && is_depthwise(d))) {
        const unsigned grid[3] = {(unsigned)(d->kernel_h * d->kernel_w), (unsigned)args.group_in,
                                  1};
        kas_cpu_launch(cpu, loops->weights, grid, &args);
    }
    unsigned grid[3];
    grid_of(d, &args, pass, grid);
    kas_cpu_launch(cpu, loops->pass[pass], grid, &args);
}
