#include "kernel.h"

/* Average and max pools.  x is the large tensor and y the small one in both passes; lanes are
 * channels.
 *
 * A window is begin .. end along each axis: kernel, stride and padding, or (adaptive) the share of
 * the image that falls to one output pixel.  The backward pass gathers: each pixel of x adds up the
 * windows that cover it, so that sums have one order and nothing is written twice. */
KAS_FN int kas_pool_begin(int adaptive, int o, int size, int out, int stride, int pad)
{
    return adaptive ? o * size / out : o * stride - pad;
}
/* Returns the end of a window, which reaches into the padding behind the image, not beyond it. */
KAS_FN int kas_pool_end(int adaptive, int o, int size, int out, int kernel, int stride, int pad)
{
    return adaptive ? ((o + 1) * size + out - 1) / out
                    : kas_imin(o * stride - pad + kernel, size + pad);
}
/* Return the first and the last window that may cover pixel i. */
KAS_FN int kas_pool_first(int adaptive, int i, int size, int out, int kernel, int stride, int pad)
{
    const int before = i + pad - kernel;
    return adaptive ? i * out / size : before < 0 ? 0 : before / stride + 1;
}
KAS_FN int kas_pool_last(int adaptive, int i, int size, int out, int stride, int pad)
{
    return adaptive ? ((i + 1) * out + size - 1) / size - 1 : kas_imin((i + pad) / stride, out - 1);
}
/* Returns the number of pixels by which the mean divides. */
KAS_FN int kas_pool_count(int count_pad, int begin, int end, int size)
{
    return count_pad ? end - begin : kas_imin(end, size) - kas_imax(begin, 0);
}

KAS_KERNEL(kas_dev_avg_pool_forward, kas_pool_args)
{
    const int oh = KAS_BLOCK_X, image = KAS_BLOCK_Y, first = KAS_BLOCK_Z * KAS_POOL_LANES;
    const int lanes = kas_imin(KAS_POOL_LANES, a.c - first);
    const int top = kas_pool_begin(a.adaptive, oh, a.h, a.out_h, a.stride, a.pad_h);
    const int bottom = kas_pool_end(a.adaptive, oh, a.h, a.out_h, a.kernel_h, a.stride, a.pad_h);
    const int rows = kas_pool_count(a.count_pad, top, bottom, a.h);
    const kas_real *x = a.in + (kas_i64)image * a.h * a.width * a.pitch_x + first;
    kas_real *y = a.out + ((kas_i64)image * a.out_h + oh) * a.out_w * a.pitch_y + first;
    KAS_ROWS (ow, 0, a.out_w) {
        const int left = kas_pool_begin(a.adaptive, ow, a.width, a.out_w, a.stride, a.pad_w);
        const int right =
            kas_pool_end(a.adaptive, ow, a.width, a.out_w, a.kernel_w, a.stride, a.pad_w);
        const float share =
            1.0f / (float)(rows * kas_pool_count(a.count_pad, left, right, a.width));
        KAS_WIDE_LANE(sum, KAS_POOL_LANES);
        KAS_PART_THREADS (t, lanes) {
            KAS_EACH(KAS_EACH_OF(sum, t) = 0.0f;)
        }
        for (int h = kas_imax(top, 0); h < kas_imin(bottom, a.h); h++) {
            for (int w = kas_imax(left, 0); w < kas_imin(right, a.width); w++) {
                KAS_PART_THREADS (t, lanes) {
                    KAS_PART_LOAD_REAL(in, x + (h * a.width + w) * a.pitch_x, t, lanes, a.whole);
                    KAS_EACH(KAS_EACH_OF(sum, t) += KAS_EACH_VALUE(in);)
                }
            }
        }
        KAS_PART_THREADS (t, lanes) {
            KAS_WIDE_VALUE(mean, KAS_EACH_OF(sum, t) * share);
            KAS_PART_STORE_REAL(y + ow * a.pitch_y, t, mean, lanes, a.whole);
        }
    }
}

KAS_KERNEL(kas_dev_avg_pool_backward, kas_pool_args)
{
    const int ih = KAS_BLOCK_X, image = KAS_BLOCK_Y, first = KAS_BLOCK_Z * KAS_POOL_LANES;
    const int lanes = kas_imin(KAS_POOL_LANES, a.c - first);
    const int top = kas_pool_first(a.adaptive, ih, a.h, a.out_h, a.kernel_h, a.stride, a.pad_h);
    const int bottom = kas_pool_last(a.adaptive, ih, a.h, a.out_h, a.stride, a.pad_h);
    const kas_real *dy = a.in + (kas_i64)image * a.out_h * a.out_w * a.pitch_y + first;
    kas_real *dx = a.out + ((kas_i64)image * a.h + ih) * a.width * a.pitch_x + first;
    KAS_ROWS (iw, 0, a.width) {
        const int left =
            kas_pool_first(a.adaptive, iw, a.width, a.out_w, a.kernel_w, a.stride, a.pad_w);
        const int right = kas_pool_last(a.adaptive, iw, a.width, a.out_w, a.stride, a.pad_w);
        KAS_WIDE_LANE(sum, KAS_POOL_LANES);
        KAS_PART_THREADS (t, lanes) {
            KAS_EACH(KAS_EACH_OF(sum, t) = 0.0f;)
        }
        for (int oh = top; oh <= bottom; oh++) {
            const int rows = kas_pool_count(
                a.count_pad, kas_pool_begin(a.adaptive, oh, a.h, a.out_h, a.stride, a.pad_h),
                kas_pool_end(a.adaptive, oh, a.h, a.out_h, a.kernel_h, a.stride, a.pad_h), a.h);
            for (int ow = left; ow <= right; ow++) {
                const int columns = kas_pool_count(
                    a.count_pad,
                    kas_pool_begin(a.adaptive, ow, a.width, a.out_w, a.stride, a.pad_w),
                    kas_pool_end(a.adaptive, ow, a.width, a.out_w, a.kernel_w, a.stride, a.pad_w),
                    a.width);
                const float share = 1.0f / (float)(rows * columns);
                KAS_PART_THREADS (t, lanes) {
                    KAS_PART_LOAD_REAL(d, dy + (oh * a.out_w + ow) * a.pitch_y, t, lanes, a.whole);
                    KAS_EACH(KAS_EACH_OF(sum, t) =
                                 kas_fma(KAS_EACH_VALUE(d), share, KAS_EACH_OF(sum, t));)
                }
            }
        }
        KAS_PART_THREADS (t, lanes) {
            KAS_WIDE_VALUE(all, KAS_EACH_OF(sum, t));
            KAS_PART_STORE_REAL(dx + iw * a.pitch_x, t, all, lanes, a.whole);
        }
    }
}

/* The teams of teams.h share an image's pixels. */
KAS_KERNEL(kas_dev_global_pool_forward, kas_pool_args)
{
    const int image = KAS_BLOCK_X, first = KAS_BLOCK_Y * KAS_POOL_LANES;
    const int lanes = kas_imin(KAS_POOL_LANES, a.c - first), pixels = a.h * a.width;
    const float share = 1.0f / (float)pixels;
    const kas_real *x = a.in + (kas_i64)image * pixels * a.pitch_x + first;
    KAS_SHARED(float, sums, (KAS_POOL_TEAMS * KAS_POOL_LANES));
    KAS_ROWS (team, 0, KAS_POOL_TEAMS) {
        KAS_WIDE_LANE(sum, KAS_POOL_LANES);
        kas_team_zero_one(sum, lanes);
        kas_team_add_rows(x, a.pitch_x, team, pixels, KAS_POOL_TEAMS, sum, lanes, a.whole);
        kas_team_keep_one(sums + team * KAS_POOL_LANES, sum, lanes, 1);
    }
    KAS_BARRIER();
    kas_real *y = a.out + (kas_i64)image * a.pitch_y + first;
    KAS_ONE_ROW
    KAS_PART_THREADS (t, lanes) {
        KAS_WIDE_VALUE(mean, 0.0f);
        for (int team = 0; team < KAS_POOL_TEAMS; team++) {
            KAS_WIDE_LOAD(other, sums, team * KAS_POOL_LANES + t);
            KAS_EACH(KAS_EACH_VALUE(mean) += KAS_EACH_VALUE(other);)
        }
        KAS_EACH(KAS_EACH_VALUE(mean) *= share;)
        KAS_PART_STORE_REAL(y, t, mean, lanes, a.whole);
    }
}

KAS_KERNEL(kas_dev_global_pool_backward, kas_pool_args)
{
    const int image = KAS_BLOCK_X, pixels = a.h * a.width;
    const float share = 1.0f / (float)pixels;
    const kas_real *dy = a.in + (kas_i64)image * a.pitch_y;
    kas_real *dx = a.out + (kas_i64)image * pixels * a.pitch_x;
    KAS_ROWS (p, 0, pixels) {
        KAS_PART_LANES (c, a.c) {
            KAS_PART_LOAD_REAL(d, dy, c, a.c, a.whole);
            KAS_WIDE_VALUE(part, KAS_EACH_VALUE(d) * share);
            KAS_PART_STORE_REAL(dx + p * a.pitch_x, c, part, a.c, a.whole);
        }
    }
}

/* Max pool. The first of equal values wins, as in PyTorch; NaN wins over everything. `index` keeps
 * the tap that won (a byte), so the backward pass reads no pixel of x. */
KAS_KERNEL(kas_dev_max_pool_forward, kas_pool_args)
{
    const int oh = KAS_BLOCK_X, image = KAS_BLOCK_Y, first = KAS_BLOCK_Z * KAS_POOL_LANES;
    const int lanes = kas_imin(KAS_POOL_LANES, a.c - first);
    const int top = oh * a.stride - a.pad_h;
    const int low_h = kas_imax(-top, 0), high_h = kas_imin(a.kernel_h, a.h - top);
    const kas_real *x = a.in + (kas_i64)image * a.h * a.width * a.pitch_x + first;
    const kas_i64 row = ((kas_i64)image * a.out_h + oh) * a.out_w;
    KAS_ROWS (ow, 0, a.out_w) {
        const int left = ow * a.stride - a.pad_w;
        const int low_w = kas_imax(-left, 0), high_w = kas_imin(a.kernel_w, a.width - left);
        const kas_real *corner = x + ((top + low_h) * a.width + left + low_w) * a.pitch_x;
        KAS_WIDE_LANE(most, KAS_POOL_LANES);
        KAS_WIDE_LANE(which, KAS_POOL_LANES); /* below KAS_MAX_POOL_TAPS: exact */
        KAS_PART_THREADS (t, lanes) {
            KAS_PART_LOAD_REAL(in, corner, t, lanes, a.whole);
            KAS_EACH(KAS_EACH_OF(most, t) = KAS_EACH_VALUE(in);
                     KAS_EACH_OF(which, t) = (float)(low_h * a.kernel_w + low_w);)
        }
        for (int kh = low_h; kh < high_h; kh++) {
            for (int kw = low_w; kw < high_w; kw++) {
                const kas_real *pixel = x + ((top + kh) * a.width + left + kw) * a.pitch_x;
                const float tap = (float)(kh * a.kernel_w + kw);
                KAS_PART_THREADS (t, lanes) {
                    KAS_PART_LOAD_REAL(in, pixel, t, lanes, a.whole);
                    KAS_EACH(const float value = KAS_EACH_VALUE(in);
                             const int more = value > KAS_EACH_OF(most, t) || value != value;
                             KAS_EACH_OF(most, t) = more ? value : KAS_EACH_OF(most, t);
                             KAS_EACH_OF(which, t) = more ? tap : KAS_EACH_OF(which, t);)
                }
            }
        }
        kas_real *y = a.out + (row + ow) * a.pitch_y + first;
        kas_u8 *index = a.index + (row + ow) * a.pitch_index + first;
        KAS_PART_THREADS (t, lanes) {
            KAS_WIDE_VALUE(value, KAS_EACH_OF(most, t));
            KAS_WIDE_VALUE(winner, KAS_EACH_OF(which, t));
            KAS_PART_STORE_REAL(y, t, value, lanes, a.whole);
            KAS_PART_STORE_BYTES(index, t, winner, lanes, a.whole);
        }
    }
}

KAS_KERNEL(kas_dev_max_pool_backward, kas_pool_args)
{
    const int ih = KAS_BLOCK_X, image = KAS_BLOCK_Y, first = KAS_BLOCK_Z * KAS_POOL_LANES;
    const int lanes = kas_imin(KAS_POOL_LANES, a.c - first);
    const int top = kas_pool_first(0, ih, a.h, a.out_h, a.kernel_h, a.stride, a.pad_h);
    const int bottom = kas_pool_last(0, ih, a.h, a.out_h, a.stride, a.pad_h);
    const kas_i64 pixels = (kas_i64)image * a.out_h * a.out_w;
    const kas_real *dy = a.in + pixels * a.pitch_y + first;
    const kas_u8 *index = a.index + pixels * a.pitch_index + first;
    kas_real *dx = a.out + ((kas_i64)image * a.h + ih) * a.width * a.pitch_x + first;
    KAS_ROWS (iw, 0, a.width) {
        const int left = kas_pool_first(0, iw, a.width, a.out_w, a.kernel_w, a.stride, a.pad_w);
        const int right = kas_pool_last(0, iw, a.width, a.out_w, a.stride, a.pad_w);
        KAS_WIDE_LANE(sum, KAS_POOL_LANES);
        KAS_PART_THREADS (t, lanes) {
            KAS_EACH(KAS_EACH_OF(sum, t) = 0.0f;)
        }
        for (int oh = top; oh <= bottom; oh++) {
            const int kh = ih + a.pad_h - oh * a.stride;
            for (int ow = left; ow <= right; ow++) {
                const float tap = (float)(kh * a.kernel_w + iw + a.pad_w - ow * a.stride);
                const kas_real *gradient = dy + (oh * a.out_w + ow) * a.pitch_y;
                const kas_u8 *winner = index + (oh * a.out_w + ow) * a.pitch_index;
                KAS_PART_THREADS (t, lanes) {
                    KAS_PART_LOAD_BYTES(which, winner, t, lanes, a.whole);
                    KAS_PART_LOAD_REAL(d, gradient, t, lanes, a.whole);
                    KAS_EACH(KAS_EACH_OF(sum, t) +=
                             KAS_EACH_VALUE(which) == tap ? KAS_EACH_VALUE(d) : 0.0f;)
                }
            }
        }
        KAS_PART_THREADS (t, lanes) {
            KAS_WIDE_VALUE(all, KAS_EACH_OF(sum, t));
            KAS_PART_STORE_REAL(dx + iw * a.pitch_x, t, all, lanes, a.whole);
        }
    }
}
