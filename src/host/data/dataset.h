/* Labelled images in HDF5 (datasets/FORMAT.md).
 *
 *     /train/images  uint8 [N][H][W][C]      /test/images  likewise
 *     /train/labels  integer [N]             /test/labels
 *     attributes of "/": classes (strings), mean, std (float [C], of pixels / 255)
 *
 * or, in place of images, JPEG or PNG files of any size one after the other: bytes [B], offsets
 * [N + 1], crc32 [N], and the attribute input [H, W, C].
 *
 * A damaged HDF5 file can crash or hang the library, so this process never opens one with it: a
 * child process with limits on time and memory reads it into shared memory (guard.h, hdf5_read.h),
 * and what it left there is checked before use.  Images that are encoded or too large for memory
 * stay in the file; the child finds where they lie, and kas_reader (reader.h) streams them.  Other
 * folders include this header. */
#ifndef KAS_DATA_DATASET_H
#define KAS_DATA_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "host/core/status.h"
#include "host/data/hdf5/limits.h"
#include "host/data/hdf5/storage.h"

typedef struct kas_images {
    uint32_t count;
    uint8_t *pixels;     /* [count][h][w][c], owned by the dataset; NULL = they stay in the file */
    uint16_t *labels;    /* [count] */
    kas_storage storage; /* where they lie in the file; of no use when pixels is not NULL */
} kas_images;

typedef struct kas_dataset {
    char path[4096];
    uint32_t h, w, c, classes; /* h, w, c: what a network gets of an image */
    bool encoded;              /* images are JPEG or PNG of any size, cropped to h x w */
    char **class_name;         /* [classes] */
    float mean[4], std[4];     /* [c], c <= 4; of pixels scaled to 0..1 */
    kas_images train, test;
    char digest[65]; /* SHA-256 over shapes, pixels and labels: pinned in studies */
    void *mapping;   /* holds pixels and labels of an opened file; NULL: they are from malloc */
    size_t mapping_size;
    int fd; /* of the file, when images stay in it; 0 = none */
} kas_dataset;

/* KAS_BAD_INPUT naming file, object and what was expected. Freed with kas_dataset_close.
 * Pixels are read into memory when all of them fit in half of the machine's memory, or in
 * KAS_DATA_LIMIT_MB MiB; otherwise, and always when they are encoded, they stay in the file. */
kas_status kas_dataset_open(const char *path, kas_dataset **out);
/* The same, but images stay in the file in any case. */
kas_status kas_dataset_open_streamed(const char *path, kas_dataset **out);
void kas_dataset_close(kas_dataset *dataset); /* NULL is allowed */

/* An empty data set in memory, for importers and tests: pixels and labels zero, classes named
 * "class 0", ..., mean 0, std 1, no digest. Freed with kas_dataset_close. */
kas_status kas_dataset_create(uint32_t h, uint32_t w, uint32_t c, uint32_t classes,
                              uint32_t train_count, uint32_t test_count, kas_dataset **out);
kas_status kas_dataset_name_class(kas_dataset *dataset, uint32_t index, const char *name);

/* Fills mean and std per channel from the training images, and digest. A channel that is constant
 * gets std 1, so that dividing by it stays harmless. */
void kas_dataset_finish(kas_dataset *dataset);
/* The digest alone: h, w, c, classes, both counts as little-endian 32-bit words, then pixels and
 * labels (little-endian 16-bit) of train, then of test; of encoded images the text "encoded", then
 * length and CRC-32 of each (little-endian 32-bit) in place of pixels. Names, mean and std do not
 * enter. Pixels that stay in the file are read once; only they can fail. */
kas_status kas_dataset_digest(const kas_dataset *dataset, char hex[65]);

/* The search sees a validation split of the training set, balanced over classes and fixed by the
 * seed. Writes indices into train: first those for training, then those for validation.  *index is
 * freed with free(). fraction in (0, 1). Each class gives its share to within one image, and
 * keeps at least one for training; both parts are in ascending order. */
kas_status kas_dataset_split(const kas_dataset *dataset, uint64_t seed, double fraction,
                             uint32_t **index, uint32_t *train_count, uint32_t *validation_count);

/* Writes a file of the layout above, atomically. */
kas_status kas_dataset_write(const char *path, const kas_dataset *dataset);

#endif
