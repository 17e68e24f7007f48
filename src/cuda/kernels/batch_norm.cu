#include "kernel.h"

/* Batch norm over rows of channels (ops.h says what it computes and how exactly). Forward: the
 * statistics (batch_norm_statistics.cu), then y. Backward: sums, which are combined there too, then
 * dx. */
KAS_FN float kas_norm_value(float x, float mean, float rstd, float gamma, float beta)
{
    return kas_fma((x - mean) * rstd, gamma, beta);
}

/* ---- passes over all rows ---------------------------------------------------------------------
 *
 * A thread keeps what is the same in all rows of its channels in registers, and has KAS_NORM_BATCH
 * rows under way. These are all loaded before the first is used: what is written may be what is
 * read, so no compiler would do that. Whether rows are whole, how many rows there are and what is
 * fused are constants, so that no load waits for a test. */
#define KAS_NORM_BATCH (KAS_RUN > 1 ? KAS_NORM_ROWS : 1)
#define KAS_NORM_SPAN (KAS_BLOCK_MAX * KAS_WIDTH) /* channels of a block */

/* Runs call(row, count) for all rows of a block; more than one row only where it is `batch`. */
#define KAS_NORM_EACH_BATCH(a, block, batch, call)                                                 \
    const int first = (block) * (a)->rows_per_block;                                               \
    const int last = kas_imin(first + (a)->rows_per_block, (a)->rows);                             \
    KAS_ROWS (n, 0, (last - first + (batch)-1) / (batch)) {                                        \
        const int r = first + n * (batch), end = kas_imin(r + (batch), last);                      \
        if ((batch) > 1 && end == r + (batch))                                                     \
            call(r, batch);                                                                        \
        else                                                                                       \
            for (int j = r; j < end; j++)                                                          \
                call(j, 1);                                                                        \
    }

KAS_FN void kas_norm_apply_rows(const kas_norm_args *a, int first, int rows, int channel, int lanes,
                                int whole, int residual, int activation, const float *mean,
                                const float *rstd, const float *gamma, const float *beta)
{
    const kas_real *x = a->x + (kas_i64)first * a->pitch_x + channel;
    const kas_real *add =
        a->residual + (residual ? (kas_i64)first * a->pitch_residual + channel : 0);
    kas_real *y = a->out + (kas_i64)first * a->pitch_out + channel;
    KAS_PART_THREADS (t, lanes) {
        KAS_WIDE_ROWS(in, KAS_NORM_BATCH);
        KAS_WIDE_ROWS(more, KAS_NORM_BATCH);
        KAS_UNROLL
        for (int j = 0; j < rows; j++) {
            KAS_PART_READ_REAL(in[j], x + j * a->pitch_x, t, lanes, whole);
            if (residual) {
                KAS_PART_READ_REAL(more[j], add + j * a->pitch_residual, t, lanes, whole);
            }
        }
        KAS_UNROLL
        for (int j = 0; j < rows; j++) {
            KAS_WIDE_VALUE(value, kas_norm_value(KAS_EACH_VALUE(in[j]), KAS_EACH_OF(mean, t),
                                                 KAS_EACH_OF(rstd, t), KAS_EACH_OF(gamma, t),
                                                 KAS_EACH_OF(beta, t)));
            KAS_WIDE_VALUE(out, residual ? KAS_EACH_VALUE(value) + KAS_EACH_VALUE(more[j])
                                         : KAS_EACH_VALUE(value));
#define KAS_CALL(kind) KAS_EACH(KAS_EACH_VALUE(out) = kas_activate(kind, KAS_EACH_VALUE(out));)
            KAS_BY_ACTIVATION(activation, KAS_CALL)
#undef KAS_CALL
            KAS_PART_STORE_REAL(y + j * a->pitch_out, t, out, lanes, whole);
        }
    }
}

/* Computes y = (x - mean) * rstd * gamma + beta of the channels from `channel` on. */
KAS_FN void kas_norm_apply_lanes(const kas_norm_args *a, int block, int channel, int whole,
                                 int residual, int activation)
{
    const int lanes = kas_imin(KAS_NORM_SPAN, a->c - channel);
    KAS_WIDE_LEAVE(lanes);
    KAS_KEPT(mean, a->mean + channel, lanes, whole);
    KAS_KEPT(rstd, a->rstd + channel, lanes, whole);
    KAS_KEPT(gamma, a->gamma + channel, lanes, whole);
    KAS_KEPT(beta, a->beta + channel, lanes, whole);
#define KAS_CALL(row, rows)                                                                        \
    kas_norm_apply_rows(a, row, rows, channel, lanes, whole, residual, activation, mean, rstd,     \
                        gamma, beta)
    KAS_NORM_EACH_BATCH(a, block, whole ? KAS_NORM_BATCH : 1, KAS_CALL)
#undef KAS_CALL
}
KAS_FN void kas_norm_apply(const kas_norm_args *a, int block, int channel, int residual,
                           int activation)
{
    if (KAS_WHOLE(a->whole))
        kas_norm_apply_lanes(a, block, channel, 1, residual, activation);
    else
        kas_norm_apply_lanes(a, block, channel, 0, residual, activation);
}
KAS_KERNEL(kas_dev_norm_apply, kas_norm_args)
{
    kas_norm_apply(&a, KAS_BLOCK_X, KAS_BLOCK_Y * KAS_NORM_SPAN, 0, KAS_ACT_NONE);
}
KAS_KERNEL(kas_dev_norm_apply_relu, kas_norm_args)
{
    kas_norm_apply(&a, KAS_BLOCK_X, KAS_BLOCK_Y * KAS_NORM_SPAN, 0, KAS_ACT_RELU);
}
KAS_KERNEL(kas_dev_norm_apply_residual, kas_norm_args)
{
    kas_norm_apply(&a, KAS_BLOCK_X, KAS_BLOCK_Y * KAS_NORM_SPAN, 1, KAS_ACT_NONE);
}
KAS_KERNEL(kas_dev_norm_apply_residual_relu, kas_norm_args)
{
    kas_norm_apply(&a, KAS_BLOCK_X, KAS_BLOCK_Y * KAS_NORM_SPAN, 1, KAS_ACT_RELU);
}
/* Any activation, without a residual: the ReLU has kernels of its own, which need fewer
 * registers. */
KAS_KERNEL(kas_dev_norm_apply_active, kas_norm_args)
{
#define KAS_CALL(kind) kas_norm_apply(&a, KAS_BLOCK_X, KAS_BLOCK_Y *KAS_NORM_SPAN, 0, kind)
    KAS_AROUND_ACTIVATION(a.activation, KAS_CALL);
#undef KAS_CALL
}

/* ---- backward ---------------------------------------------------------------------------------
 *
 * Two passes. The first sums the gradient (batch_norm_gradient.cu); then dx is made of x and either dy or
 * what the first has written. */
KAS_FN void kas_norm_backward_rows(const kas_norm_args *a, int first, int rows, int channel,
                                   int lanes, int whole, int activation, int add, const float *mean,
                                   const float *rstd, const float *gamma, const float *beta,
                                   const float *dgamma, const float *dbeta)
{
    const float share = 1.0f / (float)a->rows;
    const kas_real *x = a->x + (kas_i64)first * a->pitch_x + channel;
    const kas_real *dy = a->dy + (kas_i64)first * a->pitch_dy + channel;
    const kas_real *base = a->base + (add ? (kas_i64)first * a->pitch_base + channel : 0);
    kas_real *dx = a->out + (kas_i64)first * a->pitch_out + channel;
    KAS_PART_THREADS (t, lanes) {
        KAS_WIDE_ROWS(in, KAS_NORM_BATCH);
        KAS_WIDE_ROWS(d, KAS_NORM_BATCH);
        KAS_WIDE_ROWS(to, KAS_NORM_BATCH);
        KAS_UNROLL
        for (int j = 0; j < rows; j++) {
            KAS_PART_READ_REAL(in[j], x + j * a->pitch_x, t, lanes, whole);
            KAS_PART_READ_REAL(d[j], dy + j * a->pitch_dy, t, lanes, whole);
            if (add) {
                KAS_PART_READ_REAL(to[j], base + j * a->pitch_base, t, lanes, whole);
            }
        }
        KAS_UNROLL
        for (int j = 0; j < rows; j++) {
            KAS_WIDE_VALUE(xhat,
                           (KAS_EACH_VALUE(in[j]) - KAS_EACH_OF(mean, t)) * KAS_EACH_OF(rstd, t));
            KAS_WIDE_VALUE(g, KAS_EACH_VALUE(d[j]));
#define KAS_CALL(kind)                                                                             \
    KAS_EACH(KAS_EACH_VALUE(g) =                                                                   \
                 kas_norm_behind(kind, KAS_FROM_X, 0.0f, KAS_EACH_VALUE(xhat),                     \
                                 KAS_EACH_OF(gamma, t), KAS_EACH_OF(beta, t), KAS_EACH_VALUE(g));)
            KAS_BY_ACTIVATION(activation, KAS_CALL)
#undef KAS_CALL
            KAS_WIDE_VALUE(inner, KAS_EACH_VALUE(g) - share * kas_fma(KAS_EACH_VALUE(xhat),
                                                                      KAS_EACH_OF(dgamma, t),
                                                                      KAS_EACH_OF(dbeta, t)));
            KAS_WIDE_VALUE(own,
                           KAS_EACH_OF(gamma, t) * (KAS_EACH_OF(rstd, t) * KAS_EACH_VALUE(inner)));
            KAS_WIDE_VALUE(out,
                           add ? KAS_EACH_VALUE(to[j]) + KAS_EACH_VALUE(own) : KAS_EACH_VALUE(own));
            KAS_PART_STORE_REAL(dx + j * a->pitch_out, t, out, lanes, whole);
        }
    }
}

/* dx = [base +] gamma * rstd * (g - mean(g) - xhat * mean(g * xhat)), of the channels from
 * `channel` on. Where g was written, dy is g, and there is no activation left. */
KAS_FN void kas_norm_backward_lanes(const kas_norm_args *a, int block, int channel, int whole,
                                    int activation, int add)
{
    const int lanes = kas_imin(KAS_NORM_SPAN, a->c - channel);
    KAS_WIDE_LEAVE(lanes);
    KAS_KEPT(mean, a->mean + channel, lanes, whole);
    KAS_KEPT(rstd, a->rstd + channel, lanes, whole);
    KAS_KEPT(gamma, a->gamma + channel, lanes, whole);
    KAS_KEPT(beta, a->beta + channel, lanes, whole);
    KAS_KEPT(dgamma, a->dgamma + channel, lanes, whole);
    KAS_KEPT(dbeta, a->dbeta + channel, lanes, whole);
#define KAS_CALL(row, rows)                                                                        \
    kas_norm_backward_rows(a, row, rows, channel, lanes, whole, activation, add, mean, rstd,       \
                           gamma, beta, dgamma, dbeta)
    KAS_NORM_EACH_BATCH(a, block, whole ? KAS_NORM_BATCH : 1, KAS_CALL)
#undef KAS_CALL
}
KAS_FN void kas_norm_backward(const kas_norm_args *a, int block, int channel, int activation,
                              int add)
{
    if (KAS_WHOLE(a->whole))
        kas_norm_backward_lanes(a, block, channel, 1, activation, add);
    else
        kas_norm_backward_lanes(a, block, channel, 0, activation, add);
}
KAS_KERNEL(kas_dev_norm_backward, kas_norm_args)
{
    kas_norm_backward(&a, KAS_BLOCK_X, KAS_BLOCK_Y * KAS_NORM_SPAN, KAS_ACT_NONE, 0);
}
KAS_KERNEL(kas_dev_norm_backward_relu, kas_norm_args)
{
    kas_norm_backward(&a, KAS_BLOCK_X, KAS_BLOCK_Y * KAS_NORM_SPAN, KAS_ACT_RELU, 0);
}
KAS_KERNEL(kas_dev_norm_backward_active, kas_norm_args)
{
#define KAS_CALL(kind) kas_norm_backward(&a, KAS_BLOCK_X, KAS_BLOCK_Y *KAS_NORM_SPAN, kind, 0)
    KAS_AROUND_ACTIVATION(a.activation, KAS_CALL);
#undef KAS_CALL
}
KAS_KERNEL(kas_dev_norm_backward_add, kas_norm_args)
{
    kas_norm_backward(&a, KAS_BLOCK_X, KAS_BLOCK_Y * KAS_NORM_SPAN, KAS_ACT_NONE, 1);
}
KAS_KERNEL(kas_dev_norm_backward_relu_add, kas_norm_args)
{
    kas_norm_backward(&a, KAS_BLOCK_X, KAS_BLOCK_Y * KAS_NORM_SPAN, KAS_ACT_RELU, 1);
}
