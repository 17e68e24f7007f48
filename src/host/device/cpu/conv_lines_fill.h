/* What the kernels over lines of pixels (conv_lines.h) have in common: vectors of channels, and the
 * lines that a band of results reads. */
#ifndef KAS_DEVICE_CPU_CONV_LINES_FILL_H
#define KAS_DEVICE_CPU_CONV_LINES_FILL_H

#include "host/device/cpu/conv_lines.h"

#include "cuda/kernels/tile.h"

/* Numbers of 16 bits are loaded by instructions that the first processors with AVX-512 lack. */
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define KAS_LINES_AVX512 1
#else
#define KAS_LINES_AVX512 0
#endif
#ifdef __AVX2__
#define KAS_LINES_AVX2 1
#else
#define KAS_LINES_AVX2 0
#endif
#ifdef __AVX__
#include <immintrin.h>
#endif

typedef float kas_vec __attribute__((vector_size(64)));
typedef float kas_vec_at __attribute__((vector_size(64), aligned(4), may_alias));

#define KAS_LINE_AT(p) (*(const kas_vec_at *)(p))

/* A vector of the processor's: a part of 16 lanes, and the sums of 8 pixels stay in registers. */
#if KAS_LINES_AVX512
#define KAS_PART_BYTES 64
#else
#define KAS_PART_BYTES 32
#endif
enum { KAS_PART_LANES = KAS_PART_BYTES / 4 };
typedef float kas_part __attribute__((vector_size(KAS_PART_BYTES)));
typedef float kas_part_at __attribute__((vector_size(KAS_PART_BYTES), aligned(4), may_alias));

#define KAS_PART_AT(p) (*(const kas_part_at *)(p))

/* Load a vector of up to 16 channels, with zeros behind them, and store one; load one whose lane c
 * has element place[c] of the two vectors `low` and `high`. */
#if KAS_LINES_AVX512
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
    kas_vec v;
#if defined(__AVX2__) && KAS_DTYPE == 0
    const __m256i from_0 = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                  from_8 = _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15),
                  end = _mm256_set1_epi32(channels);
    const __m256 half[2] = {_mm256_maskload_ps(from, _mm256_cmpgt_epi32(end, from_0)),
                            _mm256_maskload_ps(from + 8, _mm256_cmpgt_epi32(end, from_8))};
    __builtin_memcpy(&v, half, sizeof v);
#else
    float lanes[KAS_LINE_LANES] = {0};
    if (channels >= KAS_LINE_LANES)
        for (int c = 0; c < KAS_LINE_LANES; c++)
            lanes[c] = kas_value(from[c]);
    else
        for (int c = 0; c < channels; c++)
            lanes[c] = kas_value(from[c]);
    __builtin_memcpy(&v, lanes, sizeof v);
#endif
    return v;
}
#ifdef __AVX2__
/* Each half of the lanes is picked from each vector of 8, of which one or two have what it reads. */
KAS_FN kas_vec kas_lines_pick(kas_vec low, const int *place, kas_vec high)
{
    __m256 from[4], half[2];
    kas_vec v;
    __builtin_memcpy(from, &low, sizeof low);
    __builtin_memcpy(from + 2, &high, sizeof high);
    KAS_UNROLL
    for (int h = 0; h < 2; h++) {
        const __m256i at = _mm256_loadu_si256((const __m256i *)(place + 8 * h));
        const __m256 second = _mm256_castsi256_ps(_mm256_slli_epi32(at, 28)),
                     behind = _mm256_castsi256_ps(_mm256_slli_epi32(at, 27));
        half[h] = _mm256_blendv_ps(_mm256_blendv_ps(_mm256_permutevar8x32_ps(from[0], at),
                                                    _mm256_permutevar8x32_ps(from[1], at), second),
                                   _mm256_blendv_ps(_mm256_permutevar8x32_ps(from[2], at),
                                                    _mm256_permutevar8x32_ps(from[3], at), second),
                                   behind);
    }
    __builtin_memcpy(&v, half, sizeof v);
    return v;
}
#else
KAS_FN kas_vec kas_lines_pick(kas_vec low, const int *place, kas_vec high)
{
    float all[2 * KAS_LINE_LANES], lanes[KAS_LINE_LANES];
    kas_vec v;
    __builtin_memcpy(all, &low, sizeof low);
    __builtin_memcpy(all + KAS_LINE_LANES, &high, sizeof high);
    for (int c = 0; c < KAS_LINE_LANES; c++)
        lanes[c] = all[place[c]];
    __builtin_memcpy(&v, lanes, sizeof v);
    return v;
}
#endif
#endif

KAS_FN void kas_lines_store(kas_real *to, kas_vec v, int channels)
{
#if KAS_LINES_AVX512 && KAS_DTYPE == 0
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << channels) - 1), (__m512)v);
#else
    float lanes[KAS_LINE_LANES];
    __builtin_memcpy(lanes, &v, sizeof v);
    if (channels == KAS_LINE_LANES) {
        for (int c = 0; c < KAS_LINE_LANES; c++)
            to[c] = kas_real_of(lanes[c]);
        return;
    }
    for (int c = 0; c < channels; c++)
        to[c] = kas_real_of(lanes[c]);
#endif
}

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
    /* Of the 8 lanes of each half: where the 8 channels begin among which all theirs are. */
    int near; /* 1: each half has such, and a pixel has all of them */
    kas_i64 begin[KAS_LINE_READS][2];
} kas_lines_picks;

/* Finds for each half of the lanes the 8 channels that it reads, if there are such. */
KAS_FN void kas_lines_find_near(const kas_lines_args *a, kas_lines_picks *to)
{
    to->near = 1;
    for (int i = 0; i < a->reads; i++)
        for (int half = 0; half < 2; half++) {
            const int *place = to->place[i] + 8 * half, eight = place[0] / 8 * 8;
            const int in = eight % KAS_LINE_LANES;
            for (int l = 1; l < 8; l++)
                to->near &= place[l] / 8 * 8 == eight;
            to->near &= to->first + (a->images == 2 ? in : eight) + 8 <= a->from_pitch;
            to->begin[i][half] = eight < KAS_LINE_LANES ? eight : to->apart + in;
        }
}

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
    kas_lines_find_near(a, to);
    return a->reads == 1 && a->lanes == 1 ? 0 : to;
}

/* Copies what the lanes read of the pixels of a line to `reads` vectors each. A function of its own:
 * inlined it takes registers from the sums of its callers. */
static __attribute__((noinline, unused)) void kas_lines_pick_line(const kas_lines_args *a,
                                                                  const kas_real *from,
                                                                  const kas_lines_picks *picks,
                                                                  float *KAS_RESTRICT to)
{
#if defined(__AVX2__) && !KAS_LINES_AVX512 && KAS_DTYPE == 0
    if (picks->near && (a->images == 1 || picks->high > 0)) {
        for (int w = 0; w < a->width; w++, from += a->from_pitch)
            for (int i = 0; i < a->reads; i++)
                for (int half = 0; half < 2; half++, to += 8) {
                    const __m256i place =
                        _mm256_loadu_si256((const __m256i *)(picks->place[i] + 8 * half));
                    const __m256 eight = _mm256_loadu_ps(from + picks->begin[i][half]);
                    _mm256_storeu_ps(to, _mm256_permutevar8x32_ps(eight, place));
                }
        return;
    }
#endif
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

#endif
