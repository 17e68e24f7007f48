#include "kernel.h"

/* Activations on their own; beside a batch norm they are fused with it. */
KAS_FN void kas_activation_forward(const kas_activation_args *a, int block, int kind)
{
    const int first = block * a->rows_per_block;
    KAS_ROWS (r, first, kas_imin(first + a->rows_per_block, a->rows)) {
        const kas_real *x = a->kept + (kas_i64)r * a->pitch_kept;
        kas_real *y = a->out + (kas_i64)r * a->pitch_out;
        KAS_PART_LANES (c, a->c) {
            KAS_PART_LOAD_REAL(in, x, c, a->c, a->whole);
            KAS_WIDE_VALUE(active, kas_activate(kind, KAS_EACH_VALUE(in)));
            KAS_PART_STORE_REAL(y, c, active, a->c, a->whole);
        }
    }
}

KAS_FN void kas_activation_backward(const kas_activation_args *a, int block, int kind)
{
    const int first = block * a->rows_per_block;
    KAS_ROWS (r, first, kas_imin(first + a->rows_per_block, a->rows)) {
        const kas_real *kept = a->kept + (kas_i64)r * a->pitch_kept;
        const kas_real *dy = a->dy + (kas_i64)r * a->pitch_dy;
        kas_real *dx = a->out + (kas_i64)r * a->pitch_out;
        KAS_PART_LANES (c, a->c) {
            KAS_PART_LOAD_REAL(from, kept, c, a->c, a->whole);
            KAS_PART_LOAD_REAL(d, dy, c, a->c, a->whole);
            KAS_WIDE_VALUE(passed,
                           kas_activate_back(kind, KAS_EACH_VALUE(from), KAS_EACH_VALUE(d)));
            KAS_PART_STORE_REAL(dx, c, passed, a->c, a->whole);
        }
    }
}

KAS_KERNEL(kas_dev_activation_forward, kas_activation_args)
{
#define KAS_CALL(kind) kas_activation_forward(&a, KAS_BLOCK_X, kind)
    KAS_BY_ACTIVATION(a.kind, KAS_CALL);
#undef KAS_CALL
}

KAS_KERNEL(kas_dev_activation_backward, kas_activation_args)
{
#define KAS_CALL(kind) kas_activation_backward(&a, KAS_BLOCK_X, kind)
    KAS_BY_ACTIVATION(a.kind, KAS_CALL);
#undef KAS_CALL
}
