/* For tests: makes JPEG and PNG images in memory, of pixels that change smoothly, so that lossy
 * compression keeps them. */
#ifndef KAS_TESTS_UNIT_DATA_IMAGE_FIXTURE_H
#define KAS_TESTS_UNIT_DATA_IMAGE_FIXTURE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

/* Returns channel k at (x, y) of picture `number`. */
static inline uint8_t fixture_pixel(uint32_t number, uint32_t x, uint32_t y, uint32_t k)
{
    uint32_t wave = (x * (3 + number % 5) + y * (2 + k) + 40 * k + 17 * number) % 510;
    return (uint8_t)(wave < 255 ? wave : 509 - wave);
}

static inline uint8_t *fixture_pixels(uint32_t number, uint32_t width, uint32_t height, uint32_t c)
{
    uint8_t *pixels = malloc((size_t)width * height * c);
    if (!pixels)
        abort();
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t k = 0; k < c; k++)
                pixels[((size_t)y * width + x) * c + k] = fixture_pixel(number, x, y, k);
    return pixels;
}

/* Makes a JPEG of c channels: 1, 3 or 4 (CMYK). The caller frees it with free(). */
static inline uint8_t *fixture_jpeg(const uint8_t *pixels, uint32_t width, uint32_t height, int c,
                                    int quality, int progressive, size_t *size)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr manager;
    unsigned char *out = NULL;
    unsigned long length = 0;
    jpeg.err = jpeg_std_error(&manager);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &out, &length);
    jpeg.image_width = width;
    jpeg.image_height = height;
    jpeg.input_components = c;
    jpeg.in_color_space = c == 1 ? JCS_GRAYSCALE : c == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, quality, TRUE);
    if (progressive)
        jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    for (uint32_t y = 0; y < height; y++) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + (size_t)y * width * (size_t)c);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    *size = length;
    return out;
}

/* Makes a PNG; `format` is PNG_FORMAT_GRAY, PNG_FORMAT_RGB or PNG_FORMAT_RGBA. The caller frees it
 * with free(). */
static inline uint8_t *fixture_png(const void *pixels, uint32_t width, uint32_t height,
                                   png_uint_32 format, size_t *size)
{
    png_image image = {
        .version = PNG_IMAGE_VERSION, .width = width, .height = height, .format = format};
    png_alloc_size_t length = 0;
    if (!png_image_write_get_memory_size(image, length, 0, pixels, 0, NULL))
        abort();
    uint8_t *out = malloc(length);
    if (!out || !png_image_write_to_memory(&image, out, &length, 0, pixels, 0, NULL))
        abort();
    *size = length;
    return out;
}

#endif
