/* Gradients of weights over lines of pixels (conv_lines.h). Sums over pixels are made image by image
 * in KAS_LINE_SLOTS parts, which are then added up in their order. */
#include "host/device/cpu/conv_lines_fill.h"

/* Returns the other side's pixel: a vector, or one value for all lanes. */
KAS_FN kas_vec kas_lines_other(const float *at, int whole)
{
    if (whole)
        return KAS_LINE_AT(at);
    return *at - (kas_vec){0};
}

/* Adds, for `taps` vectors beside each other in a line or a dilation apart, the products of a
 * line's pixels, which have `lanes` floats, and those of dy. A few sums apart from each other keep a
 * multiply-add from waiting for the one before. */
KAS_FN void kas_lines_line_taps(const float *x, int lanes, int step, int pixels, const float *dy,
                                int dy_step, int whole, int taps, float *KAS_RESTRICT total)
{
    enum { SUMS = 8 };
    const int apart = taps >= 4 ? 1 : SUMS / 2 / taps;
    kas_vec sum[SUMS] = {{0}};
    int ow = 0;
    for (; ow + apart <= pixels; ow += apart)
        KAS_UNROLL
    for (int u = 0; u < apart; u++) {
        const float *at = dy + (ow + u) * dy_step;
        const kas_vec one = kas_lines_other(at, whole);
        KAS_UNROLL
        for (int k = 0; k < taps; k++)
            sum[u * taps + k] += KAS_LINE_AT(x + (ow + u) * lanes + k * step) * one;
    }
    for (; ow < pixels; ow++) {
        const float *at = dy + ow * dy_step;
        const kas_vec one = kas_lines_other(at, whole);
        KAS_UNROLL
        for (int k = 0; k < taps; k++)
            sum[k] += KAS_LINE_AT(x + ow * lanes + k * step) * one;
    }
    KAS_UNROLL
    for (int k = 0; k < taps; k++) {
        kas_vec all = sum[k];
        KAS_UNROLL
        for (int u = 1; u < apart; u++)
            all += sum[u * taps + k];
        *(kas_vec_at *)(total + k * KAS_LINE_LANES) = KAS_LINE_AT(total + k * KAS_LINE_LANES) + all;
    }
}

/* `vectors` of them, up to 7 at once. */
KAS_FN void kas_lines_some(const float *x, int lanes, int step, int pixels, const float *dy,
                           int dy_step, int whole, int vectors, float *total)
{
    for (int k = 0; k < vectors; k += 7, x += 7 * step, total += 7 * KAS_LINE_LANES) {
#define KAS_LINES_CASE(n)                                                                          \
    case n:                                                                                        \
        kas_lines_line_taps(x, lanes, step, pixels, dy, dy_step, whole, n, total);                 \
        break
        switch (kas_imin(7, vectors - k)) {
            KAS_LINES_CASE(1);
            KAS_LINES_CASE(2);
            KAS_LINES_CASE(3);
            KAS_LINES_CASE(4);
            KAS_LINES_CASE(5);
            KAS_LINES_CASE(6);
            KAS_LINES_CASE(7);
        }
#undef KAS_LINES_CASE
    }
}

/* The same for three neighbouring taps of `some` vectors of groups: each vector is loaded once for
 * all three. */
KAS_FN void kas_lines_line_3(const float *x, int lanes, int pixels, const float *dy, int some,
                             float *KAS_RESTRICT total)
{
    enum { MOST = 4 };
    kas_vec sum[3 * MOST] = {{0}}, left[MOST], mid[MOST];
    KAS_UNROLL
    for (int i = 0; i < some; i++) {
        left[i] = KAS_LINE_AT(x + i * KAS_LINE_LANES);
        mid[i] = KAS_LINE_AT(x + lanes + i * KAS_LINE_LANES);
    }
    x += 2 * lanes;
    for (int ow = 0; ow < pixels; ow++, x += lanes, dy += KAS_LINE_LANES) {
        const kas_vec one = KAS_LINE_AT(dy);
        KAS_UNROLL
        for (int i = 0; i < some; i++) {
            const kas_vec right = KAS_LINE_AT(x + i * KAS_LINE_LANES);
            sum[i] += left[i] * one;
            sum[MOST + i] += mid[i] * one;
            sum[2 * MOST + i] += right * one;
            left[i] = mid[i];
            mid[i] = right;
        }
    }
    KAS_UNROLL
    for (int k = 0; k < 3; k++)
        KAS_UNROLL
    for (int i = 0; i < some; i++) {
        float *at = total + k * lanes + i * KAS_LINE_LANES;
        *(kas_vec_at *)at = KAS_LINE_AT(at) + sum[k * MOST + i];
    }
}

/* All vectors of groups, up to 4 at once. */
KAS_FN void kas_lines_lines_3(const float *x, int reads, int pixels, const float *dy, float *total)
{
    const int lanes = reads * KAS_LINE_LANES;
    for (int i = 0; i < reads;) {
        const int some = kas_imin(4, reads - i);
        switch (some) {
        case 1:
            kas_lines_line_3(x, lanes, pixels, dy, 1, total);
            break;
        case 2:
            kas_lines_line_3(x, lanes, pixels, dy, 2, total);
            break;
        case 3:
            kas_lines_line_3(x, lanes, pixels, dy, 3, total);
            break;
        default:
            kas_lines_line_3(x, lanes, pixels, dy, 4, total);
            break;
        }
        i += some;
        x += some * KAS_LINE_LANES;
        total += some * KAS_LINE_LANES;
    }
}

/* All taps of a line. The vectors of groups lie side by side, and so do those of neighbouring
 * taps. */
KAS_FN void kas_lines_line(const kas_lines_args *a, const float *x, const float *dy, int dy_step,
                           int whole, float *total)
{
    const int lanes = a->reads * KAS_LINE_LANES;
    if (a->reads == 1)
        kas_lines_some(x, KAS_LINE_LANES, a->dilation * KAS_LINE_LANES, a->out_w, dy, dy_step,
                       whole, a->kernel_w, total);
    else if (a->dilation == 1 && a->kernel_w == 3)
        kas_lines_lines_3(x, a->reads, a->out_w, dy, total);
    else if (a->dilation == 1)
        kas_lines_some(x, lanes, KAS_LINE_LANES, a->out_w, dy, dy_step, whole,
                       a->kernel_w * a->reads, total);
    else
        for (int k = 0; k < a->kernel_w; k++)
            kas_lines_some(x + k * a->dilation * lanes, lanes, KAS_LINE_LANES, a->out_w, dy,
                           dy_step, whole, a->reads, total + k * lanes);
}

/* The gradient of the weights, [slot][few][tap][read][channel], from the lines of the wide side and
 * the pixels of the other one. */
KAS_KERNEL(kas_lines_weight_parts, kas_lines_args)
{
    KAS_SHARED(float, lines, KAS_LINE_FLOATS);
    KAS_SHARED(float, total, KAS_LINE_WEIGHTS);
    KAS_SHARED(float, dy, (KAS_LINE_WIDTH * KAS_LINE_LANES));
    const int first = KAS_BLOCK_X * KAS_LINE_LANES, taps = a.kernel_h * a.kernel_w;
    const int channels = kas_imin(KAS_LINE_LANES, a.channels - first);
    const int few = a.few ? a.few : 1, step = a.few ? a.few : KAS_LINE_LANES;
    const int lanes = a.reads * KAS_LINE_LANES, sums = few * taps * a.reads;
    const int band = kas_lines_band(&a, lanes), padded = kas_lines_padded(&a);
    kas_lines_picks picks = {.first = first};
    const kas_lines_picks *picked = a.few ? 0 : kas_lines_find_picks(&a, first, channels, &picks);
    __builtin_memset(total, 0, sizeof *total * (kas_u64)(sums * KAS_LINE_LANES));
    for (int n = KAS_BLOCK_Y; n < a.n; n += a.slots)
        for (int row = 0; row < a.out_h; row += band) {
            const int rows = kas_imin(band, a.out_h - row);
            kas_lines_fill(&a, a.from + (kas_i64)n * a.h * a.width * a.from_pitch, picks.first,
                           channels, picked, lanes, row, rows + (a.kernel_h - 1) * a.dilation,
                           lines);
            for (int r = 0; r < rows; r++) {
                const kas_real *to = a.to + ((kas_i64)n * a.out_h + row + r) * a.out_w * a.to_pitch;
                for (int ow = 0; ow < a.out_w; ow++, to += a.to_pitch)
                    kas_lines_pixel(a.few ? to : to + first, a.few ? a.few : channels, step,
                                    dy + ow * step);
                for (int kh = 0; kh < a.kernel_h; kh++) {
                    const float *x = lines + (kas_i64)(r + kh * a.dilation) * padded * lanes;
                    for (int o = 0; o < few; o++) {
                        float *at = total + (o * taps + kh * a.kernel_w) * lanes;
                        if (a.few)
                            kas_lines_line(&a, x, dy + o, step, 0, at);
                        else
                            kas_lines_line(&a, x, dy, step, 1, at);
                    }
                }
            }
        }
    for (int i = 0; i < sums; i++)
        for (int c = 0; c < channels; c++)
            a.partial[((kas_i64)KAS_BLOCK_Y * sums + i) * a.channels + first + c] =
                total[i * KAS_LINE_LANES + c];
}

/* Adds up the slots, in their order. */
KAS_FN float kas_lines_slots(const kas_lines_args *a, int all, int at)
{
    float sum = 0;
    for (int slot = 0; slot < a->slots; slot++)
        sum += a->partial[(kas_i64)slot * all + at];
    return sum;
}

/* Puts the sums where the weights of a map lie. */
KAS_KERNEL(kas_lines_map_total, kas_lines_args)
{
    const int taps = a.kernel_h * a.kernel_w, all = a.few * taps * a.channels;
    for (int i = 0; i < all; i++) {
        const int c = i % a.channels, tap = kas_lines_tap(&a, i / a.channels % taps);
        const int o = i / a.channels / taps;
        a.dw[a.flipped ? (c * taps + tap) * a.few + o : (o * taps + tap) * a.channels + c] =
            kas_lines_slots(&a, all, i);
    }
}

/* Puts the sums where the weights of groups lie. */
KAS_KERNEL(kas_lines_group_total, kas_lines_args)
{
    const int first = KAS_BLOCK_X * KAS_LINE_LANES, taps = a.kernel_h * a.kernel_w;
    const int channels = kas_imin(KAS_LINE_LANES, a.channels - first);
    const int all = taps * a.reads * a.channels;
    const kas_lines_places at = kas_lines_find_places(&a, first, channels);
    for (int tap = 0; tap < taps; tap++)
        for (int i = 0; i < a.reads; i++) {
            float *dw = a.dw + kas_lines_tap(&a, tap) * at.tap_step + i * at.read_step;
            for (int c = 0; c < channels; c++)
                dw[at.lane[c]] =
                    kas_lines_slots(&a, all, (tap * a.reads + i) * a.channels + first + c);
        }
}
