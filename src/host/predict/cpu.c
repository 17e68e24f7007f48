#include "host/predict/cpu.h"

#include <math.h>

#include "host/device/cpu/cpu_conv.h"

/* A pixel is copied, or its result stored, in the time of so many multiply-adds (kas_lines_macs). */
static const double copies = 2;

/* Returns the taps of a window along one axis that lie inside the image, for the mean pixel. */
static double taps_inside(const kas_conv_desc *d, int size, int out, int kernel, int pad)
{
    int inside = 0;
    for (int o = 0; o < out; o++)
        for (int k = 0; k < kernel; k++) {
            const int at = o * d->stride - pad + k * kas_conv_dilation(d);
            inside += at >= 0 && at < size;
        }
    return out > 0 ? (double)inside / out : 0;
}

static double taps_of(const kas_conv_desc *d)
{
    return taps_inside(d, d->h, kas_conv_out_h(d), d->kernel_h, d->pad_h) *
           taps_inside(d, d->w, kas_conv_out_w(d), d->kernel_w, d->pad_w);
}

static double pixels_of(const kas_conv_desc *d)
{
    return (double)d->n * kas_conv_out_h(d) * kas_conv_out_w(d);
}

double kas_cpu_conv_flops(const kas_conv_desc *d)
{
    return pixels_of(d) * taps_of(d) * d->c_out * (d->c_in / d->groups);
}

/* Returns the multiply-adds of lanes, one group after the other. With few inputs the results, which
 * are loaded and stored, cost as much as `half` inputs more. */
static double group_macs(const kas_machine *m, const kas_conv_desc *d, double half)
{
    const double in = (double)d->c_in / d->groups,
                 vectors = ceil((double)d->c_out / d->groups / m->lanes);
    return pixels_of(d) * taps_of(d) * d->groups * (in + half) * m->lanes * (vectors + 1);
}

double kas_cpu_conv_seconds(const kas_machine *m, const kas_conv_desc *d, kas_conv_pass pass)
{
    const kas_conv_class class = kas_conv_class_of(d);
    const double rate = m->rate[d->dtype == KAS_F32   ? KAS_PRECISION_FP32
                                : d->dtype == KAS_F16 ? KAS_PRECISION_FP16
                                                      : KAS_PRECISION_BF16];
    if (pass == KAS_CONV_FORWARD && kas_lines_pay(d, pass, (int)m->lanes))
        return kas_lines_macs(d) / (rate * m->efficiency[KAS_CONV_DEPTHWISE]);
    if (kas_products_pay(d, pass))
        return kas_products_macs(d) / rate;
    const double macs =
        class == KAS_CONV_DEPTHWISE
            ? pixels_of(d) * (taps_of(d) + copies) * ceil(d->c_out / m->lanes) * m->lanes
            : group_macs(m, d, class == KAS_CONV_GROUPED ? m->half_grouped : m->half_channels);
    return macs / (rate * m->efficiency[class]);
}

double kas_cpu_conv_passes(const kas_machine *m, const kas_sweep *pass)
{
    const kas_conv_desc *d = &pass->conv;
    const double size = (double)kas_dtype_size(d->dtype);
    const bool copied = pass->kernel && !pass->held &&
                        !kas_lines_pay(d, pass->conv_pass, (int)m->lanes) &&
                        !kas_products_pay(d, pass->conv_pass);
    const double weights =
        (double)d->kernel_h * d->kernel_w * d->c_out * (d->c_in / d->groups) * size;
    return (copied ? 2 * weights : 0) + (pass->activated ? 2 * pixels_of(d) * d->c_out * size : 0);
}
