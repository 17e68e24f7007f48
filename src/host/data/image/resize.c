#include "host/data/image/resize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The arithmetic is in integers, so every version of a function gives the same bits. The version is
 * chosen before a sanitizer is ready, so sanitized builds have only one. */
#if defined(__x86_64__) && defined(__GLIBC__) && __has_attribute(target_clones) &&                 \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FAST __attribute__((target_clones("avx2", "default")))
#else
#define FAST
#endif

enum { BITS = 14, HALF = 1 << (BITS - 1) };

/* The weights of one direction. Result j is the weighted sum of `taps` pixels from first[j] on. */
typedef struct axis {
    uint32_t taps;
    uint32_t *first;
    int32_t *weight; /* weights behind the end of the image are 0 */
} axis;

void kas_resize_scratch_free(kas_resize_scratch *scratch)
{
    free(scratch->memory);
    *scratch = (kas_resize_scratch){0};
}

/* Returns the most pixels that contribute to a result. */
static uint32_t taps_of(double from, double to, uint32_t count)
{
    double scale = fmax(1, (to - from) / count);
    return (uint32_t)ceil(scale) * 2 + 1;
}

/* Rounds weights so that they sum to 1; the largest one takes the difference. */
static void round_weights(const double *exact, double sum, uint32_t taps, int32_t *out)
{
    int32_t total = 0;
    uint32_t largest = 0;
    for (uint32_t t = 0; t < taps; t++) {
        out[t] = (int32_t)lround(exact[t] / sum * (1 << BITS));
        total += out[t];
        largest = exact[t] > exact[largest] ? t : largest;
    }
    out[largest] += (1 << BITS) - total;
}

/* Fills the weights of one direction; `exact` is scratch of `taps` numbers. */
static void fill_axis(axis *a, double from, double to, uint32_t length, uint32_t count,
                      double *exact)
{
    double scale = (to - from) / count, width = fmax(1, scale);
    double low = fmax(0, floor(from)), high = fmin(length, ceil(to));
    for (uint32_t j = 0; j < count; j++) {
        double middle = from + (j + 0.5) * scale, sum = 0;
        double first = fmax(low, floor(middle - width)), last = fmin(high, ceil(middle + width));
        if (first + a->taps > length) /* moves all taps into the image */
            first = fmax(0, (double)length - a->taps);
        a->first[j] = (uint32_t)first;
        for (uint32_t t = 0; t < a->taps; t++) {
            double at = first + t, far = fabs(at + 0.5 - middle) / width;
            exact[t] = at >= low && at < last && far < 1 ? 1 - far : 0;
            sum += exact[t];
        }
        round_weights(exact, sum, a->taps, a->weight + (size_t)j * a->taps);
    }
}

static inline uint8_t rounded(int32_t sum)
{
    return (uint8_t)((sum + HALF) >> BITS);
}

static inline void row_of(const uint8_t *from, const axis *a, uint32_t w, uint32_t c, bool mirror,
                          uint8_t *to)
{
    for (uint32_t j = 0; j < w; j++) {
        const uint8_t *p = from + (size_t)a->first[j] * c;
        const int32_t *weight = a->weight + (size_t)j * a->taps;
        uint8_t *out = to + (size_t)(mirror ? w - 1 - j : j) * c;
        int32_t sum[4] = {0};
        for (uint32_t t = 0; t < a->taps; t++)
            for (uint32_t k = 0; k < c; k++)
                sum[k] += weight[t] * p[t * c + k];
        for (uint32_t k = 0; k < c; k++)
            out[k] = rounded(sum[k]);
    }
}

/* With the number of channels known, the compiler unrolls the innermost loop. */
static void along_row(const uint8_t *from, const axis *a, uint32_t w, uint32_t c, bool mirror,
                      uint8_t *to)
{
    if (c == 3)
        row_of(from, a, w, 3, mirror, to);
    else if (c == 1)
        row_of(from, a, w, 1, mirror, to);
    else
        row_of(from, a, w, c, mirror, to);
}

FAST static void add_row(const uint8_t *restrict from, int32_t weight, size_t size,
                         int32_t *restrict sum)
{
    for (size_t i = 0; i < size; i++)
        sum[i] += weight * from[i];
}

FAST static void write_row(const int32_t *restrict sum, size_t size, uint8_t *restrict to)
{
    for (size_t i = 0; i < size; i++)
        to[i] = (uint8_t)((sum[i] + HALF) >> BITS);
}

static kas_status reserve(kas_resize_scratch *scratch, size_t size)
{
    if (size <= scratch->size)
        return KAS_OK;
    kas_resize_scratch_free(scratch);
    scratch->memory = malloc(size);
    if (!scratch->memory)
        return kas_fail(KAS_NO_MEMORY, "no memory to resize an image: %zu bytes", size);
    scratch->size = size;
    return KAS_OK;
}

/* Takes `size` bytes from a block of memory, aligned for any type. */
static void *take(uint8_t **from, size_t size)
{
    void *taken = *from;
    *from += (size + 15) & ~(size_t)15;
    return taken;
}

kas_status kas_resize(const kas_raster *image, kas_box box, uint32_t w, uint32_t h, bool mirror,
                      kas_resize_scratch *scratch, uint8_t *out)
{
    axis x = {.taps = taps_of(box.x0, box.x1, w)}, y = {.taps = taps_of(box.y0, box.y1, h)};
    x.taps = x.taps < image->width ? x.taps : image->width;
    y.taps = y.taps < image->height ? y.taps : image->height;
    size_t line = (size_t)w * image->c, taps = x.taps > y.taps ? x.taps : y.taps;
    KAS_TRY(reserve(scratch, sizeof(uint32_t) * (w + h) + taps * sizeof(double) +
                                 sizeof(int32_t) * ((size_t)w * x.taps + (size_t)h * y.taps) +
                                 sizeof(int32_t) * line + line * image->height + 7 * 16));
    uint8_t *memory = scratch->memory;
    double *exact = take(&memory, taps * sizeof *exact);
    x.first = take(&memory, w * sizeof *x.first);
    y.first = take(&memory, h * sizeof *y.first);
    x.weight = take(&memory, (size_t)w * x.taps * sizeof *x.weight);
    y.weight = take(&memory, (size_t)h * y.taps * sizeof *y.weight);
    int32_t *sum = take(&memory, line * sizeof *sum);
    uint8_t *lines = take(&memory, line * image->height);
    fill_axis(&x, box.x0, box.x1, image->width, w, exact);
    fill_axis(&y, box.y0, box.y1, image->height, h, exact);
    for (uint32_t row = y.first[0]; row < y.first[h - 1] + y.taps; row++)
        along_row(image->pixels + (size_t)row * image->width * image->c, &x, w, image->c, mirror,
                  lines + row * line);
    for (uint32_t j = 0; j < h; j++) {
        memset(sum, 0, line * sizeof *sum);
        for (uint32_t t = 0; t < y.taps; t++)
            if (y.weight[(size_t)j * y.taps + t])
                add_row(lines + (y.first[j] + t) * line, y.weight[(size_t)j * y.taps + t], line,
                        sum);
        write_row(sum, line, out + j * line);
    }
    return KAS_OK;
}
