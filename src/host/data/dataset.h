/* Labelled images in HDF5 (datasets/FORMAT.md).
 *
 *     /train/images  uint8 [N][H][W][C]      /test/images  likewise
 *     /train/labels  integer [N]             /test/labels
 *     attributes of "/": classes (strings), mean, std (float [C], of pixels / 255)
 *
 * or, in place of images, JPEG or PNG files of any size one after the other: bytes [B], offsets [N
 * + 1], crc32 [N], and the attribute input [H, W, C].
 *
 * A damaged HDF5 file can crash or hang the HDF5 library, so this process never opens a file with
 * it. A child process with limits on time and memory reads the file into shared memory (guard.h,
 * hdf5_read.h), whose contents are checked before use. Images that are encoded or too large for
 * memory stay in the file: the child finds their places, and kas_reader (reader.h) streams them.
 * Other folders include this header. */
#ifndef KAS_DATA_DATASET_H
#define KAS_DATA_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "host/core/status.h"
#include "host/data/hdf5/limits.h"
#include "host/data/hdf5/storage.h"

typedef struct kas_images {
    uint32_t count;
    uint8_t *pixels;     /* [count][h][w][c], owned by the dataset; NULL = images stay in the
                            file */
    uint16_t *labels;    /* [count] */
    kas_storage storage; /* their places in the file; not used when pixels is not NULL */
} kas_images;

typedef struct kas_dataset {
    char path[4096];
    uint32_t h, w, c, classes; /* h, w, c: size of an image for the network */
    bool encoded;              /* images are JPEG or PNG of any size, cropped to h x w */
    char **class_name;         /* [classes] */
    float mean[4], std[4];     /* [c], c <= 4; of pixels scaled to 0..1 */
    kas_images train, test;
    char digest[65]; /* SHA-256 of shapes, pixels and labels; studies record it */
    void *mapping;   /* memory of pixels and labels of an opened file; NULL: from malloc */
    size_t mapping_size;
    int fd; /* file descriptor when images stay in the file; 0 = none */
} kas_dataset;

/* Opens a data set; the caller frees *out with kas_dataset_close. Fails with KAS_BAD_INPUT and
 * names the file, the object and what was expected. Pixels are read into memory when all of them
 * fit in half of the machine's memory, or in KAS_DATA_LIMIT_MB MiB; otherwise, and always when they
 * are encoded, they stay in the file. */
kas_status kas_dataset_open(const char *path, kas_dataset **out);
/* Does the same, except that images always stay in the file. */
kas_status kas_dataset_open_streamed(const char *path, kas_dataset **out);
/* Opens a data set for its sizes, class names and labels only; it has neither images nor a digest.
 * Images may be stored in any way, even if they cannot be streamed. */
kas_status kas_dataset_open_without_images(const char *path, kas_dataset **out);
void kas_dataset_close(kas_dataset *dataset); /* NULL is allowed */

/* Creates an empty data set in memory, for importers and tests: pixels and labels are zero,
 * classes are named "class 0", ..., mean is 0, std is 1, and there is no digest. The caller frees
 * *out with kas_dataset_close. */
kas_status kas_dataset_create(uint32_t h, uint32_t w, uint32_t c, uint32_t classes,
                              uint32_t train_count, uint32_t test_count, kas_dataset **out);
kas_status kas_dataset_name_class(kas_dataset *dataset, uint32_t index, const char *name);

/* Fills mean and std of each channel from the training images, and the digest. A constant channel
 * gets std 1, so that dividing by it is harmless. */
void kas_dataset_finish(kas_dataset *dataset);
/* Computes the digest. It is that of h, w, c, classes and both counts as little-endian 32-bit
 * words, then pixels and labels (little-endian 16-bit) of train, then those of test. For encoded
 * images the text "encoded", and the length and CRC-32 of each image (little-endian 32-bit), take
 * the place of pixels. Names, mean and std are not part of it. Pixels in the file are read once;
 * only that can fail. */
kas_status kas_dataset_digest(const kas_dataset *dataset, char hex[65]);

/* Writes mean and std as text that differs if and only if they do: "mean 0.5 0.4 0.3, std ...". A training depends on
 * them as it does on the pixels. */
enum { KAS_SCALING_TEXT = 160 };
void kas_dataset_scaling(const kas_dataset *dataset, char out[KAS_SCALING_TEXT]);

/* Splits the training set into one part for training and one for validation, which the search uses;
 * the split is balanced over classes and depends on the seed. *index gets indices into train, first
 * those for training and then those for validation, each part in ascending order; the caller frees
 * it with free(). `fraction` is in (0, 1). Each class gives its share to within one image, and
 * keeps at least one for training. */
kas_status kas_dataset_split(const kas_dataset *dataset, uint64_t seed, double fraction,
                             uint32_t **index, uint32_t *train_count, uint32_t *validation_count);

/* Divides images, such as those of the validation split, into two halves of equal size (the first
 * has one more where their number is odd), balanced over classes; it depends on the seed. `index`
 * is reordered: first one half and then the other, each in ascending order. *first gets the size of
 * the first half. Fails with KAS_BAD_INPUT when there are fewer than two images. */
kas_status kas_dataset_halve(const kas_dataset *dataset, uint64_t seed, uint32_t *index,
                             uint32_t count, uint32_t *first);

/* Writes the data set to a file with the layout above, atomically. */
kas_status kas_dataset_write(const char *path, const kas_dataset *dataset);

#endif
