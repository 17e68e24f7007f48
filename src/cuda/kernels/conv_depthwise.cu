#include "kernel.h"

/* Depthwise convolution (one channel a group): as conv.cu, but every group is one lane.  `wt` is
 * [tap][channel], made by kas_dev_conv_weights. */
KAS_FN int kas_depthwise_whole(const kas_conv_args *a)
{
    return a->whole_x && a->whole_y;
}

/* Stores channels of a result's pixel, with what is beside the forward pass. */
KAS_FN void kas_depthwise_store(const kas_conv_args *a, kas_i64 place, int first, int lanes,
                                const float *sum)
{
    KAS_PART_THREADS (t, lanes) {
        KAS_WIDE_VALUE(all, KAS_EACH_OF(sum, t));
        if (a->residual) {
            KAS_PART_LOAD_REAL(more, a->residual + place, t, lanes, kas_depthwise_whole(a));
            KAS_EACH(KAS_EACH_VALUE(all) += KAS_EACH_VALUE(more);)
        }
        if (a->bias) {
            KAS_PART_LOAD_REAL(bias, a->bias + first, t, lanes, kas_depthwise_whole(a));
            KAS_EACH(KAS_EACH_VALUE(all) += KAS_EACH_VALUE(bias);)
        }
        KAS_EACH(KAS_EACH_VALUE(all) = kas_min(kas_max(KAS_EACH_VALUE(all), a->least), a->most);)
        KAS_PART_STORE_REAL(a->y + place, t, all, lanes, kas_depthwise_whole(a));
    }
}

KAS_KERNEL(kas_dev_depthwise_forward, kas_conv_args)
{
    const int image = KAS_BLOCK_X / a.out_h, oh = KAS_BLOCK_X % a.out_h;
    const int first = KAS_BLOCK_Y * KAS_CONV_LANES;
    const int lanes = kas_imin(KAS_CONV_LANES, a.c_in - first);
    KAS_ROWS (ow, 0, a.out_w) {
        KAS_WIDE_LANE(sum, KAS_CONV_LANES);
        kas_team_zero_one(sum, lanes);
        for (int tap = 0, kh = 0; kh < a.kernel_h; kh++) {
            const int ih = oh * a.stride + kh * a.dilation - a.pad_h;
            for (int kw = 0; kw < a.kernel_w; kw++, tap++) {
                const int iw = ow * a.stride + kw * a.dilation - a.pad_w;
                if (ih < 0 || ih >= a.h || iw < 0 || iw >= a.width)
                    continue;
                const kas_real *x =
                    a.x + (((kas_i64)image * a.h + ih) * a.width + iw) * a.x_pitch + first;
                const float *wt = a.wt + tap * a.c_out + first;
                KAS_PART_THREADS (t, lanes) {
                    KAS_PART_LOAD_REAL(in, x, t, lanes, kas_depthwise_whole(&a));
                    KAS_PART_LOAD(weight, wt, t, lanes, kas_depthwise_whole(&a));
                    KAS_EACH(KAS_EACH_OF(sum, t) = kas_fma(
                                 KAS_EACH_VALUE(in), KAS_EACH_VALUE(weight), KAS_EACH_OF(sum, t));)
                }
            }
        }
        kas_depthwise_store(&a,
                            (((kas_i64)image * a.out_h + oh) * a.out_w + ow) * a.y_pitch + first,
                            first, lanes, sum);
    }
}

KAS_KERNEL(kas_dev_depthwise_backward_data, kas_conv_args)
{
    const int image = KAS_BLOCK_X / a.h, ih = KAS_BLOCK_X % a.h;
    const int first = KAS_BLOCK_Y * KAS_CONV_LANES;
    const int lanes = kas_imin(KAS_CONV_LANES, a.c_in - first);
    KAS_ROWS (iw, 0, a.width) {
        KAS_WIDE_LANE(sum, KAS_CONV_LANES);
        kas_team_zero_one(sum, lanes);
        for (int tap = 0, kh = 0; kh < a.kernel_h; kh++) {
            const int up = ih + a.pad_h - kh * a.dilation, oh = up / a.stride;
            for (int kw = 0; kw < a.kernel_w; kw++, tap++) {
                const int left = iw + a.pad_w - kw * a.dilation, ow = left / a.stride;
                if (up < 0 || left < 0 || oh * a.stride != up || ow * a.stride != left ||
                    oh >= a.out_h || ow >= a.out_w)
                    continue;
                const kas_real *dy =
                    a.y + (((kas_i64)image * a.out_h + oh) * a.out_w + ow) * a.y_pitch + first;
                const float *wt = a.wt + tap * a.c_out + first;
                KAS_PART_THREADS (t, lanes) {
                    KAS_PART_LOAD_REAL(in, dy, t, lanes, kas_depthwise_whole(&a));
                    KAS_PART_LOAD(weight, wt, t, lanes, kas_depthwise_whole(&a));
                    KAS_EACH(KAS_EACH_OF(sum, t) = kas_fma(
                                 KAS_EACH_VALUE(in), KAS_EACH_VALUE(weight), KAS_EACH_OF(sum, t));)
                }
            }
        }
        kas_real *dx = a.x + (((kas_i64)image * a.h + ih) * a.width + iw) * a.x_pitch + first;
        KAS_PART_THREADS (t, lanes) {
            KAS_WIDE_VALUE(all, KAS_EACH_OF(sum, t));
            KAS_PART_STORE_REAL(dx, t, all, lanes, kas_depthwise_whole(&a));
        }
    }
}

/* The blocks of a tap share the rows of all images, and teams (teams.h) those of a block. A
 * channel's taps lie side by side in dw, so the results are written one element at a time. */
KAS_KERNEL(kas_dev_depthwise_backward_weights, kas_conv_args)
{
    const int tap = KAS_BLOCK_X, first = KAS_BLOCK_Y * KAS_CONV_LANES;
    const int kh = tap / a.kernel_w, kw = tap % a.kernel_w, taps = a.kernel_h * a.kernel_w;
    const int lanes = kas_imin(KAS_CONV_LANES, a.c_in - first);
    const int part = KAS_BLOCK_Z, rows = (a.n * a.out_h + a.parts - 1) / a.parts;
    const int last = kas_imin((part + 1) * rows, a.n * a.out_h);
    float *dw = a.parts > 1 ? a.wt + (kas_i64)part * a.c_in * taps : a.dw;
    KAS_SHARED(float, sums, (KAS_CONV_TEAMS * KAS_CONV_LANES));
    KAS_ROWS (team, 0, KAS_CONV_TEAMS) {
        KAS_WIDE_LANE(sum, KAS_CONV_LANES);
        KAS_WIDE_LANE(row, KAS_CONV_LANES);
        kas_team_zero_one(sum, lanes);
        for (int r = part * rows + team; r < last; r += KAS_CONV_TEAMS) {
            const int image = r / a.out_h, ih = r % a.out_h * a.stride + kh * a.dilation - a.pad_h;
            if (ih < 0 || ih >= a.h)
                continue;
            const kas_real *dy = a.y + (kas_i64)r * a.out_w * a.y_pitch + first;
            const kas_real *x = a.x + ((kas_i64)image * a.h + ih) * a.width * a.x_pitch + first;
            kas_team_zero_one(row, lanes);
            for (int ow = 0; ow < a.out_w; ow++) {
                const int iw = ow * a.stride + kw * a.dilation - a.pad_w;
                if (iw < 0 || iw >= a.width)
                    continue;
                KAS_PART_THREADS (t, lanes) {
                    KAS_PART_LOAD_REAL(in, x + (kas_i64)iw * a.x_pitch, t, lanes,
                                       kas_depthwise_whole(&a));
                    KAS_PART_LOAD_REAL(d, dy + (kas_i64)ow * a.y_pitch, t, lanes,
                                       kas_depthwise_whole(&a));
                    KAS_EACH(KAS_EACH_OF(row, t) = kas_fma(KAS_EACH_VALUE(d), KAS_EACH_VALUE(in),
                                                           KAS_EACH_OF(row, t));)
                }
            }
            KAS_PART_THREADS (t, lanes) {
                KAS_EACH(KAS_EACH_OF(sum, t) += KAS_EACH_OF(row, t);)
            }
        }
        kas_team_keep_one(sums + team * KAS_CONV_LANES, sum, lanes, 1);
    }
    KAS_BARRIER();
    KAS_ONE_ROW
    {
        KAS_WIDE_LANE(sum, KAS_CONV_LANES);
        kas_team_add(sums, KAS_CONV_TEAMS, sum, lanes);
        KAS_PART_THREADS (t, lanes) {
            KAS_EACH(if (KAS_EACH_LANE(t) < lanes) dw[(first + KAS_EACH_LANE(t)) * taps + tap] =
                         KAS_EACH_OF(sum, t);)
        }
    }
}
