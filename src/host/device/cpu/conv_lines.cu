/* The kernels of conv_lines.h. They are for the CPU device alone: a vector of 16 channels is a value
 * here, and 8 pixels of results stay in registers while the taps go round.
 *
 * The lines that a band of results reads are copied, in float32 and with zeros around the image, to
 * memory that stays in the nearest cache. So there are no borders, and all dtypes and pitches are
 * alike. Each result is one sum over the taps in their order; sums over pixels are made image by
 * image in KAS_LINE_SLOTS parts. The bits are the same with any number of threads. */
#include "host/device/cpu/conv_lines.h"

#include "cuda/kernels/tile.h"

typedef float kas_vec __attribute__((vector_size(64)));
typedef float kas_vec_at __attribute__((vector_size(64), aligned(4), may_alias));

#define KAS_LINE_AT(p) (*(const kas_vec_at *)(p))

/* Copies a pixel to `lanes` floats, with zeros behind its channels. */
KAS_FN void kas_lines_pixel(const kas_real *from, int channels, int lanes, float *KAS_RESTRICT to)
{
    if (channels == KAS_LINE_LANES && lanes == KAS_LINE_LANES) {
        for (int c = 0; c < KAS_LINE_LANES; c++)
            to[c] = kas_value(from[c]);
        return;
    }
    for (int c = 0; c < channels; c++)
        to[c] = kas_value(from[c]);
    for (int c = channels; c < lanes; c++)
        to[c] = 0;
}

/* Copies channels [first, first + channels) of the rows that a band reads to [rows][padded][lanes],
 * with zeros for what is outside the image and for missing channels. */
KAS_FN void kas_lines_fill(const kas_lines_args *a, const kas_real *image, int first, int channels,
                           int lanes, int row, int rows, float *KAS_RESTRICT to)
{
    const int padded = kas_lines_padded(a);
    for (int r = 0; r < rows; r++, to += (kas_i64)padded * lanes) {
        const int ih = row + r - a->pad_h;
        const int last = kas_imin(a->pad_w + a->width, padded);
        if (ih < 0 || ih >= a->h) {
            __builtin_memset(to, 0, sizeof *to * (kas_u64)(padded * lanes));
            continue;
        }
        __builtin_memset(to, 0, sizeof *to * (kas_u64)(a->pad_w * lanes));
        __builtin_memset(to + last * lanes, 0, sizeof *to * (kas_u64)((padded - last) * lanes));
        const kas_real *from = image + (kas_i64)ih * a->width * a->from_pitch + first;
        for (int w = a->pad_w; w < last; w++, from += a->from_pitch)
            kas_lines_pixel(from, channels, lanes, to + w * lanes);
    }
}

/* Returns the place in w of the tap that stands at `tap`. */
KAS_FN int kas_lines_tap(const kas_lines_args *a, int tap)
{
    return a->flipped ? a->kernel_h * a->kernel_w - 1 - tap : tap;
}

/* Copies the weights of channels [first, first + channels) to [few][taps][lanes]. Depthwise weights
 * lie as [channel][tap]; a map's as [out][tap][in], whichever of the two are few. */
KAS_FN void kas_lines_weights(const kas_lines_args *a, int first, int channels, int lanes,
                              float *KAS_RESTRICT to)
{
    const int taps = a->kernel_h * a->kernel_w, few = a->few ? a->few : 1;
    for (int o = 0; o < few; o++)
        for (int tap = 0; tap < taps; tap++)
            for (int c = 0; c < lanes; c++, to++) {
                const int from = kas_lines_tap(a, tap), wide = first + c;
                const int at = !a->few       ? wide * taps + from
                               : !a->flipped ? (o * taps + from) * a->channels + wide
                                             : (wide * taps + from) * a->few + o;
                *to = c < channels ? kas_value(a->w[at]) : 0;
            }
}

KAS_FN void kas_lines_store(kas_real *to, kas_vec v, int channels)
{
    float lanes[KAS_LINE_LANES];
    __builtin_memcpy(lanes, &v, sizeof v);
    if (channels == KAS_LINE_LANES) {
        for (int c = 0; c < KAS_LINE_LANES; c++)
            to[c] = kas_real_of(lanes[c]);
        return;
    }
    for (int c = 0; c < channels; c++)
        to[c] = kas_real_of(lanes[c]);
}

/* Adds the taps of `vectors` vectors at 8 pixels beside each other. */
KAS_FN void kas_lines_add(const kas_lines_args *a, const float *line, const float *w, int vectors,
                          kas_vec sum[KAS_LINE_RUN])
{
    const int lanes = vectors * KAS_LINE_LANES, padded = kas_lines_padded(a);
    for (int kh = 0; kh < a->kernel_h; kh++)
        for (int kw = 0; kw < a->kernel_w; kw++) {
            const float *x = line + ((kas_i64)kh * padded + kw) * a->dilation * lanes;
            for (int v = 0; v < vectors; v++, w += KAS_LINE_LANES, x += KAS_LINE_LANES) {
                const kas_vec weight = KAS_LINE_AT(w);
                KAS_UNROLL
                for (int p = 0; p < KAS_LINE_RUN; p++)
                    sum[p] += KAS_LINE_AT(x + p * lanes) * weight;
            }
        }
}

/* Sums the lanes of 8 vectors. */
KAS_FN void kas_lines_total(const kas_vec sum[KAS_LINE_RUN], float total[KAS_LINE_RUN])
{
    float all[KAS_LINE_RUN * KAS_LINE_LANES], half[64], turned[64];
    __builtin_memcpy(all, sum, sizeof all);
    for (int p = 0; p < 8; p++)
        for (int c = 0; c < 8; c++)
            half[8 * p + c] = all[16 * p + c] + all[16 * p + 8 + c];
    kas_transpose_8(turned, 8, half, 8);
    for (int p = 0; p < 8; p++)
        total[p] = ((turned[p] + turned[8 + p]) + (turned[16 + p] + turned[24 + p])) +
                   ((turned[32 + p] + turned[40 + p]) + (turned[48 + p] + turned[56 + p]));
}

/* Returns the first of 8 pixels: the last 8 of a line overlap those before. */
KAS_FN int kas_lines_start(const kas_lines_args *a, int ow)
{
    return kas_imax(0, kas_imin(ow, a->out_w - KAS_LINE_RUN));
}

/* Depthwise windows: a vector of channels of all results. */
KAS_KERNEL(kas_lines_depthwise, kas_lines_args)
{
    KAS_SHARED(float, lines, KAS_LINE_FLOATS);
    KAS_SHARED(float, w, KAS_LINE_WEIGHTS);
    const int first = KAS_BLOCK_Y * KAS_LINE_LANES;
    const int channels = kas_imin(KAS_LINE_LANES, a.channels - first);
    const int band = kas_lines_band(&a, KAS_LINE_LANES), padded = kas_lines_padded(&a);
    kas_lines_weights(&a, first, channels, KAS_LINE_LANES, w);
    for (int n = KAS_BLOCK_X; n < a.n; n += a.slots)
        for (int row = 0; row < a.out_h; row += band) {
            const int rows = kas_imin(band, a.out_h - row);
            kas_lines_fill(&a, a.from + (kas_i64)n * a.h * a.width * a.from_pitch, first, channels,
                           KAS_LINE_LANES, row, rows + (a.kernel_h - 1) * a.dilation, lines);
            for (int r = 0; r < rows; r++)
                for (int ow = 0; ow < a.out_w; ow += KAS_LINE_RUN) {
                    const int at = kas_lines_start(&a, ow);
                    kas_vec sum[KAS_LINE_RUN] = {{0}};
                    kas_lines_add(&a, lines + ((kas_i64)r * padded + at) * KAS_LINE_LANES, w, 1,
                                  sum);
                    kas_real *to = a.to +
                                   (((kas_i64)n * a.out_h + row + r) * a.out_w + at) * a.to_pitch +
                                   first;
                    KAS_UNROLL
                    for (int p = 0; p < KAS_LINE_RUN; p++)
                        if (p < a.out_w)
                            kas_lines_store(to + p * a.to_pitch, sum[p], channels);
                }
        }
}

/* Maps with few results a pixel: the lanes are summed at the end. */
KAS_KERNEL(kas_lines_few_results, kas_lines_args)
{
    KAS_SHARED(float, lines, KAS_LINE_FLOATS);
    KAS_SHARED(float, w, KAS_LINE_WEIGHTS);
    const int vectors = kas_lines_vectors(&a), lanes = vectors * KAS_LINE_LANES;
    const int band = kas_lines_band(&a, lanes), taps = a.kernel_h * a.kernel_w;
    kas_lines_weights(&a, 0, a.channels, lanes, w);
    for (int n = KAS_BLOCK_X; n < a.n; n += a.slots)
        for (int row = 0; row < a.out_h; row += band) {
            const int rows = kas_imin(band, a.out_h - row);
            kas_lines_fill(&a, a.from + (kas_i64)n * a.h * a.width * a.from_pitch, 0, a.channels,
                           lanes, row, rows + (a.kernel_h - 1) * a.dilation, lines);
            for (int r = 0; r < rows; r++)
                for (int ow = 0; ow < a.out_w; ow += KAS_LINE_RUN) {
                    const int at = kas_lines_start(&a, ow);
                    const float *line = lines + ((kas_i64)r * kas_lines_padded(&a) + at) * lanes;
                    kas_real *to =
                        a.to + (((kas_i64)n * a.out_h + row + r) * a.out_w + at) * a.to_pitch;
                    for (int o = 0; o < a.few; o++) {
                        kas_vec sum[KAS_LINE_RUN] = {{0}};
                        float total[KAS_LINE_RUN];
                        kas_lines_add(&a, line, w + o * taps * lanes, vectors, sum);
                        kas_lines_total(sum, total);
                        for (int p = 0; p < KAS_LINE_RUN && p < a.out_w; p++)
                            to[p * a.to_pitch + o] = kas_real_of(total[p]);
                    }
                }
        }
}

/* Returns the other side's pixel: a vector, or one value for all lanes. */
KAS_FN kas_vec kas_lines_other(const float *at, int whole)
{
    if (whole)
        return KAS_LINE_AT(at);
    return *at - (kas_vec){0};
}

/* Adds, for `taps` taps of a line, the products of its pixels and those of dy. A few sums apart from
 * each other keep a multiply-add from waiting for the one before. */
KAS_FN void kas_lines_line_taps(const kas_lines_args *a, const float *x, const float *dy,
                                int dy_step, int whole, int taps, float *KAS_RESTRICT total)
{
    enum { SUMS = 8 };
    const int apart = taps >= 4 ? 1 : SUMS / 2 / taps, step = a->dilation * KAS_LINE_LANES;
    kas_vec sum[SUMS] = {{0}};
    int ow = 0;
    for (; ow + apart <= a->out_w; ow += apart)
        KAS_UNROLL
    for (int u = 0; u < apart; u++) {
        const float *at = dy + (ow + u) * dy_step;
        const kas_vec one = kas_lines_other(at, whole);
        KAS_UNROLL
        for (int k = 0; k < taps; k++)
            sum[u * taps + k] += KAS_LINE_AT(x + (ow + u) * KAS_LINE_LANES + k * step) * one;
    }
    for (; ow < a->out_w; ow++) {
        const float *at = dy + ow * dy_step;
        const kas_vec one = kas_lines_other(at, whole);
        KAS_UNROLL
        for (int k = 0; k < taps; k++)
            sum[k] += KAS_LINE_AT(x + ow * KAS_LINE_LANES + k * step) * one;
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

/* All taps of a line, up to 7 at once. */
KAS_FN void kas_lines_line(const kas_lines_args *a, const float *x, const float *dy, int dy_step,
                           int whole, float *total)
{
    for (int k = 0; k < a->kernel_w; k += 7) {
        const float *at = x + k * a->dilation * KAS_LINE_LANES;
        float *to = total + k * KAS_LINE_LANES;
        switch (kas_imin(7, a->kernel_w - k)) {
        case 1:
            kas_lines_line_taps(a, at, dy, dy_step, whole, 1, to);
            break;
        case 2:
            kas_lines_line_taps(a, at, dy, dy_step, whole, 2, to);
            break;
        case 3:
            kas_lines_line_taps(a, at, dy, dy_step, whole, 3, to);
            break;
        case 4:
            kas_lines_line_taps(a, at, dy, dy_step, whole, 4, to);
            break;
        case 5:
            kas_lines_line_taps(a, at, dy, dy_step, whole, 5, to);
            break;
        case 6:
            kas_lines_line_taps(a, at, dy, dy_step, whole, 6, to);
            break;
        default:
            kas_lines_line_taps(a, at, dy, dy_step, whole, 7, to);
            break;
        }
    }
}

/* The gradient of the weights, [slot][few][tap][channel], from the lines of the wide side and the
 * pixels of the other one. */
KAS_KERNEL(kas_lines_weight_parts, kas_lines_args)
{
    KAS_SHARED(float, lines, KAS_LINE_FLOATS);
    KAS_SHARED(float, total, KAS_LINE_WEIGHTS);
    KAS_SHARED(float, dy, (KAS_LINE_WIDTH * KAS_LINE_LANES));
    const int first = KAS_BLOCK_Y * KAS_LINE_LANES, taps = a.kernel_h * a.kernel_w;
    const int channels = kas_imin(KAS_LINE_LANES, a.channels - first);
    const int few = a.few ? a.few : 1, step = a.few ? a.few : KAS_LINE_LANES;
    const int band = kas_lines_band(&a, KAS_LINE_LANES), padded = kas_lines_padded(&a);
    __builtin_memset(total, 0, sizeof *total * (kas_u64)(few * taps * KAS_LINE_LANES));
    for (int n = KAS_BLOCK_X; n < a.n; n += a.slots)
        for (int row = 0; row < a.out_h; row += band) {
            const int rows = kas_imin(band, a.out_h - row);
            kas_lines_fill(&a, a.from + (kas_i64)n * a.h * a.width * a.from_pitch, first, channels,
                           KAS_LINE_LANES, row, rows + (a.kernel_h - 1) * a.dilation, lines);
            for (int r = 0; r < rows; r++) {
                const kas_real *to = a.to + ((kas_i64)n * a.out_h + row + r) * a.out_w * a.to_pitch;
                for (int ow = 0; ow < a.out_w; ow++, to += a.to_pitch)
                    kas_lines_pixel(a.few ? to : to + first, a.few ? a.few : channels, step,
                                    dy + ow * step);
                for (int kh = 0; kh < a.kernel_h; kh++) {
                    const float *x =
                        lines + (kas_i64)(r + kh * a.dilation) * padded * KAS_LINE_LANES;
                    for (int o = 0; o < few; o++) {
                        float *at = total + (o * taps + kh * a.kernel_w) * KAS_LINE_LANES;
                        if (a.few)
                            kas_lines_line(&a, x, dy + o, step, 0, at);
                        else
                            kas_lines_line(&a, x, dy, step, 1, at);
                    }
                }
            }
        }
    for (int o = 0; o < few; o++)
        for (int tap = 0; tap < taps; tap++)
            for (int c = 0; c < channels; c++)
                a.partial[((kas_i64)(KAS_BLOCK_X * few + o) * taps + tap) * a.channels + first +
                          c] = total[(o * taps + tap) * KAS_LINE_LANES + c];
}

/* Adds up the slots, in their order, and puts the sums where the weights lie. */
KAS_KERNEL(kas_lines_weight_total, kas_lines_args)
{
    const int taps = a.kernel_h * a.kernel_w, few = a.few ? a.few : 1;
    const int all = few * taps * a.channels;
    for (int i = 0; i < all; i++) {
        const int c = i % a.channels, tap = kas_lines_tap(&a, i / a.channels % taps);
        const int o = i / a.channels / taps;
        float sum = 0;
        for (int slot = 0; slot < a.slots; slot++)
            sum += a.partial[(kas_i64)slot * all + i];
        a.dw[!a.few      ? c * taps + tap
             : a.flipped ? (c * taps + tap) * a.few + o
                         : (o * taps + tap) * a.channels + c] = sum;
    }
}
