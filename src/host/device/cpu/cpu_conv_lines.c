/* Which passes run over lines of pixels (conv_lines.h), and how they are launched. */
#include "host/device/conv_loops.h"
#include "host/device/cpu/conv_lines.h"
#include "host/device/cpu/cpu_conv.h"

#define KERNELS_OF(name)                                                                           \
    kas_cpu_kernel name##_00, name##_10, name##_20;                                                \
    static kas_cpu_kernel *const name[KAS_DTYPES] = {name##_00, name##_10, name##_20}
KERNELS_OF(kas_lines_depthwise);
KERNELS_OF(kas_lines_few_results);
KERNELS_OF(kas_lines_weight_parts);
KERNELS_OF(kas_lines_weight_total);

static kas_lines_args args_of(const kas_conv_desc *d, kas_conv_pass pass)
{
    const bool depthwise = kas_conv_is_depthwise(d), outs_few = d->c_out < d->c_in;
    const int reach_h = (d->kernel_h - 1) * kas_conv_dilation(d),
              reach_w = (d->kernel_w - 1) * kas_conv_dilation(d);
    /* The gradient of the weights has the lines of the wide side. */
    const bool from_y = pass == KAS_CONV_BACKWARD_DATA ||
                        (pass == KAS_CONV_BACKWARD_WEIGHTS && !depthwise && !outs_few);
    const int out_h = kas_conv_out_h(d), out_w = kas_conv_out_w(d);
    return (kas_lines_args){
        .n = d->n,
        .h = from_y ? out_h : d->h,
        .width = from_y ? out_w : d->w,
        .out_h = from_y ? d->h : out_h,
        .out_w = from_y ? d->w : out_w,
        .from_pitch = from_y ? d->y_pitch : d->x_pitch,
        .to_pitch = from_y ? d->x_pitch : d->y_pitch,
        .channels = d->c_in > d->c_out ? d->c_in : d->c_out,
        .few = depthwise  ? 0
               : outs_few ? d->c_out
                          : d->c_in,
        .kernel_h = d->kernel_h,
        .kernel_w = d->kernel_w,
        .dilation = kas_conv_dilation(d),
        .pad_h = from_y ? reach_h - d->pad_h : d->pad_h,
        .pad_w = from_y ? reach_w - d->pad_w : d->pad_w,
        .flipped = from_y,
        .slots = d->n < KAS_LINE_SLOTS ? d->n : KAS_LINE_SLOTS,
    };
}

/* Returns whether the kernels can run the pass. The results of a map are the narrow side. */
static bool fits(const kas_conv_desc *d, kas_conv_pass pass)
{
    const kas_lines_args a = args_of(d, pass);
    const bool whole = pass != KAS_CONV_BACKWARD_WEIGHTS && a.few > 0;
    const int floats = (whole ? kas_lines_vectors(&a) : 1) * KAS_LINE_LANES;
    if (whole && (pass == KAS_CONV_FORWARD) != (d->c_out < d->c_in))
        return false;
    return d->stride == 1 && a.few <= KAS_LINE_FEW && (a.few == 0 || d->groups == 1) &&
           a.pad_h >= 0 && a.pad_w >= 0 && a.pad_h <= (a.kernel_h - 1) * a.dilation &&
           a.pad_w <= (a.kernel_w - 1) * a.dilation && a.out_w <= KAS_LINE_WIDTH &&
           (a.few ? a.few : 1) * a.kernel_h * a.kernel_w * floats <= KAS_LINE_WEIGHTS &&
           kas_lines_band(&a, floats) >= 1;
}

/* Measured against oneDNN 2.6 on a core with AVX-512 (bench/results). oneDNN has slow code for the
 * gradients of depthwise windows whose taps lie apart (8 to 20 times as long as these kernels) and
 * of wide ones (5 times), for windows that begin more than 8 pixels in front of a row (7 times),
 * and for maps of windows to very few channels (4 to 7 times). Elsewhere it is as fast or
 * faster. */
bool kas_lines_pay(const kas_conv_desc *d, kas_conv_pass pass)
{
    enum { FAR = 8, WIDE = 5, FEWEST = 8, MANY = 32 };
    const bool windows = d->kernel_h * d->kernel_w > 1;
    if (!fits(d, pass))
        return false;
    if (!kas_conv_is_depthwise(d)) {
        const int channels = d->c_in > d->c_out ? d->c_in : d->c_out;
        return pass == KAS_CONV_BACKWARD_WEIGHTS
                   ? windows && d->c_out < d->c_in && channels >= FEWEST
                   : channels >= (windows ? FEWEST : MANY);
    }
    const bool apart = windows && kas_conv_dilation(d) > 1,
               far = d->kernel_w / 2 * kas_conv_dilation(d) > FAR;
    switch (pass) {
    case KAS_CONV_FORWARD:
        return far;
    case KAS_CONV_BACKWARD_DATA:
        return far || apart;
    default:
        return far || apart || d->kernel_w >= WIDE;
    }
}

size_t kas_lines_partial(const kas_conv_desc *d)
{
    const kas_lines_args a = args_of(d, KAS_CONV_BACKWARD_WEIGHTS);
    return sizeof(float) * (size_t)a.slots * (size_t)(a.few ? a.few : 1) *
           (size_t)(a.kernel_h * a.kernel_w) * (size_t)a.channels;
}

static void launch(const kas_cpu *cpu, kas_cpu_kernel *run, int x, int y,
                   const kas_lines_args *args)
{
    const kas_function function = {.run = {run, run, run}};
    const unsigned grid[3] = {(unsigned)x, (unsigned)y, 1};
    kas_cpu_launch(cpu, &function, grid, args);
}

void kas_lines_run(const kas_cpu *cpu, const kas_conv_desc *d, kas_conv_pass pass, void *x, void *w,
                   float *partial, void *y)
{
    kas_lines_args a = args_of(d, pass);
    a.from = a.flipped ? y : x;
    a.to = a.flipped ? x : y;
    a.w = w;
    a.dw = w;
    a.partial = partial;
    if (pass == KAS_CONV_BACKWARD_WEIGHTS) {
        launch(cpu, kas_lines_weight_parts[d->dtype], a.slots, kas_lines_vectors(&a), &a);
        launch(cpu, kas_lines_weight_total[d->dtype], 1, 1, &a);
    } else if (a.few) {
        launch(cpu, kas_lines_few_results[d->dtype], a.slots, 1, &a);
    } else {
        launch(cpu, kas_lines_depthwise[d->dtype], a.slots, kas_lines_vectors(&a), &a);
    }
}
