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
            KAS_WIDE_VALUE(out, kas_activate(activation, residual ? KAS_EACH_VALUE(value) +
                                                                        KAS_EACH_VALUE(more[j])
                                                                  : KAS_EACH_VALUE(value)));
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
    KAS_BY_ACTIVATION(a.activation, KAS_CALL);
#undef KAS_CALL
}

/* ---- backward ---------------------------------------------------------------------------------
 *
 * Two passes.  The reduction looks through the activation at the gradient of y and sums it; where
 * it adds two gradients, or the sum with a residual stands before the activation, it writes what it
 * found: g, which the residual's layer wants too.  Then dx is made of x and either g or dy.
 *
 * What the derivative of the activation is taken from is computed again from x, as kas_norm_apply
 * does, and is not read; with a residual that would take another tensor anyway: y. */
#define KAS_FROM_X 0
#define KAS_FROM_Y 1 /* ReLU only */

/* Returns the gradient before the activation, at one channel. */
KAS_FN float kas_norm_behind(int activation, int from, float y, float xhat, float gamma, float beta,
                             float dy)
{
    const float before = kas_fma(xhat, gamma, beta);
    const float kept = from == KAS_FROM_Y                   ? y
                       : activation <= KAS_ACT_KEEPS_OUTPUT ? kas_activate(activation, before)
                                                            : before;
    return kas_activate_back(activation, kept, dy);
}

/* The variant of a reduction; constants where it is called. */
typedef struct kas_norm_look {
    int activation, from;
    int two, write; /* two: there are two gradients of y; write: g is written */
} kas_norm_look;

/* Sums a constant number of a team's rows. They are all loaded before the first is used: g may be
 * written over what is read, so no compiler would do that. */
KAS_FN void kas_norm_gradient_rows(const kas_norm_args *a, int first, int rows, int channel,
                                   int lanes, int whole, const kas_norm_look look,
                                   const float *mean, const float *rstd, const float *gamma,
                                   const float *beta, float *plain, float *product)
{
    const kas_real *x = a->x + (kas_i64)first * a->pitch_x + channel;
    const kas_real *y =
        a->y + (look.from == KAS_FROM_Y ? (kas_i64)first * a->pitch_y + channel : 0);
    const kas_real *dy = a->dy + (kas_i64)first * a->pitch_dy + channel;
    const kas_real *dy1 = a->dy1 + (look.two ? (kas_i64)first * a->pitch_dy1 + channel : 0);
    kas_real *out = a->g + (look.write ? (kas_i64)first * a->pitch_g + channel : 0);
    KAS_PART_THREADS (t, lanes) {
        KAS_WIDE_ROWS(in, KAS_NORM_RUN);
        KAS_WIDE_ROWS(kept, KAS_NORM_RUN);
        KAS_WIDE_ROWS(d, KAS_NORM_RUN);
        KAS_WIDE_ROWS(d1, KAS_NORM_RUN);
        KAS_UNROLL
        for (int j = 0; j < rows; j++) {
            KAS_PART_READ_REAL(in[j], x + j * a->pitch_x, t, lanes, whole);
            KAS_PART_READ_REAL(d[j], dy + j * a->pitch_dy, t, lanes, whole);
            if (look.from == KAS_FROM_Y) {
                KAS_PART_READ_REAL(kept[j], y + j * a->pitch_y, t, lanes, whole);
            }
            if (look.two) {
                KAS_PART_READ_REAL(d1[j], dy1 + j * a->pitch_dy1, t, lanes, whole);
            }
        }
        KAS_WIDE_VALUE(p, KAS_EACH_OF(plain, t));
        KAS_WIDE_VALUE(q, KAS_EACH_OF(product, t));
        KAS_UNROLL
        for (int j = 0; j < rows; j++) {
            KAS_WIDE_VALUE(xhat,
                           (KAS_EACH_VALUE(in[j]) - KAS_EACH_OF(mean, t)) * KAS_EACH_OF(rstd, t));
            KAS_WIDE_VALUE(g, kas_norm_behind(
                                  look.activation, look.from,
                                  look.from == KAS_FROM_Y ? KAS_EACH_VALUE(kept[j]) : 0.0f,
                                  KAS_EACH_VALUE(xhat), KAS_EACH_OF(gamma, t), KAS_EACH_OF(beta, t),
                                  look.two ? KAS_EACH_VALUE(d[j]) + KAS_EACH_VALUE(d1[j])
                                           : KAS_EACH_VALUE(d[j])));
            if (look.write) {
                KAS_PART_STORE_REAL(out + j * a->pitch_g, t, g, lanes, whole);
            }
            KAS_EACH(KAS_EACH_VALUE(p) += KAS_EACH_VALUE(g);
                     KAS_EACH_VALUE(q) =
                         kas_fma(KAS_EACH_VALUE(g), KAS_EACH_VALUE(xhat), KAS_EACH_VALUE(q));)
        }
        KAS_EACH(KAS_EACH_OF(plain, t) = KAS_EACH_VALUE(p);
                 KAS_EACH_OF(product, t) = KAS_EACH_VALUE(q);)
    }
}

/* Computes the sums of g and of g * xhat of each chunk. */
KAS_FN void kas_norm_gradient(const kas_norm_args *a, int chunk, int channel,
                              const kas_norm_look look)
{
    const int lanes = kas_imin(KAS_NORM_LANES, a->c - channel);
    const int first = chunk * a->chunk_rows, last = kas_imin(first + a->chunk_rows, a->rows);
    const int batch = look.activation <= KAS_ACT_RELU ? KAS_TEAM_BATCH : 1;
    KAS_KEPT(mean, a->mean + channel, lanes, a->whole);
    KAS_KEPT(rstd, a->rstd + channel, lanes, a->whole);
    KAS_KEPT(gamma, a->gamma + channel, lanes, a->whole);
    KAS_KEPT(beta, a->beta + channel, lanes, a->whole);
    KAS_SHARED(float, plains, (KAS_NORM_TEAMS * KAS_NORM_LANES));
    KAS_SHARED(float, products, (KAS_NORM_TEAMS * KAS_NORM_LANES));
    KAS_ROWS (team, 0, KAS_NORM_TEAMS) {
        KAS_WIDE_LANE(plain, KAS_NORM_LANES);
        KAS_WIDE_LANE(product, KAS_NORM_LANES);
        kas_team_zero(plain, product, lanes);
        for (int begin = first + team * KAS_NORM_RUN; begin < last; begin += KAS_TEAM_ROUND) {
            const int end = kas_imin(begin + KAS_NORM_RUN, last);
            int r = begin;
            for (; batch > 1 && KAS_WHOLE(a->whole) && r + batch <= end; r += batch)
                kas_norm_gradient_rows(a, r, batch, channel, lanes, 1, look, mean, rstd, gamma,
                                       beta, plain, product);
            for (; r < end; r++)
                kas_norm_gradient_rows(a, r, 1, channel, lanes, a->whole, look, mean, rstd, gamma,
                                       beta, plain, product);
        }
        kas_team_keep(plains + team * KAS_NORM_LANES, products + team * KAS_NORM_LANES, plain,
                      product, lanes, 1);
    }
    KAS_BARRIER();
    float *partial = a->partial + (kas_i64)chunk * 2 * a->c + channel;
    KAS_ONE_ROW
    {
        kas_team_sums(plains, products, KAS_NORM_TEAMS, partial, partial + a->c, lanes, a->whole);
    }
}
#define KAS_NORM_GRADIENT(...)                                                                     \
    const kas_norm_look look = {__VA_ARGS__};                                                      \
    kas_norm_gradient(&a, KAS_BLOCK_X, KAS_BLOCK_Y *KAS_NORM_LANES, look)
KAS_KERNEL(kas_dev_norm_gradient, kas_norm_args)
{
    KAS_NORM_GRADIENT(KAS_ACT_NONE, KAS_FROM_X, 0, 0);
}
KAS_KERNEL(kas_dev_norm_gradient_relu, kas_norm_args)
{
    KAS_NORM_GRADIENT(KAS_ACT_RELU, KAS_FROM_X, 0, 0);
}
KAS_KERNEL(kas_dev_norm_gradient_active, kas_norm_args)
{
#define KAS_CALL(kind)                                                                             \
    {                                                                                              \
        KAS_NORM_GRADIENT(kind, KAS_FROM_X, 0, 0);                                                 \
    }
    KAS_BY_ACTIVATION(a.activation, KAS_CALL);
#undef KAS_CALL
}
KAS_KERNEL(kas_dev_norm_gradient_residual_relu, kas_norm_args)
{
    KAS_NORM_GRADIENT(KAS_ACT_RELU, KAS_FROM_Y, 0, 1);
}
KAS_KERNEL(kas_dev_norm_gradient_two, kas_norm_args)
{
    KAS_NORM_GRADIENT(KAS_ACT_NONE, KAS_FROM_X, 1, 1);
}
KAS_KERNEL(kas_dev_norm_gradient_two_relu, kas_norm_args)
{
    KAS_NORM_GRADIENT(KAS_ACT_RELU, KAS_FROM_X, 1, 1);
}
KAS_KERNEL(kas_dev_norm_gradient_two_residual_relu, kas_norm_args)
{
    KAS_NORM_GRADIENT(KAS_ACT_RELU, KAS_FROM_Y, 1, 1);
}
#undef KAS_NORM_GRADIENT

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
            KAS_WIDE_VALUE(g, kas_norm_behind(activation, KAS_FROM_X, 0.0f, KAS_EACH_VALUE(xhat),
                                              KAS_EACH_OF(gamma, t), KAS_EACH_OF(beta, t),
                                              KAS_EACH_VALUE(d[j])));
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
    KAS_BY_ACTIVATION(a.activation, KAS_CALL);
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
