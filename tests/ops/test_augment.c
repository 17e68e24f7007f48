/* Batches from bytes: gather, normalise, crop, mirror, erase, mix, pad the last batch. */
#include "op_case.h"

enum { IMAGES = 11, ORDER = 9 };

typedef struct source {
    int h, w, c;
    uint8_t *pixels; /* host */
    uint16_t label[IMAGES];
    uint32_t order[ORDER];
    kas_augment augment; /* device pointers */
} source;

static source make_source(int h, int w, int c, uint32_t cursor, uint32_t epoch)
{
    source s = {.h = h, .w = w, .c = c};
    const size_t bytes = (size_t)IMAGES * h * w * c;
    kas_rng rng = kas_rng_make(1, KAS_PURPOSE_TEST, 1);
    s.pixels = malloc(bytes);
    assert_non_null(s.pixels);
    for (size_t i = 0; i < bytes; i++)
        s.pixels[i] = (uint8_t)kas_rng_below(&rng, 256);
    for (int i = 0; i < IMAGES; i++)
        s.label[i] = (uint16_t)(100 + i);
    for (int i = 0; i < ORDER; i++)
        s.order[i] = (uint32_t)(i * 7 % IMAGES);
    const kas_step_state state = {.cursor = cursor, .epoch = epoch};
    s.augment = (kas_augment){.pixels = upload(s.pixels, bytes),
                              .labels = upload(s.label, sizeof s.label),
                              .order = upload(s.order, sizeof s.order),
                              .count = ORDER,
                              .state = upload(&state, sizeof state),
                              .mean = {0.5f, 0.4f, 0.3f, 0.2f},
                              .std = {0.2f, 0.25f, 0.3f, 0.35f},
                              .seed = 77};
    return s;
}

static void free_source(source *s)
{
    FREE((void *)s->augment.pixels, (void *)s->augment.labels, (void *)s->augment.order,
         s->augment.state);
    free(s->pixels);
}

/* The four numbers of `use` for the image at a position. */
static void draw(const source *s, uint32_t position, uint32_t use, uint32_t epoch, uint32_t bits[4])
{
    const kas_rng rng = kas_rng_make(s->augment.seed, KAS_PURPOSE_AUGMENT, 0);
    kas_philox4x32((uint32_t[4]){position, use, epoch, 0}, rng.key, bits);
}

static int below(uint32_t bits, int n)
{
    return (int)((uint64_t)bits * (uint64_t)n >> 32);
}

typedef struct rectangle {
    int top, left, h, w;
} rectangle;

static bool holds(rectangle r, int row, int col)
{
    return row >= r.top && row < r.top + r.h && col >= r.left && col < r.left + r.w;
}

/* What is erased of an image: by cutout, and by random erasing. */
static rectangle cut_of(const source *s, uint32_t position, uint32_t epoch)
{
    const int side = s->augment.cutout;
    uint32_t bits[4];
    draw(s, position, 1, epoch, bits);
    return (rectangle){below(bits[0], s->h) - side / 2, below(bits[1], s->w) - side / 2, side,
                       side};
}

static rectangle erased_of(const source *s, uint32_t position, uint32_t epoch)
{
    uint32_t bits[4];
    draw(s, position, 0, epoch, bits);
    if (bits[3] / 0x1p32 >= s->augment.erase)
        return (rectangle){0};
    for (uint32_t attempt = 0; attempt < 10; attempt++) {
        draw(s, position, 2 + attempt, epoch, bits);
        const double share = 0.02 + 0.31 * bits[0] / 0x1p32, area = share * s->h * s->w;
        const double ratio = 0.3 * pow(3.3 / 0.3, bits[1] / 0x1p32);
        const int h = (int)floor(sqrt(area * ratio) + 0.5),
                  w = (int)floor(sqrt(area / ratio) + 0.5);
        if (h < s->h && w < s->w)
            return (rectangle){below(bits[2], s->h - h + 1), below(bits[3], s->w - w + 1), h, w};
    }
    return (rectangle){0};
}

/* What the header says of one image, in double. */
static double own_pixel(const source *s, uint32_t position, uint32_t epoch, int c, int row, int col)
{
    const kas_augment *a = &s->augment;
    uint32_t bits[4];
    if (position >= ORDER)
        return 0;
    if (a->cutout && holds(cut_of(s, position, epoch), row, col))
        return 0;
    if (holds(erased_of(s, position, epoch), row, col))
        return 0;
    draw(s, position, 0, epoch, bits);
    if (a->flip && bits[2] >> 31)
        col = s->w - 1 - col;
    row += below(bits[0], 2 * a->crop_pad + 1) - a->crop_pad;
    col += below(bits[1], 2 * a->crop_pad + 1) - a->crop_pad;
    if (row < 0 || row >= s->h || col < 0 || col >= s->w)
        return 0;
    const uint8_t pixel =
        s->pixels[(((size_t)s->order[position] * s->h + row) * s->w + col) * s->c + c];
    return (pixel / 255.0 - (double)a->mean[c]) / (double)a->std[c];
}

enum { BATCH = 4, HEIGHT = 9, WIDTH = 13 };

/* One thing to try; `row` NULL: images are not mixed. */
typedef struct attempt {
    int c, crop_pad;
    bool flip;
    int cutout;
    double erase;
    const kas_step_row *row;
    uint32_t cursor, epoch;
} attempt;

static double expected(const source *s, const attempt *t, int image, int c, int row, int col)
{
    const double own = own_pixel(s, t->cursor + (uint32_t)image, t->epoch, c, row, col);
    const kas_step_row *m = t->row;
    if (!m)
        return own;
    const uint32_t next = t->cursor + (uint32_t)((image + 1) % BATCH);
    const double other = own_pixel(s, next, t->epoch, c, row, col);
    const rectangle box = {m->top, m->left, m->height, m->width};
    const double blend = holds(box, row, col) ? 0 : (double)m->blend;
    return blend * own + (1 - blend) * other;
}

static void run_case(attempt t)
{
    const int n = BATCH, h = HEIGHT, w = WIDTH;
    source s = make_source(h, w, t.c, t.cursor, t.epoch);
    s.augment.crop_pad = t.crop_pad;
    s.augment.flip = t.flip;
    s.augment.cutout = t.cutout;
    s.augment.erase = t.erase;
    s.augment.rows = t.row ? upload(t.row, sizeof *t.row) : NULL;
    const int pitch = kas_pitch_of(the_dtype, 4);
    kas_tensor images = {
        numbers_to_device(the_dtype, NULL, n, 4, h, w, pitch), n, h, w, t.c, pitch, the_dtype};
    uint16_t got[BATCH], *labels = upload(got, sizeof got);
    kas_plan *plan = new_plan();
    OK(kas_op_augment(the_ops, plan, &s.augment, images, labels));
    run_plan();
    double *pixel = numbers_from_device(the_dtype, images.data, n, pitch, h, w, pitch),
           *want = nan_values((size_t)n * pitch * h * w);
    for (int i = 0; i < n * pitch * h * w; i++) {
        const int image = i / (pitch * h * w), k = i / (h * w) % pitch, row = i / w % h,
                  col = i % w;
        want[i] = k < t.c ? expected(&s, &t, image, k, row, col) : 0;
    }
    compare("pixels", pixel, want, (size_t)n * pitch * h * w, 5e-7 + rounding());
    OK(kas_mem_download(the_device, got, labels, sizeof got));
    for (uint32_t i = 0; i < BATCH; i++)
        assert_int_equal(got[i],
                         t.cursor + i < ORDER ? s.label[s.order[t.cursor + i]] : KAS_NO_LABEL);
    free(pixel), free(want);
    FREE(images.data, labels, (void *)s.augment.rows);
    free_source(&s);
}

TEST(test_augment)
{
    EACH_ORDER(order)
    {
        for (int c = 1; c <= 4; c++) {
            run_case((attempt){.c = c});
            run_case((attempt){.c = c, .cursor = 8}); /* one image and three of padding */
            run_case((attempt){.c = c, .crop_pad = 4, .flip = true, .cursor = 4, .epoch = 3});
            run_case((attempt){.c = c, .crop_pad = 2, .cursor = 1, .epoch = 4});
            run_case((attempt){.c = c, .flip = true, .cursor = 2, .epoch = 5});
        }
    }
    print_worst("augmentation");
}

TEST(test_erasing)
{
    EACH_ORDER(order)
    {
        for (uint32_t epoch = 0; epoch < 12; epoch++) {
            run_case((attempt){.c = 3, .cutout = 1 + (int)epoch, .epoch = epoch});
            run_case((attempt){.c = 3, .erase = 1, .epoch = epoch});
            run_case((attempt){.c = 3,
                               .crop_pad = 2,
                               .flip = true,
                               .cutout = 4,
                               .erase = 0.5,
                               .cursor = 3,
                               .epoch = epoch});
        }
        run_case((attempt){.c = 1, .cutout = 100});
    }
    print_worst("erasing");
}

TEST(test_mixing)
{
    static const kas_step_row rows[] = {
        {.blend = 1, .share = 1},
        {.blend = 0.3f, .share = 0.3f},
        {.blend = 0, .share = 0},
        {.blend = 1, .share = 0.8f, .top = 2, .left = 5, .height = 4, .width = 6},
        {.blend = 1, .share = 0, .height = HEIGHT, .width = WIDTH},
    };
    EACH_ORDER(order)
    {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            run_case((attempt){.c = 3, .row = &rows[i], .cursor = 1});
            run_case((attempt){.c = 1,
                               .crop_pad = 3,
                               .flip = true,
                               .cutout = 3,
                               .erase = 0.5,
                               .row = &rows[i],
                               .cursor = 4,
                               .epoch = 2});
        }
    }
    print_worst("mixing");
}

/* Rectangles are as often, as large and as long as they should be. */
TEST(test_erasing_spread)
{
    source s = {.h = 32, .w = 32};
    s.augment.seed = 77;
    s.augment.erase = 0.25;
    int erased = 0, tall = 0;
    double area = 0;
    for (uint32_t p = 0; p < 8000; p++) {
        const rectangle r = erased_of(&s, p, 1);
        erased += r.h > 0;
        tall += r.h > r.w;
        area += (double)r.h * r.w / (32 * 32);
        assert_true(r.top >= 0 && r.left >= 0 && r.top + r.h <= 32 && r.left + r.w <= 32);
    }
    assert_in_range(erased, 1850, 2150);
    assert_in_range(tall, erased * 42 / 100, erased * 58 / 100);
    assert_true(fabs(area / erased - 0.175) < 0.01);
}

TEST(test_bad_options)
{
    source s = make_source(4, 4, 1, 0, 0);
    kas_tensor images = {NULL, 1, 4, 4, 1, 4, KAS_F32};
    s.augment.erase = 1.5;
    assert_int_equal(kas_op_augment(the_ops, NULL, &s.augment, images, NULL), KAS_BAD_INPUT);
    s.augment.erase = 0;
    s.augment.cutout = -1;
    assert_int_equal(kas_op_augment(the_ops, NULL, &s.augment, images, NULL), KAS_BAD_INPUT);
    free_source(&s);
}

/* Crops reach every offset and about half of the images are mirrored. */
TEST(test_spread)
{
    const kas_rng rng = kas_rng_make(77, KAS_PURPOSE_AUGMENT, 0);
    int offset[9] = {0}, mirrored = 0;
    for (uint32_t p = 0; p < 9000; p++) {
        uint32_t bits[4];
        kas_philox4x32((uint32_t[4]){p, 0, 0, 0}, rng.key, bits);
        offset[(uint64_t)bits[0] * 9 >> 32]++;
        mirrored += bits[2] >> 31;
    }
    for (int i = 0; i < 9; i++)
        assert_in_range(offset[i], 850, 1150);
    assert_in_range(mirrored, 4300, 4700);
}

RUN_FOR_EACH_DTYPE(open_the_ops, close_the_ops)
