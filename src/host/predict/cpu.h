/* What a CPU's library makes of a convolution: oneDNN, and our own kernels over lines of pixels
 * (device/cpu/conv_lines.h). Internal to predict.
 *
 * Counted is what a core does, in multiply-adds of `lanes` of the machine: lanes without a channel
 * are computed all the same, and so is the broadcast of an input in front of the vectors of outputs
 * that it is added to. Taps beyond the image are not computed. */
#ifndef KAS_PREDICT_CPU_H
#define KAS_PREDICT_CPU_H

#include "host/predict/predict.h"

/* Returns the multiply-adds of a convolution whose taps lie inside the image. */
double kas_cpu_conv_flops(const kas_conv_desc *desc);
/* Returns the seconds of a convolution's multiply-adds on all cores. */
double kas_cpu_conv_seconds(const kas_machine *machine, const kas_conv_desc *desc,
                            kas_conv_pass pass);
/* Returns the bytes that passes of our own in front of a convolution and behind it move: weights of a
 * kernel that change are copied to the library's order in every call; and an activation is computed in
 * place. */
double kas_cpu_conv_passes(const kas_machine *machine, const kas_sweep *pass);

#endif
