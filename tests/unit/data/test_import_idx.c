/* IDX files, plain and gzip, grey and colour; what is wrong with them; images written at another
 * size. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "host/core/file/files.h"
#include "host/data/image/resize.h"
#include "host/data/import/import.h"
#include "support/folder.h"

enum { TRAIN = 30, TEST = 10, H = 6, W = 4, CLASSES = 5 };

static uint8_t value(uint32_t i)
{
    return (uint8_t)(i * 2654435761u >> 11);
}

/* rank 1: labels. `more` bytes are added (or, below 0, left out). */
static void put(const char *name, int rank, const uint32_t *size, int more, bool compressed)
{
    kas_buf b = {0};
    uint8_t start[4] = {0, 0, 8, (uint8_t)rank};
    uint32_t count = 1;
    kas_buf_add(&b, start, 4);
    for (int i = 0; i < rank; i++) {
        const uint8_t word[4] = {0, 0, (uint8_t)(size[i] >> 8), (uint8_t)size[i]};
        kas_buf_add(&b, word, 4);
        count *= size[i];
    }
    for (uint32_t i = 0; i < count + (uint32_t)more; i++) {
        uint8_t v = rank == 1 ? (uint8_t)(i % CLASSES) : value(i);
        kas_buf_add(&b, &v, 1);
    }
    OK(kas_buf_status(&b));
    gzFile out = gzopen(in_folder(name), compressed ? "wb" : "wbT"); /* T: as it is */
    assert_int_equal(gzwrite(out, b.data, (unsigned)b.size), b.size);
    assert_int_equal(gzclose(out), Z_OK);
    kas_buf_free(&b);
}

static void put_all(uint32_t c, bool compressed)
{
    const uint32_t train[4] = {TRAIN, H, W, c}, test[4] = {TEST, H, W, c};
    const char *end = compressed ? ".gz" : "";
    char name[64];
    snprintf(name, sizeof name, "train-images-idx3-ubyte%s", end);
    put(name, c == 1 ? 3 : 4, train, 0, compressed);
    snprintf(name, sizeof name, "train-labels-idx1-ubyte%s", end);
    put(name, 1, train, 0, compressed);
    snprintf(name, sizeof name, "t10k-images-idx3-ubyte%s", end);
    put(name, c == 1 ? 3 : 4, test, 0, compressed);
    snprintf(name, sizeof name, "t10k-labels-idx1-ubyte%s", end);
    put(name, 1, test, 0, compressed);
}

static void clear(void)
{
    OK(kas_remove_tree(folder));
    OK(kas_mkdirs(folder));
}

TEST(grey_and_colour_plain_and_gzip)
{
    for (int i = 0; i < 4; i++) {
        uint32_t c = i % 2 ? 3 : 1;
        kas_dataset *d = NULL, *back = NULL;
        clear();
        put_all(c, i / 2);
        OK(kas_import_idx(folder, &d));
        assert_int_equal(d->train.count, TRAIN);
        assert_int_equal(d->test.count, TEST);
        assert_true(d->h == H && d->w == W && d->c == c && d->classes == CLASSES);
        for (uint32_t p = 0; p < TRAIN * H * W * c; p++)
            assert_int_equal(d->train.pixels[p], value(p));
        for (uint32_t k = 0; k < TEST; k++)
            assert_int_equal(d->test.labels[k], k % CLASSES);
        OK(kas_dataset_limit(d, 10, 5));
        kas_dataset_finish(d);
        OK(kas_dataset_write(in_folder("f.h5"), d));
        OK(kas_dataset_open(in_folder("f.h5"), &back));
        assert_string_equal(back->digest, d->digest);
        assert_int_equal(back->train.count, 10);
        assert_string_equal(back->class_name[4], "class 4");
        kas_dataset_close(d);
        kas_dataset_close(back);
    }
}

static void refused(const char *words)
{
    kas_dataset *d = (kas_dataset *)1;
    assert_int_equal(kas_import_idx(folder, &d), KAS_BAD_INPUT);
    assert_null(d);
    if (!strstr(kas_error(), words))
        fail_msg("expected \"%s\" in: %s", words, kas_error());
    print_message("    %s\n", kas_error() + strlen(folder) + 1);
}

TEST(wrong_files_are_refused)
{
    const uint32_t train[4] = {TRAIN, H, W, 3}, other[4] = {TEST, H, W + 1, 3},
                   few[1] = {TRAIN - 1};
    clear();
    refused("\"train-images\" in its name is missing");
    put_all(1, false);
    put("train-images-idx3-ubyte", 3, train, -1, false);
    refused("train-images-idx3-ubyte: it ends before");
    put("train-images-idx3-ubyte", 3, train, 2, false);
    refused("it continues after");
    put("train-images-idx3-ubyte", 2, train, 0, false);
    refused("expected images, [N][H][W]");
    put("train-images-idx3-ubyte", 3, train, 0, false);
    put("train-labels-idx1-ubyte", 1, few, 0, false);
    refused("train-labels-idx1-ubyte: expected [30]");
    put("train-labels-idx1-ubyte", 1, train, 0, false);
    put("t10k-images-idx3-ubyte", 3, other, 0, false);
    refused("t10k-images-idx3-ubyte: expected images of 6x4x1");
    put_all(1, false);
    put("train-images.copy.gz", 3, train, 0, true);
    refused("expected one file with \"train-images\"");
    unlink(in_folder("train-images.copy.gz"));
    OK(kas_file_write_atomic(in_folder("t10k-labels-idx1-ubyte"), "PNG?", 4));
    refused("found 50 4e 47 3f");
    OK(kas_file_write_atomic(in_folder("t10k-labels-idx1-ubyte"), "\0\0\010\001\0", 5));
    refused("its header: the file is truncated");
    clear();
    put_all(3, true);
    kas_buf file = {0};
    OK(kas_file_read(in_folder("train-images-idx3-ubyte.gz"), 1 << 20, &file));
    OK(kas_file_write_atomic(in_folder("train-images-idx3-ubyte.gz"), file.data, file.size / 2));
    refused("train-images-idx3-ubyte.gz: it ends before");
    file.data[file.size / 2] ^= 4;
    OK(kas_file_write_atomic(in_folder("train-images-idx3-ubyte.gz"), file.data, file.size));
    refused("train-images-idx3-ubyte.gz");
    kas_buf_free(&file);
}

/* Written at 4 times the size: the file holds what kas_resize gives, and says mean and deviation of
 * that; gzip makes it smaller and changes nothing. */
TEST(written_at_another_size)
{
    enum { SIDE = 20 };
    kas_dataset *d = NULL, *plain = NULL, *packed = NULL;
    kas_resize_scratch scratch = {0};
    uint8_t want[SIDE * SIDE * 3];
    clear();
    put_all(3, false);
    OK(kas_import_idx(folder, &d));
    OK(kas_dataset_write_resized(in_folder("plain.h5"), d, SIDE, SIDE, false));
    OK(kas_dataset_write_resized(in_folder("packed.h5"), d, SIDE, SIDE, true));
    OK(kas_dataset_open(in_folder("plain.h5"), &plain));
    OK(kas_dataset_open(in_folder("packed.h5"), &packed));
    assert_true(plain->h == SIDE && plain->w == SIDE && plain->c == 3);
    assert_string_equal(plain->digest, packed->digest);
    for (uint32_t i = 0; i < TEST; i++) {
        const kas_raster image = {d->test.pixels + i * H * W * 3, W, H, 3};
        OK(kas_resize(&image, (kas_box){0, 0, W, H}, SIDE, SIDE, false, &scratch, want));
        assert_memory_equal(plain->test.pixels + i * sizeof want, want, sizeof want);
    }
    float mean = plain->mean[1], std = plain->std[2];
    kas_dataset_finish(plain); /* from the pixels that were read back */
    assert_true(plain->mean[1] == mean && plain->std[2] == std);
    kas_resize_scratch_free(&scratch);
    kas_dataset_close(d);
    kas_dataset_close(plain);
    kas_dataset_close(packed);
}

RUN_TESTS(make_folder, remove_folder)
