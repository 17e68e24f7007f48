/* Resampling of a part of an image: bilinear, with the filter widened where the image shrinks.
 *
 * Pixel i of a line has its middle at i + 1/2.  With s = (x1 - x0) / w, pixel j of the result lies
 * at x = x0 + (j + 1/2) s, and is the mean of the pixels i weighted by max(0, 1 - |i + 1/2 - x| /
 * max(1, s)). Only pixels between floor(x0) and ceil(x1) count; at a border the weights that are
 * left make up
 * 1.  So enlarging (s < 1) is plain bilinear interpolation, and shrinking averages over all pixels,
 * as PIL and torchvision do.  First along lines, rounded to 8 bits, then along columns.
 *
 * Weights are rounded to multiples of 2^-14 that sum to 1, and all else is integers: the same bits
 * on every machine. */
#ifndef KAS_DATA_IMAGE_RESIZE_H
#define KAS_DATA_IMAGE_RESIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/core/status.h"
#include "host/data/image/view.h"

/* Memory of one thread. Zero-initialise; freed with kas_resize_scratch_free. */
typedef struct kas_resize_scratch {
    void *memory;
    size_t size;
} kas_resize_scratch;
void kas_resize_scratch_free(kas_resize_scratch *scratch);

typedef struct kas_raster {
    const uint8_t *pixels; /* [height][width][c] */
    uint32_t width, height, c;
} kas_raster;

/* The part `box` of an image as w x h pixels, mirrored left to right when asked; out: [h][w][c].
 * The box has an area and lies in the image up to rounding; c is 1 to 4. KAS_NO_MEMORY. */
kas_status kas_resize(const kas_raster *image, kas_box box, uint32_t w, uint32_t h, bool mirror,
                      kas_resize_scratch *scratch, uint8_t *out);

#endif
