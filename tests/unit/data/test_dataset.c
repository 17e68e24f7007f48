/* The HDF5 layout: round trip, every error with its message, damaged files, the split.
 * Bad files are written with the HDF5 library itself, from one recipe with one thing changed. */
#include "support/test.h"

#include <fcntl.h>
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/data/dataset.h"
#include "support/folder.h"

static char file_path[128];

static int set_up(void **state)
{
    const int made = make_folder(state);
    snprintf(file_path, sizeof file_path, "%s/f.h5", folder);
    return made;
}

/* ---- a recipe for a file ---- */

typedef struct recipe {
    const char *leave_out;        /* an object or attribute that is not written */
    hid_t image_type, label_type; /* in the file */
    hsize_t train[4], test[4];    /* shape of images */
    int image_rank;
    hsize_t train_labels; /* count */
    long long bad_label;  /* written as train label 3 when not 0 */
    int classes, floats;  /* length of attributes */
    float first_std, first_mean;
    int label_rank;
    bool chunked, fixed_names;
    const char *group_instead; /* this name is a group, not a data set */
    const char *long_name;
    int layout;
} recipe;

static recipe good_recipe(void)
{
    return (recipe){.image_type = H5T_STD_U8LE,
                    .label_type = H5T_STD_U8LE,
                    .train = {12, 5, 6, 3},
                    .test = {4, 5, 6, 3},
                    .image_rank = 4,
                    .train_labels = 12,
                    .classes = 4,
                    .floats = 3,
                    .first_std = 0.25f,
                    .first_mean = 0.5f,
                    .label_rank = 1};
}

static bool wanted(const recipe *r, const char *name)
{
    return !r->leave_out || strcmp(r->leave_out, name) != 0;
}

static void put(hid_t file, const recipe *r, const char *name, hid_t type, hid_t memory, int rank,
                const hsize_t *dims, const void *data)
{
    hid_t links = H5Pcreate(H5P_LINK_CREATE), plist = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    if (!wanted(r, name)) {
        /* nothing */
    } else if (r->group_instead && strcmp(r->group_instead, name) == 0) {
        hid_t group = H5Gcreate2(file, name, links, H5P_DEFAULT, H5P_DEFAULT);
        assert_true(group >= 0);
        H5Gclose(group);
    } else {
        if (r->chunked) {
            hsize_t chunk[4] = {3, 2, 4, 2};
            H5Pset_chunk(plist, rank, chunk);
            H5Pset_shuffle(plist);
            H5Pset_deflate(plist, 6);
        }
        hid_t space = H5Screate_simple(rank, dims, NULL);
        hid_t set = H5Dcreate2(file, name, type, space, links, plist, H5P_DEFAULT);
        assert_true(set >= 0);
        assert_true(H5Dwrite(set, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
        H5Dclose(set);
        H5Sclose(space);
    }
    H5Pclose(plist);
    H5Pclose(links);
}

static uint8_t pixel(uint64_t i)
{
    return (uint8_t)(i * 2654435761u >> 7);
}

static void put_set(hid_t file, const recipe *r, const hsize_t dims[4], hsize_t label_count,
                    const char *images, const char *labels)
{
    hsize_t size = 1;
    for (int i = 0; i < r->image_rank; i++)
        size *= dims[i];
    uint8_t *pixels = malloc(size ? size : 1);
    for (hsize_t i = 0; i < size; i++)
        pixels[i] = pixel(i);
    long long values[64];
    for (hsize_t i = 0; i < 64; i++)
        values[i] = (long long)(i % 4);
    if (r->bad_label && strcmp(labels, "train/labels") == 0)
        values[3] = r->bad_label;
    hsize_t label_dims[2] = {label_count, 1};
    put(file, r, images, r->image_type, H5T_NATIVE_UINT8, r->image_rank, dims, pixels);
    put(file, r, labels, r->label_type, H5T_NATIVE_LLONG, r->label_rank, label_dims, values);
    free(pixels);
}

static void put_attribute(hid_t file, const recipe *r, const char *name, hid_t type, hid_t memory,
                          int count, const void *data)
{
    if (!wanted(r, name))
        return;
    hsize_t dims = (hsize_t)count;
    hid_t space = H5Screate_simple(1, &dims, NULL);
    hid_t attribute = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(attribute >= 0 && H5Awrite(attribute, memory, data) >= 0);
    H5Aclose(attribute);
    H5Sclose(space);
}

static void put_names(hid_t file, const recipe *r)
{
    static const char *names[8] = {"ant", "bee", "cat", "dörnrosen", "e", "f", "g", "h"};
    static char fixed[8][10];
    const char *used[8];
    for (int i = 0; i < 8; i++) {
        used[i] = i == 1 && r->long_name ? r->long_name : names[i];
        memcpy(fixed[i], names[i], strlen(names[i]));
    }
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, r->fixed_names ? 10 : H5T_VARIABLE);
    H5Tset_strpad(type, r->fixed_names ? H5T_STR_NULLPAD : H5T_STR_NULLTERM);
    H5Tset_cset(type, H5T_CSET_UTF8);
    put_attribute(file, r, "classes", type, type, r->classes,
                  r->fixed_names ? (const void *)fixed : (const void *)used);
    H5Tclose(type);
}

static void cook(const recipe *r)
{
    float mean[8] = {r->first_mean, 0.5f, 0.5f, 0.5f}, std[8] = {r->first_std, 0.25f, 0.25f, 0.25f};
    hid_t file = H5Fcreate(file_path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(file >= 0);
    put_set(file, r, r->train, r->train_labels, "train/images", "train/labels");
    put_set(file, r, r->test, r->test[0], "test/images", "test/labels");
    put_names(file, r);
    put_attribute(file, r, "mean", H5T_IEEE_F64BE, H5T_NATIVE_FLOAT, r->floats, mean);
    put_attribute(file, r, "std", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, r->floats, std);
    if (r->layout)
        put_attribute(file, r, "layout", H5T_STD_I32LE, H5T_NATIVE_INT, 1, &r->layout);
    assert_true(H5Fclose(file) >= 0);
}

/* ---- checks ---- */

static void expect_good(void)
{
    kas_dataset *d = NULL;
    kas_status status = kas_dataset_open(file_path, &d);
    if (status != KAS_OK)
        fail_msg("expected to open, got: %s", kas_error());
    assert_int_equal(d->h, 5);
    assert_int_equal(d->w, 6);
    assert_int_equal(d->c, 3);
    assert_int_equal(d->classes, 4);
    assert_int_equal(d->train.count, 12);
    assert_int_equal(d->test.count, 4);
    assert_string_equal(d->class_name[0], "ant");
    assert_string_equal(d->class_name[3], "dörnrosen");
    for (uint32_t i = 0; i < 12 * 90; i++)
        assert_int_equal(d->train.pixels[i], pixel(i));
    for (uint32_t i = 0; i < 4 * 90; i++)
        assert_int_equal(d->test.pixels[i], pixel(i));
    for (uint32_t i = 0; i < 12; i++)
        assert_int_equal(d->train.labels[i], i % 4);
    assert_true(d->mean[0] == 0.5f && d->std[2] == 0.25f);
    assert_int_equal(strlen(d->digest), 64);
    kas_dataset_close(d);
}

/* The file must be refused with KAS_BAD_INPUT, its path, and each of the words (separated by |). */
static void expect_bad(const char *words)
{
    kas_dataset *d = (kas_dataset *)1;
    kas_status status = kas_dataset_open(file_path, &d);
    assert_null(d);
    assert_int_equal(status, KAS_BAD_INPUT);
    assert_int_equal(kas_exit_code(status), 3);
    char copy[512];
    snprintf(copy, sizeof copy, "%s|%s", file_path, words);
    char *rest = copy;
    for (char *word; (word = strsep(&rest, "|"));)
        if (!strstr(kas_error(), word))
            fail_msg("expected \"%s\" in the message, found: %s", word, kas_error());
    print_message("    %s\n", kas_error() + strlen(folder) + 1);
}

TEST(accepted_forms)
{
    recipe r = good_recipe();
    cook(&r);
    expect_good();
    r.chunked = true, r.fixed_names = true, r.layout = 1;
    cook(&r);
    expect_good();
    const hid_t types[] = {H5T_STD_I8BE,  H5T_STD_I16LE, H5T_STD_U16BE, H5T_STD_I32BE,
                           H5T_STD_U32LE, H5T_STD_I64LE, H5T_STD_U64BE};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        r.label_type = types[i];
        cook(&r);
        expect_good();
    }
}

#define CASE(change, words)                                                                        \
    do {                                                                                           \
        recipe r = good_recipe();                                                                  \
        change;                                                                                    \
        cook(&r);                                                                                  \
        expect_bad(words);                                                                         \
    } while (0)

TEST(missing_objects)
{
    CASE(r.leave_out = "train/images", "train/images is missing|uint8 [N][H][W][C]");
    CASE(r.leave_out = "train/labels", "train/labels is missing|integers [12]");
    CASE(r.leave_out = "test/images", "test/images is missing");
    CASE(r.leave_out = "test/labels", "test/labels is missing|integers [4]");
    CASE(r.leave_out = "classes", "attribute \"classes\" of / is missing|names of the classes");
    CASE(r.leave_out = "mean", "attribute \"mean\" of / is missing|3 numbers (float) from 0 to 1");
    CASE(r.leave_out = "std", "attribute \"std\" of / is missing|3 numbers (float) above 0");
    CASE(r.group_instead = "train/images", "train/images|expected a data set|found a group");
    hid_t file = H5Fcreate(file_path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    expect_bad("train is missing|a group with images and labels");
}

TEST(wrong_shapes_and_types)
{
    CASE(r.image_type = H5T_IEEE_F32LE, "train/images|expected uint8|found float32 [12][5][6][3]");
    CASE(r.image_type = H5T_STD_I8LE, "train/images|expected uint8|found int8");
    CASE(r.image_rank = 3, "train/images|[N][H][W][C]|found uint8 [12][5][6]");
    CASE(r.train[0] = 0, "train/images|N >= 1|found uint8 [0][5][6][3]");
    CASE(r.test[0] = 0, "test/images|N >= 1");
    CASE(r.train[3] = r.test[3] = 5, "train/images|1 to 4 channels|[12][5][6][5]");
    CASE(r.test[1] = 7, "test/images|5x6x3|7x6x3");
    CASE(r.test[3] = 1, "test/images|5x6x3|5x6x1");
    CASE(r.train_labels = 11, "train/labels|integers [12]|[11]");
    CASE(r.label_rank = 2, "train/labels|integers [12]|[12][1]");
    CASE(r.label_type = H5T_IEEE_F64LE, "train/labels|integers [12]|float64");
}

TEST(bad_values)
{
    CASE(r.bad_label = 4, "train/labels: entry 3|[0, 3]|found 4");
    CASE((r.bad_label = -1, r.label_type = H5T_STD_I64LE), "train/labels: entry 3|found -1");
    CASE((r.bad_label = 70000, r.label_type = H5T_STD_I32LE), "train/labels: entry 3|found 70000");
    CASE(r.classes = 3, "entry 3|has 3 names|found 3");
    CASE(r.classes = 0, "\"classes\"|1 to 65535 strings|found 0");
    CASE(r.floats = 2, "\"mean\"|3 numbers|found 2");
    CASE(r.first_std = 0, "\"std\"|above 0, at most 1|found 0");
    CASE(r.first_std = NAN, "\"std\"|above 0|nan");
    CASE(r.first_std = 63.5f, "\"std\"|found 63.5: divide it by 255");
    CASE(r.first_mean = 128, "\"mean\"|found 128: divide it by 255");
    CASE(r.first_mean = INFINITY, "\"mean\"|from 0 to 1|inf");
    CASE(r.long_name = "", "\"classes\"|entry 1|1 to 255 bytes|found 0");
    char name[300];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    CASE(r.long_name = name, "\"classes\"|entry 1|1 to 255 bytes");
    CASE(r.layout = 2, "\"layout\"|expected 1|found 2|newer");
}

static void overwrite(const void *data, size_t size)
{
    assert_int_equal(kas_file_write_atomic(file_path, data, size), KAS_OK);
}

TEST(not_a_readable_file)
{
    overwrite("", 0);
    expect_bad("not an HDF5 file");
    overwrite("label,pixels\n1,2\n", 17);
    expect_bad("not an HDF5 file|kas-gpu dataset import");
    unlink(file_path);
    expect_bad("cannot open|No such file");
    mkdir(file_path, 0700);
    expect_bad("expected an HDF5 file|a folder");
    rmdir(file_path);
    mkfifo(file_path, 0600);
    expect_bad("expected an HDF5 file");
    unlink(file_path);
}

TEST(too_large)
{
    recipe r = good_recipe();
    r.train[1] = r.test[1] = 200, r.train[2] = r.test[2] = 200; /* 1.8 MiB */
    cook(&r);
    setenv("KAS_DATA_LIMIT_MB", "1", 1);
    kas_dataset *d = NULL;
    assert_int_equal(kas_dataset_open(file_path, &d), KAS_OK);
    assert_null(d->train.pixels); /* they stay in the file */
    kas_dataset_close(d);
    r.chunked = true;
    cook(&r);
    expect_bad("larger than the limit of 1 MiB|KAS_DATA_LIMIT_MB|chunks are 3x2x4x2");
    setenv("KAS_DATA_LIMIT_MB", "2", 1);
    assert_int_equal(kas_dataset_open(file_path, &d), KAS_OK);
    assert_non_null(d->train.pixels);
    kas_dataset_close(d);
    setenv("KAS_DATA_LIMIT_MB", "many", 1);
    assert_int_equal(kas_dataset_open(file_path, &d), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "KAS_DATA_LIMIT_MB"));
    unsetenv("KAS_DATA_LIMIT_MB");
}

/* A cut file is always refused: HDF5 keeps the length in its header. */
TEST(truncated)
{
    recipe r = good_recipe();
    cook(&r);
    kas_buf whole = {0};
    assert_int_equal(kas_file_read(file_path, 1 << 20, &whole), KAS_OK);
    int cuts = 0;
    for (size_t size = 0; size < whole.size; size += size < 64 ? 16 : 211, cuts++) {
        overwrite(whole.data, size);
        kas_dataset *d = NULL;
        kas_status status = kas_dataset_open(file_path, &d);
        if (status != KAS_BAD_INPUT || !strstr(kas_error(), file_path))
            fail_msg("cut to %zu of %zu bytes: status %d, %s", size, whole.size, status,
                     kas_error());
    }
    print_message("    %d cuts of a file of %zu bytes, each refused\n", cuts, whole.size);
    overwrite(whole.data, whole.size / 2);
    expect_bad("truncated");
    kas_buf_free(&whole);
}

static kas_dataset *filled(uint32_t train, uint32_t classes)
{
    kas_dataset *d = NULL;
    assert_int_equal(kas_dataset_create(4, 4, 2, classes, train, 3, &d), KAS_OK);
    for (uint32_t i = 0; i < train * 32; i++)
        d->train.pixels[i] = pixel(i);
    for (uint32_t i = 0; i < train; i++)
        d->train.labels[i] = (uint16_t)(i % classes);
    for (uint32_t i = 0; i < 3 * 32; i++)
        d->test.pixels[i] = pixel(i + 5);
    kas_dataset_finish(d);
    return d;
}

/* As many as a class number of 16 bits can name. */
TEST(names_of_many_classes)
{
    enum { CLASSES = 65535 };
    kas_dataset *d = filled(10, CLASSES), *back = NULL;
    assert_int_equal(kas_dataset_name_class(d, CLASSES - 1, "the last"), KAS_OK);
    assert_int_equal(kas_dataset_write(file_path, d), KAS_OK);
    assert_int_equal(kas_dataset_open(file_path, &back), KAS_OK);
    assert_string_equal(back->class_name[CLASSES - 1], "the last");
    assert_string_equal(back->digest, d->digest);
    kas_dataset_close(back);
    kas_dataset_close(d);
}

TEST(writes_what_it_reads)
{
    kas_dataset *d = filled(20, 5), *back = NULL;
    assert_int_equal(kas_dataset_name_class(d, 2, "two \"words\""), KAS_OK);
    char killed[4200], running[4200]; /* what two other writers have left or are writing */
    snprintf(killed, sizeof killed, "%s.unfinished-Ab12Cd", file_path);
    snprintf(running, sizeof running, "%s.unfinished-Ef34Gh", file_path);
    assert_int_equal(kas_file_write_atomic(killed, "half", 4), KAS_OK);
    assert_int_equal(kas_file_write_atomic(running, "half", 4), KAS_OK);
    const struct timespec hours_ago[2] = {{.tv_sec = time(NULL) - 7200},
                                          {.tv_sec = time(NULL) - 7200}};
    assert_int_equal(utimensat(AT_FDCWD, killed, hours_ago, 0), 0);
    assert_int_equal(kas_dataset_write(file_path, d), KAS_OK);
    assert_false(kas_file_exists(killed));
    assert_true(kas_file_exists(running));
    assert_int_equal(unlink(running), 0);
    assert_int_equal(kas_dataset_open(file_path, &back), KAS_OK);
    assert_string_equal(back->digest, d->digest);
    assert_string_equal(back->class_name[2], "two \"words\"");
    assert_string_equal(back->class_name[4], "class 4");
    assert_memory_equal(back->train.pixels, d->train.pixels, 20 * 32);
    assert_memory_equal(back->test.pixels, d->test.pixels, 3 * 32);
    assert_memory_equal(back->train.labels, d->train.labels, 40);
    assert_memory_equal(back->mean, d->mean, 2 * sizeof(float));
    assert_memory_equal(back->std, d->std, 2 * sizeof(float));
    kas_buf first = {0}, second = {0};
    assert_int_equal(kas_file_read(file_path, 1 << 20, &first), KAS_OK);
    assert_int_equal(kas_dataset_write(file_path, back), KAS_OK);
    assert_int_equal(kas_file_read(file_path, 1 << 20, &second), KAS_OK);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.data, second.data, first.size);
    kas_buf_free(&first), kas_buf_free(&second);
    back->train.labels[0] ^= 1;
    kas_dataset_digest(back, back->digest);
    assert_string_not_equal(back->digest, d->digest);
    kas_dataset_close(back);
    assert_int_equal(kas_dataset_write("/nonexistent/x.h5", d), KAS_FAILURE);
    assert_non_null(strstr(kas_error(), "/nonexistent/x.h5"));
    kas_dataset_close(d);
}

TEST(mean_and_std)
{
    kas_dataset *d = NULL;
    assert_int_equal(kas_dataset_create(1, 2, 2, 2, 2, 1, &d), KAS_OK);
    memcpy(d->train.pixels, (uint8_t[]){0, 51, 255, 51, 0, 51, 255, 51}, 8);
    kas_dataset_finish(d);
    double error = fabs(d->mean[0] - 0.5) + fabs(d->std[0] - 0.5) + fabs(d->mean[1] - 0.2) +
                   fabs(d->std[1] - 1.0);
    print_message("    largest error %g, tolerance 1e-6\n", error);
    assert_true(error <= 1e-6);
    kas_dataset_close(d);
}

static void check_split(const kas_dataset *d, uint64_t seed, double fraction)
{
    uint32_t *index = NULL, train, validation;
    assert_int_equal(kas_dataset_split(d, seed, fraction, &index, &train, &validation), KAS_OK);
    assert_int_equal(train + validation, d->train.count);
    uint8_t *seen = calloc(d->train.count, 1);
    uint32_t *of_class = calloc(d->classes, sizeof *of_class),
             *all = calloc(d->classes, sizeof *all);
    for (uint32_t i = 0; i < d->train.count; i++) {
        assert_true(index[i] < d->train.count && !seen[index[i]]);
        seen[index[i]] = 1;
        all[d->train.labels[i]]++;
        of_class[d->train.labels[index[i]]] += i >= train;
    }
    for (uint32_t k = 0; k < d->classes; k++)
        if (!(fabs(of_class[k] - all[k] * fraction) < 1.0 + 1e-9))
            fail_msg("class %u of %u gave %u", k, all[k], of_class[k]);
    free(seen), free(of_class), free(all), free(index);
}

TEST(split_is_balanced_and_fixed)
{
    kas_dataset *d = filled(997, 10);
    check_split(d, 1, 0.1);
    check_split(d, 2, 0.33);
    check_split(d, 3, 0.9);
    uint32_t *a = NULL, *b = NULL, *c = NULL, n, m;
    assert_int_equal(kas_dataset_split(d, 7, 0.2, &a, &n, &m), KAS_OK);
    assert_int_equal(m, 199);
    assert_int_equal(kas_dataset_split(d, 7, 0.2, &b, &n, &m), KAS_OK);
    assert_int_equal(kas_dataset_split(d, 8, 0.2, &c, &n, &m), KAS_OK);
    assert_memory_equal(a, b, 997 * sizeof *a);
    assert_memory_not_equal(a, c, 997 * sizeof *a);
    free(a), free(b), free(c);
    assert_int_equal(kas_dataset_split(d, 7, 0.0, &a, &n, &m), KAS_BAD_INPUT);
    assert_int_equal(kas_dataset_split(d, 7, NAN, &a, &n, &m), KAS_BAD_INPUT);
    assert_int_equal(kas_dataset_split(d, 7, 0.0001, &a, &n, &m), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "leaves one part empty"));
    kas_dataset_close(d);
    d = filled(40, 10); /* 4 a class, one tenth: 4 classes give one image each */
    check_split(d, 1, 0.1);
    kas_dataset_close(d);
}

/* Halves have the same images as before, each class evenly, and depend on the seed alone. */
static void check_halves(const kas_dataset *d, uint64_t seed, uint32_t count, uint32_t *index)
{
    uint32_t first, *of_class = calloc(2 * (size_t)d->classes, sizeof *of_class);
    uint8_t *seen = calloc(d->train.count, 1);
    for (uint32_t i = 0; i < count; i++)
        seen[index[i]] = 1;
    assert_int_equal(kas_dataset_halve(d, seed, index, count, &first), KAS_OK);
    assert_int_equal(first, (count + 1) / 2);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(seen[index[i]] == 1);
        seen[index[i]] = 2;
        assert_true(i == 0 || i == first || index[i - 1] < index[i]);
        of_class[2 * d->train.labels[index[i]] + (i >= first)]++;
    }
    for (uint32_t k = 0; k < d->classes; k++)
        if (abs((int)of_class[2 * k] - (int)of_class[2 * k + 1]) > 1)
            fail_msg("class %u: %u and %u", k, of_class[2 * k], of_class[2 * k + 1]);
    free(of_class), free(seen);
}

TEST(halves_are_balanced_and_fixed)
{
    kas_dataset *d = filled(997, 10);
    uint32_t *index[3], n, m, first;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kas_dataset_split(d, 7, 0.2, &index[i], &n, &m), KAS_OK);
        check_halves(d, i == 2 ? 8 : 7, m, index[i] + n);
    }
    assert_memory_equal(index[0], index[1], 997 * sizeof n);
    assert_memory_not_equal(index[0], index[2], 997 * sizeof n);
    assert_int_equal(kas_dataset_halve(d, 7, index[0], 1, &first), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "cannot be halved"));
    for (int i = 0; i < 3; i++)
        free(index[i]);
    kas_dataset_close(d);
}

/* What file_path says lies in other files, which are good and would be read. */
enum { STORAGE, VIRTUAL, LINK, LINK_TO_GROUP, LINK_BEHIND_LINK, WAYS };

static void point_elsewhere(int way, const char *other, const char *raw)
{
    const hsize_t dims[4] = {12, 5, 6, 3};
    hid_t file = H5Fopen(file_path, H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t space = H5Screate_simple(4, dims, NULL), plist = H5Pcreate(H5P_DATASET_CREATE);
    assert_true(H5Ldelete(file, way == LINK_TO_GROUP ? "train" : "train/images", H5P_DEFAULT) >= 0);
    if (way == STORAGE || way == VIRTUAL) {
        assert_true((way == STORAGE
                         ? H5Pset_external(plist, raw, 0, 12 * 5 * 6 * 3)
                         : H5Pset_virtual(plist, space, other, "train/images", space)) >= 0);
        hid_t set =
            H5Dcreate2(file, "train/images", H5T_STD_U8LE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
        assert_true(set >= 0 && H5Dclose(set) >= 0);
    } else {
        const char *from = way == LINK ? "train/images" : way == LINK_TO_GROUP ? "train" : "hop";
        assert_true(H5Lcreate_external(other, way == LINK_TO_GROUP ? "train" : "train/images", file,
                                       from, H5P_DEFAULT, H5P_DEFAULT) >= 0);
        if (way == LINK_BEHIND_LINK)
            assert_true(H5Lcreate_soft("/hop", file, "train/images", H5P_DEFAULT, H5P_DEFAULT) >=
                        0);
    }
    H5Pclose(plist), H5Sclose(space);
    assert_true(H5Fclose(file) >= 0);
}

TEST(other_files_are_not_read)
{
    char kept[128], other[128], raw[128], pixels[12 * 5 * 6 * 3] = "";
    recipe r = good_recipe();
    memcpy(kept, file_path, sizeof kept);
    snprintf(other, sizeof other, "%s/other.h5", folder);
    snprintf(raw, sizeof raw, "%s/raw", folder);
    assert_int_equal(kas_file_write_atomic(raw, pixels, sizeof pixels), KAS_OK);
    memcpy(file_path, other, sizeof other);
    cook(&r);
    memcpy(file_path, kept, sizeof kept);
    for (int way = 0; way < WAYS; way++) {
        cook(&r);
        point_elsewhere(way, other, raw);
        expect_bad("lies in another file");
    }
}

RUN_TESTS(set_up, remove_folder)
