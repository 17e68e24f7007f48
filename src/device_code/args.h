/* The struct argument of each hand-written kernel: read by the kernels (after the prelude) and by
 * the host code that launches them (after dialect_host.h).  Pointers are device memory.
 * `pitch` is floats per pixel. */
#ifndef KAS_DEVICE_CODE_ARGS_H
#define KAS_DEVICE_CODE_ARGS_H

/* y[i] = a[i] + b[i] over rows of c of pitch floats; y may be a or b. */
typedef struct kas_add_args {
    const float *a, *b;
    float *y;
    int rows, c, pitch, rows_per_block;
} kas_add_args;

/* Convolution by loops (conv.kc): device.h's kas_conv_desc and its pointers.  The pass decides
 * which of x, w, y is written. */
#define KAS_CONV_LANES 64
typedef struct kas_conv_args {
    float *x, *w, *wt, *y; /* wt: scratch, as many floats as w */
    int n, h, width, c_in, c_out, groups;
    int group_in, group_out; /* channels of a group */
    int kernel_h, kernel_w, stride, pad_h, pad_w;
    int out_h, out_w, x_pitch, y_pitch;
} kas_conv_args;

#endif
