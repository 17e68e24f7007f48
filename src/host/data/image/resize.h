/* Resamples a part of an image with a bilinear filter, which is widened when the image shrinks.
 *
 * Pixel i of a line has its middle at i + 1/2.  With s = (x1 - x0) / w, pixel j of the result lies
 * at x = x0 + (j + 1/2) s.  It is the mean of the pixels i with the weights
 *
 *     max(0, 1 - |i + 1/2 - x| / max(1, s))
 *
 * Only pixels between floor(x0) and ceil(x1) count; at a border the remaining weights are scaled to
 * a sum of 1.  So enlarging (s < 1) is plain bilinear interpolation, and shrinking averages over
 * all pixels, as PIL and torchvision do.  Lines are resampled first and rounded to 8 bits, and then
 * columns.
 *
 * Weights are rounded to multiples of 2^-14 that sum to 1, and all other arithmetic is in integers,
 * so the bits are the same on every machine. */
#ifndef KAS_DATA_IMAGE_RESIZE_H
#define KAS_DATA_IMAGE_RESIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/core/status.h"
#include "host/data/image/view.h"

/* The memory of one thread. Zero-initialise it and free it with kas_resize_scratch_free. */
typedef struct kas_resize_scratch {
    void *memory;
    size_t size;
} kas_resize_scratch;
void kas_resize_scratch_free(kas_resize_scratch *scratch);

typedef struct kas_raster {
    const uint8_t *pixels; /* [height][width][c] */
    uint32_t width, height, c;
} kas_raster;

/* Resamples the part `box` of an image to w x h pixels, mirrored left to right if `mirror`; `out`
 * is [h][w][c]. The box has an area and lies in the image up to rounding; c is 1 to 4. The only
 * failure is KAS_NO_MEMORY. */
kas_status kas_resize(const kas_raster *image, kas_box box, uint32_t w, uint32_t h, bool mirror,
                      kas_resize_scratch *scratch, uint8_t *out);

#endif
