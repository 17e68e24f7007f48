#include "host/data/image/decode.h"

#ifdef KAS_HAVE_PNG
#include <png.h>

const char *kas_png_library(void)
{
    return PNG_LIBPNG_VER_STRING;
}

/* Begins decoding. On success the caller ends it with png_image_free. */
static kas_status begin(const uint8_t *bytes, size_t size, png_image *image)
{
    *image = (png_image){.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_memory(image, bytes, size))
        return kas_fail(KAS_BAD_INPUT, "a PNG image that cannot be read: %s", image->message);
    /* Values of 16 bits are sRGB like those of 8 where the file says nothing; libpng takes them for
     * linear. */
    image->flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
    return KAS_OK;
}

kas_status kas_png_size(const uint8_t *bytes, size_t size, uint32_t *width, uint32_t *height)
{
    png_image image;
    KAS_TRY(begin(bytes, size, &image));
    *width = image.width;
    *height = image.height;
    png_image_free(&image);
    return KAS_OK;
}

kas_status kas_png_decode(const uint8_t *bytes, size_t size, uint32_t c, kas_box box,
                          kas_picture *out)
{
    static const png_color black = {0, 0, 0};
    png_image image;
    KAS_TRY(begin(bytes, size, &image));
    image.format = c == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    kas_status status = kas_picture_reserve(out, image.width, image.height, c);
    if (status == KAS_OK && !png_image_finish_read(&image, &black, out->pixels, 0, NULL))
        status = kas_fail(KAS_BAD_INPUT, "a damaged PNG image: %s", image.message);
    png_image_free(&image);
    out->box = box;
    return status;
}

#else

const char *kas_png_library(void)
{
    return NULL;
}

static kas_status missing(void)
{
    return kas_fail(KAS_UNSUPPORTED,
                    "a PNG image: this build of kas-gpu has no libpng (libpng-dev)");
}

kas_status kas_png_size(const uint8_t *bytes, size_t size, uint32_t *width, uint32_t *height)
{
    (void)bytes, (void)size, (void)width, (void)height;
    return missing();
}

kas_status kas_png_decode(const uint8_t *bytes, size_t size, uint32_t c, kas_box box,
                          kas_picture *out)
{
    (void)bytes, (void)size, (void)c, (void)box, (void)out;
    return missing();
}
#endif
