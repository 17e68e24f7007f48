#include "host/data/image/decode.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void kas_picture_free(kas_picture *picture)
{
    free(picture->pixels);
    *picture = (kas_picture){0};
}

kas_status kas_picture_reserve(kas_picture *p, uint32_t width, uint32_t height, uint32_t c)
{
    size_t wanted = (size_t)width * height * c;
    if (wanted > p->capacity) {
        free(p->pixels);
        p->capacity = 0;
        p->pixels = malloc(wanted);
        if (!p->pixels)
            return kas_fail(KAS_NO_MEMORY, "no memory for %" PRIu32 " x %" PRIu32 " pixels", width,
                            height);
        p->capacity = wanted;
    }
    p->width = width;
    p->height = height;
    return KAS_OK;
}

typedef enum format { JPEG, PNG, OTHER } format;

static format format_of(const uint8_t *bytes, size_t size)
{
    static const uint8_t jpeg[] = {0xFF, 0xD8, 0xFF}, png[] = {0x89, 'P', 'N', 'G', '\r', '\n'};
    if (size >= sizeof jpeg && memcmp(bytes, jpeg, sizeof jpeg) == 0)
        return JPEG;
    return size >= sizeof png && memcmp(bytes, png, sizeof png) == 0 ? PNG : OTHER;
}

static kas_status unknown(const uint8_t *bytes, size_t size)
{
    uint8_t start[4] = {0};
    memcpy(start, bytes, size < 4 ? size : 4);
    return kas_fail(KAS_BAD_INPUT,
                    "expected a JPEG or PNG image, found %zu bytes that begin with %02x %02x %02x "
                    "%02x",
                    size, start[0], start[1], start[2], start[3]);
}

static kas_status check_size(uint32_t width, uint32_t height)
{
    if (width < 1 || height < 1 || width > 65535 || height > 65535 ||
        (uint64_t)width * height > KAS_PICTURE_LIMIT)
        return kas_fail(KAS_BAD_INPUT,
                        "expected sides of 1 to 65535 and at most %" PRIu64
                        " pixels, found %" PRIu32 " x %" PRIu32,
                        KAS_PICTURE_LIMIT, width, height);
    return KAS_OK;
}

kas_status kas_decode_size(const uint8_t *bytes, size_t size, uint32_t *width, uint32_t *height)
{
    switch (format_of(bytes, size)) {
    case JPEG:
        KAS_TRY(kas_jpeg_size(bytes, size, width, height));
        break;
    case PNG:
        KAS_TRY(kas_png_size(bytes, size, width, height));
        break;
    default:
        return unknown(bytes, size);
    }
    return check_size(*width, *height);
}

kas_status kas_decode(const uint8_t *bytes, size_t size, uint32_t c, kas_box box, uint32_t w,
                      uint32_t h, kas_picture *out)
{
    switch (format_of(bytes, size)) {
    case JPEG:
        return kas_jpeg_decode(bytes, size, c, box, w, h, out);
    case PNG:
        return kas_png_decode(bytes, size, c, box, out);
    default:
        return unknown(bytes, size);
    }
}
