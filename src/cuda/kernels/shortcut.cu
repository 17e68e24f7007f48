#include "kernel.h"

/* The shortcut of option A: x is the large tensor and y the small one in both passes; a block takes
 * one row of y, whose windows cover each pixel of x once, so that no pixel has to divide to find
 * its window. */
KAS_FN void kas_shortcut_zero(kas_real *to, int count, int whole)
{
    KAS_PART_LANES (c, count) {
        KAS_WIDE_VALUE(none, 0.0f);
        KAS_PART_STORE_REAL(to, c, none, count, whole);
    }
}

KAS_KERNEL(kas_dev_shortcut_a_forward, kas_shortcut_args)
{
    const int row = KAS_BLOCK_X, image = KAS_BLOCK_Y;
    const kas_real *x = a.in + ((kas_i64)image * a.h + row * a.size) * a.width * a.pitch_x;
    kas_real *y = a.out + ((kas_i64)image * a.out_h + row) * a.out_w * a.pitch_y;
    KAS_ROWS (ow, 0, a.out_w) {
        kas_real *to = y + ow * a.pitch_y;
        kas_shortcut_zero(to, a.front, a.whole);
        KAS_PART_LANES (c, a.c) {
            KAS_PART_COPY(to + a.front, x + ow * a.size * a.pitch_x, c, a.c, a.whole);
        }
        kas_shortcut_zero(to + a.front + a.c, a.c_out - a.front - a.c, a.whole);
    }
}

KAS_KERNEL(kas_dev_shortcut_a_backward, kas_shortcut_args)
{
    const int row = KAS_BLOCK_X, image = KAS_BLOCK_Y;
    const int top = row * a.size, bottom = kas_imin(top + a.size, a.h);
    const kas_real *dy = a.in + ((kas_i64)image * a.out_h + row) * a.out_w * a.pitch_y + a.front;
    kas_real *dx = a.out + (kas_i64)image * a.h * a.width * a.pitch_x;
    KAS_ROWS (ow, 0, a.out_w) {
        const int left = ow * a.size, right = kas_imin(left + a.size, a.width);
        for (int h = top; h < bottom; h++) {
            for (int w = left; w < right; w++) {
                kas_real *to = dx + (h * a.width + w) * a.pitch_x;
                if (h == top && w == left)
                    KAS_PART_LANES (c, a.c) {
                        KAS_PART_COPY(to, dy + ow * a.pitch_y, c, a.c, a.whole);
                    }
                else
                    kas_shortcut_zero(to, a.c, a.whole);
            }
        }
    }
}
