/* Encoded images: the part that is shown, resampling against its formula in float64, JPEG and PNG
 * of every kind, whole and in part, and damage. */
#include "support/test.h"

#include "host/data/image/render.h"

#if defined(KAS_HAVE_JPEG) && defined(KAS_HAVE_PNG)
#include <math.h>

#include "host/core/buf.h"
#include "host/core/random.h"
#include "image_fixture.h"

/* ---- resampling ------------------------------------------------------------------------------ */

/* The weight of pixel i in result j, not normalised: the formula of resize.h. */
static double weight(double from, double to, uint32_t count, uint32_t i, uint32_t j)
{
    double s = (to - from) / count, x = from + (j + 0.5) * s;
    if (i < floor(from) || i >= ceil(to))
        return 0;
    return fmax(0, 1 - fabs(i + 0.5 - x) / fmax(1, s));
}

static double expected(const kas_raster *in, kas_box box, uint32_t w, uint32_t h, uint32_t x,
                       uint32_t y, uint32_t k)
{
    double sum = 0, weights = 0;
    for (uint32_t row = 0; row < in->height; row++) {
        double across = weight(box.y0, box.y1, h, row, y);
        for (uint32_t column = 0; across > 0 && column < in->width; column++) {
            double both = across * weight(box.x0, box.x1, w, column, x);
            sum += both * in->pixels[(row * in->width + column) * in->c + k];
            weights += both;
        }
    }
    return sum / weights;
}

TEST(resampling_follows_its_formula)
{
    kas_rng rng = kas_rng_make(1, KAS_PURPOSE_TEST, 0);
    kas_resize_scratch scratch = {0};
    double worst = 0;
    for (int i = 0; i < 60; i++) {
        uint32_t width = 1 + kas_rng_below(&rng, 40), height = 1 + kas_rng_below(&rng, 40);
        uint32_t c = 1 + kas_rng_below(&rng, 4), w = 1 + kas_rng_below(&rng, 24),
                 h = 1 + kas_rng_below(&rng, 24);
        uint8_t in[40 * 40 * 4], out[24 * 24 * 4];
        for (size_t p = 0; p < sizeof in; p++)
            in[p] = (uint8_t)kas_rng_u32(&rng);
        kas_box box = {0, 0, width, height};
        if (i % 3) { /* a part, with corners between pixels or on them */
            box.x0 = kas_rng_unit(&rng) * width * 0.8;
            box.y0 = kas_rng_unit(&rng) * height * 0.8;
            if (i % 3 == 1)
                box.x0 = floor(box.x0), box.y0 = floor(box.y0);
            box.x1 = box.x0 + (width - box.x0) * (0.1 + 0.9 * kas_rng_unit(&rng));
            box.y1 = box.y0 + (height - box.y0) * (0.1 + 0.9 * kas_rng_unit(&rng));
        }
        const kas_raster raster = {in, width, height, c};
        bool mirror = i % 2;
        memset(out, 0xAA, sizeof out);
        OK(kas_resize(&raster, box, w, h, mirror, &scratch, out));
        for (uint32_t y = 0; y < h; y++)
            for (uint32_t x = 0; x < w; x++)
                for (uint32_t k = 0; k < c; k++) {
                    double want = expected(&raster, box, w, h, mirror ? w - 1 - x : x, y, k);
                    double error = fabs(out[(y * w + x) * c + k] - want);
                    worst = fmax(worst, error);
                    assert_true(error <= 1.2);
                }
    }
    print_message("    largest error %.3f levels, tolerance 1.2: two roundings to 8 bits\n", worst);
    /* What needs no arithmetic is exact. */
    uint8_t flat[6 * 6], same[6 * 6], out[30 * 30];
    for (int i = 0; i < 36; i++)
        flat[i] = 201, same[i] = (uint8_t)(7 * i);
    const kas_raster constant = {flat, 6, 6, 1}, own = {same, 6, 6, 1};
    OK(kas_resize(&constant, (kas_box){0.3, 0.7, 5.1, 5.9}, 30, 30, false, &scratch, out));
    for (int i = 0; i < 900; i++)
        assert_int_equal(out[i], 201);
    OK(kas_resize(&own, (kas_box){0, 0, 6, 6}, 6, 6, false, &scratch, out));
    assert_memory_equal(out, same, sizeof same);
    kas_resize_scratch_free(&scratch);
}

/* ---- views ----------------------------------------------------------------------------------- */

TEST(views_stay_inside)
{
    const uint32_t sizes[][2] = {{500, 375}, {375, 500}, {1, 1}, {1, 900}, {900, 1}, {224, 224}};
    bool mirror;
    double least = 1, most = 0;
    int mirrored = 0, draws = 0;
    for (size_t s = 0; s < 6; s++) {
        uint32_t width = sizes[s][0], height = sizes[s][1];
        for (uint32_t p = 0; p < 400; p++) {
            const kas_view view = {true, true, 0.08, 9, 3};
            kas_box b = kas_view_box(&view, p, width, height, 32, 32, &mirror), again;
            assert_true(b.x0 >= 0 && b.y0 >= 0 && b.x1 <= width && b.y1 <= height);
            assert_true(b.x1 > b.x0 && b.y1 > b.y0);
            bool same;
            again = kas_view_box(&view, p, width, height, 32, 32, &same);
            assert_memory_equal(&again, &b, sizeof b);
            assert_int_equal(same, mirror);
            mirrored += mirror;
            draws++;
            if (s > 1)
                continue;
            double w = b.x1 - b.x0, h = b.y1 - b.y0, share = w * h / (500 * 375);
            least = fmin(least, share), most = fmax(most, share);
            assert_true(w / h > 0.75 * 0.97 && w / h < 4.0 / 3 * 1.03); /* rounded to pixels */
        }
    }
    print_message("    shares of the area drawn: %.3f to %.3f\n", least, most);
    assert_true(least > 0.078 && least < 0.12 && most > 0.75);
    assert_in_range(mirrored, draws * 45 / 100, draws * 55 / 100);
    const kas_view other = {true, true, 0.08, 9, 4}, evaluation = {0};
    const kas_view first = {true, true, 0.08, 9, 3};
    kas_box a = kas_view_box(&first, 5, 500, 375, 32, 32, &mirror);
    kas_box b = kas_view_box(&other, 5, 500, 375, 32, 32, &mirror);
    assert_memory_not_equal(&a, &b, sizeof a); /* another epoch */
    b = kas_view_box(&evaluation, 5, 512, 256, 224, 224, &mirror);
    assert_true(b.x0 == 144 && b.x1 == 368 && b.y0 == 16 && b.y1 == 240 && !mirror);
}

/* ---- decoding -------------------------------------------------------------------------------- */

static kas_box everything(uint32_t width, uint32_t height)
{
    return (kas_box){0, 0, width, height};
}

/* Mean difference of a whole picture from the pixels it was made of. */
static double mean_error(const kas_picture *p, const uint8_t *pixels, uint32_t c)
{
    double sum = 0;
    size_t size = (size_t)p->width * p->height * c;
    for (size_t i = 0; i < size; i++)
        sum += abs(p->pixels[i] - pixels[i]);
    return sum / (double)size;
}

TEST(jpeg_images_of_every_kind)
{
    const uint32_t sizes[][2] = {{1, 1}, {7, 3}, {8, 8}, {17, 33}, {640, 11}, {100, 75}};
    kas_picture p = {0};
    for (int i = 0; i < 6; i++)
        for (int progressive = 0; progressive < 2; progressive++)
            for (uint32_t c = 1; c <= 3; c += 2) {
                uint32_t width = sizes[i][0], height = sizes[i][1], w, h;
                size_t size;
                uint8_t *pixels = fixture_pixels(3, width, height, c);
                uint8_t *jpeg = fixture_jpeg(pixels, width, height, (int)c, 97, progressive, &size);
                OK(kas_decode_size(jpeg, size, &w, &h));
                assert_true(w == width && h == height);
                OK(kas_decode(jpeg, size, c, everything(w, h), w, h, &p));
                assert_true(p.width == width && p.height == height);
                assert_true(mean_error(&p, pixels, c) < 4);
                OK(kas_decode(jpeg, size, 4 - c, everything(w, h), w, h, &p)); /* 1 <-> 3 */
                for (uint32_t k = 0; c == 1 && k < w * h; k++)
                    assert_true(p.pixels[3 * k] == p.pixels[3 * k + 1] &&
                                p.pixels[3 * k] == p.pixels[3 * k + 2]);
                free(pixels);
                free(jpeg);
            }
    /* CMYK as Adobe writes it: 255 is no ink. */
    uint8_t ink[16 * 16 * 4];
    for (int i = 0; i < 256; i++)
        ink[4 * i] = 255, ink[4 * i + 1] = 128, ink[4 * i + 2] = 0, ink[4 * i + 3] = 200;
    size_t size;
    uint8_t *jpeg = fixture_jpeg(ink, 16, 16, 4, 100, 0, &size);
    OK(kas_decode(jpeg, size, 3, everything(16, 16), 16, 16, &p));
    assert_in_range(p.pixels[0], 198, 202);
    assert_in_range(p.pixels[1], 98, 102);
    assert_in_range(p.pixels[2], 0, 2);
    free(jpeg);
    kas_picture_free(&p);
}

/* A part that is decoded alone has the pixels of the whole. */
TEST(parts_are_those_of_the_whole)
{
    enum { WIDTH = 331, HEIGHT = 217 };
    kas_rng rng = kas_rng_make(2, KAS_PURPOSE_TEST, 0);
    kas_picture whole = {0}, part = {0};
    uint8_t *pixels = fixture_pixels(1, WIDTH, HEIGHT, 3);
    for (int i = 0; i < WIDTH * HEIGHT * 3; i++) /* detail, which shows neighbours of blocks */
        pixels[i] = (uint8_t)((pixels[i] + kas_rng_below(&rng, 90)) / 2);
    for (int progressive = 0; progressive < 2; progressive++) {
        size_t size;
        uint8_t *jpeg = fixture_jpeg(pixels, WIDTH, HEIGHT, 3, 85, progressive, &size);
        for (int i = 0; i < 60; i++) {
            uint32_t x0 = kas_rng_below(&rng, WIDTH - 8), y0 = kas_rng_below(&rng, HEIGHT - 8);
            uint32_t x1 = x0 + 8 + kas_rng_below(&rng, WIDTH - x0 - 7),
                     y1 = y0 + 8 + kas_rng_below(&rng, HEIGHT - y0 - 7);
            const kas_box box = {x0, y0, x1, y1};
            uint32_t eighths = 1u << kas_rng_below(&rng, 4);
            uint32_t w = (x1 - x0) * eighths / 8, h = (y1 - y0) * eighths / 8;
            OK(kas_decode(jpeg, size, 3, box, w ? w : 1, h ? h : 1, &part));
            double scale = (part.box.x1 - part.box.x0) / (x1 - x0);
            OK(kas_decode(jpeg, size, 3, everything(WIDTH, HEIGHT), (uint32_t)(WIDTH * scale),
                          (uint32_t)(HEIGHT * scale), &whole));
            assert_true(whole.box.x1 == WIDTH * scale);
            uint32_t dx = (uint32_t)lround(x0 * scale - part.box.x0);
            uint32_t dy = (uint32_t)lround(y0 * scale - part.box.y0);
            for (uint32_t y = (uint32_t)part.box.y0; y < ceil(part.box.y1); y++)
                for (uint32_t x = (uint32_t)part.box.x0; x < ceil(part.box.x1); x++)
                    assert_memory_equal(part.pixels + (y * part.width + x) * 3,
                                        whole.pixels + ((y + dy) * whole.width + x + dx) * 3, 3);
        }
        free(jpeg);
    }
    free(pixels);
    kas_picture_free(&whole);
    kas_picture_free(&part);
}

TEST(png_images_of_every_kind)
{
    kas_picture p = {0};
    size_t size;
    uint32_t w, h;
    uint8_t *pixels = fixture_pixels(5, 13, 9, 3), *png;
    png = fixture_png(pixels, 13, 9, PNG_FORMAT_RGB, &size);
    OK(kas_decode_size(png, size, &w, &h));
    assert_true(w == 13 && h == 9);
    OK(kas_decode(png, size, 3, everything(13, 9), 4, 4, &p));
    assert_memory_equal(p.pixels, pixels, 13 * 9 * 3);
    free(png);
    png = fixture_png(pixels, 13, 9, PNG_FORMAT_GRAY, &size);
    OK(kas_decode(png, size, 1, everything(13, 9), 4, 4, &p));
    assert_memory_equal(p.pixels, pixels, 13 * 9);
    OK(kas_decode(png, size, 3, everything(13, 9), 4, 4, &p));
    for (int i = 0; i < 13 * 9 * 3; i++)
        assert_int_equal(p.pixels[i], pixels[i / 3]);
    free(png);
    const uint8_t half[4] = {200, 100, 50, 0}; /* not to be seen: black */
    png = fixture_png(half, 1, 1, PNG_FORMAT_RGBA, &size);
    OK(kas_decode(png, size, 3, everything(1, 1), 1, 1, &p));
    assert_true(p.pixels[0] == 0 && p.pixels[1] == 0 && p.pixels[2] == 0);
    free(png);
    free(pixels);
    kas_picture_free(&p);
}

static void take_bytes(png_structp png, png_bytep bytes, png_size_t size)
{
    kas_buf_add(png_get_io_ptr(png), bytes, size);
}

/* What other programs write: 16 bits, and nothing that says how bright they are. */
TEST(png_images_of_16_bits)
{
    kas_picture p = {0};
    kas_buf file = {0};
    png_byte row[] = {0, 0, 0x40, 0, 0x80, 0, 0xff, 0xff};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, &file, take_bytes, NULL);
    png_set_IHDR(png, info, 4, 1, 16, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    png_write_row(png, row);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    OK(kas_decode((const uint8_t *)file.data, file.size, 1, everything(4, 1), 4, 1, &p));
    const uint8_t expected[] = {0, 64, 128, 255};
    assert_memory_equal(p.pixels, expected, sizeof expected);
    kas_buf_free(&file);
    kas_picture_free(&p);
}

static void refused(const uint8_t *bytes, size_t size, const char *words)
{
    kas_renderer renderer = {0};
    const kas_view view = {0};
    uint8_t out[8 * 8 * 3];
    assert_int_equal(kas_render(&renderer, &view, 0, bytes, size, 8, 8, 3, out), KAS_BAD_INPUT);
    if (!strstr(kas_error(), words))
        fail_msg("expected \"%s\" in: %s", words, kas_error());
    print_message("    %s\n", kas_error());
    kas_renderer_free(&renderer);
}

TEST(damage_is_refused)
{
    uint8_t *pixels = fixture_pixels(2, 60, 50, 3), *images[2];
    size_t size[2];
    images[0] = fixture_jpeg(pixels, 60, 50, 3, 90, 0, &size[0]);
    images[1] = fixture_png(pixels, 60, 50, PNG_FORMAT_RGB, &size[1]);
    refused(images[0], size[0] / 2, "damaged JPEG");
    refused(images[0], 20, "JPEG");
    refused(images[1], size[1] / 2, "PNG");
    refused((const uint8_t *)"GIF89a, a gif", 13, "begin with 47 49 46 38");
    refused((const uint8_t *)"", 0, "found 0 bytes");
    images[1][18] = 0xFF, images[1][19] = 0xFF; /* the width, now with a wrong checksum */
    refused(images[1], size[1], "PNG");
    /* Random damage: an answer of either kind, and no crash. */
    kas_rng rng = kas_rng_make(3, KAS_PURPOSE_TEST, 0);
    kas_renderer renderer = {0};
    const kas_view view = {0};
    uint8_t out[8 * 8 * 3];
    int accepted = 0;
    images[1][18] = images[1][19] = 0;
    images[1][19] = 60;
    for (int i = 0; i < 600; i++) {
        int which = i % 2;
        size_t at = kas_rng_below(&rng, (uint32_t)size[which]);
        uint8_t kept = images[which][at];
        images[which][at] ^= (uint8_t)(1u << kas_rng_below(&rng, 8));
        kas_status status =
            kas_render(&renderer, &view, 0, images[which], size[which], 8, 8, 3, out);
        assert_true(status == KAS_OK || (status == KAS_BAD_INPUT && strlen(kas_error()) > 10));
        accepted += status == KAS_OK;
        images[which][at] = kept;
    }
    print_message("    of 600 images with one changed bit %d were decoded all the same\n",
                  accepted);
    kas_renderer_free(&renderer);
    free(pixels), free(images[0]), free(images[1]);
}

RUN_TESTS()

#else

TEST(without_the_libraries)
{
    print_message("SKIPPED: this build has no libjpeg-turbo or no libpng\n");
    skip();
}

RUN_TESTS()
#endif
