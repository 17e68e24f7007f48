/* Batches from bytes: gather, normalise, crop, mirror, pad the last batch. */
#include "op_case.h"

enum { IMAGES = 11, ORDER = 9 };

typedef struct source {
    int h, w, c;
    uint8_t *pixels; /* host */
    uint16_t label[IMAGES];
    uint32_t order[ORDER];
    kas_augment augment; /* device pointers */
} source;

static void *upload(const void *host, size_t bytes)
{
    void *memory;
    OK(kas_mem_alloc(the_device, bytes, &memory));
    OK(kas_mem_upload(the_device, memory, host, bytes));
    return memory;
}

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

/* What the header says, in double. */
static double expected(const source *s, uint32_t position, uint32_t epoch, int c, int row, int col)
{
    const kas_augment *a = &s->augment;
    if (position >= ORDER)
        return 0;
    if (a->crop_pad || a->flip) {
        uint32_t bits[4];
        const kas_rng rng = kas_rng_make(a->seed, KAS_PURPOSE_AUGMENT, 0);
        kas_philox4x32((uint32_t[4]){position, 0, epoch, 0}, rng.key, bits);
        const uint64_t choices = 2 * (uint64_t)a->crop_pad + 1;
        if (a->flip && bits[2] >> 31)
            col = s->w - 1 - col;
        row += (int)(bits[0] * choices >> 32) - a->crop_pad;
        col += (int)(bits[1] * choices >> 32) - a->crop_pad;
    }
    if (row < 0 || row >= s->h || col < 0 || col >= s->w)
        return 0;
    const uint8_t pixel =
        s->pixels[(((size_t)s->order[position] * s->h + row) * s->w + col) * s->c + c];
    return (pixel / 255.0 - (double)a->mean[c]) / (double)a->std[c];
}

static void run_case(int c, int crop_pad, bool flip, uint32_t cursor, uint32_t epoch)
{
    const int n = 4, h = 9, w = 13;
    source s = make_source(h, w, c, cursor, epoch);
    s.augment.crop_pad = crop_pad;
    s.augment.flip = flip;
    kas_tensor images = make_tensor(NULL, n, c, h, w);
    images.pitch = 4;
    FREE(images.data);
    images.data = to_device(NULL, n, 4, h, w, 4);
    uint16_t got[4], *labels = upload(got, sizeof got);
    kas_plan *plan = new_plan();
    OK(kas_op_augment(the_ops, plan, &s.augment, images, labels));
    run_plan();
    double *pixel = from_device(images.data, n, 4, h, w, 4),
           *want = nan_values((size_t)n * 4 * h * w);
    for (int i = 0; i < n * 4 * h * w; i++) {
        const int image = i / (4 * h * w), k = i / (h * w) % 4, row = i / w % h, col = i % w;
        want[i] = k < c ? expected(&s, cursor + (uint32_t)image, epoch, k, row, col) : 0;
    }
    compare("pixels", pixel, want, (size_t)n * 4 * h * w, 5e-7);
    OK(kas_mem_download(the_device, got, labels, sizeof got));
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(got[i], cursor + i < ORDER ? s.label[s.order[cursor + i]] : KAS_NO_LABEL);
    free(pixel), free(want);
    FREE(images.data, labels);
    free_source(&s);
}

static void test_augment(void **state)
{
    (void)state;
    EACH_ORDER(order)
    {
        for (int c = 1; c <= 4; c++) {
            run_case(c, 0, false, 0, 0);
            run_case(c, 0, false, 8, 0); /* one image and three of padding */
            run_case(c, 4, true, 4, 3);
            run_case(c, 2, false, 1, 4);
            run_case(c, 0, true, 2, 5);
        }
    }
    print_worst("augmentation");
}

/* Crops reach every offset and about half of the images are mirrored. */
static void test_spread(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_augment),
        cmocka_unit_test(test_spread),
    };
    return cmocka_run_group_tests(tests, open_the_ops, close_the_ops);
}
