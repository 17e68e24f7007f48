/* Computes how the kernels of src/cuda/kernels/conv.cu and conv_depthwise.cu are launched. It is
 * the same for both devices, which keep their own handles of the kernels. */
#ifndef KAS_DEVICE_CONV_LOOPS_H
#define KAS_DEVICE_CONV_LOOPS_H

#include "host/device/device.h"

#include "cuda/kernels/prelude.h"

#include "cuda/kernels/args.h"

/* Return the name of a pass's kernel (there are others where every group is one channel), and whether
 * kas_dev_conv_weights, which fills `wt`, must run before it. */
const char *kas_conv_loops_name(const kas_conv_desc *desc, kas_conv_pass pass);
bool kas_conv_loops_transpose(const kas_conv_desc *desc, kas_conv_pass pass);

/* Returns the arguments of a pass. `wt` is scratch of as many floats as there are weights. The
 * pointers may have any alignment; the function decides from it whether the kernel accesses 16
 * bytes at once (wide.h). */
kas_conv_args kas_conv_loops_args(const kas_conv_desc *desc, void *x, void *w, void *y, float *wt);

typedef struct kas_conv_launch {
    unsigned grid[3], block[3];
} kas_conv_launch;
kas_conv_launch kas_conv_loops_launch(const kas_conv_desc *desc, kas_conv_pass pass);
kas_conv_launch kas_conv_loops_transpose_launch(const kas_conv_desc *desc);

#endif
