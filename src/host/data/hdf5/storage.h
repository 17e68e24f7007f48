/* The places of the images of one set in a file, and functions that read them a piece at a time.
 *
 * The HDF5 library is not thread-safe and a damaged file can crash it.  Therefore only the guarded
 * child process (guard.h) uses it, and it finds the place of every piece ("extent") of the images
 * once. After that, any number of threads read images with pread and decompress gzip themselves.
 *
 * The images of a set are one sequence of bytes, image after image, cut into extents: a contiguous
 * data set has one extent, a chunked one has one for each chunk. Pixels are images of equal size;
 * encoded images (JPEG, PNG) have their places in `offset` and a checksum each.
 *
 * kas_storage_check checks everything that the child has read, because the file may have corrupted
 * the child's memory. */
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
    uint64_t size : 63, deflated : 1; /* bytes in the file; whether they are in zlib's format */
} kas_extent;

typedef struct kas_storage {
    const char *path, *name; /* of the file; of the object ("train/images"), for messages */
    int fd;
    uint32_t count;
    uint64_t total;        /* bytes of all images */
    uint64_t extent_bytes; /* bytes of images in an extent; the last one may have fewer */
    uint64_t extents;
    const kas_extent *extent;
    uint64_t image_bytes;   /* of pixels; 0 = encoded, and then: */
    const uint64_t *offset; /* [count + 1] into the sequence of bytes */
    const uint32_t *crc;    /* [count] CRC-32 (zlib's) of each image's bytes */
} kas_storage;

/* Checks the places. Fails with KAS_BAD_INPUT when they contradict one another or lie outside a
 * file of `file_size` bytes. */
kas_status kas_storage_check(const kas_storage *storage, uint64_t file_size);

/* One thread's memory for reading. Zero-initialise; freed with kas_storage_scratch_free. */
typedef struct kas_storage_scratch {
    uint8_t *image;
    size_t image_size;
    /* The last decompressed chunk, kept for images that are read in order. */
    const kas_storage *chunk_of;
    uint64_t chunk_number;
    uint8_t *packed, *chunk;
    size_t packed_size, chunk_size;
} kas_storage_scratch;
void kas_storage_scratch_free(kas_storage_scratch *scratch);

/* Gets the bytes of image i, which are valid until the next call with the same scratch. Any number
 * of threads may call it at a time. Fails with KAS_BAD_INPUT, and names the file, the object and
 * the image, when the bytes are missing, cannot be decompressed or have another checksum. */
kas_status kas_storage_read(const kas_storage *storage, uint32_t i, kas_storage_scratch *scratch,
                            const uint8_t **bytes, size_t *size);

/* Reads the pixels of image i into `out` (image_bytes), without a further copy when they are
 * not compressed. */
kas_status kas_storage_read_into(const kas_storage *storage, uint32_t i,
                                 kas_storage_scratch *scratch, uint8_t *out);

/* Asks the system to load `count` images from `first` on into memory; does not wait for them. */
void kas_storage_prefetch(const kas_storage *storage, uint32_t first, uint32_t count);

/* Asks the system to drop the file from its page cache, for measurements of the disk. */
void kas_storage_forget(const kas_storage *storage);

#endif
