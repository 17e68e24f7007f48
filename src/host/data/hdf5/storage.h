/* Where the images of one set lie in a file, so that they can be read a piece at a time.
 *
 * The HDF5 library is not thread-safe and a damaged file can crash it.  So only the guarded child
 * process (guard.h) uses it, and what it leaves is this: the place of every piece of the file
 * ("extent"), found once.  From then on any number of threads read images with pread, and undo
 * gzip themselves.
 *
 * The images of a set are one run of bytes, image after image, cut into extents: one of a
 * contiguous data set, one for each chunk of a chunked one.  Pixels are images of equal size;
 * encoded images (JPEG, PNG) have their places in `offset` and a checksum each.
 *
 * Everything here was read by the child, but is checked by kas_storage_check, since the file may
 * have corrupted the child's memory. */
#ifndef KAS_DATA_HDF5_STORAGE_H
#define KAS_DATA_HDF5_STORAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/core/status.h"

/* The size of an encoded image is limited, so that a damaged offset cannot ask for all memory. */
#define KAS_ENCODED_LIMIT ((uint64_t)1 << 28)

typedef struct kas_extent {
    uint64_t at;                      /* offset in the file */
    uint64_t size : 63, deflated : 1; /* bytes there; whether they are in zlib's format */
} kas_extent;

typedef struct kas_storage {
    const char *path, *name; /* of the file; of the object ("train/images"), for messages */
    int fd;
    uint32_t count;
    uint64_t total;        /* bytes of all images */
    uint64_t extent_bytes; /* bytes of images in an extent; the last may have fewer */
    uint64_t extents;
    const kas_extent *extent;
    uint64_t image_bytes;   /* of pixels; 0 = encoded, and then: */
    const uint64_t *offset; /* [count + 1] into the run of bytes */
    const uint32_t *crc;    /* [count] CRC-32 (zlib's) of each image's bytes */
} kas_storage;

/* KAS_BAD_INPUT when places contradict one another or lie outside a file of `file_size` bytes. */
kas_status kas_storage_check(const kas_storage *storage, uint64_t file_size);

/* One thread's memory for reading. Zero-initialise; freed with kas_storage_scratch_free. */
typedef struct kas_storage_scratch {
    uint8_t *image;
    size_t image_size;
    /* The chunk last inflated: images read in order find it here. */
    const kas_storage *chunk_of;
    uint64_t chunk_number;
    uint8_t *packed, *chunk;
    size_t packed_size, chunk_size;
} kas_storage_scratch;
void kas_storage_scratch_free(kas_storage_scratch *scratch);

/* The bytes of image i, valid until the next call with the same scratch. Any number of threads at
 * a time. KAS_BAD_INPUT naming file, object and image when they are not there, cannot be inflated
 * or have another checksum. */
kas_status kas_storage_read(const kas_storage *storage, uint32_t i, kas_storage_scratch *scratch,
                            const uint8_t **bytes, size_t *size);

/* The same for pixels, into `out` (image_bytes): without a copy where they are not compressed. */
kas_status kas_storage_read_into(const kas_storage *storage, uint32_t i,
                                 kas_storage_scratch *scratch, uint8_t *out);

/* Asks the system to have `count` images from `first` on in memory soon; does not wait for them. */
void kas_storage_prefetch(const kas_storage *storage, uint32_t first, uint32_t count);

/* Asks the system to forget what it has of the file, for measurements of the disk. */
void kas_storage_forget(const kas_storage *storage);

#endif
