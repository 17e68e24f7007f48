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

#endif
