/* The kernels of conv_lines.h. They are for the CPU device alone: a vector of 16 channels is a value
 * here, and 8 pixels of results stay in registers while the taps go round.
 *
 * The lines that a band of results reads are copied, in float32 and with zeros around the image, to
 * memory that stays in the nearest cache. So there are no borders, and all dtypes and pitches are
 * alike. Each result is one sum over the taps in their order, so the bits are the same with any
 * number of threads. */
#include "host/device/cpu/conv_lines_fill.h"

#if KAS_DTYPE == 0
const int kas_cpu_avx512 = KAS_LINES_AVX512, kas_cpu_avx2 = KAS_LINES_AVX2;
#endif

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

/* Adds the taps of `vectors` vectors at 8 pixels beside each other. */
KAS_FN void kas_lines_add(const kas_lines_args *a, const float *line, const float *w, int vectors,
                          kas_part sum[KAS_LINE_RUN])
{
    const int lanes = vectors * KAS_LINE_LANES, padded = kas_lines_padded(a);
    for (int kh = 0; kh < a->kernel_h; kh++)
        for (int kw = 0; kw < a->kernel_w; kw++) {
            const float *x = line + ((kas_i64)kh * padded + kw) * a->dilation * lanes;
            for (int v = 0; v < vectors; v++, w += KAS_LINE_LANES, x += KAS_LINE_LANES) {
                const kas_part weight = KAS_PART_AT(w);
                KAS_UNROLL
                for (int p = 0; p < KAS_LINE_RUN; p++)
                    sum[p] += KAS_PART_AT(x + p * lanes) * weight;
            }
        }
}

/* The same for windows of three neighbouring pixels, which are loaded once for all three. */
KAS_FN void kas_lines_add_3(const kas_lines_args *a, const float *line, const float *w, int vectors,
                            kas_part sum[KAS_LINE_RUN])
{
    const int lanes = vectors * KAS_LINE_LANES, padded = kas_lines_padded(a);
    for (int kh = 0; kh < a->kernel_h; kh++, w += 2 * lanes)
        for (int v = 0; v < vectors; v++, w += KAS_LINE_LANES) {
            const float *x = line + (kas_i64)kh * padded * lanes + v * KAS_LINE_LANES;
            const kas_part left = KAS_PART_AT(w), mid = KAS_PART_AT(w + lanes),
                           right = KAS_PART_AT(w + 2 * lanes);
            KAS_UNROLL
            for (int p = 0; p < KAS_LINE_RUN + 2; p++) {
                const kas_part at = KAS_PART_AT(x + p * lanes);
                if (p < KAS_LINE_RUN)
                    sum[p] += at * left;
                if (p > 0 && p <= KAS_LINE_RUN)
                    sum[p - 1] += at * mid;
                if (p > 1)
                    sum[p - 2] += at * right;
            }
        }
}

/* Adds the taps of a window up, by the way that suits it. */
KAS_FN void kas_lines_window(const kas_lines_args *a, const float *line, const float *w,
                             int vectors, kas_vec sum[KAS_LINE_RUN])
{
    for (int lane = 0; lane < KAS_LINE_LANES; lane += KAS_PART_LANES) {
        kas_part part[KAS_LINE_RUN] = {{0}};
        if (a->kernel_w == 3 && a->dilation == 1)
            kas_lines_add_3(a, line + lane, w + lane, vectors, part);
        else if (vectors == 1)
            kas_lines_add(a, line + lane, w + lane, 1, part);
        else
            kas_lines_add(a, line + lane, w + lane, vectors, part);
        for (int p = 0; p < KAS_LINE_RUN; p++)
            __builtin_memcpy((float *)&sum[p] + lane, &part[p], sizeof *part);
    }
}

/* Sums the lanes of 8 vectors. */
#ifdef __AVX__
KAS_FN void kas_lines_total(const kas_vec sum[KAS_LINE_RUN], float total[KAS_LINE_RUN])
{
    __m256 half[KAS_LINE_RUN];
    KAS_UNROLL
    for (int p = 0; p < KAS_LINE_RUN; p++) {
        __m256 part[2];
        __builtin_memcpy(part, &sum[p], sizeof part);
        half[p] = _mm256_add_ps(part[0], part[1]);
    }
    for (int apart = 1; apart < KAS_LINE_RUN / 2; apart *= 2)
        KAS_UNROLL
    for (int p = 0; p < KAS_LINE_RUN; p += 2 * apart)
        half[p] = _mm256_hadd_ps(half[p], half[p + apart]);
    _mm256_storeu_ps(total, _mm256_add_ps(_mm256_permute2f128_ps(half[0], half[4], 0x20),
                                          _mm256_permute2f128_ps(half[0], half[4], 0x31)));
}
#else
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
#endif

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
                    kas_vec sum[KAS_LINE_RUN];
                    kas_lines_window(&a, line, w, a.reads, sum);
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
                        kas_vec sum[KAS_LINE_RUN];
                        float total[KAS_LINE_RUN];
                        kas_lines_window(&a, line, w + o * taps * lanes, vectors, sum);
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
