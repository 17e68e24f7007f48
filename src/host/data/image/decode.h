/* Decodes JPEG (libjpeg-turbo) and PNG (libpng) from memory; both libraries are optional.
 *
 * A JPEG is decoded at 1/2, 1/4 or 1/8 of its size if the requested result is no larger than that,
 * and only the blocks that are needed are decoded, because that takes most of the time.
 *
 * Colours become those of the data set: grey is repeated for 3 channels, colours become their
 * luminance for 1.  Palettes and 16 bits become 8 bits; transparent pixels are laid over black;
 * CMYK is read as Adobe writes it, inverted. The orientation in EXIF is not applied, as in
 * other loaders.
 *
 * KAS_BAD_INPUT: damaged, truncated, another format, or more than 64 million pixels.  A truncated
 * JPEG, for which the library would give a grey rest, is refused.  KAS_UNSUPPORTED: a build without
 * the library. Messages name no file; the caller does. */
#ifndef KAS_DATA_IMAGE_DECODE_H
#define KAS_DATA_IMAGE_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/core/status.h"
#include "host/data/image/view.h"

#define KAS_PICTURE_LIMIT ((uint64_t)1 << 26) /* pixels */

/* Return the versions of the libraries, such as "2.1.5"; NULL = not in this build. */
const char *kas_jpeg_library(void);
const char *kas_png_library(void);

/* A decoded image. Zero-initialise it, use it for any number of images, and free it
 * with kas_picture_free. */
typedef struct kas_picture {
    uint8_t *pixels; /* [height][width][c] */
    size_t capacity;
    uint32_t width, height;
    kas_box box; /* the place of the requested box in `pixels` */
} kas_picture;
void kas_picture_free(kas_picture *picture);

/* Makes room for width x height x c; for the decoders. */
kas_status kas_picture_reserve(kas_picture *picture, uint32_t width, uint32_t height, uint32_t c);

/* Gets the size of an image from its header. */
kas_status kas_decode_size(const uint8_t *bytes, size_t size, uint32_t *width, uint32_t *height);

/* Decodes at least the part `box`, to at least w x h pixels if the image has that many. c is 1
 * or 3. */
kas_status kas_decode(const uint8_t *bytes, size_t size, uint32_t c, kas_box box, uint32_t w,
                      uint32_t h, kas_picture *out);

/* ---- one library each (decode_jpeg.c, decode_png.c) ------------------------------------------ */

kas_status kas_jpeg_size(const uint8_t *bytes, size_t size, uint32_t *width, uint32_t *height);
kas_status kas_jpeg_decode(const uint8_t *bytes, size_t size, uint32_t c, kas_box box, uint32_t w,
                           uint32_t h, kas_picture *out);
kas_status kas_png_size(const uint8_t *bytes, size_t size, uint32_t *width, uint32_t *height);
kas_status kas_png_decode(const uint8_t *bytes, size_t size, uint32_t c, kas_box box,
                          kas_picture *out);

#endif
