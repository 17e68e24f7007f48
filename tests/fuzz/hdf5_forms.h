/* Data-set files as the HDF5 library writes them, right and wrong, for the fuzz test
 * of their reader. */
#ifndef KAS_TESTS_FUZZ_HDF5_FORMS_H
#define KAS_TESTS_FUZZ_HDF5_FORMS_H

#include <stdbool.h>

#include <hdf5.h>

#include "host/core/random.h"

typedef enum hdf5_storage {
    HDF5_CONTIGUOUS,
    HDF5_CHUNKED, /* gzip behind shuffle, chunks that cut images */
    HDF5_CHECKED, /* chunks of whole images with checksums */
    HDF5_COMPACT,
    HDF5_HUGE_CHUNK, /* one chunk, much larger than the data set */
    HDF5_BOMB,       /* a chunk of few bytes that inflates to 48 MiB */
    HDF5_GARBAGE,    /* chunks that say they are compressed, and are not */
    HDF5_EMPTY,      /* nothing was ever written */
    HDF5_EXTERNAL,   /* the values lie in another file */
    HDF5_STORAGES
} hdf5_storage;

/* The object in the place of a data set. */
typedef enum hdf5_object {
    HDF5_SET,
    HDF5_NOTHING,
    HDF5_GROUP,
    HDF5_TYPE,
    HDF5_LOOP,    /* a soft link to itself */
    HDF5_OUTSIDE, /* a link to another file */
    HDF5_OBJECTS
} hdf5_object;

typedef struct hdf5_set {
    hdf5_object object;
    hdf5_storage storage;
    hid_t type; /* type in the file; not owned */
    int rank;
    hsize_t size[5];
    long long value; /* value of one of the elements */
} hdf5_set;

typedef struct hdf5_form {
    bool newest;  /* the library's newest format in place of its oldest */
    bool encoded; /* bytes, offsets and checksums in place of pixels */
    hsize_t user_block;
    hdf5_set set[8]; /* train, then test: images or bytes, labels, offsets, crc32 */
    hid_t names_type, number_type;
    hsize_t names, numbers, input;
    double mean, std;
    long long layout;
} hdf5_form;

/* Returns a form that is right but for one or two of its parts, and now and then entirely right. */
hdf5_form hdf5_random_form(kas_rng *rng);
void hdf5_write(const char *path, const hdf5_form *form);

#endif
