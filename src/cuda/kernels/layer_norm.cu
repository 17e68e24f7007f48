#include "kernel.h"

/* Layer norm over the channels of each pixel.  The rows of threads of a block take a row each; each
 * lane sums every KAS_LAYER_NORM_LANES-th channel, and the lanes' sums meet in a fixed tree. */
#define KAS_LAYER_NORM_PART(base) kas_imin(KAS_LAYER_NORM_LANES, a.c - (base))

/* The rows of a block. `step`: from one row's sums to the next one's. */
typedef struct kas_layer_norm_block {
    int first, rows, lanes, step;
} kas_layer_norm_block;

KAS_FN kas_layer_norm_block kas_layer_norm_block_of(const kas_layer_norm_args *a, int block)
{
    const int first = block * a->rows_per_block, lanes = kas_imin(KAS_LAYER_NORM_LANES, a->c);
    const kas_layer_norm_block b = {first, kas_imin(a->rows_per_block, a->rows - first), lanes,
                                    (lanes + KAS_WIDTH - 1) / KAS_WIDTH * KAS_WIDTH};
    return b;
}

/* Leaves the sum of each row's lanes in its first. The tree is that of kas_block_sum. */
KAS_FN void kas_layer_norm_sum(float *sums, kas_layer_norm_block b)
{
    int width = 1, n = b.lanes;
    while (width < n)
        width *= 2;
    KAS_BARRIER();
    for (width /= 2; width > 0; width /= 2) {
        const int pairs = kas_imin(width, n - width);
        KAS_ROWS (r, 0, b.rows) {
            KAS_LANES (i, pairs) {
                sums[r * b.step + i] += sums[r * b.step + i + width];
            }
        }
        n = kas_imin(n, width);
        KAS_BARRIER();
    }
}

KAS_KERNEL(kas_dev_layer_norm_forward, kas_layer_norm_args)
{
    KAS_SHARED(float, sums, (KAS_BLOCK_MAX * KAS_WIDTH));
    KAS_SHARED(float, squares, (KAS_BLOCK_MAX * KAS_WIDTH));
    const kas_layer_norm_block b = kas_layer_norm_block_of(&a, KAS_BLOCK_X);
    const float share = 1.0f / (float)a.c;
    KAS_ROWS (r, 0, b.rows) {
        const kas_real *x = a.x + (kas_i64)(b.first + r) * a.pitch_x;
        KAS_WIDE_LANE(sum, KAS_LAYER_NORM_LANES);
        kas_team_zero_one(sum, b.lanes);
        KAS_UNROLL_FEW(4)
        for (int base = 0; base < a.c; base += KAS_LAYER_NORM_LANES) {
            KAS_PART_THREADS (t, KAS_LAYER_NORM_PART(base)) {
                KAS_PART_LOAD_REAL(in, x, base + t, a.c, a.whole);
                KAS_EACH(KAS_EACH_OF(sum, t) += KAS_EACH_VALUE(in);)
            }
        }
        kas_team_keep_one(sums + r * b.step, sum, b.lanes, 1);
    }
    kas_layer_norm_sum(sums, b);
    KAS_ROWS (r, 0, b.rows) {
        const kas_real *x = a.x + (kas_i64)(b.first + r) * a.pitch_x;
        const float mean = sums[r * b.step] * share;
        KAS_WIDE_LANE(square, KAS_LAYER_NORM_LANES);
        kas_team_zero_one(square, b.lanes);
        KAS_UNROLL_FEW(4)
        for (int base = 0; base < a.c; base += KAS_LAYER_NORM_LANES) {
            KAS_PART_THREADS (t, KAS_LAYER_NORM_PART(base)) {
                KAS_PART_LOAD_REAL(in, x, base + t, a.c, a.whole);
                KAS_EACH(const float off =
                             base + KAS_EACH_LANE(t) < a.c ? KAS_EACH_VALUE(in) - mean : 0.0f;
                         KAS_EACH_OF(square, t) = kas_fma(off, off, KAS_EACH_OF(square, t));)
            }
        }
        kas_team_keep_one(squares + r * b.step, square, b.lanes, 1);
    }
    kas_layer_norm_sum(squares, b);
    KAS_ROWS (r, 0, b.rows) {
        const int row = b.first + r;
        const kas_real *x = a.x + (kas_i64)row * a.pitch_x;
        kas_real *y = a.out + (kas_i64)row * a.pitch_out;
        const float mean = sums[r * b.step] * share;
        const float rstd = kas_rsqrt(squares[r * b.step] * share + a.eps);
        KAS_LANES (i, 1) {
            a.saved_mean[row + i] = mean;
            a.saved_rstd[row + i] = rstd;
        }
        KAS_PART_LANES (c, a.c) {
            KAS_PART_LOAD_REAL(in, x, c, a.c, a.whole);
            KAS_PART_LOAD(g, a.gamma, c, a.c, a.whole);
            KAS_PART_LOAD(b, a.beta, c, a.c, a.whole);
            KAS_WIDE_VALUE(out, kas_fma((KAS_EACH_VALUE(in) - mean) * rstd, KAS_EACH_VALUE(g),
                                        KAS_EACH_VALUE(b)));
            KAS_PART_STORE_REAL(y, c, out, a.c, a.whole);
        }
    }
}

/* With g = dy * gamma: dx = rstd * (g - mean(g) - xhat * mean(g * xhat)). */
KAS_KERNEL(kas_dev_layer_norm_backward, kas_layer_norm_args)
{
    KAS_SHARED(float, plain, (KAS_BLOCK_MAX * KAS_WIDTH));
    KAS_SHARED(float, product, (KAS_BLOCK_MAX * KAS_WIDTH));
    const kas_layer_norm_block b = kas_layer_norm_block_of(&a, KAS_BLOCK_X);
    const float share = 1.0f / (float)a.c;
    KAS_ROWS (r, 0, b.rows) {
        const int row = b.first + r;
        const kas_real *x = a.x + (kas_i64)row * a.pitch_x, *dy = a.dy + (kas_i64)row * a.pitch_dy;
        const float mean = a.mean[row], rstd = a.rstd[row];
        KAS_WIDE_LANE(sums, KAS_LAYER_NORM_LANES);
        KAS_WIDE_LANE(dots, KAS_LAYER_NORM_LANES);
        kas_team_zero(sums, dots, b.lanes);
        KAS_UNROLL_FEW(4)
        for (int base = 0; base < a.c; base += KAS_LAYER_NORM_LANES) {
            KAS_PART_THREADS (t, KAS_LAYER_NORM_PART(base)) {
                KAS_PART_LOAD_REAL(in, x, base + t, a.c, a.whole);
                KAS_PART_LOAD_REAL(d, dy, base + t, a.c, a.whole);
                KAS_PART_LOAD(gamma, a.gamma, base + t, a.c, a.whole);
                KAS_WIDE_VALUE(g, KAS_EACH_VALUE(d) * KAS_EACH_VALUE(gamma));
                KAS_WIDE_VALUE(xhat, (KAS_EACH_VALUE(in) - mean) * rstd);
                KAS_EACH(KAS_EACH_OF(sums, t) += KAS_EACH_VALUE(g);
                         KAS_EACH_OF(dots, t) = kas_fma(KAS_EACH_VALUE(g), KAS_EACH_VALUE(xhat),
                                                        KAS_EACH_OF(dots, t));)
            }
        }
        kas_team_keep(plain + r * b.step, product + r * b.step, sums, dots, b.lanes, 1);
    }
    kas_layer_norm_sum(plain, b);
    kas_layer_norm_sum(product, b);
    KAS_ROWS (r, 0, b.rows) {
        const int row = b.first + r;
        const kas_real *x = a.x + (kas_i64)row * a.pitch_x, *dy = a.dy + (kas_i64)row * a.pitch_dy;
        kas_real *dx = a.out + (kas_i64)row * a.pitch_out;
        const float mean = a.mean[row], rstd = a.rstd[row];
        const float sum = plain[r * b.step] * share, dot = product[r * b.step] * share;
        KAS_PART_LANES (c, a.c) {
            KAS_PART_LOAD_REAL(in, x, c, a.c, a.whole);
            KAS_PART_LOAD_REAL(d, dy, c, a.c, a.whole);
            KAS_PART_LOAD(gamma, a.gamma, c, a.c, a.whole);
            KAS_WIDE_VALUE(xhat, (KAS_EACH_VALUE(in) - mean) * rstd);
            KAS_WIDE_VALUE(out, rstd * (KAS_EACH_VALUE(d) * KAS_EACH_VALUE(gamma) -
                                        kas_fma(KAS_EACH_VALUE(xhat), dot, sum)));
            KAS_PART_STORE_REAL(dx, c, out, a.c, a.whole);
        }
    }
}

/* Sums a constant number of a team's rows. */
KAS_FN void kas_layer_norm_gradient_rows(const kas_layer_norm_args *a, int first, int rows,
                                         int channel, int lanes, int whole, float *plain,
                                         float *product)
{
    const kas_real *x = a->x + (kas_i64)first * a->pitch_x + channel;
    const kas_real *dy = a->dy + (kas_i64)first * a->pitch_dy + channel;
    const float *mean = a->mean + first, *rstd = a->rstd + first;
    KAS_PART_THREADS (t, lanes) {
        KAS_WIDE_ROWS(in, KAS_TEAM_BATCH);
        KAS_WIDE_ROWS(d, KAS_TEAM_BATCH);
        KAS_UNROLL
        for (int j = 0; j < rows; j++) {
            KAS_PART_READ_REAL(in[j], x + j * a->pitch_x, t, lanes, whole);
            KAS_PART_READ_REAL(d[j], dy + j * a->pitch_dy, t, lanes, whole);
        }
        KAS_UNROLL
        for (int j = 0; j < rows; j++) {
            KAS_WIDE_VALUE(xhat, (KAS_EACH_VALUE(in[j]) - mean[j]) * rstd[j]);
            KAS_EACH(KAS_EACH_OF(plain, t) += KAS_EACH_VALUE(d[j]);
                     KAS_EACH_OF(product, t) = kas_fma(KAS_EACH_VALUE(d[j]), KAS_EACH_VALUE(xhat),
                                                       KAS_EACH_OF(product, t));)
        }
    }
}

/* Computes the sums of dy and of dy * xhat of a chunk of rows for each channel;
 * norm_gradient_combine adds them. */
KAS_KERNEL(kas_dev_layer_norm_gradient, kas_layer_norm_args)
{
    const int chunk = KAS_BLOCK_X, channel = KAS_BLOCK_Y * KAS_NORM_LANES;
    const int lanes = kas_imin(KAS_NORM_LANES, a.c - channel);
    const int first = chunk * a.chunk_rows, last = kas_imin(first + a.chunk_rows, a.rows);
    KAS_SHARED(float, plains, (KAS_NORM_TEAMS * KAS_NORM_LANES));
    KAS_SHARED(float, products, (KAS_NORM_TEAMS * KAS_NORM_LANES));
    KAS_ROWS (team, 0, KAS_NORM_TEAMS) {
        KAS_WIDE_LANE(plain, KAS_NORM_LANES);
        KAS_WIDE_LANE(product, KAS_NORM_LANES);
        kas_team_zero(plain, product, lanes);
        for (int begin = first + team * KAS_NORM_RUN; begin < last; begin += KAS_TEAM_ROUND) {
            const int end = kas_imin(begin + KAS_NORM_RUN, last);
            int r = begin;
            for (; KAS_WHOLE(a.whole) && r + KAS_TEAM_BATCH <= end; r += KAS_TEAM_BATCH)
                kas_layer_norm_gradient_rows(&a, r, KAS_TEAM_BATCH, channel, lanes, 1, plain,
                                             product);
            for (; r < end; r++)
                kas_layer_norm_gradient_rows(&a, r, 1, channel, lanes, a.whole, plain, product);
        }
        kas_team_keep(plains + team * KAS_NORM_LANES, products + team * KAS_NORM_LANES, plain,
                      product, lanes, 1);
    }
    KAS_BARRIER();
    float *partial = a.partial + (kas_i64)chunk * 2 * a.c + channel;
    KAS_ONE_ROW
    {
        kas_team_sums(plains, products, KAS_NORM_TEAMS, partial, partial + a.c, lanes, a.whole);
    }
}
