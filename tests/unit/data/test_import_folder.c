/* Folders of JPEG and PNG images, and the files that they become: streamed with the same bits by
 * any number of threads, checked image by image, trained on. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/core/random.h"
#include "host/data/image/render.h"
#include "host/data/import/import.h"
#include "host/data/reader.h"

#if defined(KAS_HAVE_JPEG) && defined(KAS_HAVE_PNG)
#include <fcntl.h>
#include <zlib.h>

#include "host/train/train.h"
#include "image_fixture.h"
#include "support/folder.h"

enum { SIDE = 16, IMAGE = SIDE * SIDE * 3, TRAIN = 40, TEST = 9, CLASSES = 2, BATCH = 8 };

static int set_up(void **state)
{
    kas_log_set_level(KAS_LOG_QUIET);
    return make_folder(state);
}

/* ---- folders --------------------------------------------------------------------------------- */

/* Sizes from 5 to 90 pixels; every kind there is: JPEG in colour, grey, progressive and CMYK, PNG
 * in colour and grey. */
static void put_image(const char *part, uint32_t number)
{
    uint32_t width = 5 + number * 37 % 86, height = 5 + number * 53 % 79, kind = number % 6;
    uint32_t c = kind == 1 || kind == 5 ? 1 : kind == 3 ? 4 : 3;
    size_t size;
    uint8_t *pixels = fixture_pixels(number, width, height, c), *image;
    image = kind < 4 ? fixture_jpeg(pixels, width, height, (int)c, 90, kind == 2, &size)
                     : fixture_png(pixels, width, height, c == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB,
                                   &size);
    char path[256];
    snprintf(path, sizeof path, "%s/src/%s%s/%03u.%s", folder, part,
             number % CLASSES ? "dog" : "cat", number,
             kind >= 4    ? "png"
             : number % 4 ? "jpg"
                          : "JPEG");
    OK(kas_file_write_atomic(path, image, size));
    free(pixels);
    free(image);
}

static void put_part(const char *part, uint32_t count)
{
    char path[256];
    for (int k = 0; k < CLASSES; k++) {
        snprintf(path, sizeof path, "%s/src/%s%s", folder, part, k ? "dog" : "cat");
        OK(kas_mkdirs(path));
    }
    for (uint32_t i = 0; i < count; i++)
        put_image(part, i);
}

static void put_folder(void)
{
    OK(kas_remove_tree(folder));
    OK(kas_mkdirs(folder));
    put_part("train/", TRAIN);
    put_part("val/", TEST);
    OK(kas_file_write_atomic(in_folder("src/train/cat/notes.txt"), "x", 1));
}

static kas_folder_options usual(void)
{
    return (kas_folder_options){.side = SIDE, .c = 3, .test_share = 0.25, .seed = 5};
}

static kas_dataset *import(const kas_folder_options *o)
{
    kas_dataset *d = NULL;
    OK(kas_import_folder(in_folder("src"), in_folder("f.h5"), o));
    OK(kas_dataset_open(in_folder("f.h5"), &d));
    return d;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

TEST(files_arrive_whole)
{
    kas_folder_options o = usual();
    put_folder();
    kas_dataset *d = import(&o), *other;
    uint32_t want[TRAIN], got[TRAIN];
    assert_true(d->encoded && !d->train.pixels && d->classes == CLASSES);
    assert_true(d->h == SIDE && d->w == SIDE && d->c == 3);
    assert_string_equal(d->class_name[1], "dog");
    assert_int_equal(d->train.count, TRAIN);
    assert_int_equal(d->test.count, TEST);
    int dogs = 0;
    for (uint32_t i = 0; i < TRAIN; i++) {
        char path[64];
        kas_buf file = {0};
        snprintf(path, sizeof path, "src/train/%s/%03u.%s", i % 2 ? "dog" : "cat", i,
                 i % 6 >= 4 ? "png"
                 : i % 4    ? "jpg"
                            : "JPEG");
        OK(kas_file_read(in_folder(path), 1 << 20, &file));
        want[i] = (uint32_t)crc32_z(0, (const uint8_t *)file.data, file.size);
        got[i] = d->train.storage.crc[i];
        dogs += d->train.labels[i];
        kas_buf_free(&file);
    }
    assert_int_equal(dogs, TRAIN / 2);
    assert_memory_not_equal(want, got, sizeof got); /* in random order */
    qsort(want, TRAIN, sizeof *want, by_value);
    qsort(got, TRAIN, sizeof *got, by_value);
    assert_memory_equal(want, got, sizeof got);
    assert_true(d->mean[0] > 0.2f && d->mean[0] < 0.8f && d->std[2] > 0.1f);
    other = import(&o);
    assert_string_equal(other->digest, d->digest);
    kas_dataset_close(other);
    o.seed++;
    other = import(&o);
    assert_string_not_equal(other->digest, d->digest);
    kas_dataset_close(other);
    kas_dataset_close(d);
}

TEST(shares_and_limits)
{
    kas_folder_options o = usual();
    OK(kas_remove_tree(folder));
    OK(kas_mkdirs(folder));
    put_part("", TRAIN); /* no parts: a quarter of each class is for the test */
    kas_dataset *d = import(&o);
    assert_int_equal(d->train.count, 30);
    assert_int_equal(d->test.count, 10);
    kas_dataset_close(d);
    o.limit_train = 8;
    o.limit_test = 2;
    d = import(&o);
    int dogs[2] = {0};
    for (uint32_t i = 0; i < 8; i++)
        dogs[0] += d->train.labels[i];
    for (uint32_t i = 0; i < 2; i++)
        dogs[1] += d->test.labels[i];
    assert_true(d->train.count == 8 && d->test.count == 2 && dogs[0] == 4 && dogs[1] == 1);
    kas_dataset_close(d);
}

/* ---- streaming ------------------------------------------------------------------------------- */

static uint8_t *pass_of(const kas_dataset *d, const kas_pass *pass, int threads)
{
    uint8_t *all = malloc((size_t)pass->count * IMAGE), ring[3 * BATCH * IMAGE];
    uint16_t labels[3 * BATCH];
    const kas_reader_options o = {d, BATCH, 3, threads, ring, labels};
    kas_reader *r;
    assert_non_null(all);
    OK(kas_reader_create(&o, &r));
    OK(kas_reader_begin(r, pass));
    for (uint32_t at = 0; at < pass->count;) {
        kas_batch b;
        OK(kas_reader_next(r, &b));
        memcpy(all + (size_t)at * IMAGE, b.pixels, (size_t)b.count * IMAGE);
        for (uint32_t i = 0; i < b.count; i++)
            assert_int_equal(b.labels[i], pass->images->labels[pass->order[at + i]]);
        at += b.count;
        kas_reader_release(r);
    }
    kas_reader_free(r);
    return all;
}

TEST(any_number_of_threads_gives_the_same_bits)
{
    kas_folder_options o = usual();
    put_folder();
    kas_dataset *d = import(&o);
    uint32_t order[TRAIN];
    kas_renderer renderer = {0};
    kas_storage_scratch scratch = {0};
    uint8_t want[IMAGE];
    for (uint32_t i = 0; i < TRAIN; i++)
        order[i] = i * 7 % TRAIN;
    kas_pass pass = {
        .images = &d->train, .order = order, .count = TRAIN, .view = {true, true, 0.08, 3, 1}};
    uint8_t *first = pass_of(d, &pass, 1);
    for (uint32_t i = 0; i < TRAIN; i++) {
        const uint8_t *bytes;
        size_t size;
        OK(kas_storage_read(&d->train.storage, order[i], &scratch, &bytes, &size));
        OK(kas_render(&renderer, &pass.view, i, bytes, size, SIDE, SIDE, 3, want));
        assert_memory_equal(first + i * IMAGE, want, IMAGE);
    }
    for (int threads = 2; threads <= 6; threads += 2) {
        uint8_t *again = pass_of(d, &pass, threads);
        assert_memory_equal(again, first, TRAIN * IMAGE);
        free(again);
    }
    pass.view.epoch = 2; /* other crops */
    uint8_t *next = pass_of(d, &pass, 3);
    assert_memory_not_equal(next, first, TRAIN * IMAGE);
    free(next);
    free(first);
    kas_renderer_free(&renderer);
    kas_storage_scratch_free(&scratch);
    kas_dataset_close(d);
}

/* Stored as pixels: what an evaluation sees, or as near as another scale of decoding allows. */
TEST(pixels_are_the_middle_of_images)
{
    kas_folder_options o = usual();
    put_folder();
    kas_dataset *encoded = import(&o), *pixels;
    o.pixels = o.compress = true;
    pixels = import(&o);
    assert_false(pixels->encoded);
    assert_memory_equal(pixels->mean, encoded->mean, sizeof encoded->mean);
    uint32_t order[TEST];
    for (uint32_t i = 0; i < TEST; i++)
        order[i] = i;
    const kas_pass pass = {.images = &encoded->test, .order = order, .count = TEST};
    uint8_t *seen = pass_of(encoded, &pass, 2);
    double sum = 0;
    for (int i = 0; i < TEST * IMAGE; i++)
        sum += abs(seen[i] - pixels->test.pixels[i]);
    print_message("    mean difference of %.3f levels\n", sum / (TEST * IMAGE));
    assert_true(sum / (TEST * IMAGE) < 2);
    free(seen);
    kas_dataset_close(encoded);
    kas_dataset_close(pixels);
}

static void train(kas_device *device, kas_train_options *o, const char *weights, int threads,
                  kas_train_state want)
{
    kas_train_result result;
    o->weights_out = in_folder(weights);
    o->read_threads = threads;
    OK(kas_train(device, o, &result));
    assert_int_equal(result.state, want);
    kas_train_result_free(&result);
}

static kas_verdict stop_at_7(void *context, uint64_t step, uint64_t steps, double loss)
{
    (void)context, (void)steps, (void)loss;
    return step >= 7 ? KAS_STOP : KAS_CONTINUE;
}

static bool same_file(const char *a, const char *b)
{
    kas_buf x = {0}, y = {0};
    OK(kas_file_read(in_folder(a), 1 << 28, &x));
    OK(kas_file_read(in_folder(b), 1 << 28, &y));
    bool same = x.size == y.size && memcmp(x.data, y.data, x.size) == 0;
    kas_buf_free(&x);
    kas_buf_free(&y);
    return same;
}

TEST(training_goes_on_exactly)
{
    kas_folder_options f = usual();
    kas_device *device;
    kas_net *net;
    put_folder();
    kas_dataset *d = import(&f);
    OK(kas_device_open("cpu", 1, &device));
    OK(kas_net_build("resnet20", SIDE, SIDE, 3, CLASSES, &net));
    kas_train_options o = {.net = net,
                           .dataset = d,
                           .recipe = kas_recipe_default(),
                           .seed = 4,
                           .train_count = TRAIN,
                           .evaluate_test = true};
    o.recipe.epochs = 2;
    o.recipe.batch = BATCH;
    train(device, &o, "one", 1, KAS_TRAINED);
    train(device, &o, "three", 3, KAS_TRAINED);
    assert_true(same_file("one", "three"));
    o.checkpoint = in_folder("run.ckpt");
    o.on_progress = stop_at_7; /* of 5 an epoch */
    train(device, &o, "none", 2, KAS_STOPPED);
    o.on_progress = NULL;
    train(device, &o, "resumed", 2, KAS_TRAINED);
    assert_true(same_file("one", "resumed"));
    kas_net_free(net);
    kas_device_close(device);
    kas_dataset_close(d);
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void refused(const kas_folder_options *o, const char *words)
{
    assert_int_equal(kas_import_folder(in_folder("src"), in_folder("x.h5"), o), KAS_BAD_INPUT);
    if (!strstr(kas_error(), words))
        fail_msg("expected \"%s\" in: %s", words, kas_error());
    assert_false(kas_file_exists(in_folder("x.h5")));
    print_message("    %s\n", kas_error() + strlen(folder) + 1);
}

TEST(damaged_folders_are_refused)
{
    kas_folder_options o = usual();
    OK(kas_remove_tree(folder));
    OK(kas_mkdirs(folder));
    refused(&o, "expected a folder of images");
    OK(kas_mkdirs(in_folder("src")));
    refused(&o, "expected a folder for each class");
    put_folder();
    OK(kas_mkdirs(in_folder("src/train/ant")));
    refused(&o, "train/ant: expected the images of a class");
    OK(kas_remove_tree(in_folder("src/train/ant")));
    OK(kas_mkdirs(in_folder("src/val/eel")));
    refused(&o, "val/eel: expected one of the 2 classes");
    OK(kas_remove_tree(in_folder("src/val/eel")));
    kas_buf file = {0};
    OK(kas_file_read(in_folder("src/train/dog/001.jpg"), 1 << 20, &file));
    OK(kas_file_write_atomic(in_folder("src/train/dog/001.jpg"), file.data, file.size / 2));
    refused(&o, "train/dog/001.jpg: a damaged JPEG image: Premature end");
    OK(kas_file_write_atomic(in_folder("src/val/dog/001.jpg"), file.data, file.size / 2));
    refused(&o, "2 of 49 files cannot be used; replace them, or leave them out with");
    put_part("val/", TEST);
    OK(kas_file_write_atomic(in_folder("src/train/cat/words.png"), "not an image", 12));
    o.skip_damaged = true;
    kas_dataset *d = import(&o);
    assert_int_equal(d->train.count, TRAIN - 1);
    kas_dataset_close(d);
    kas_buf_free(&file);
    OK(kas_remove_tree(in_folder("src/val")));
    o.test_share = 0.001;
    refused(&o, "--test-share 0.001 of 41 images in 2 classes leaves");
    OK(kas_remove_tree(in_folder("src/train/dog")));
    refused(&o, "all images are of one class (cat)");
}

/* All files of a set are damaged: leaving them out would leave nothing. */
TEST(a_set_of_damaged_files_is_refused)
{
    kas_folder_options o = usual();
    put_folder();
    OK(kas_remove_tree(in_folder("src/val")));
    put_part("val/", 0);
    OK(kas_file_write_atomic(in_folder("src/val/cat/a.png"), "x", 1));
    OK(kas_file_write_atomic(in_folder("src/val/dog/b.png"), "x", 1));
    o.skip_damaged = true;
    refused(&o, "2 of 42 files cannot be used, among them all of the test set; replace them");
}

/* One changed bit of one image in the HDF5 file. */
TEST(a_damaged_image_is_named)
{
    kas_folder_options o = usual();
    put_folder();
    kas_dataset *d = import(&o);
    const kas_storage *s = &d->train.storage;
    off_t at = (off_t)(s->extent[0].at + s->offset[11] + 30);
    char byte;
    int fd = open(in_folder("f.h5"), O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 16;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
    uint32_t order[TRAIN];
    for (uint32_t i = 0; i < TRAIN; i++)
        order[i] = TRAIN - 1 - i;
    const kas_pass pass = {
        .images = &d->train, .order = order, .count = TRAIN, .view = {true, true, 0.08, 3, 1}};
    uint8_t ring[2 * BATCH * IMAGE];
    uint16_t labels[2 * BATCH];
    kas_reader *r;
    OK(kas_reader_create(&(kas_reader_options){d, BATCH, 2, 3, ring, labels}, &r));
    OK(kas_reader_begin(r, &pass));
    kas_status status = KAS_OK;
    int good = 0;
    for (kas_batch b; status == KAS_OK; good += status == KAS_OK) {
        status = kas_reader_next(r, &b);
        kas_reader_release(r);
    }
    assert_int_equal(status, KAS_BAD_INPUT);
    assert_int_equal(good, 3); /* image 11 is at position 28 */
    assert_non_null(strstr(kas_error(), "f.h5: train/bytes: image 11: "));
    assert_non_null(strstr(kas_error(), "checksum"));
    print_message("    %s\n", kas_error() + strlen(folder) + 1);
    kas_reader_free(r);
    kas_dataset_close(d);
}

/* Random bytes of the HDF5 file: refused, or read with what is there; never a crash. */
TEST(damaged_files_never_crash)
{
    kas_folder_options o = usual();
    put_folder();
    kas_dataset_close(import(&o));
    kas_buf file = {0};
    OK(kas_file_read(in_folder("f.h5"), 1 << 24, &file));
    kas_rng rng = kas_rng_make(6, KAS_PURPOSE_TEST, 0);
    uint32_t order[TRAIN];
    int refused_files = 0, refused_images = 0, passed = 0;
    for (uint32_t i = 0; i < TRAIN; i++)
        order[i] = i;
    for (int i = 0; i < 80; i++) {
        size_t at = kas_rng_below(&rng, (uint32_t)(i % 2 ? file.size : 4096));
        char kept = file.data[at];
        file.data[at] ^= (char)(1 + kas_rng_below(&rng, 255));
        FILE *out = fopen(in_folder("g.h5"), "wb");
        assert_true(out && fwrite(file.data, 1, file.size, out) == file.size && !fclose(out));
        file.data[at] = kept;
        kas_dataset *d = NULL;
        kas_status status = kas_dataset_open(in_folder("g.h5"), &d);
        assert_true(status == KAS_OK || status == KAS_BAD_INPUT);
        refused_files += status != KAS_OK;
        if (status != KAS_OK || !d->encoded || d->h != SIDE || d->w != SIDE || d->c != 3 ||
            d->train.count != TRAIN) {
            kas_dataset_close(d);
            continue;
        }
        uint8_t ring[2 * BATCH * IMAGE];
        uint16_t labels[2 * BATCH];
        kas_reader *r;
        kas_batch b;
        const kas_pass pass = {.images = &d->train, .order = order, .count = d->train.count};
        OK(kas_reader_create(&(kas_reader_options){d, BATCH, 2, 2, ring, labels}, &r));
        OK(kas_reader_begin(r, &pass));
        for (uint32_t k = 0; k * BATCH < pass.count && status == KAS_OK; k++) {
            status = kas_reader_next(r, &b);
            kas_reader_release(r);
        }
        assert_true(status == KAS_OK || status == KAS_BAD_INPUT);
        refused_images += status != KAS_OK;
        passed += status == KAS_OK;
        kas_reader_free(r);
        kas_dataset_close(d);
    }
    print_message(
        "    of 80 files with one changed byte %d were refused, %d at an image, %d read\n",
        refused_files, refused_images, passed);
    assert_true(refused_files > 0 && refused_images > 0);
    kas_buf_free(&file);
}

RUN_TESTS(set_up, remove_folder)

#else

TEST(without_the_libraries)
{
    print_message("SKIPPED: this build has no libjpeg-turbo or no libpng\n");
    skip();
}

RUN_TESTS()
#endif
