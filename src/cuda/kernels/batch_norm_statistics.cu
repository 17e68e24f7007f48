#include "kernel.h"

/* The statistics of a batch norm (batch_norm.cu): those of chunks, and how chunks are combined, the
 * sums of its gradient included. The teams of teams.h share a chunk. */
KAS_FN int kas_norm_lanes(const kas_norm_args *a, int first)
{
    return kas_imin(KAS_NORM_LANES, a->c - first);
}

/* Combines a lane's mean and sum of squared deviations with those of other rows by Chan's formula.
 * `weight` is the others' share of all rows, `both` that times the rows before. */
#define KAS_NORM_MERGE(mean, square, other, more, weight, both)                                    \
    KAS_WIDE_VALUE(delta, KAS_EACH_VALUE(other) - KAS_EACH_OF(mean, t));                           \
    KAS_EACH(KAS_EACH_OF(mean, t) = kas_fma(KAS_EACH_VALUE(delta), weight, KAS_EACH_OF(mean, t));  \
             KAS_EACH_OF(square, t) +=                                                             \
             kas_fma(KAS_EACH_VALUE(delta) * KAS_EACH_VALUE(delta), both, KAS_EACH_VALUE(more));)

/* Does so with `here` rows, whose statistics stand at `from` and `from_square`, after `before`. */
KAS_FN void kas_norm_merge(float *mean, float *square, const float *from, const float *from_square,
                           int before, int here, int lanes)
{
    const float weight = (float)here / (float)(before + here);
    const float both = (float)before * weight;
    KAS_PART_THREADS (t, lanes) {
        KAS_WIDE_LOAD(other, from, t);
        KAS_WIDE_LOAD(more, from_square, t);
        KAS_NORM_MERGE(mean, square, other, more, weight, both)
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
            KAS_NORM_MERGE(mean, square, own, off, weight, both)
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
                       before, here, lanes);
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

/* ---- combining chunks -------------------------------------------------------------------------
 *
 * A block takes KAS_COMBINE_LANES channels, so that it has many teams and each of them few chunks,
 * of which it loads several at once. Then neighbouring teams meet in a tree. */
KAS_FN int kas_norm_chunks_of_team(const kas_norm_args *a)
{
    return (a->chunks + KAS_COMBINE_TEAMS - 1) / KAS_COMBINE_TEAMS;
}
KAS_FN int kas_norm_rows_before(const kas_norm_args *a, int chunk)
{
    return chunk < a->chunks ? chunk * a->chunk_rows : a->rows;
}

/* Declares p[j] and q[j], the values of a lane in a constant number of chunks. */
#define KAS_NORM_LOAD_CHUNKS(p, q, a, chunk, chunks, channel, lanes, whole)                        \
    KAS_WIDE_ROWS(p, KAS_TEAM_BATCH);                                                              \
    KAS_WIDE_ROWS(q, KAS_TEAM_BATCH);                                                              \
    KAS_UNROLL                                                                                     \
    for (int j = 0; j < (chunks); j++) {                                                           \
        const float *partial = (a)->partial + (kas_i64)((chunk) + j) * 2 * (a)->c + (channel);     \
        KAS_PART_READ(p[j], partial, t, lanes, whole);                                             \
        KAS_PART_READ(q[j], partial + (a)->c, t, lanes, whole);                                    \
    }                                                                                              \
    (void)0

/* Merges a constant number of chunks of a team, which begins at chunk `first`. */
KAS_FN void kas_norm_merge_chunks(const kas_norm_args *a, int first, int chunk, int chunks,
                                  int channel, int lanes, int whole, float *mean, float *square)
{
    const int start = kas_norm_rows_before(a, first);
    KAS_PART_THREADS (t, lanes) {
        KAS_NORM_LOAD_CHUNKS(other, more, a, chunk, chunks, channel, lanes, whole);
        KAS_UNROLL
        for (int j = 0; j < chunks; j++) {
            const int before = kas_norm_rows_before(a, chunk + j) - start;
            const int after = kas_norm_rows_before(a, chunk + j + 1) - start;
            const float weight = (float)(after - before) / (float)after;
            KAS_NORM_MERGE(mean, square, other[j], more[j], weight, (float)before * weight)
        }
    }
}
KAS_FN void kas_norm_merge_team(const kas_norm_args *a, int first, int channel, int lanes,
                                int whole, float *mean, float *square)
{
    const int last = kas_imin(first + kas_norm_chunks_of_team(a), a->chunks);
    int chunk = first;
    KAS_WIDE_LEAVE(lanes);
    for (; chunk + KAS_TEAM_BATCH <= last; chunk += KAS_TEAM_BATCH)
        kas_norm_merge_chunks(a, first, chunk, KAS_TEAM_BATCH, channel, lanes, whole, mean, square);
    for (; chunk < last; chunk++)
        kas_norm_merge_chunks(a, first, chunk, 1, channel, lanes, whole, mean, square);
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
    const int channel = KAS_BLOCK_X * KAS_COMBINE_LANES;
    const int lanes = kas_imin(KAS_COMBINE_LANES, a.c - channel);
    const int each = kas_norm_chunks_of_team(&a), teams = (a.chunks + each - 1) / each;
    KAS_SHARED(float, means, (KAS_COMBINE_TEAMS * KAS_COMBINE_LANES));
    KAS_SHARED(float, squares, (KAS_COMBINE_TEAMS * KAS_COMBINE_LANES));
    KAS_ROWS (team, 0, teams) {
        KAS_WIDE_LANE(mean, KAS_COMBINE_LANES);
        KAS_WIDE_LANE(square, KAS_COMBINE_LANES);
        kas_team_zero(mean, square, lanes);
        if (KAS_WHOLE(a.whole))
            kas_norm_merge_team(&a, team * each, channel, lanes, 1, mean, square);
        else
            kas_norm_merge_team(&a, team * each, channel, lanes, 0, mean, square);
        kas_team_keep(means + team * KAS_COMBINE_LANES, squares + team * KAS_COMBINE_LANES, mean,
                      square, lanes, 1);
    }
    for (int apart = 1; apart < teams; apart *= 2) {
        KAS_BARRIER();
        KAS_ROWS (pair, 0, (teams + apart - 1) / (2 * apart)) {
            const int one = pair * 2 * apart, other = one + apart;
            const int start = kas_norm_rows_before(&a, one * each);
            const int middle = kas_norm_rows_before(&a, other * each);
            KAS_WIDE_LANE(mean, KAS_COMBINE_LANES);
            KAS_WIDE_LANE(square, KAS_COMBINE_LANES);
            kas_team_take(mean, means + one * KAS_COMBINE_LANES, lanes);
            kas_team_take(square, squares + one * KAS_COMBINE_LANES, lanes);
            kas_norm_merge(mean, square, means + other * KAS_COMBINE_LANES,
                           squares + other * KAS_COMBINE_LANES, middle - start,
                           kas_norm_rows_before(&a, (other + apart) * each) - middle, lanes);
            kas_team_keep(means + one * KAS_COMBINE_LANES, squares + one * KAS_COMBINE_LANES, mean,
                          square, lanes, 1);
        }
    }
    KAS_BARRIER();
    KAS_ONE_ROW
    {
        KAS_WIDE_LANE(mean, KAS_COMBINE_LANES);
        KAS_WIDE_LANE(square, KAS_COMBINE_LANES);
        kas_team_take(mean, means, lanes);
        kas_team_take(square, squares, lanes);
        kas_norm_finish(&a, channel, lanes, mean, square);
    }
}

/* Adds a constant number of chunks, and all chunks of a team. */
KAS_FN void kas_norm_add_chunks(const kas_norm_args *a, int chunk, int chunks, int channel,
                                int lanes, int whole, float *plain, float *product)
{
    KAS_PART_THREADS (t, lanes) {
        KAS_NORM_LOAD_CHUNKS(p, q, a, chunk, chunks, channel, lanes, whole);
        KAS_UNROLL
        for (int j = 0; j < chunks; j++) {
            KAS_EACH(KAS_EACH_OF(plain, t) += KAS_EACH_VALUE(p[j]);
                     KAS_EACH_OF(product, t) += KAS_EACH_VALUE(q[j]);)
        }
    }
}
KAS_FN void kas_norm_add_team(const kas_norm_args *a, int first, int channel, int lanes, int whole,
                              float *plain, float *product)
{
    const int last = kas_imin(first + kas_norm_chunks_of_team(a), a->chunks);
    int chunk = first;
    KAS_WIDE_LEAVE(lanes);
    for (; chunk + KAS_TEAM_BATCH <= last; chunk += KAS_TEAM_BATCH)
        kas_norm_add_chunks(a, chunk, KAS_TEAM_BATCH, channel, lanes, whole, plain, product);
    for (; chunk < last; chunk++)
        kas_norm_add_chunks(a, chunk, 1, channel, lanes, whole, plain, product);
}

KAS_KERNEL(kas_dev_norm_gradient_combine, kas_norm_args)
{
    const int channel = KAS_BLOCK_X * KAS_COMBINE_LANES;
    const int lanes = kas_imin(KAS_COMBINE_LANES, a.c - channel);
    const int each = kas_norm_chunks_of_team(&a), teams = (a.chunks + each - 1) / each;
    KAS_SHARED(float, plains, (KAS_COMBINE_TEAMS * KAS_COMBINE_LANES));
    KAS_SHARED(float, products, (KAS_COMBINE_TEAMS * KAS_COMBINE_LANES));
    KAS_ROWS (team, 0, teams) {
        KAS_WIDE_LANE(plain, KAS_COMBINE_LANES);
        KAS_WIDE_LANE(product, KAS_COMBINE_LANES);
        kas_team_zero(plain, product, lanes);
        if (KAS_WHOLE(a.whole))
            kas_norm_add_team(&a, team * each, channel, lanes, 1, plain, product);
        else
            kas_norm_add_team(&a, team * each, channel, lanes, 0, plain, product);
        kas_team_keep(plains + team * KAS_COMBINE_LANES, products + team * KAS_COMBINE_LANES, plain,
                      product, lanes, 1);
    }
    for (int apart = 1; apart < teams; apart *= 2) {
        KAS_BARRIER();
        KAS_ROWS (pair, 0, (teams + apart - 1) / (2 * apart)) {
            const int one = pair * 2 * apart * KAS_COMBINE_LANES;
            const int other = one + apart * KAS_COMBINE_LANES;
            kas_team_add_kept(plains + one, plains + other, lanes);
            kas_team_add_kept(products + one, products + other, lanes);
        }
    }
    KAS_BARRIER();
    KAS_ONE_ROW
    {
        KAS_WIDE_LANE(sum, KAS_COMBINE_LANES);
        kas_team_take(sum, plains, lanes);
        kas_team_keep_one(a.dbeta + channel, sum, lanes, a.whole);
        kas_team_take(sum, products, lanes);
        kas_team_keep_one(a.dgamma + channel, sum, lanes, a.whole);
    }
}

/* One value for each channel: a lane has one. */
KAS_KERNEL(kas_dev_norm_running, kas_norm_args)
{
    KAS_LANES (c, a.c) {
        a.saved_rstd[c] = kas_rsqrt(a.running_var[c] + a.eps);
    }
}
