#include "hdf5_forms.h"

#include <math.h>

#include <zlib.h>

#include "fuzz_run.h"

enum { TRAIN = 12, TEST = 4, SIDE = 5, CHANNELS = 3, CLASSES = 4, BYTES = 40, BOMB = 48 << 20 };

/* ---- a form ---------------------------------------------------------------------------------- */

static hdf5_set right_set(hid_t type, int rank, hsize_t a, hsize_t b)
{
    return (hdf5_set){.type = type, .rank = rank, .size = {a, b, b, CHANNELS}};
}

static hdf5_form right_form(bool encoded)
{
    hdf5_form form = {.encoded = encoded,
                      .names_type = H5T_C_S1,
                      .number_type = H5T_IEEE_F32LE,
                      .names = CLASSES,
                      .numbers = CHANNELS,
                      .input = 3,
                      .mean = 0.5,
                      .std = 0.25,
                      .layout = 1};
    for (int half = 0; half < 2; half++) {
        hdf5_set *set = form.set + 4 * half;
        const hsize_t count = half ? TEST : TRAIN;
        set[0] = encoded ? right_set(H5T_STD_U8LE, 1, count * BYTES, 0)
                         : right_set(H5T_STD_U8LE, 4, count, SIDE);
        set[1] = right_set(H5T_STD_U8LE, 1, count, 0);
        set[2] = right_set(H5T_STD_U64LE, 1, count + 1, 0);
        set[3] = right_set(H5T_STD_U32LE, 1, count, 0);
    }
    return form;
}

static hid_t odd_type(kas_rng *rng)
{
    const hid_t types[] = {H5T_STD_I8LE,   H5T_STD_U16BE,   H5T_STD_I64LE, H5T_STD_U64BE,
                           H5T_IEEE_F32LE, H5T_IEEE_F64BE,  H5T_STD_B8LE,  H5T_C_S1,
                           H5T_UNIX_D32LE, H5T_STD_REF_OBJ, H5T_STD_U8LE};
    return types[kas_rng_below(rng, sizeof types / sizeof *types)];
}

static hsize_t odd_size(kas_rng *rng)
{
    static const hsize_t sizes[] = {
        0, 1, 2, 4, 6, 13, 65535, 65536, 1ull << 31, 1ull << 32, 1ull << 40, 1000, 1ull << 62};
    return sizes[kas_rng_below(rng, sizeof sizes / sizeof *sizes)];
}

static long long odd_value(kas_rng *rng)
{
    static const long long values[] = {-1, 4, 255, 65536, INT32_MAX, INT64_MAX, INT64_MIN};
    return values[kas_rng_below(rng, sizeof values / sizeof *values)];
}

static void spoil_set(kas_rng *rng, hdf5_set *set)
{
    switch (kas_rng_below(rng, 6)) {
    case 0:
        set->object = (hdf5_object)kas_rng_below(rng, HDF5_OBJECTS);
        return;
    case 1:
        set->type = odd_type(rng);
        return;
    case 2:
        set->rank = (int)kas_rng_below(rng, 6);
        return;
    case 3:
        set->size[kas_rng_below(rng, (uint32_t)set->rank + (set->rank == 0))] = odd_size(rng);
        return;
    case 4:
        set->value = odd_value(rng);
        return;
    default:
        set->storage = (hdf5_storage)kas_rng_below(rng, HDF5_STORAGES);
    }
}

static void spoil_attribute(kas_rng *rng, hdf5_form *form)
{
    static const double numbers[] = {NAN, INFINITY, -1, 0, 1e300, 5e-324};
    const double number = numbers[kas_rng_below(rng, 6)];
    switch (kas_rng_below(rng, 6)) {
    case 0:
        form->names_type = odd_type(rng);
        return;
    case 1:
        form->number_type = odd_type(rng);
        return;
    case 2:
        form->names = kas_rng_below(rng, 8);
        return;
    case 3:
        form->numbers = kas_rng_below(rng, 8);
        return;
    case 4:
        *(kas_rng_below(rng, 2) ? &form->mean : &form->std) = number;
        return;
    default:
        form->layout = odd_value(rng);
        form->input = kas_rng_below(rng, 6);
    }
}

hdf5_form hdf5_random_form(kas_rng *rng)
{
    static const hdf5_storage good[] = {HDF5_CONTIGUOUS, HDF5_CHUNKED, HDF5_CHECKED, HDF5_COMPACT};
    hdf5_form form = right_form(kas_rng_below(rng, 4) == 0);
    form.newest = kas_rng_below(rng, 2);
    form.user_block = kas_rng_below(rng, 8) ? 0 : 512;
    for (int i = 0; i < 8; i++)
        form.set[i].storage = good[kas_rng_below(rng, 4)];
    for (uint32_t n = kas_rng_below(rng, 3); n > 0; n--)
        if (kas_rng_below(rng, 4))
            spoil_set(rng, &form.set[kas_rng_below(rng, 8)]);
        else
            spoil_attribute(rng, &form);
    return form;
}

/* ---- how a data set is stored ---------------------------------------------------------------- */

static hsize_t elements(const hdf5_set *set)
{
    double n = 1;
    for (int i = 0; i < set->rank; i++)
        n *= (double)set->size[i];
    return n <= LONG_MAX ? (hsize_t)n : LONG_MAX;
}

static void set_chunks(hid_t list, const hdf5_set *set)
{
    hsize_t chunk[5];
    for (int i = 0; i < set->rank; i++) {
        const hsize_t size = set->size[i] < 8 ? set->size[i] : 8;
        const bool whole = i > 0 || set->storage == HDF5_BOMB || set->storage == HDF5_GARBAGE;
        chunk[i] = whole && set->storage != HDF5_CHUNKED ? size : (size + 1) / 2;
        chunk[i] += chunk[i] == 0;
    }
    if (set->storage == HDF5_HUGE_CHUNK)
        chunk[0] = 1 << 16;
    H5Pset_chunk(list, set->rank, chunk);
    if (set->storage == HDF5_CHECKED)
        H5Pset_fletcher32(list);
    else if (set->storage == HDF5_CHUNKED)
        H5Pset_shuffle(list);
    if (set->storage != HDF5_CHECKED)
        H5Pset_deflate(list, 6);
}

/* Sets of any size are possible where nothing is written. */
static hid_t creation_list(const hdf5_set *set)
{
    const hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    const bool large = elements(set) > 65536;
    if (set->storage == HDF5_EXTERNAL)
        H5Pset_external(list, "/etc/hostname", 0, H5F_UNLIMITED);
    else if (set->storage == HDF5_COMPACT && !large)
        H5Pset_layout(list, H5D_COMPACT);
    else if (set->rank > 0 &&
             (large || (set->storage >= HDF5_CHUNKED && set->storage != HDF5_COMPACT)))
        set_chunks(list, set);
    return list;
}

/* Of the first chunk, past the library's filters. */
static void write_raw(hid_t set, bool bomb)
{
    static Bytef packed[BOMB / 500];
    static uLongf size;
    const hsize_t zero[5] = {0};
    const Bytef garbage[100] = "neither gzip nor zlib";
    if (bomb && size == 0) {
        Bytef *zeros = calloc(BOMB, 1);
        size = sizeof packed;
        MUST(zeros && compress2(packed, &size, zeros, BOMB, 9) == Z_OK);
        free(zeros);
    }
    H5Dwrite_chunk(set, H5P_DEFAULT, 0, zero, bomb ? size : sizeof garbage,
                   bomb ? packed : garbage);
}

/* ---- objects --------------------------------------------------------------------------------- */

static long long element(int kind, hsize_t i)
{
    switch (kind) {
    case 0: /* pixels, bytes */
        return (long long)(i * 2654435761u >> 7 & 255);
    case 1: /* labels */
        return (long long)(i % CLASSES);
    case 2: /* offsets */
        return (long long)i * BYTES;
    default: { /* checksums of the bytes */
        Bytef bytes[BYTES];
        for (hsize_t k = 0; k < BYTES; k++)
            bytes[k] = (Bytef)element(0, i * BYTES + k);
        return (long long)crc32(0, bytes, BYTES);
    }
    }
}

static void fill_set(hid_t set, const hdf5_set *s, int kind)
{
    const hsize_t count = elements(s);
    if (count > 65536 || s->storage == HDF5_EMPTY || s->storage == HDF5_EXTERNAL)
        return;
    long long *values = calloc(count + 1, sizeof *values);
    MUST(values);
    for (hsize_t i = 0; i < count; i++)
        values[i] = i == count / 3 && s->value ? s->value : element(kind, i);
    H5Dwrite(set, H5T_NATIVE_LLONG, H5S_ALL, H5S_ALL, H5P_DEFAULT, values); /* text stays empty */
    free(values);
}

static void write_set(hid_t file, const char *name, const hdf5_form *form, int which)
{
    const hdf5_set *s = &form->set[which];
    const hid_t space = H5Screate_simple(s->rank, s->size, NULL), list = creation_list(s);
    const hid_t set = H5Dcreate2(file, name, s->type, space, H5P_DEFAULT, list, H5P_DEFAULT);
    if (set >= 0) { /* the library refuses some: then there is none */
        if (s->storage == HDF5_BOMB || s->storage == HDF5_GARBAGE)
            write_raw(set, s->storage == HDF5_BOMB);
        else
            fill_set(set, s, which % 4);
        H5Dclose(set);
    }
    H5Pclose(list);
    H5Sclose(space);
}

static void write_object(hid_t file, const char *name, const hdf5_form *form, int which)
{
    switch (form->set[which].object) {
    case HDF5_SET:
        write_set(file, name, form, which);
        return;
    case HDF5_GROUP:
        H5Gclose(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        return;
    case HDF5_TYPE: {
        const hid_t type = H5Tcopy(H5T_STD_U8LE);
        H5Tcommit2(file, name, type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        H5Tclose(type);
        return;
    }
    case HDF5_LOOP:
        H5Lcreate_soft(name, file, name, H5P_DEFAULT, H5P_DEFAULT);
        return;
    case HDF5_OUTSIDE:
        H5Lcreate_external("/dev/zero", "/train/images", file, name, H5P_DEFAULT, H5P_DEFAULT);
        return;
    case HDF5_NOTHING:
    case HDF5_OBJECTS:
        return;
    }
}

/* ---- attributes ------------------------------------------------------------------------------ */

static void write_attribute(hid_t file, const char *name, hid_t type, hid_t memory, hsize_t count,
                            const void *values)
{
    const hid_t space = H5Screate_simple(1, &count, NULL);
    const hid_t attribute = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    if (attribute >= 0) {
        H5Awrite(attribute, memory, values);
        H5Aclose(attribute);
    }
    H5Sclose(space);
}

static void write_names(hid_t file, const hdf5_form *form)
{
    static const char *const names[8] = {"ant", "bee", "c\xc3\xa9", "dog", "e", "f", "g", "h"};
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, H5T_VARIABLE);
    if (form->names_type == H5T_C_S1)
        write_attribute(file, "classes", text, text, form->names, names);
    else {
        const long long zeros[8] = {0};
        write_attribute(file, "classes", form->names_type, H5T_NATIVE_LLONG, form->names, zeros);
    }
    H5Tclose(text);
}

static void write_attributes(hid_t file, const hdf5_form *form)
{
    double mean[8] = {0}, std[8] = {0};
    const long long input[6] = {SIDE, SIDE, CHANNELS, 1, 1, 1};
    for (int i = 0; i < 8; i++)
        mean[i] = form->mean, std[i] = form->std;
    write_names(file, form);
    write_attribute(file, "mean", form->number_type, H5T_NATIVE_DOUBLE, form->numbers, mean);
    write_attribute(file, "std", form->number_type, H5T_NATIVE_DOUBLE, form->numbers, std);
    write_attribute(file, "layout", H5T_STD_I32LE, H5T_NATIVE_LLONG, 1, &form->layout);
    if (form->encoded)
        write_attribute(file, "input", H5T_STD_I32LE, H5T_NATIVE_LLONG, form->input, input);
}

void hdf5_write(const char *path, const hdf5_form *form)
{
    static const char *const plain[4] = {"images", "labels"};
    static const char *const encoded[4] = {"bytes", "labels", "offsets", "crc32"};
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS), create = H5Pcreate(H5P_FILE_CREATE);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    if (form->newest)
        H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    H5Pset_userblock(create, form->user_block);
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, create, access);
    MUST(file >= 0);
    H5Gclose(H5Gcreate2(file, "train", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Gclose(H5Gcreate2(file, "test", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    for (int i = 0; i < 8; i++) {
        const char *name = (form->encoded ? encoded : plain)[i % 4];
        char whole[32];
        snprintf(whole, sizeof whole, "%s/%s", i < 4 ? "train" : "test", name ? name : "");
        if (name)
            write_object(file, whole, form, i);
    }
    write_attributes(file, form);
    MUST(H5Fclose(file) >= 0);
    H5Pclose(create);
    H5Pclose(access);
}
