#include "kernel.h"

/* Dropout. Whether a value is dropped is a pure function of (seed, layer, step, row, channel), so
 * the backward pass is the same kernel over dy, and nothing is kept. A dropped value becomes x - x:
 * 0, but NaN where x is not finite, as in PyTorch's product with 0. */
KAS_FN int kas_dropped(const kas_dropout_args *a, int channel, int row, kas_u32 step)
{
    const kas_u32x4 counter = {(kas_u32)channel, (kas_u32)row, step, a->layer};
    return kas_philox(counter, a->key0, a->key1).x < a->threshold;
}

KAS_KERNEL(kas_dev_dropout, kas_dropout_args)
{
    const int first = KAS_BLOCK_X * a.rows_per_block;
    const kas_u32 step = a.state->step;
    const int before = (int)a.state->rank * a.rows; /* rows of the ranks before this one */
    KAS_ROWS (r, first, kas_imin(first + a.rows_per_block, a.rows)) {
        const kas_real *x = a.x + (kas_i64)r * a.pitch_x;
        kas_real *y = a.y + (kas_i64)r * a.pitch_y;
        KAS_PART_LANES (c, a.c) {
            KAS_PART_LOAD_REAL(in, x, c, a.c, a.whole);
            KAS_WIDE_VALUE(out, kas_dropped(&a, KAS_EACH_LANE(c), before + r, step)
                                    ? KAS_EACH_VALUE(in) - KAS_EACH_VALUE(in)
                                    : KAS_EACH_VALUE(in) * a.scale);
            KAS_PART_STORE_REAL(y, c, out, a.c, a.whole);
        }
    }
}
