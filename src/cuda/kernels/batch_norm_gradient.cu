#include "kernel.h"

/* The first pass of a batch norm's gradient (batch_norm.cu).
 *
 * The reduction looks through the activation at the gradient of y and sums it; where it adds two
 * gradients, or the sum with a residual stands before the activation, it writes what it found: g, which
 * the residual's layer wants too.  The teams of teams.h share a chunk, and chunks are combined in
 * batch_norm_statistics.cu. */

/* The variant of a reduction; constants where it is called, but for an activation. */
typedef struct kas_norm_look {
    int activation, from;
    int two, write; /* two: there are two gradients of y; write: g is written */
    int batch;      /* rows under way */
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
            KAS_WIDE_VALUE(g, look.two ? KAS_EACH_VALUE(d[j]) + KAS_EACH_VALUE(d1[j])
                                       : KAS_EACH_VALUE(d[j]));
#define KAS_CALL(kind)                                                                             \
    KAS_EACH(KAS_EACH_VALUE(g) = kas_norm_behind(                                                  \
                 kind, look.from, look.from == KAS_FROM_Y ? KAS_EACH_VALUE(kept[j]) : 0.0f,        \
                 KAS_EACH_VALUE(xhat), KAS_EACH_OF(gamma, t), KAS_EACH_OF(beta, t),                \
                 KAS_EACH_VALUE(g));)
            KAS_BY_ACTIVATION(look.activation, KAS_CALL)
#undef KAS_CALL
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
            for (; look.batch > 1 && KAS_WHOLE(a->whole) && r + look.batch <= end; r += look.batch)
                kas_norm_gradient_rows(a, r, look.batch, channel, lanes, 1, look, mean, rstd, gamma,
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
    KAS_NORM_GRADIENT(KAS_ACT_NONE, KAS_FROM_X, 0, 0, KAS_TEAM_BATCH);
}
KAS_KERNEL(kas_dev_norm_gradient_relu, kas_norm_args)
{
    KAS_NORM_GRADIENT(KAS_ACT_RELU, KAS_FROM_X, 0, 0, KAS_TEAM_BATCH);
}
KAS_KERNEL(kas_dev_norm_gradient_active, kas_norm_args)
{
#define KAS_CALL(kind)                                                                             \
    {                                                                                              \
        KAS_NORM_GRADIENT(kind, KAS_FROM_X, 0, 0, 1);                                              \
    }
    KAS_AROUND_ACTIVATION(a.activation, KAS_CALL);
#undef KAS_CALL
}
KAS_KERNEL(kas_dev_norm_gradient_residual_relu, kas_norm_args)
{
    KAS_NORM_GRADIENT(KAS_ACT_RELU, KAS_FROM_Y, 0, 1, KAS_TEAM_BATCH);
}
KAS_KERNEL(kas_dev_norm_gradient_two, kas_norm_args)
{
    KAS_NORM_GRADIENT(KAS_ACT_NONE, KAS_FROM_X, 1, 1, KAS_TEAM_BATCH);
}
KAS_KERNEL(kas_dev_norm_gradient_two_relu, kas_norm_args)
{
    KAS_NORM_GRADIENT(KAS_ACT_RELU, KAS_FROM_X, 1, 1, KAS_TEAM_BATCH);
}
KAS_KERNEL(kas_dev_norm_gradient_two_residual_relu, kas_norm_args)
{
    KAS_NORM_GRADIENT(KAS_ACT_RELU, KAS_FROM_Y, 1, 1, KAS_TEAM_BATCH);
}
#undef KAS_NORM_GRADIENT
