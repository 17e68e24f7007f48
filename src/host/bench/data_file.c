#include "host/bench/data_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "host/core/random.h"
#include "host/data/dataset_write.h"
#include "host/data/image/resize.h"
#ifdef KAS_HAVE_JPEG
#include <setjmp.h>

#include <jpeglib.h>
#endif

/* Most of ImageNet's images have 500 x 375 pixels and 110 kB. */
enum { DISTINCT = 32, WIDTH = 500, HEIGHT = 375, SIDE = 224, TEST = 8, CLASSES = 10, QUALITY = 96 };

typedef struct source {
    uint8_t *image[DISTINCT];
    size_t size[DISTINCT];
} source;

static void source_free(source *s)
{
    for (int i = 0; i < DISTINCT; i++)
        free(s->image[i]);
}

/* Draws clouds at every scale, because photographs have detail at every scale: random pixels,
 * enlarged from 4 x 3, 8 x 6, ... to the whole size, where each layer has 0.85 of the amplitude of
 * the one before. */
static kas_status draw(uint32_t number, uint32_t width, uint32_t height, uint8_t *out)
{
    kas_rng rng = kas_rng_make(number, KAS_PURPOSE_TEST, 0);
    size_t size = (size_t)width * height * 3;
    kas_resize_scratch scratch = {0};
    uint8_t *small = malloc(size), *large = malloc(size);
    float *sum = calloc(size, sizeof *sum), amplitude = 0.5f;
    kas_status status = small && large && sum ? KAS_OK : kas_fail(KAS_NO_MEMORY, "no memory");
    for (uint32_t w = 4; status == KAS_OK && w <= width; w *= 2, amplitude *= 0.85f) {
        uint32_t h = (w * 3 + 3) / 4;
        for (size_t i = 0; i < (size_t)w * h * 3; i++)
            small[i] = (uint8_t)kas_rng_u32(&rng);
        const kas_raster raster = {small, w, h, 3};
        status = kas_resize(&raster, (kas_box){0, 0, w, h}, width, height, false, &scratch, large);
        for (size_t i = 0; i < size; i++)
            sum[i] += amplitude * ((float)large[i] - 127.5f);
    }
    for (size_t i = 0; status == KAS_OK && i < size; i++) {
        float value = 127.5f + sum[i];
        out[i] = value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
    }
    kas_resize_scratch_free(&scratch);
    free(small), free(large), free(sum);
    return status;
}

#ifdef KAS_HAVE_JPEG
typedef struct encoder {
    struct jpeg_compress_struct jpeg; /* the first member: on_error gets the encoder from it */
    struct jpeg_error_mgr manager;
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
    unsigned long size; /* of the result */
} encoder;

/* Handles an error of the library, whose own handler would end the program. */
static void on_error(j_common_ptr jpeg)
{
    encoder *e = (encoder *)(void *)jpeg;
    jpeg->err->format_message(jpeg, e->message);
    longjmp(e->escape, 1);
}

static void write_jpeg(encoder *e, const uint8_t *pixels, unsigned char **out)
{
    struct jpeg_compress_struct *jpeg = &e->jpeg;
    jpeg_create_compress(jpeg);
    jpeg_mem_dest(jpeg, out, &e->size);
    jpeg->image_width = WIDTH;
    jpeg->image_height = HEIGHT;
    jpeg->input_components = 3;
    jpeg->in_color_space = JCS_RGB;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, QUALITY, TRUE);
    jpeg_start_compress(jpeg, TRUE);
    for (uint32_t y = 0; y < HEIGHT; y++) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + (size_t)y * WIDTH * 3);
        jpeg_write_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_compress(jpeg);
}

/* Encodes an image into memory that the library allocates. No local variable changes
 * after setjmp. */
static kas_status encode(encoder *e, const uint8_t *pixels, source *s, int number)
{
    memset(e, 0, sizeof *e);
    e->jpeg.err = jpeg_std_error(&e->manager);
    e->manager.error_exit = on_error;
    if (setjmp(e->escape)) {
        jpeg_destroy_compress(&e->jpeg);
        return kas_fail(KAS_NO_MEMORY, "libjpeg: %s", e->message);
    }
    write_jpeg(e, pixels, &s->image[number]);
    jpeg_destroy_compress(&e->jpeg);
    s->size[number] = e->size;
    return KAS_OK;
}

static kas_status make_jpegs(source *s)
{
    encoder e;
    uint8_t *pixels = malloc((size_t)WIDTH * HEIGHT * 3);
    kas_status status = pixels ? KAS_OK : kas_fail(KAS_NO_MEMORY, "no memory for an image");
    for (int i = 0; i < DISTINCT && status == KAS_OK; i++) {
        status = draw((uint32_t)i, WIDTH, HEIGHT, pixels);
        if (status == KAS_OK)
            status = encode(&e, pixels, s, i);
    }
    free(pixels);
    return status;
}
#else
static kas_status make_jpegs(source *s)
{
    (void)s;
    return kas_fail(KAS_UNSUPPORTED, "this build of kas-gpu has no libjpeg-turbo "
                                     "(libjpeg62-turbo-dev)");
}
#endif

static kas_status make_pixels(source *s)
{
    for (int i = 0; i < DISTINCT; i++) {
        s->size[i] = (size_t)SIDE * SIDE * 3;
        s->image[i] = malloc(s->size[i]);
        if (!s->image[i])
            return kas_fail(KAS_NO_MEMORY, "no memory for an image");
        KAS_TRY(draw((uint32_t)i, SIDE, SIDE, s->image[i]));
    }
    return KAS_OK;
}

static kas_status give(void *context, const kas_images *images, uint32_t first, uint32_t count,
                       uint8_t *out)
{
    const source *s = context;
    (void)images;
    for (uint32_t i = first; i < first + count; i++) {
        memcpy(out, s->image[i % DISTINCT], s->size[i % DISTINCT]);
        out += s->size[i % DISTINCT];
    }
    return KAS_OK;
}

/* Allocates places and checksums, which the set owns until free_places. */
static kas_status make_places(const source *s, kas_images *images)
{
    uint64_t *offset = malloc(((size_t)images->count + 1) * sizeof *offset);
    uint32_t *crc = malloc(images->count * sizeof *crc);
    images->storage = (kas_storage){.count = images->count, .offset = offset, .crc = crc};
    if (!offset || !crc)
        return kas_fail(KAS_NO_MEMORY, "no memory for the places of images");
    offset[0] = 0;
    for (uint32_t i = 0; i < images->count; i++) {
        offset[i + 1] = offset[i] + s->size[i % DISTINCT];
        crc[i] = (uint32_t)crc32_z(0, s->image[i % DISTINCT], s->size[i % DISTINCT]);
    }
    return KAS_OK;
}

static void free_places(kas_images *images)
{
    free((void *)(uintptr_t)images->storage.offset);
    free((void *)(uintptr_t)images->storage.crc);
}

static kas_status write_jpegs(const char *path, source *s, kas_dataset *d)
{
    for (int k = 0; k < 3; k++)
        d->mean[k] = 0.5f, d->std[k] = 0.25f;
    d->encoded = true;
    kas_status status = make_places(s, &d->train);
    if (status == KAS_OK)
        status = make_places(s, &d->test);
    if (status == KAS_OK)
        status = kas_dataset_write_encoded(path, d, give, s);
    free_places(&d->train);
    free_places(&d->test);
    return status;
}

kas_status kas_bench_data_file(const char *path, kas_bench_storage storage, uint32_t count)
{
    source s = {0};
    kas_dataset *d = NULL;
    bool jpeg = storage == KAS_BENCH_JPEG;
    kas_status status;
    KAS_TRY_GOTO(jpeg ? make_jpegs(&s) : make_pixels(&s), out);
    KAS_TRY_GOTO(kas_dataset_create(1, 1, 3, CLASSES, count, TEST, &d), out);
    free(d->train.pixels), free(d->test.pixels); /* pixels come from the source */
    d->train.pixels = d->test.pixels = NULL;
    d->h = d->w = SIDE;
    for (uint32_t i = 0; i < count; i++)
        d->train.labels[i] = (uint16_t)(i % CLASSES);
    status = jpeg ? write_jpegs(path, &s, d) : kas_dataset_write_pixels(path, d, give, &s, false);
out:
    kas_dataset_close(d);
    source_free(&s);
    return status;
}
