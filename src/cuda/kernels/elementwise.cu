#include "kernel.h"

/* Element-wise kernels: sums, differences, products, copies, bias. */
#define KAS_EACH_ROW(r)                                                                            \
    KAS_ROWS (r, KAS_BLOCK_X * a.rows_per_block,                                                   \
              kas_imin((KAS_BLOCK_X + 1) * a.rows_per_block, a.rows))

/* The residual connection, and gradients that meet at a fork. */
KAS_KERNEL(kas_dev_add, kas_rows_args)
{
    KAS_EACH_ROW(r)
    {
        const kas_real *u = a.a + (kas_i64)r * a.pitch_a, *v = a.b + (kas_i64)r * a.pitch_b;
        kas_real *y = a.y + (kas_i64)r * a.pitch_y;
        KAS_PART_LANES (c, a.c) {
            KAS_PART_LOAD_REAL(one, u, c, a.c, a.whole);
            KAS_PART_LOAD_REAL(other, v, c, a.c, a.whole);
            KAS_WIDE_VALUE(sum, KAS_EACH_VALUE(one) + KAS_EACH_VALUE(other));
            KAS_PART_STORE_REAL(y, c, sum, a.c, a.whole);
        }
    }
}

/* What a kernel misses of the tensor that it imitates. */
KAS_KERNEL(kas_dev_subtract, kas_rows_args)
{
    KAS_EACH_ROW(r)
    {
        const kas_real *u = a.a + (kas_i64)r * a.pitch_a, *v = a.b + (kas_i64)r * a.pitch_b;
        kas_real *y = a.y + (kas_i64)r * a.pitch_y;
        KAS_PART_LANES (c, a.c) {
            KAS_PART_LOAD_REAL(one, u, c, a.c, a.whole);
            KAS_PART_LOAD_REAL(other, v, c, a.c, a.whole);
            KAS_WIDE_VALUE(difference, KAS_EACH_VALUE(one) - KAS_EACH_VALUE(other));
            KAS_PART_STORE_REAL(y, c, difference, a.c, a.whole);
        }
    }
}

/* A gate: one row of b holds for b_every rows of a (1, or the pixels of an image). */
KAS_KERNEL(kas_dev_multiply, kas_rows_args)
{
    KAS_EACH_ROW(r)
    {
        const kas_real *u = a.a + (kas_i64)r * a.pitch_a,
                       *v = a.b + (kas_i64)(r / a.b_every) * a.pitch_b;
        kas_real *y = a.y + (kas_i64)r * a.pitch_y;
        KAS_PART_LANES (c, a.c) {
            KAS_PART_LOAD_REAL(one, u, c, a.c, a.whole);
            KAS_PART_LOAD_REAL(other, v, c, a.c, a.whole);
            KAS_WIDE_VALUE(product, KAS_EACH_VALUE(one) * KAS_EACH_VALUE(other));
            KAS_PART_STORE_REAL(y, c, product, a.c, a.whole);
        }
    }
}

/* Adds the products of a team's rows [first, last) to lane values, as kas_team_add_rows does. */
KAS_FN void kas_multiply_rows(const kas_rows_args *a, const kas_real *u, const kas_real *v,
                              int first, int last, float *sum, int lanes, int whole)
{
    KAS_WIDE_LEAVE(lanes);
    KAS_UNROLL_FEW(4)
    for (int r = first; r < last; r += KAS_SUM_TEAMS) {
        KAS_PART_THREADS (t, lanes) {
            KAS_PART_LOAD_REAL(one, u + (kas_i64)r * a->pitch_a, t, lanes, whole);
            KAS_PART_LOAD_REAL(other, v + (kas_i64)r * a->pitch_b, t, lanes, whole);
            KAS_EACH(KAS_EACH_OF(sum, t) =
                         kas_fma(KAS_EACH_VALUE(one), KAS_EACH_VALUE(other), KAS_EACH_OF(sum, t));)
        }
    }
}

/* The gradient of a row that holds for b_every others: y = sum of a * b over them, one block for an
 * image and KAS_SUM_LANES channels. Teams (teams.h) share the rows, and each sums runs of
 * KAS_SUM_RUN separately, which keeps the error of a long sum near that of a short one. */
KAS_KERNEL(kas_dev_multiply_sum, kas_rows_args)
{
    const int image = KAS_BLOCK_X, first = KAS_BLOCK_Y * KAS_SUM_LANES;
    const int lanes = kas_imin(KAS_SUM_LANES, a.c - first);
    const kas_real *u = a.a + (kas_i64)image * a.b_every * a.pitch_a + first;
    const kas_real *v = a.b + (kas_i64)image * a.b_every * a.pitch_b + first;
    KAS_SHARED(float, sums, (KAS_SUM_TEAMS * KAS_SUM_LANES));
    KAS_ROWS (team, 0, KAS_SUM_TEAMS) {
        KAS_WIDE_LANE(sum, KAS_SUM_LANES);
        KAS_WIDE_LANE(run, KAS_SUM_LANES);
        kas_team_zero_one(sum, lanes);
        for (int begin = team; begin < a.b_every; begin += KAS_SUM_TEAMS * KAS_SUM_RUN) {
            const int end = kas_imin(begin + KAS_SUM_TEAMS * KAS_SUM_RUN, a.b_every);
            kas_team_zero_one(run, lanes);
            if (KAS_WHOLE(a.whole))
                kas_multiply_rows(&a, u, v, begin, end, run, lanes, 1);
            else
                kas_multiply_rows(&a, u, v, begin, end, run, lanes, 0);
            KAS_PART_THREADS (t, lanes) {
                KAS_EACH(KAS_EACH_OF(sum, t) += KAS_EACH_OF(run, t);)
            }
        }
        kas_team_keep_one(sums + team * KAS_SUM_LANES, sum, lanes, 1);
    }
    KAS_BARRIER();
    KAS_ONE_ROW
    {
        KAS_WIDE_LANE(sum, KAS_SUM_LANES);
        kas_team_add(sums, KAS_SUM_TEAMS, sum, lanes);
        KAS_PART_THREADS (t, lanes) {
            KAS_WIDE_VALUE(all, KAS_EACH_OF(sum, t));
            KAS_PART_STORE_REAL(a.y + (kas_i64)image * a.pitch_y + first, t, all, lanes, a.whole);
        }
    }
}

/* Copies between tensors of different pitches: the parts of a concatenation. */
KAS_KERNEL(kas_dev_copy, kas_rows_args)
{
    KAS_EACH_ROW(r)
    {
        const kas_real *x = a.a + (kas_i64)r * a.pitch_a;
        kas_real *y = a.y + (kas_i64)r * a.pitch_y;
        KAS_PART_LANES (c, a.c) {
            KAS_PART_COPY(y, x, c, a.c, a.whole);
        }
    }
}

/* Casts between dtypes: where float32 begins and where it ends. 16 bytes of a 16-bit dtype are 32
 * bytes of floats. */
KAS_KERNEL(kas_dev_widen, kas_cast_args)
{
    KAS_EACH_ROW(r)
    {
        const kas_real *x = a.real + (kas_i64)r * a.pitch_real;
        float *y = a.value + (kas_i64)r * a.pitch_value;
        KAS_PART_LANES (c, a.c) {
            KAS_PART_LOAD_REAL(in, x, c, a.c, a.whole);
            KAS_PART_STORE(y, c, in, a.c, a.whole);
        }
    }
}
KAS_KERNEL(kas_dev_narrow, kas_cast_args)
{
    KAS_EACH_ROW(r)
    {
        const float *x = a.value + (kas_i64)r * a.pitch_value;
        kas_real *y = a.real + (kas_i64)r * a.pitch_real;
        KAS_PART_LANES (c, a.c) {
            KAS_PART_LOAD(in, x, c, a.c, a.whole);
            KAS_PART_STORE_REAL(y, c, in, a.c, a.whole);
        }
    }
}

KAS_KERNEL(kas_dev_bias_forward, kas_rows_args)
{
    KAS_EACH_ROW(r)
    {
        kas_real *y = a.y + (kas_i64)r * a.pitch_y;
        KAS_PART_LANES (c, a.c) {
            KAS_PART_LOAD_REAL(in, y, c, a.c, a.whole);
            KAS_PART_LOAD(bias, a.bias, c, a.c, a.whole);
            KAS_WIDE_VALUE(sum, KAS_EACH_VALUE(in) + KAS_EACH_VALUE(bias));
            KAS_PART_STORE_REAL(y, c, sum, a.c, a.whole);
        }
    }
}

/* Sums over rows: first chunks, then the chunks' sums, in order; one chunk needs no second step.
 * Teams (teams.h) share a chunk. */
KAS_KERNEL(kas_dev_bias_backward, kas_column_sum_args)
{
    const int chunk = KAS_BLOCK_X, channel = KAS_BLOCK_Y * KAS_SUM_LANES;
    const int lanes = kas_imin(KAS_SUM_LANES, a.c - channel);
    const int first = chunk * a.chunk_rows, last = kas_imin(first + a.chunk_rows, a.rows);
    const kas_real *x = a.x + channel;
    KAS_SHARED(float, sums, (KAS_SUM_TEAMS * KAS_SUM_LANES));
    KAS_ROWS (team, 0, KAS_SUM_TEAMS) {
        KAS_WIDE_LANE(sum, KAS_SUM_LANES);
        kas_team_zero_one(sum, lanes);
        kas_team_add_rows(x, a.pitch, first + team, last, KAS_SUM_TEAMS, sum, lanes, a.whole);
        kas_team_keep_one(sums + team * KAS_SUM_LANES, sum, lanes, 1);
    }
    KAS_BARRIER();
    KAS_ONE_ROW
    {
        KAS_WIDE_LANE(sum, KAS_SUM_LANES);
        kas_team_add(sums, KAS_SUM_TEAMS, sum, lanes);
        kas_team_keep_one(a.out + (kas_i64)chunk * a.c + channel, sum, lanes, a.whole);
    }
}

/* The end of a step. */
KAS_KERNEL(kas_dev_advance, kas_advance_args)
{
    KAS_ONE_LANE
    {
        a.state->step += 1;
        a.state->cursor += a.batch;
    }
}
