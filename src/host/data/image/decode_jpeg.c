#include "host/data/image/decode.h"

#ifdef KAS_HAVE_JPEG
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *kas_jpeg_library(void)
{
    return TEXT(LIBJPEG_TURBO_VERSION);
}

/* A decoder. The library ends a failed call by jumping to `escape`. */
typedef struct decoder {
    struct jpeg_decompress_struct jpeg; /* its err points to the next member */
    struct jpeg_error_mgr manager;
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
    uint8_t *cmyk; /* one line; owned */
} decoder;

static decoder *decoder_of(j_common_ptr jpeg)
{
    return (decoder *)(void *)jpeg; /* the first member */
}

static void on_error(j_common_ptr jpeg)
{
    decoder *d = decoder_of(jpeg);
    jpeg->err->format_message(jpeg, d->message);
    longjmp(d->escape, 1);
}

/* Handles the library's messages. Some of its warnings mean that pixels are missing or wrong. */
static void on_message(j_common_ptr jpeg, int level)
{
    static const int damage[] = {JWRN_HIT_MARKER, JWRN_HUFF_BAD_CODE, JWRN_JPEG_EOF,
                                 JWRN_MUST_RESYNC, JWRN_ARITH_BAD_CODE};
    for (size_t i = 0; level < 0 && i < sizeof damage / sizeof *damage; i++)
        if (jpeg->err->msg_code == damage[i])
            on_error(jpeg);
}

static void begin(decoder *d, const uint8_t *bytes, size_t size)
{
    jpeg_create_decompress(&d->jpeg);
    jpeg_mem_src(&d->jpeg, bytes, size);
    jpeg_read_header(&d->jpeg, TRUE);
}

static kas_status refused(decoder *d)
{
    return kas_fail(KAS_BAD_INPUT, "a damaged JPEG image: %s", d->message);
}

/* Only functions that get a pointer to the decoder call setjmp, because their local variables are
 * undefined after a jump. */
static void prepare(decoder *d)
{
    memset(d, 0, sizeof *d);
    d->jpeg.err = jpeg_std_error(&d->manager);
    d->manager.error_exit = on_error;
    d->manager.emit_message = on_message;
}

static void finish(decoder *d)
{
    jpeg_destroy_decompress(&d->jpeg);
    free(d->cmyk);
}

static kas_status read_size(decoder *d, const uint8_t *bytes, size_t size, uint32_t *width,
                            uint32_t *height)
{
    if (setjmp(d->escape))
        return refused(d);
    begin(d, bytes, size);
    *width = d->jpeg.image_width;
    *height = d->jpeg.image_height;
    return KAS_OK;
}

kas_status kas_jpeg_size(const uint8_t *bytes, size_t size, uint32_t *width, uint32_t *height)
{
    decoder d;
    prepare(&d);
    kas_status status = read_size(&d, bytes, size, width, height);
    finish(&d);
    return status;
}

/* Returns the smallest number of eighths (1, 2, 4 or 8) of the size at which the box still has w x
 * h pixels. */
static unsigned eighths_of(kas_box box, uint32_t w, uint32_t h)
{
    unsigned eighths = 1;
    while (eighths < 8 &&
           ((box.x1 - box.x0) * eighths < 8.0 * w || (box.y1 - box.y0) * eighths < 8.0 * h))
        eighths *= 2;
    return eighths;
}

static bool has_cmyk(const decoder *d)
{
    return d->jpeg.jpeg_color_space == JCS_CMYK || d->jpeg.jpeg_color_space == JCS_YCCK;
}

static void choose_colours(decoder *d, uint32_t c)
{
    d->jpeg.out_color_space = has_cmyk(d) ? JCS_CMYK : c == 1 ? JCS_GRAYSCALE : JCS_RGB;
}

/* Converts Adobe's CMYK, which is inverted: 255 means no ink. */
static void from_cmyk(const decoder *d, uint32_t width, uint32_t c, uint8_t *out)
{
    int flip = d->jpeg.saw_Adobe_marker ? 0 : 255;
    for (uint32_t i = 0; i < width; i++) {
        const uint8_t *p = d->cmyk + 4 * i;
        int rgb[3], key = p[3] ^ flip;
        for (int k = 0; k < 3; k++)
            rgb[k] = ((p[k] ^ flip) * key + 127) / 255;
        if (c == 1)
            out[i] = (uint8_t)((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);
        for (int k = 0; k < 3 && c == 3; k++)
            out[3 * i + (uint32_t)k] = (uint8_t)rgb[k];
    }
}

/* A range of lines or columns of the scaled image: [from, to) with a margin for the smoothing of
 * colours, which reads neighbouring pixels. */
typedef struct range {
    JDIMENSION first, count;
} range;

static range range_of(double from, double to, JDIMENSION length)
{
    enum { MARGIN = 2 };
    double low = fmax(0, floor(from) - MARGIN), high = fmin(length, ceil(to) + MARGIN);
    return (range){(JDIMENSION)low, (JDIMENSION)(high - low)};
}

static kas_status read_lines(decoder *d, range x, range y, uint32_t c, kas_picture *out)
{
    KAS_TRY(kas_picture_reserve(out, x.count, y.count, c));
    if (has_cmyk(d) && !(d->cmyk = malloc((size_t)4 * x.count)))
        return kas_fail(KAS_NO_MEMORY, "no memory for a line of an image");
    if (y.first > 0)
        jpeg_skip_scanlines(&d->jpeg, y.first);
    for (uint32_t row = 0; row < y.count; row++) {
        uint8_t *to = out->pixels + (size_t)row * x.count * c, *line = has_cmyk(d) ? d->cmyk : to;
        jpeg_read_scanlines(&d->jpeg, &line, 1);
        if (has_cmyk(d))
            from_cmyk(d, x.count, c, to);
    }
    return KAS_OK;
}

/* Decodes the image at `eighths` of its size. */
static kas_status decode(decoder *d, const uint8_t *bytes, size_t size, uint32_t c, kas_box box,
                         unsigned eighths, kas_picture *out)
{
    if (setjmp(d->escape))
        return refused(d);
    begin(d, bytes, size);
    double scale = eighths / 8.0;
    d->jpeg.scale_num = eighths;
    d->jpeg.scale_denom = 8;
    choose_colours(d, c);
    jpeg_start_decompress(&d->jpeg);
    range x = range_of(box.x0 * scale, box.x1 * scale, d->jpeg.output_width);
    range y = range_of(box.y0 * scale, box.y1 * scale, d->jpeg.output_height);
    if (x.count < d->jpeg.output_width)
        jpeg_crop_scanline(&d->jpeg, &x.first, &x.count); /* rounds the range up to whole blocks */
    out->box = (kas_box){box.x0 * scale - x.first, box.y0 * scale - y.first,
                         box.x1 * scale - x.first, box.y1 * scale - y.first};
    return read_lines(d, x, y, c, out);
}

kas_status kas_jpeg_decode(const uint8_t *bytes, size_t size, uint32_t c, kas_box box, uint32_t w,
                           uint32_t h, kas_picture *out)
{
    decoder d;
    prepare(&d);
    kas_status status = decode(&d, bytes, size, c, box, eighths_of(box, w, h), out);
    finish(&d);
    return status;
}

#else

const char *kas_jpeg_library(void)
{
    return NULL;
}

static kas_status missing(void)
{
    return kas_fail(KAS_UNSUPPORTED, "a JPEG image: this build of kas-gpu has no libjpeg-turbo "
                                     "(libjpeg62-turbo-dev)");
}

kas_status kas_jpeg_size(const uint8_t *bytes, size_t size, uint32_t *width, uint32_t *height)
{
    (void)bytes, (void)size, (void)width, (void)height;
    return missing();
}

kas_status kas_jpeg_decode(const uint8_t *bytes, size_t size, uint32_t c, kas_box box, uint32_t w,
                           uint32_t h, kas_picture *out)
{
    (void)bytes, (void)size, (void)c, (void)box, (void)w, (void)h, (void)out;
    return missing();
}
#endif
