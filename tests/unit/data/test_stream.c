/* Images that stay in their file: every way of storing them that can be streamed, against the same
 * pixels in memory; any number of threads; constant memory; damage.  The order of an epoch. */
#include "support/test.h"

#include <fcntl.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/data/order.h"
#include "host/data/reader.h"
#include "support/folder.h"

enum { TRAIN = 61, TEST = 7, H = 6, W = 5, C = 3, IMAGE = H * W * C, CLASSES = 4 };

static char path[128];

static int set_up(void **state)
{
    const int made = make_folder(state);
    snprintf(path, sizeof path, "%s/f.h5", folder);
    return made;
}

/* ---- files ----------------------------------------------------------------------------------- */

typedef struct storage {
    const char *name;
    hsize_t images, rows; /* of a chunk; 0 = contiguous; rows 0 = all */
    bool shuffle, deflate, checksum;
    hsize_t user_block;
    const char *refused; /* part of the message; NULL = it can be streamed */
} storage;

static void put(hid_t group, const char *name, int rank, const hsize_t *size, const storage *s,
                const uint8_t *bytes)
{
    hid_t space = H5Screate_simple(rank, size, NULL), plist = H5Pcreate(H5P_DATASET_CREATE);
    if (s && s->images) {
        const hsize_t chunk[4] = {s->images < size[0] ? s->images : size[0],
                                  s->rows ? s->rows : size[1], size[2], size[3]};
        H5Pset_chunk(plist, rank, chunk);
        if (s->shuffle)
            H5Pset_shuffle(plist);
        if (s->deflate)
            H5Pset_deflate(plist, 6);
        if (s->checksum)
            H5Pset_fletcher32(plist);
    }
    hid_t set = H5Dcreate2(group, name, H5T_STD_U8LE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    assert_true(H5Dwrite(set, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes) >= 0);
    H5Dclose(set), H5Pclose(plist), H5Sclose(space);
}

/* Runs of equal bytes, so that gzip has something to do. */
static void put_set(hid_t file, const char *name, hsize_t count, hsize_t side, const storage *s)
{
    const hsize_t size[4] = {count, side ? side : H, side ? side : W, C};
    size_t bytes = count * size[1] * size[2] * C;
    uint8_t *pixels = malloc(bytes), *labels = malloc(count);
    assert_true(pixels && labels);
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = (uint8_t)(i / 7 * 2654435761u >> 9);
    for (hsize_t i = 0; i < count; i++)
        labels[i] = (uint8_t)((i * 7 + count) % CLASSES);
    hid_t group = H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    put(group, "images", 4, size, s, pixels);
    put(group, "labels", 1, &count, NULL, labels);
    H5Gclose(group);
    free(labels);
    free(pixels);
}

static void put_attribute(hid_t file, const char *name, hid_t type, hsize_t count, const void *data)
{
    hid_t space = H5Screate_simple(1, &count, NULL);
    hid_t attribute = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Awrite(attribute, type, data) >= 0);
    H5Aclose(attribute), H5Sclose(space);
}

static void write_file(const storage *s, hsize_t train, hsize_t side)
{
    static const char names[CLASSES][2] = {"a", "b", "c", "d"};
    const float mean[C] = {.5f, .5f, .5f}, std[C] = {.25f, .25f, .25f};
    hid_t plist = H5Pcreate(H5P_FILE_CREATE), text = H5Tcopy(H5T_C_S1);
    H5Pset_userblock(plist, s->user_block);
    H5Tset_size(text, 2);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, plist, H5P_DEFAULT);
    assert_true(file >= 0);
    put_set(file, "train", train, side, s);
    put_set(file, "test", TEST, side, s);
    put_attribute(file, "classes", text, CLASSES, names);
    put_attribute(file, "mean", H5T_NATIVE_FLOAT, C, mean);
    put_attribute(file, "std", H5T_NATIVE_FLOAT, C, std);
    H5Tclose(text), H5Pclose(plist), H5Fclose(file);
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct ring {
    kas_reader *reader;
    uint8_t *pixels;
    uint16_t *labels;
} ring;

static ring make_ring(const kas_dataset *d, uint32_t batch, int slots, int threads)
{
    size_t images = (size_t)slots * batch;
    ring r = {.pixels = calloc(images, (size_t)d->h * d->w * d->c),
              .labels = calloc(images, sizeof(uint16_t))};
    const kas_reader_options o = {.dataset = d,
                                  .batch = batch,
                                  .slots = slots,
                                  .threads = threads,
                                  .pixels = r.pixels,
                                  .labels = r.labels};
    assert_true(r.pixels && r.labels);
    OK(kas_reader_create(&o, &r.reader));
    return r;
}

static void free_ring(ring *r)
{
    kas_reader_free(r->reader);
    free(r->pixels);
    free(r->labels);
}

/* Takes the rest of a pass, one batch at a time, and compares it with `want`. */
static void compare(const kas_reader *reader, const kas_pass *pass, uint32_t batch,
                    const kas_images *want)
{
    uint32_t at = pass->first;
    while (at < pass->count) {
        kas_batch b;
        OK(kas_reader_next((kas_reader *)reader, &b));
        assert_int_equal(b.count, pass->count - at < batch ? pass->count - at : batch);
        for (uint32_t i = 0; i < b.count; i++, at++) {
            uint32_t number = pass->order[at];
            assert_int_equal(b.labels[i], want->labels[number]);
            assert_memory_equal(b.pixels + i * IMAGE, want->pixels + (size_t)number * IMAGE, IMAGE);
        }
        kas_reader_release((kas_reader *)reader);
    }
    kas_batch none;
    assert_int_equal(kas_reader_next((kas_reader *)reader, &none), KAS_FAILURE);
}

static void read_in_every_way(const kas_dataset *streamed, const kas_dataset *whole)
{
    uint32_t order[TRAIN];
    for (int threads = 1; threads <= 5; threads += 2) {
        const uint32_t batch = 4;
        ring r = make_ring(streamed, batch, 2 + threads, threads);
        OK(kas_epoch_order(3, (uint32_t)threads, KAS_SHUFFLE_FULL, NULL, TRAIN, order));
        kas_pass pass = {.images = &streamed->train, .order = order, .count = TRAIN};
        OK(kas_reader_begin(r.reader, &pass));
        compare(r.reader, &pass, batch, &whole->train);
        pass.first = 5 * batch; /* from the middle, and given up there */
        OK(kas_reader_begin(r.reader, &pass));
        kas_batch b;
        OK(kas_reader_next(r.reader, &b));
        assert_ptr_equal(b.labels, r.labels + 5 % (2 + threads) * batch);
        kas_pass test = {.images = &streamed->test, .order = order, .count = TEST};
        for (uint32_t i = 0; i < TEST; i++)
            order[i] = TEST - 1 - i;
        OK(kas_reader_begin(r.reader, &test));
        compare(r.reader, &test, batch, &whole->test);
        free_ring(&r);
    }
}

TEST(every_storage_gives_the_same_pixels)
{
    const storage list[] = {
        {.name = "contiguous"},
        {.name = "chunks of 5 images", .images = 5},
        {.name = "one chunk", .images = 1000},
        {.name = "gzip, an image a chunk", .images = 1, .deflate = true},
        {.name = "shuffle and gzip", .images = 8, .shuffle = true, .deflate = true},
        {.name = "parts of images", .images = 5, .rows = 2, .refused = "chunks are 5x2x5x3"},
        {.name = "fletcher32", .images = 5, .checksum = true, .refused = "filter fletcher32"},
        {.name = "user block", .user_block = 512, .refused = "user block"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        kas_dataset *whole = NULL, *streamed = NULL, *sizes = NULL;
        write_file(&list[i], TRAIN, 0);
        OK(kas_dataset_open(path, &whole));
        OK(kas_dataset_open_without_images(path, &sizes));
        assert_true(sizes->h == H && sizes->w == W && sizes->c == C && !sizes->train.pixels);
        assert_memory_equal(sizes->train.labels, whole->train.labels, TRAIN * sizeof(uint16_t));
        kas_dataset_close(sizes);
        assert_non_null(whole->train.pixels);
        kas_status status = kas_dataset_open_streamed(path, &streamed);
        if (list[i].refused) {
            assert_int_equal(status, KAS_BAD_INPUT);
            if (!strstr(kas_error(), list[i].refused))
                fail_msg("%s: %s", list[i].name, kas_error());
            print_message("    %s\n", kas_error() + strlen(folder) + 1);
        } else {
            if (status != KAS_OK)
                fail_msg("%s: %s", list[i].name, kas_error());
            assert_null(streamed->train.pixels);
            assert_string_equal(streamed->digest, whole->digest);
            read_in_every_way(streamed, whole);
            read_in_every_way(whole, whole); /* out of memory, the same way */
        }
        kas_dataset_close(streamed);
        kas_dataset_close(whole);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static long resident_kib(void)
{
    long pages = 0, unused;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &unused, &pages), 2);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* In a child, so that what other tests left does not hide growth: 96 MiB of images. */
static int read_large_file(void)
{
    enum { SIDE = 128, COUNT = 2048, BATCH = 16, LIMIT_KIB = 12 << 10 };
    setenv("KAS_DATA_LIMIT_MB", "8", 1);
    kas_dataset *d = NULL;
    OK(kas_dataset_open(path, &d)); /* too large for the limit: streamed unasked */
    assert_null(d->train.pixels);
    ring r = make_ring(d, BATCH, 4, 2);
    uint32_t *order = malloc(sizeof *order * COUNT);
    long before = resident_kib(), most = 0;
    for (uint32_t epoch = 0; epoch < 2; epoch++) {
        const kas_shuffle shuffle = epoch ? KAS_SHUFFLE_WINDOW : KAS_SHUFFLE_FULL;
        OK(kas_epoch_order(1, epoch, shuffle, NULL, COUNT, order));
        const kas_pass pass = {
            .images = &d->train, .order = order, .count = COUNT, .shuffle = shuffle};
        OK(kas_reader_begin(r.reader, &pass));
        for (uint32_t at = 0; at < COUNT; at += BATCH) {
            kas_batch b;
            OK(kas_reader_next(r.reader, &b));
            kas_reader_release(r.reader);
            long now = resident_kib();
            most = now - before > most ? now - before : most;
        }
    }
    print_message("    two epochs of 96 MiB took %ld KiB of memory\n", most);
    free_ring(&r);
    kas_dataset_close(d);
    free(order);
    return most < LIMIT_KIB ? 0 : 1;
}

TEST(memory_is_constant)
{
    const storage chunks = {.images = 16};
    write_file(&chunks, 2048, 128);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(read_large_file());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* More than two windows of tiny images, in chunks that neighbours cross. */
TEST(windows_are_read)
{
    enum { COUNT = 20000, BATCH = 100, PIXELS = 4 * 4 * C };
    const storage chunks = {.images = 7};
    kas_dataset *whole = NULL, *d = NULL;
    uint32_t *order = malloc(sizeof *order * COUNT), wrong = 0;
    write_file(&chunks, COUNT, 4);
    OK(kas_dataset_open(path, &whole));
    OK(kas_dataset_open_streamed(path, &d));
    OK(kas_epoch_order(1, 0, KAS_SHUFFLE_WINDOW, NULL, COUNT, order));
    ring r = make_ring(d, BATCH, 3, 2);
    const kas_pass pass = {
        .images = &d->train, .order = order, .count = COUNT, .shuffle = KAS_SHUFFLE_WINDOW};
    OK(kas_reader_begin(r.reader, &pass));
    for (uint32_t at = 0; at < COUNT; at += BATCH) {
        kas_batch b;
        OK(kas_reader_next(r.reader, &b));
        for (uint32_t i = 0; i < BATCH; i++)
            wrong += memcmp(b.pixels + i * PIXELS,
                            whole->train.pixels + (size_t)order[at + i] * PIXELS, PIXELS) != 0;
        kas_reader_release(r.reader);
    }
    assert_int_equal(wrong, 0);
    free_ring(&r);
    free(order);
    kas_dataset_close(d);
    kas_dataset_close(whole);
}

/* An image a chunk, as a compressed set has it: the time to find them grows with their number, and not with its square. */
TEST(many_chunks_are_found)
{
    const storage gzip = {.images = 1, .deflate = true};
    kas_dataset *whole = NULL, *d = NULL;
    write_file(&gzip, 20000, 4);
    OK(kas_dataset_open(path, &whole));
    setenv("KAS_DATA_LIMIT_SECONDS", "2", 1);
    OK(kas_dataset_open_streamed(path, &d));
    unsetenv("KAS_DATA_LIMIT_SECONDS");
    assert_string_equal(d->digest, whole->digest);
    kas_dataset_close(d);
    kas_dataset_close(whole);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* Overwrites 8 bytes of the file. */
static void scribble(off_t at)
{
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, at), 8);
    close(fd);
}

static kas_status read_to_failure(const kas_dataset *d, int threads, uint32_t *batches)
{
    uint32_t order[TRAIN];
    ring r = make_ring(d, 4, 3, threads);
    OK(kas_epoch_order(3, 0, KAS_SHUFFLE_FULL, NULL, TRAIN, order));
    const kas_pass pass = {.images = &d->train, .order = order, .count = TRAIN};
    OK(kas_reader_begin(r.reader, &pass));
    kas_status status = KAS_OK;
    for (*batches = 0; *batches * 4 < TRAIN && status == KAS_OK; *batches += status == KAS_OK) {
        kas_batch b;
        status = kas_reader_next(r.reader, &b);
        if (status == KAS_OK)
            kas_reader_release(r.reader);
    }
    free_ring(&r);
    return status;
}

TEST(damaged_chunks_are_named)
{
    const storage gzip = {.images = 4, .deflate = true};
    char first[1024] = "";
    uint32_t batches, first_batches = 0;
    kas_dataset *d = NULL;
    write_file(&gzip, TRAIN, 0);
    setenv("KAS_DATA_LIMIT_MB", "1", 1);
    OK(kas_dataset_open_streamed(path, &d));
    unsetenv("KAS_DATA_LIMIT_MB");
    scribble((off_t)d->train.storage.extent[9].at + 20);
    scribble((off_t)d->train.storage.extent[3].at + 20);
    for (int threads = 1; threads <= 4; threads++) {
        assert_int_equal(read_to_failure(d, threads, &batches), KAS_BAD_INPUT);
        assert_non_null(strstr(kas_error(), "train/images: chunk "));
        assert_non_null(strstr(kas_error(), path));
        if (threads == 1) {
            snprintf(first, sizeof first, "%s", kas_error());
            first_batches = batches;
            print_message("    %s\n", kas_error() + strlen(folder) + 1);
        }
        assert_string_equal(kas_error(), first);
        assert_int_equal(batches, first_batches);
    }
    kas_dataset_close(d);
    assert_int_equal(kas_dataset_open_streamed(path, &d),
                     KAS_BAD_INPUT); /* to compute the digest */
    assert_non_null(strstr(kas_error(), "train/images: chunk 3 cannot be inflated"));
}

TEST(cut_while_reading)
{
    const storage plain = {0};
    kas_dataset *d = NULL;
    uint32_t batches;
    write_file(&plain, TRAIN, 0);
    OK(kas_dataset_open_streamed(path, &d));
    assert_int_equal(truncate(path, (off_t)d->train.storage.extent[0].at + 100), 0);
    assert_int_equal(read_to_failure(d, 2, &batches), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "the file was truncated"));
    kas_dataset_close(d);
}

/* More bytes than a digest has must not reach its memory. */
TEST(a_digest_is_one_text)
{
    static char digits[1000][64];
    kas_dataset *d = NULL;
    write_file(&(storage){0}, TRAIN, 0);
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, sizeof *digits);
    put_attribute(file, "digest", text, 1000, memset(digits, 'a', sizeof digits));
    H5Tclose(text), H5Fclose(file);
    assert_int_equal(kas_dataset_open(path, &d), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "expected a string of 64 bytes"));
}

TEST(the_largest_limit_is_long)
{
    kas_dataset *d = NULL;
    write_file(&(storage){0}, TRAIN, 0);
    setenv("KAS_DATA_LIMIT_SECONDS", "4294967296", 1);
    OK(kas_dataset_open(path, &d));
    unsetenv("KAS_DATA_LIMIT_SECONDS");
    kas_dataset_close(d);
}

/* What a child with corrupted memory could leave. */
TEST(impossible_places_are_refused)
{
    kas_extent extent[2] = {{100, 60, 0}, {160, 60, 0}};
    uint64_t offset[4] = {0, 20, 50, 90};
    uint32_t crc[3] = {0};
    const kas_storage good = {.path = "f",
                              .name = "train/bytes",
                              .count = 3,
                              .total = 90,
                              .extent_bytes = 60,
                              .extents = 2,
                              .extent = extent,
                              .offset = offset,
                              .crc = crc};
    OK(kas_storage_check(&good, 220));
    assert_int_equal(kas_storage_check(&good, 219), KAS_BAD_INPUT);
    kas_storage s = good;
    s.extents = 3;
    assert_int_equal(kas_storage_check(&s, 220), KAS_BAD_INPUT);
    s = good, s.image_bytes = 31;
    assert_int_equal(kas_storage_check(&s, 220), KAS_BAD_INPUT);
    s = good, s.extent_bytes = 0;
    assert_int_equal(kas_storage_check(&s, 220), KAS_BAD_INPUT);
    extent[1].size = 29;
    assert_int_equal(kas_storage_check(&good, 220), KAS_BAD_INPUT);
    extent[1].size = 30, extent[0].at = UINT64_MAX - 10;
    assert_int_equal(kas_storage_check(&good, 220), KAS_BAD_INPUT);
    extent[0].at = 100, offset[2] = 20;
    assert_int_equal(kas_storage_check(&good, 220), KAS_BAD_INPUT);
    offset[2] = 91;
    assert_int_equal(kas_storage_check(&good, 220), KAS_BAD_INPUT);
}

/* ---- order ----------------------------------------------------------------------------------- */

TEST(orders_are_permutations)
{
    enum { COUNT = 80 * KAS_SHUFFLE_BLOCK };
    static uint32_t index[COUNT], order[COUNT], again[COUNT];
    static uint8_t seen[3 * COUNT + 1];
    for (uint32_t i = 0; i < COUNT; i++)
        index[i] = 3 * i + 1;
    for (int shuffle = KAS_SHUFFLE_FULL; shuffle <= KAS_SHUFFLE_WINDOW; shuffle++) {
        memset(seen, 0, sizeof seen);
        OK(kas_epoch_order(5, 2, (kas_shuffle)shuffle, index, COUNT, order));
        for (uint32_t i = 0; i < COUNT; i++) {
            assert_true(order[i] % 3 == 1 && order[i] < 3 * COUNT && !seen[order[i]]);
            seen[order[i]] = 1;
        }
        OK(kas_epoch_order(5, 2, (kas_shuffle)shuffle, index, COUNT, again));
        assert_memory_equal(order, again, sizeof order);
        OK(kas_epoch_order(5, 3, (kas_shuffle)shuffle, index, COUNT, again));
        assert_memory_not_equal(order, again, sizeof order);
    }
    /* A window holds whole blocks, mixed. */
    memset(seen, 0, sizeof seen);
    uint32_t blocks = 0, turns = 0;
    for (uint32_t i = 0; i < KAS_SHUFFLE_BLOCKS * KAS_SHUFFLE_BLOCK; i++) {
        uint32_t block = order[i] / 3 / KAS_SHUFFLE_BLOCK;
        blocks += !seen[block];
        seen[block] = 1;
        turns += i > 0 && order[i] > order[i - 1];
    }
    assert_int_equal(blocks, KAS_SHUFFLE_BLOCKS);
    assert_in_range(turns, 3600, 4600); /* about half of 8192 */
}

RUN_TESTS(set_up, remove_folder)
