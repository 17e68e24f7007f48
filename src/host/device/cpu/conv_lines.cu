/* The kernels of conv_lines.h. They are for the CPU device alone: a vector of 16 channels is a value
 * here, and 8 pixels of results stay in registers while the taps go round.
 *
 * The lines that a band of results reads are copied, in float32 and with zeros around the image, to
 * memory that stays in the nearest cache. So there are no borders, and all dtypes and pitches are
 * alike. Each result is one sum over the taps in their order; sums over pixels are made image by
 * image in KAS_LINE_SLOTS parts. The bits are the same with any number of threads. */
#include "host/device/cpu/conv_lines.h"

#include "cuda/kernels/tile.h"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

typedef float kas_vec __attribute__((vector_size(64)));
typedef float kas_vec_at __attribute__((vector_size(64), aligned(4), may_alias));

#if KAS_DTYPE == 0
#ifdef __AVX512F__
const int kas_lines_pick_fast = 1;
#else
const int kas_lines_pick_fast = 0;
#endif
#endif

#define KAS_LINE_AT(p) (*(const kas_vec_at *)(p))

/* Load a vector of up to 16 channels, with zeros behind them, and store one; load one whose lane c
 * has element place[c] of the two vectors `low` and `high`. */
#ifdef __AVX512F__
KAS_FN kas_vec kas_lines_load(const kas_real *from, int channels)
{
    const __mmask16 mask = (__mmask16)((1u << kas_imin(channels, KAS_LINE_LANES)) - 1);
#if KAS_DTYPE == 0
    return (kas_vec)_mm512_maskz_loadu_ps(mask, from);
#elif KAS_DTYPE == 1
    const __m512i bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from));
    return (kas_vec)_mm512_slli_epi32(bits, 16);
#else
    return (kas_vec)_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, from));
#endif
}
KAS_FN kas_vec kas_lines_pick(kas_vec low, const int *place, kas_vec high)
{
    return (kas_vec)_mm512_permutex2var_ps((__m512)low, _mm512_loadu_si512(place), (__m512)high);
}
#else
KAS_FN kas_vec kas_lines_load(const kas_real *from, int channels)
{
    kas_vec v = {0};
    for (int c = 0; c < kas_imin(channels, KAS_LINE_LANES); c++)
        v[c] = kas_value(from[c]);
    return v;
}
KAS_FN kas_vec kas_lines_pick(kas_vec low, const int *place, kas_vec high)
{
    float all[2 * KAS_LINE_LANES];
    kas_vec v;
    __builtin_memcpy(all, &low, sizeof low);
    __builtin_memcpy(all + KAS_LINE_LANES, &high, sizeof high);
    for (int c = 0; c < KAS_LINE_LANES; c++)
        v[c] = all[place[c]];
    return v;
}
#endif

/* Copies a pixel to `lanes` floats, with zeros behind its channels. */
KAS_FN void kas_lines_pixel(const kas_real *from, int channels, int lanes, float *KAS_RESTRICT to)
{
    if (lanes == KAS_LINE_LANES) {
        *(kas_vec_at *)to = kas_lines_load(from, channels);
        return;
    }
    for (int c = 0; c < channels; c++)
        to[c] = kas_value(from[c]);
    for (int c = channels; c < lanes; c++)
        to[c] = 0;
}

/* ---- groups ----------------------------------------------------------------------------------
 *
 * Lane c of a vector is a channel of group c / lanes, and that group reads a few channels, one after
 * the other. So a pixel is kept as that many vectors: in vector i, each lane has the i-th of the
 * channels that its own group reads. A window of a group is then as many depthwise windows. */

/* Where the lanes of a vector find what they read: in a vector from channel `first` on, and in
 * another one `apart` from it, of the channels behind or of the next image. */
typedef struct kas_lines_picks {
    int first, low, high; /* channels of the two vectors */
    kas_i64 apart;
    int place[KAS_LINE_READS][KAS_LINE_LANES];
} kas_lines_picks;

/* Finds them for channels [first, first + channels) of the side with the lanes. Returns 0 where
 * each lane reads its own channel. */
KAS_FN const kas_lines_picks *kas_lines_find_picks(const kas_lines_args *a, int first, int channels,
                                                   kas_lines_picks *to)
{
    to->first = first / a->lanes * a->reads;
    const int span = (first + channels - 1) / a->lanes * a->reads + a->reads - to->first;
    to->low = kas_imin(span, KAS_LINE_LANES);
    to->high = a->images == 2 ? to->low : span - to->low;
    to->apart = a->images == 2 ? (kas_i64)a->h * a->width * a->from_pitch : KAS_LINE_LANES;
    for (int i = 0; i < a->reads; i++)
        for (int l = 0; l < KAS_LINE_LANES; l++) {
            const int c = l % (KAS_LINE_LANES / a->images),
                      image = l / (KAS_LINE_LANES / a->images);
            const int place = (first + c) / a->lanes * a->reads + i - to->first;
            to->place[i][l] = c < channels ? place + image * KAS_LINE_LANES : 0;
        }
    return a->reads == 1 && a->lanes == 1 ? 0 : to;
}

/* Copies what the lanes read of the pixels of a line to `reads` vectors each. */
KAS_FN void kas_lines_pick_line(const kas_lines_args *a, const kas_real *from,
                                const kas_lines_picks *picks, float *KAS_RESTRICT to)
{
    for (int w = 0; w < a->width; w++, from += a->from_pitch) {
        const kas_vec low = kas_lines_load(from, picks->low);
        kas_vec high = {0};
        if (picks->high > 0)
            high = kas_lines_load(from + picks->apart, picks->high);
        for (int i = 0; i < a->reads; i++, to += KAS_LINE_LANES)
            *(kas_vec_at *)to = kas_lines_pick(low, picks->place[i], high);
    }
}

/* Copies channels [first, first + channels) of the rows that a band reads to [rows][padded][lanes],
 * with zeros for what is outside the image and for missing channels; with `picks`, what they
 * pick. */
KAS_FN void kas_lines_fill(const kas_lines_args *a, const kas_real *image, int first, int channels,
                           const kas_lines_picks *picks, int lanes, int row, int rows,
                           float *KAS_RESTRICT to)
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
        if (picks) {
            kas_lines_pick_line(a, from, picks, to + a->pad_w * lanes);
            continue;
        }
        for (int w = a->pad_w; w < last; w++, from += a->from_pitch)
            kas_lines_pixel(from, channels, lanes, to + w * lanes);
    }
}

/* Returns the place in w of the tap that stands at `tap`. */
KAS_FN int kas_lines_tap(const kas_lines_args *a, int tap)
{
    return a->flipped ? a->kernel_h * a->kernel_w - 1 - tap : tap;
}

/* Copies the weights of channels [first, first + channels) to [few][taps][lanes]. A map's lie as
 * [out][tap][in], whichever of the two are few. */
KAS_FN void kas_lines_weights(const kas_lines_args *a, int first, int channels, int lanes,
                              float *KAS_RESTRICT to)
{
    const int taps = a->kernel_h * a->kernel_w;
    for (int o = 0; o < a->few; o++)
        for (int tap = 0; tap < taps; tap++)
            for (int c = 0; c < lanes; c++, to++) {
                const int from = kas_lines_tap(a, tap), wide = first + c;
                const int at = a->flipped ? (wide * taps + from) * a->few + o
                                          : (o * taps + from) * a->channels + wide;
                *to = c < channels ? kas_value(a->w[at]) : 0;
            }
}

/* Where the weights of groups lie, [out][tap][in of the group]: that with which lane c reads the
 * i-th channel of its group is at lane[c] + tap * tap_step + i * read_step. */
typedef struct kas_lines_places {
    int lane[KAS_LINE_LANES], tap_step, read_step;
} kas_lines_places;

KAS_FN kas_lines_places kas_lines_find_places(const kas_lines_args *a, int first, int channels)
{
    const int taps = a->kernel_h * a->kernel_w;
    kas_lines_places at = {.tap_step = a->flipped ? a->lanes : a->reads,
                           .read_step = a->flipped ? taps * a->lanes : 1};
    for (int c = 0; c < channels; c++) {
        const int group = (first + c) / a->lanes, within = (first + c) % a->lanes;
        at.lane[c] = a->flipped ? group * a->reads * taps * a->lanes + within
                                : (first + c) * taps * a->reads;
    }
    return at;
}

/* Copies the weights of groups to [taps][reads][lanes of a vector]. */
KAS_FN void kas_lines_group_weights(const kas_lines_args *a, int first, int channels,
                                    float *KAS_RESTRICT to)
{
    const kas_lines_places at = kas_lines_find_places(a, first, channels);
    for (int tap = 0; tap < a->kernel_h * a->kernel_w; tap++)
        for (int i = 0; i < a->reads; i++, to += KAS_LINE_LANES) {
            const kas_real *w = a->w + kas_lines_tap(a, tap) * at.tap_step + i * at.read_step;
            for (int l = 0; l < KAS_LINE_LANES; l++) {
                const int c = l % (KAS_LINE_LANES / a->images);
                to[l] = c < channels ? kas_value(w[at.lane[c]]) : 0;
            }
        }
}

KAS_FN void kas_lines_store(kas_real *to, kas_vec v, int channels)
{
    float lanes[KAS_LINE_LANES];
#if defined(__AVX512F__) && KAS_DTYPE == 0
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << channels) - 1), (__m512)v);
    return;
#endif
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

/* The same for windows of three neighbouring pixels, which are loaded once for all three. */
KAS_FN void kas_lines_add_3(const kas_lines_args *a, const float *line, const float *w, int vectors,
                            kas_vec sum[KAS_LINE_RUN])
{
    const int lanes = vectors * KAS_LINE_LANES, padded = kas_lines_padded(a);
    for (int kh = 0; kh < a->kernel_h; kh++, w += 2 * lanes)
        for (int v = 0; v < vectors; v++, w += KAS_LINE_LANES) {
            const float *x = line + (kas_i64)kh * padded * lanes + v * KAS_LINE_LANES;
            const kas_vec left = KAS_LINE_AT(w), mid = KAS_LINE_AT(w + lanes),
                          right = KAS_LINE_AT(w + 2 * lanes);
            KAS_UNROLL
            for (int p = 0; p < KAS_LINE_RUN + 2; p++) {
                const kas_vec at = KAS_LINE_AT(x + p * lanes);
                if (p < KAS_LINE_RUN)
                    sum[p] += at * left;
                if (p > 0 && p <= KAS_LINE_RUN)
                    sum[p - 1] += at * mid;
                if (p > 1)
                    sum[p - 2] += at * right;
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

/* Stores channels [first, first + channels) of a pixel, with the bias and the residual of an
 * epilogue. */
KAS_FN void kas_lines_result(const kas_lines_args *a, kas_vec sum, kas_vec bias, kas_i64 pixel,
                             int first, int channels)
{
    const kas_i64 to = pixel * a->to_pitch + first;
    sum += bias;
    if (a->residual)
        sum += kas_lines_load(a->residual + to, channels);
    kas_lines_store(a->to + to, sum, channels);
}

/* The same of the second image of a vector. */
KAS_FN void kas_lines_second_result(const kas_lines_args *a, kas_vec sum, kas_vec bias,
                                    kas_i64 pixel, int channels)
{
    enum { HALF = KAS_LINE_LANES / 2 };
    float lanes[KAS_LINE_LANES];
    kas_vec second = {0};
    __builtin_memcpy(lanes, &sum, sizeof lanes);
    __builtin_memcpy(&second, lanes + HALF, sizeof *lanes * HALF);
    kas_lines_result(a, second, bias, pixel + (kas_i64)a->out_h * a->out_w, 0, channels);
}

/* Windows of groups, depthwise ones too: a vector of channels of all results. */
KAS_KERNEL(kas_lines_groups, kas_lines_args)
{
    KAS_SHARED(float, lines, KAS_LINE_FLOATS);
    KAS_SHARED(float, w, KAS_LINE_WEIGHTS);
    const int first = KAS_BLOCK_X * KAS_LINE_LANES;
    const int channels = kas_imin(KAS_LINE_LANES, a.channels - first);
    const int lanes = a.reads * KAS_LINE_LANES;
    const int band = kas_lines_band(&a, lanes), padded = kas_lines_padded(&a);
    kas_lines_picks picks;
    const kas_lines_picks *picked = kas_lines_find_picks(&a, first, channels, &picks);
    kas_lines_group_weights(&a, first, channels, w);
    kas_vec bias = {0};
    for (int c = 0; a.bias && c < channels; c++)
        bias[c] = a.bias[first + c];
    for (int n = KAS_BLOCK_Y * a.images; n < a.n; n += a.slots * a.images) {
        if (a.images == 2 && n + 1 == a.n)
            picks.high = 0;
        for (int row = 0; row < a.out_h; row += band) {
            const int rows = kas_imin(band, a.out_h - row);
            kas_lines_fill(&a, a.from + (kas_i64)n * a.h * a.width * a.from_pitch, picks.first,
                           channels, picked, lanes, row, rows + (a.kernel_h - 1) * a.dilation,
                           lines);
            for (int r = 0; r < rows; r++)
                for (int ow = 0; ow < a.out_w; ow += KAS_LINE_RUN) {
                    const int at = kas_lines_start(&a, ow);
                    const float *line = lines + ((kas_i64)r * padded + at) * lanes;
                    kas_vec sum[KAS_LINE_RUN] = {{0}};
                    if (a.kernel_w == 3 && a.dilation == 1)
                        kas_lines_add_3(&a, line, w, a.reads, sum);
                    else if (a.reads == 1)
                        kas_lines_add(&a, line, w, 1, sum);
                    else
                        kas_lines_add(&a, line, w, a.reads, sum);
                    const kas_i64 pixel = ((kas_i64)n * a.out_h + row + r) * a.out_w + at;
                    KAS_UNROLL
                    for (int p = 0; p < KAS_LINE_RUN; p++)
                        if (p < a.out_w)
                            kas_lines_result(&a, sum[p], bias, pixel + p, first, channels);
                    if (a.images == 1 || n + 1 == a.n)
                        continue;
                    KAS_UNROLL
                    for (int p = 0; p < KAS_LINE_RUN; p++)
                        if (p < a.out_w)
                            kas_lines_second_result(&a, sum[p], bias, pixel + p, channels);
                }
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
    for (int n = KAS_BLOCK_Y; n < a.n; n += a.slots)
        for (int row = 0; row < a.out_h; row += band) {
            const int rows = kas_imin(band, a.out_h - row);
            kas_lines_fill(&a, a.from + (kas_i64)n * a.h * a.width * a.from_pitch, 0, a.channels, 0,
                           lanes, row, rows + (a.kernel_h - 1) * a.dilation, lines);
            for (int r = 0; r < rows; r++)
                for (int ow = 0; ow < a.out_w; ow += KAS_LINE_RUN) {
                    const int at = kas_lines_start(&a, ow);
                    const float *line = lines + ((kas_i64)r * kas_lines_padded(&a) + at) * lanes;
                    const kas_i64 pixel = ((kas_i64)n * a.out_h + row + r) * a.out_w + at;
                    for (int o = 0; o < a.few; o++) {
                        kas_vec sum[KAS_LINE_RUN] = {{0}};
                        float total[KAS_LINE_RUN];
                        kas_lines_add(&a, line, w + o * taps * lanes, vectors, sum);
                        kas_lines_total(sum, total);
                        for (int p = 0; p < KAS_LINE_RUN && p < a.out_w; p++) {
                            const kas_i64 to = (pixel + p) * a.to_pitch + o;
                            const float bias = a.bias ? a.bias[o] : 0;
                            const float residual = a.residual ? kas_value(a.residual[to]) : 0;
                            a.to[to] = kas_real_of(total[p] + bias + residual);
                        }
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
