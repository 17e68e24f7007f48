#include "kernel.h"

/* Convolution by plain loops, channels-last: the fallback of both devices where the library refuses
 * or is missing. Lanes are output channels in the forward pass and input channels in the backward
 * passes, at most KAS_CONV_LANES of one group a block. The sums stay in lane values, so that each
 * element of the inputs is one broadcast and each step one vector multiply-add. What is broadcast
 * is read KAS_RUN channels at a time. */

/* Transposes weights from KRSC to floats [tap][c_in of the group][c_out], so that output channels
 * are contiguous. A thread has one output channel: it reads with strides, which 16 bytes on the
 * other side would not make fewer. */
KAS_KERNEL(kas_dev_conv_weights, kas_conv_args)
{
    const int taps = a.kernel_h * a.kernel_w;
    const int tap = KAS_BLOCK_X, ci = KAS_BLOCK_Y;
    KAS_LANES (co, a.c_out) {
        a.wt[(tap * a.group_in + ci) * a.c_out + co] =
            kas_value(a.w[(co * taps + tap) * a.group_in + ci]);
    }
}

/* Adds one tap at one pixel of x: sum += x * wt. */
KAS_FN void kas_conv_add_input(const kas_conv_args *a, const kas_real *x, const float *wt,
                               float *sum, int lanes, int whole_x, int whole_y)
{
    for (int ci = 0; ci < a->group_in; ci += KAS_RUN) {
        KAS_PART_LOAD_REAL(value, x, ci, a->group_in, whole_x);
        KAS_UNROLL
        for (int j = 0; j < KAS_RUN; j++) {
            if (!whole_x && ci + j >= a->group_in)
                continue;
            KAS_PART_THREADS (t, lanes) {
                KAS_PART_LOAD(weight, wt + (ci + j) * a->c_out, t, lanes, whole_y);
                KAS_EACH(KAS_EACH_OF(sum, t) = kas_fma(
                             KAS_RUN_VALUE(value, j), KAS_EACH_VALUE(weight), KAS_EACH_OF(sum, t));)
            }
        }
    }
}

KAS_FN void kas_conv_forward(const kas_conv_args *a, int row, int group, int first, int whole_x,
                             int whole_y)
{
    const int image = row / a->out_h, oh = row % a->out_h;
    const int lanes = kas_imin(KAS_CONV_LANES, a->group_out - first);
    const int channel = group * a->group_out + first;
    KAS_ROWS (ow, 0, a->out_w) {
        KAS_WIDE_LANE(sum, KAS_CONV_LANES);
        kas_team_zero_one(sum, lanes);
        for (int tap = 0, kh = 0; kh < a->kernel_h; kh++) {
            const int ih = oh * a->stride + kh * a->dilation - a->pad_h;
            for (int kw = 0; kw < a->kernel_w; kw++, tap++) {
                const int iw = ow * a->stride + kw * a->dilation - a->pad_w;
                if (ih < 0 || ih >= a->h || iw < 0 || iw >= a->width)
                    continue;
                const kas_i64 pixel = ((kas_i64)image * a->h + ih) * a->width + iw;
                kas_conv_add_input(a, a->x + pixel * a->x_pitch + group * a->group_in,
                                   a->wt + tap * a->group_in * a->c_out + channel, sum, lanes,
                                   whole_x, whole_y);
            }
        }
        const kas_i64 pixel = ((kas_i64)image * a->out_h + oh) * a->out_w + ow;
        KAS_PART_THREADS (t, lanes) {
            KAS_WIDE_VALUE(all, KAS_EACH_OF(sum, t));
            KAS_PART_STORE_REAL(a->y + pixel * a->y_pitch + channel, t, all, lanes, whole_y);
        }
    }
}
KAS_KERNEL(kas_dev_conv_forward, kas_conv_args)
{
    const int first = KAS_BLOCK_Z * KAS_CONV_LANES;
    if (KAS_WHOLE(a.whole_x && a.whole_y))
        kas_conv_forward(&a, KAS_BLOCK_X, KAS_BLOCK_Y, first, 1, 1);
    else
        kas_conv_forward(&a, KAS_BLOCK_X, KAS_BLOCK_Y, first, 0, a.whole_y);
}

/* Adds one tap at one pixel of dy: sum += dy * w, where rows of output channels of w
 * are `step` apart. */
KAS_FN void kas_conv_add_gradient(const kas_conv_args *a, const kas_real *dy, const kas_real *w,
                                  int step, float *sum, int lanes, int whole_x, int whole_y)
{
    for (int co = 0; co < a->group_out; co += KAS_RUN) {
        KAS_PART_LOAD_REAL(value, dy, co, a->group_out, whole_y);
        KAS_UNROLL
        for (int j = 0; j < KAS_RUN; j++) {
            if (!whole_y && co + j >= a->group_out)
                continue;
            KAS_PART_THREADS (t, lanes) {
                KAS_PART_LOAD_REAL(weight, w + (co + j) * step, t, lanes, whole_x);
                KAS_EACH(KAS_EACH_OF(sum, t) = kas_fma(
                             KAS_RUN_VALUE(value, j), KAS_EACH_VALUE(weight), KAS_EACH_OF(sum, t));)
            }
        }
    }
}

KAS_FN void kas_conv_backward_data(const kas_conv_args *a, int row, int group, int first,
                                   int whole_x, int whole_y)
{
    const int image = row / a->h, ih = row % a->h;
    const int lanes = kas_imin(KAS_CONV_LANES, a->group_in - first);
    const int taps = a->kernel_h * a->kernel_w;
    KAS_ROWS (iw, 0, a->width) {
        KAS_WIDE_LANE(sum, KAS_CONV_LANES);
        kas_team_zero_one(sum, lanes);
        for (int tap = 0, kh = 0; kh < a->kernel_h; kh++) {
            const int up = ih + a->pad_h - kh * a->dilation, oh = up / a->stride;
            for (int kw = 0; kw < a->kernel_w; kw++, tap++) {
                const int left = iw + a->pad_w - kw * a->dilation, ow = left / a->stride;
                if (up < 0 || left < 0 || oh * a->stride != up || ow * a->stride != left ||
                    oh >= a->out_h || ow >= a->out_w)
                    continue;
                const kas_i64 pixel = ((kas_i64)image * a->out_h + oh) * a->out_w + ow;
                const kas_i64 weight = ((kas_i64)group * a->group_out * taps + tap) * a->group_in;
                kas_conv_add_gradient(a, a->y + pixel * a->y_pitch + group * a->group_out,
                                      a->w + weight + first, taps * a->group_in, sum, lanes,
                                      whole_x, whole_y);
            }
        }
        const kas_i64 pixel = ((kas_i64)image * a->h + ih) * a->width + iw;
        kas_real *dx = a->x + pixel * a->x_pitch + group * a->group_in + first;
        KAS_PART_THREADS (t, lanes) {
            KAS_WIDE_VALUE(all, KAS_EACH_OF(sum, t));
            KAS_PART_STORE_REAL(dx, t, all, lanes, whole_x);
        }
    }
}
KAS_KERNEL(kas_dev_conv_backward_data, kas_conv_args)
{
    const int first = KAS_BLOCK_Z * KAS_CONV_LANES;
    if (KAS_WHOLE(a.whole_x && a.whole_y))
        kas_conv_backward_data(&a, KAS_BLOCK_X, KAS_BLOCK_Y, first, 1, 1);
    else
        kas_conv_backward_data(&a, KAS_BLOCK_X, KAS_BLOCK_Y, first, a.whole_x, 0);
}

/* One block for each output channel and tap, whose teams (teams.h) share the rows of all images. A
 * row is summed separately before it is added to the whole, which keeps the error of a sum over
 * 10^5 pixels near that of 10^3. All lanes need one element of dy a pixel, and its neighbours are
 * not needed. */
KAS_KERNEL(kas_dev_conv_backward_weights, kas_conv_args)
{
    const int co = KAS_BLOCK_X, tap = KAS_BLOCK_Y, first = KAS_BLOCK_Z * KAS_CONV_LANES;
    const int kh = tap / a.kernel_w, kw = tap % a.kernel_w;
    const int group = co / a.group_out, lanes = kas_imin(KAS_CONV_LANES, a.group_in - first);
    KAS_SHARED(float, sums, (KAS_CONV_TEAMS * KAS_CONV_LANES));
    KAS_ROWS (team, 0, KAS_CONV_TEAMS) {
        KAS_WIDE_LANE(sum, KAS_CONV_LANES);
        KAS_WIDE_LANE(row, KAS_CONV_LANES);
        kas_team_zero_one(sum, lanes);
        for (int r = team; r < a.n * a.out_h; r += KAS_CONV_TEAMS) {
            const int image = r / a.out_h, ih = r % a.out_h * a.stride + kh * a.dilation - a.pad_h;
            if (ih < 0 || ih >= a.h)
                continue;
            const kas_real *dy = a.y + (kas_i64)r * a.out_w * a.y_pitch + co;
            const kas_real *x = a.x + ((kas_i64)image * a.h + ih) * a.width * a.x_pitch +
                                group * a.group_in + first;
            kas_team_zero_one(row, lanes);
            for (int ow = 0; ow < a.out_w; ow++) {
                const int iw = ow * a.stride + kw * a.dilation - a.pad_w;
                if (iw < 0 || iw >= a.width)
                    continue;
                const float value = kas_value(dy[(kas_i64)ow * a.y_pitch]);
                KAS_PART_THREADS (t, lanes) {
                    KAS_PART_LOAD_REAL(in, x + (kas_i64)iw * a.x_pitch, t, lanes, a.whole_x);
                    KAS_EACH(KAS_EACH_OF(row, t) =
                                 kas_fma(value, KAS_EACH_VALUE(in), KAS_EACH_OF(row, t));)
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
        kas_team_keep_one(a.dw + ((kas_i64)co * a.kernel_h * a.kernel_w + tap) * a.group_in + first,
                          sum, lanes, a.whole_x);
    }
}
