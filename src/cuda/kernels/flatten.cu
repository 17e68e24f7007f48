#include "kernel.h"

/* PyTorch's flatten of [c][h][w]: value channel * pixels + pixel. Lanes are channels, which makes
 * the side of y strided: few values, at the end of a network. A thread has one channel. More would
 * make accesses of 16 bytes on the pixels' side only, and the side of y, whose runs of 7x7 pixels
 * start anywhere, takes longer. */
KAS_KERNEL(kas_dev_flatten_forward, kas_flatten_args)
{
    const int image = KAS_BLOCK_Y, pixel = KAS_BLOCK_X;
    const kas_real *x = a.in + ((kas_i64)image * a.pixels + pixel) * a.pitch_x;
    kas_real *y = a.out + (kas_i64)image * a.pitch_y + pixel;
    KAS_LANES (c, a.c) {
        y[c * a.pixels] = x[c];
    }
}

KAS_KERNEL(kas_dev_flatten_backward, kas_flatten_args)
{
    const int image = KAS_BLOCK_Y, pixel = KAS_BLOCK_X;
    const kas_real *dy = a.in + (kas_i64)image * a.pitch_y + pixel;
    kas_real *dx = a.out + ((kas_i64)image * a.pixels + pixel) * a.pitch_x;
    KAS_LANES (c, a.c) {
        dx[c] = dy[c * a.pixels];
    }
}
