#include "kernel.h"

/* Batch norm over rows of channels (ops.h says what it computes and how exactly). Forward:
 * statistics of chunks, combined, then applied; backward likewise. The teams of teams.h
 * share a chunk. */
KAS_FN int kas_norm_lanes(const kas_norm_args *a, int first)
{
    return kas_imin(KAS_NORM_LANES, a->c - first);
}

/* Combines the mean and the sum of squared deviations of `before` rows with those of `here` others,
 * which stand at `from` and `from_square`, by Chan's formula. */
KAS_FN void kas_norm_merge(float *mean, float *square, const float *from, const float *from_square,
                           int before, int here, int lanes, int whole)
{
    const float weight = (float)here / (float)(before + here);
    const float both = (float)before * weight;
    KAS_PART_THREADS (t, lanes) {
        KAS_PART_LOAD(other, from, t, lanes, whole);
        KAS_PART_LOAD(more, from_square, t, lanes, whole);
        KAS_WIDE_VALUE(delta, KAS_EACH_VALUE(other) - KAS_EACH_OF(mean, t));
        KAS_EACH(
            KAS_EACH_OF(mean, t) = kas_fma(KAS_EACH_VALUE(delta), weight, KAS_EACH_OF(mean, t));
            KAS_EACH_OF(square, t) +=
            kas_fma(KAS_EACH_VALUE(delta) * KAS_EACH_VALUE(delta), both, KAS_EACH_VALUE(more));)
    }
}

/* Adds a constant number of rows to the statistics. Their own mean comes first, so that the squares
 * are free of cancellation. */
KAS_FN void kas_norm_statistics_rows(const kas_norm_args *a, const kas_real *x, int rows,
                                     int before, int lanes, int whole, float *mean, float *square)
{
    const float share = 1.0f / (float)rows, weight = (float)rows / (float)(before + rows);
    const float both = (float)before * weight;
    KAS_PART_THREADS (t, lanes) {
        KAS_WIDE_ROWS(in, KAS_NORM_RUN);
        KAS_UNROLL
        for (int j = 0; j < rows; j++) {
            KAS_PART_READ_REAL(in[j], x + j * a->pitch_x, t, lanes, whole);
        }
        KAS_WIDE_VALUE(own, KAS_EACH_VALUE(in[0]));
        KAS_UNROLL
        for (int j = 1; j < rows; j++) {
            KAS_EACH(KAS_EACH_VALUE(own) += KAS_EACH_VALUE(in[j]);)
        }
        KAS_EACH(KAS_EACH_VALUE(own) *= share;)
        KAS_WIDE_VALUE(off, 0.0f);
        KAS_UNROLL
        for (int j = 0; j < rows; j++) {
            KAS_WIDE_VALUE(d, KAS_EACH_VALUE(in[j]) - KAS_EACH_VALUE(own));
            KAS_EACH(KAS_EACH_VALUE(off) =
                         kas_fma(KAS_EACH_VALUE(d), KAS_EACH_VALUE(d), KAS_EACH_VALUE(off));)
        }
        if (before == 0) { /* saves a fifth of the time on the CPU for 64 channels of bf16 */
            KAS_EACH(KAS_EACH_OF(mean, t) = KAS_EACH_VALUE(own);
                     KAS_EACH_OF(square, t) = KAS_EACH_VALUE(off);)
        } else {
            KAS_WIDE_VALUE(delta, KAS_EACH_VALUE(own) - KAS_EACH_OF(mean, t));
            KAS_EACH(
                KAS_EACH_OF(mean, t) = kas_fma(KAS_EACH_VALUE(delta), weight, KAS_EACH_OF(mean, t));
                KAS_EACH_OF(square, t) +=
                kas_fma(KAS_EACH_VALUE(delta) * KAS_EACH_VALUE(delta), both, KAS_EACH_VALUE(off));)
        }
    }
}

/* Combines in order what the teams found, which is in shared memory, [team][KAS_NORM_LANES]. */
KAS_FN void kas_norm_teams(const float *means, const float *squares, int rows, float *mean,
                           float *square, int lanes)
{
    kas_team_zero(mean, square, lanes);
    for (int team = 0, before = 0; team < KAS_NORM_TEAMS && before < rows; team++) {
        const int here = kas_team_share(rows, team);
        kas_norm_merge(mean, square, means + team * KAS_NORM_LANES, squares + team * KAS_NORM_LANES,
                       before, here, lanes, 1);
        before += here;
    }
}

/* Computes the mean and the sum of squared deviations of each chunk. */
KAS_KERNEL(kas_dev_norm_statistics, kas_norm_args)
{
    const int chunk = KAS_BLOCK_X, channel = KAS_BLOCK_Y * KAS_NORM_LANES;
    const int lanes = kas_norm_lanes(&a, channel);
    const int first = chunk * a.chunk_rows, rows = kas_imin(a.chunk_rows, a.rows - first);
    const kas_real *x = a.x + (kas_i64)first * a.pitch_x + channel;
    KAS_SHARED(float, means, (KAS_NORM_TEAMS * KAS_NORM_LANES));
    KAS_SHARED(float, squares, (KAS_NORM_TEAMS * KAS_NORM_LANES));
    KAS_ROWS (team, 0, KAS_NORM_TEAMS) {
        KAS_WIDE_LANE(mean, KAS_NORM_LANES);
        KAS_WIDE_LANE(square, KAS_NORM_LANES);
        kas_team_zero(mean, square, lanes);
        int before = 0;
        for (int r = team * KAS_NORM_RUN; r < rows; r += KAS_TEAM_ROUND) {
            const int end = kas_imin(r + KAS_NORM_RUN, rows);
            const kas_real *run = x + (kas_i64)r * a.pitch_x;
            if (KAS_WHOLE(a.whole) && end == r + KAS_NORM_RUN)
                kas_norm_statistics_rows(&a, run, KAS_NORM_RUN, before, lanes, 1, mean, square);
            else
                for (int j = 0; j < end - r; j++)
                    kas_norm_statistics_rows(&a, run + j * a.pitch_x, 1, before + j, lanes, a.whole,
                                             mean, square);
            before += end - r;
        }
        kas_team_keep(means + team * KAS_NORM_LANES, squares + team * KAS_NORM_LANES, mean, square,
                      lanes, 1);
    }
    KAS_BARRIER();
    float *partial = a.partial + (kas_i64)chunk * 2 * a.c + channel;
    KAS_ONE_ROW
    {
        KAS_WIDE_LANE(mean, KAS_NORM_LANES);
        KAS_WIDE_LANE(square, KAS_NORM_LANES);
        kas_norm_teams(means, squares, rows, mean, square, lanes);
        kas_team_keep(partial, partial + a.c, mean, square, lanes, a.whole);
    }
}

/* The chunks that a team takes when they are combined, and the rows in front of a chunk. */
KAS_FN int kas_norm_chunks_of_team(const kas_norm_args *a)
{
    return (a->chunks + KAS_NORM_TEAMS - 1) / KAS_NORM_TEAMS;
}
KAS_FN int kas_norm_rows_before(const kas_norm_args *a, int chunk)
{
    return chunk < a->chunks ? chunk * a->chunk_rows : a->rows;
}

/* Computes what the layer keeps from the mean and the sum of squares of all rows. */
KAS_FN void kas_norm_finish(const kas_norm_args *a, int channel, int lanes, const float *mean,
                            const float *square)
{
    const float share = 1.0f / (float)a->rows, eps = a->eps, momentum = a->momentum;
    const float unbiased = 1.0f / (float)kas_imax(a->rows - 1, 1);
    float *running_mean = a->running_mean + channel, *running_var = a->running_var + channel;
    KAS_WATCH(found);
    KAS_PART_THREADS (t, lanes) {
        KAS_PART_LOAD(old, running_mean, t, lanes, a->whole);
        KAS_PART_LOAD(old_var, running_var, t, lanes, a->whole);
        KAS_WIDE_VALUE(m, KAS_EACH_OF(mean, t));
        KAS_WIDE_VALUE(rstd, kas_rsqrt(KAS_EACH_OF(square, t) * share + eps));
        KAS_WIDE_VALUE(new_mean,
                       KAS_EACH_VALUE(old) + momentum * (KAS_EACH_VALUE(m) - KAS_EACH_VALUE(old)));
        KAS_WIDE_VALUE(
            new_var, KAS_EACH_VALUE(old_var) +
                         momentum * (KAS_EACH_OF(square, t) * unbiased - KAS_EACH_VALUE(old_var)));
        KAS_PART_STORE(a->saved_mean + channel, t, m, lanes, a->whole);
        KAS_PART_STORE(a->saved_rstd + channel, t, rstd, lanes, a->whole);
        KAS_PART_STORE(running_mean, t, new_mean, lanes, a->whole);
        KAS_PART_STORE(running_var, t, new_var, lanes, a->whole);
        KAS_WATCH_VALUE(found, new_mean)
        KAS_WATCH_VALUE(found, new_var)
    }
    KAS_WATCH_END(found, a->watch);
}

/* Combines the chunks to the statistics of the batch. */
KAS_KERNEL(kas_dev_norm_combine, kas_norm_args)
{
    const int channel = KAS_BLOCK_X * KAS_NORM_LANES, lanes = kas_norm_lanes(&a, channel);
    const int each = kas_norm_chunks_of_team(&a);
    KAS_SHARED(float, means, (KAS_NORM_TEAMS * KAS_NORM_LANES));
    KAS_SHARED(float, squares, (KAS_NORM_TEAMS * KAS_NORM_LANES));
    KAS_ROWS (team, 0, KAS_NORM_TEAMS) {
        KAS_WIDE_LANE(mean, KAS_NORM_LANES);
        KAS_WIDE_LANE(square, KAS_NORM_LANES);
        if (team * each >= a.chunks)
            continue;
        kas_team_zero(mean, square, lanes);
        for (int chunk = team * each; chunk < kas_imin((team + 1) * each, a.chunks); chunk++) {
            const float *partial = a.partial + (kas_i64)chunk * 2 * a.c + channel;
            const int begin = kas_norm_rows_before(&a, chunk);
            kas_norm_merge(mean, square, partial, partial + a.c,
                           begin - kas_norm_rows_before(&a, team * each),
                           kas_norm_rows_before(&a, chunk + 1) - begin, lanes, a.whole);
        }
        kas_team_keep(means + team * KAS_NORM_LANES, squares + team * KAS_NORM_LANES, mean, square,
                      lanes, 1);
    }
    KAS_BARRIER();
    KAS_ONE_ROW
    {
        KAS_WIDE_LANE(mean, KAS_NORM_LANES);
        KAS_WIDE_LANE(square, KAS_NORM_LANES);
        kas_team_zero(mean, square, lanes);
        for (int team = 0; team * each < a.chunks; team++) {
            const int begin = kas_norm_rows_before(&a, team * each);
            kas_norm_merge(mean, square, means + team * KAS_NORM_LANES,
                           squares + team * KAS_NORM_LANES, begin,
                           kas_norm_rows_before(&a, (team + 1) * each) - begin, lanes, 1);
        }
        kas_norm_finish(&a, channel, lanes, mean, square);
    }
}

/* One value for each channel: a lane has one. */
KAS_KERNEL(kas_dev_norm_running, kas_norm_args)
{
    KAS_LANES (c, a.c) {
        a.saved_rstd[c] = kas_rsqrt(a.running_var[c] + a.eps);
    }
}

KAS_FN float kas_norm_value(float x, float mean, float rstd, float gamma, float beta)
{
    return kas_fma((x - mean) * rstd, gamma, beta);
}

/* Computes y = (x - mean) * rstd * gamma + beta. What is fused is a constant where this is called,
 * so no lane tests it. */
KAS_FN void kas_norm_apply(const kas_norm_args *a, int block, int residual, int activation)
{
    const int first = block * a->rows_per_block;
    const float *mean = a->mean, *rstd = a->rstd, *gamma = a->gamma, *beta = a->beta;
    KAS_ROWS (r, first, kas_imin(first + a->rows_per_block, a->rows)) {
        const kas_real *x = a->x + (kas_i64)r * a->pitch_x;
        const kas_real *add = residual ? a->residual + (kas_i64)r * a->pitch_residual : x;
        kas_real *y = a->out + (kas_i64)r * a->pitch_out;
        KAS_PART_LANES (c, a->c) {
            KAS_PART_LOAD_REAL(in, x, c, a->c, a->whole);
            KAS_PART_LOAD_REAL(more, add, c, a->c, a->whole);
            KAS_PART_LOAD(m, mean, c, a->c, a->whole);
            KAS_PART_LOAD(s, rstd, c, a->c, a->whole);
            KAS_PART_LOAD(g, gamma, c, a->c, a->whole);
            KAS_PART_LOAD(b, beta, c, a->c, a->whole);
            KAS_WIDE_VALUE(value,
                           kas_norm_value(KAS_EACH_VALUE(in), KAS_EACH_VALUE(m), KAS_EACH_VALUE(s),
                                          KAS_EACH_VALUE(g), KAS_EACH_VALUE(b)));
            KAS_WIDE_VALUE(out, kas_activate(activation,
                                             residual ? KAS_EACH_VALUE(value) + KAS_EACH_VALUE(more)
                                                      : KAS_EACH_VALUE(value)));
            KAS_PART_STORE_REAL(y, c, out, a->c, a->whole);
        }
    }
}
KAS_KERNEL(kas_dev_norm_apply, kas_norm_args)
{
    kas_norm_apply(&a, KAS_BLOCK_X, 0, KAS_ACT_NONE);
}
KAS_KERNEL(kas_dev_norm_apply_relu, kas_norm_args)
{
    kas_norm_apply(&a, KAS_BLOCK_X, 0, KAS_ACT_RELU);
}
KAS_KERNEL(kas_dev_norm_apply_residual, kas_norm_args)
{
    kas_norm_apply(&a, KAS_BLOCK_X, 1, KAS_ACT_NONE);
}
KAS_KERNEL(kas_dev_norm_apply_residual_relu, kas_norm_args)
{
    kas_norm_apply(&a, KAS_BLOCK_X, 1, KAS_ACT_RELU);
}
/* Any activation, without a residual: the ReLU has kernels of its own, which need fewer
 * registers. */
KAS_KERNEL(kas_dev_norm_apply_active, kas_norm_args)
{
#define KAS_CALL(kind) kas_norm_apply(&a, KAS_BLOCK_X, 0, kind)
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
    const int lanes = kas_norm_lanes(a, channel);
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

KAS_KERNEL(kas_dev_norm_gradient_combine, kas_norm_args)
{
    const int channel = KAS_BLOCK_X * KAS_NORM_LANES, lanes = kas_norm_lanes(&a, channel);
    const int each = kas_norm_chunks_of_team(&a);
    KAS_SHARED(float, plains, (KAS_NORM_TEAMS * KAS_NORM_LANES));
    KAS_SHARED(float, products, (KAS_NORM_TEAMS * KAS_NORM_LANES));
    KAS_ROWS (team, 0, KAS_NORM_TEAMS) {
        KAS_WIDE_LANE(plain, KAS_NORM_LANES);
        KAS_WIDE_LANE(product, KAS_NORM_LANES);
        if (team * each >= a.chunks)
            continue;
        kas_team_zero(plain, product, lanes);
        for (int chunk = team * each; chunk < kas_imin((team + 1) * each, a.chunks); chunk++) {
            const float *partial = a.partial + (kas_i64)chunk * 2 * a.c + channel;
            KAS_PART_THREADS (t, lanes) {
                KAS_PART_LOAD(p, partial, t, lanes, a.whole);
                KAS_PART_LOAD(q, partial + a.c, t, lanes, a.whole);
                KAS_EACH(KAS_EACH_OF(plain, t) += KAS_EACH_VALUE(p);
                         KAS_EACH_OF(product, t) += KAS_EACH_VALUE(q);)
            }
        }
        kas_team_keep(plains + team * KAS_NORM_LANES, products + team * KAS_NORM_LANES, plain,
                      product, lanes, 1);
    }
    KAS_BARRIER();
    KAS_ONE_ROW
    {
        kas_team_sums(plains, products, (a.chunks + each - 1) / each, a.dbeta + channel,
                      a.dgamma + channel, lanes, a.whole);
    }
}

/* dx = [base +] gamma * rstd * (g - mean(g) - xhat * mean(g * xhat)). Where g was written, dy is g,
 * and there is no activation left. */
KAS_FN void kas_norm_backward(const kas_norm_args *a, int block, int activation, int add)
{
    const int first = block * a->rows_per_block;
    const float *mean = a->mean, *rstd = a->rstd, *gamma = a->gamma, *beta = a->beta;
    const float *dgamma = a->dgamma, *dbeta = a->dbeta;
    const float share = 1.0f / (float)a->rows;
    KAS_ROWS (r, first, kas_imin(first + a->rows_per_block, a->rows)) {
        const kas_real *x = a->x + (kas_i64)r * a->pitch_x;
        const kas_real *dy = a->dy + (kas_i64)r * a->pitch_dy;
        const kas_real *base = add ? a->base + (kas_i64)r * a->pitch_base : dy;
        kas_real *dx = a->out + (kas_i64)r * a->pitch_out;
        KAS_PART_LANES (c, a->c) {
            KAS_PART_LOAD_REAL(in, x, c, a->c, a->whole);
            KAS_PART_LOAD_REAL(d, dy, c, a->c, a->whole);
            KAS_PART_LOAD_REAL(to, base, c, a->c, a->whole);
            KAS_PART_LOAD(m, mean, c, a->c, a->whole);
            KAS_PART_LOAD(s, rstd, c, a->c, a->whole);
            KAS_PART_LOAD(factor, gamma, c, a->c, a->whole);
            KAS_PART_LOAD(b, beta, c, a->c, a->whole);
            KAS_PART_LOAD(dg, dgamma, c, a->c, a->whole);
            KAS_PART_LOAD(db, dbeta, c, a->c, a->whole);
            KAS_WIDE_VALUE(xhat, (KAS_EACH_VALUE(in) - KAS_EACH_VALUE(m)) * KAS_EACH_VALUE(s));
            KAS_WIDE_VALUE(g, kas_norm_behind(activation, KAS_FROM_X, 0.0f, KAS_EACH_VALUE(xhat),
                                              KAS_EACH_VALUE(factor), KAS_EACH_VALUE(b),
                                              KAS_EACH_VALUE(d)));
            KAS_WIDE_VALUE(inner, KAS_EACH_VALUE(g) - share * kas_fma(KAS_EACH_VALUE(xhat),
                                                                      KAS_EACH_VALUE(dg),
                                                                      KAS_EACH_VALUE(db)));
            KAS_WIDE_VALUE(own, KAS_EACH_VALUE(factor) * KAS_EACH_VALUE(s) * KAS_EACH_VALUE(inner));
            KAS_WIDE_VALUE(out,
                           add ? KAS_EACH_VALUE(to) + KAS_EACH_VALUE(own) : KAS_EACH_VALUE(own));
            KAS_PART_STORE_REAL(dx, c, out, a->c, a->whole);
        }
    }
}
KAS_KERNEL(kas_dev_norm_backward, kas_norm_args)
{
    kas_norm_backward(&a, KAS_BLOCK_X, KAS_ACT_NONE, 0);
}
KAS_KERNEL(kas_dev_norm_backward_relu, kas_norm_args)
{
    kas_norm_backward(&a, KAS_BLOCK_X, KAS_ACT_RELU, 0);
}
KAS_KERNEL(kas_dev_norm_backward_active, kas_norm_args)
{
#define KAS_CALL(kind) kas_norm_backward(&a, KAS_BLOCK_X, kind, 0)
    KAS_BY_ACTIVATION(a.activation, KAS_CALL);
#undef KAS_CALL
}
KAS_KERNEL(kas_dev_norm_backward_add, kas_norm_args)
{
    kas_norm_backward(&a, KAS_BLOCK_X, KAS_ACT_NONE, 1);
}
KAS_KERNEL(kas_dev_norm_backward_relu_add, kas_norm_args)
{
    kas_norm_backward(&a, KAS_BLOCK_X, KAS_ACT_RELU, 1);
}
