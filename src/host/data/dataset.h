/* Labelled images in HDF5 (datasets/FORMAT.md).
 *
 *     /train/images  uint8 [N][H][W][C]      /test/images  likewise
 *     /train/labels  integer [N]             /test/labels
 *     attributes of "/": classes (strings), mean, std (float [C], of pixels / 255)
 *
 * A damaged HDF5 file can crash or hang the library, so a file is first opened and walked in a
 * child process with limits on time and memory; only then by this one. */
#ifndef KAS_DATA_DATASET_H
#define KAS_DATA_DATASET_H

#include <stdint.h>

#include "host/core/status.h"

typedef struct kas_images {
    uint32_t count;
    uint8_t *pixels;  /* [count][h][w][c], owned by the dataset */
    uint16_t *labels; /* [count] */
} kas_images;

typedef struct kas_dataset {
    char path[4096];
    uint32_t h, w, c, classes;
    char **class_name;     /* [classes] */
    float mean[4], std[4]; /* [c], c <= 4; of pixels scaled to 0..1 */
    kas_images train, test;
    char digest[65]; /* SHA-256 over shapes, pixels and labels: pinned in studies */
} kas_dataset;

/* KAS_BAD_INPUT naming file, object and what was expected. Freed with kas_dataset_close. */
kas_status kas_dataset_open(const char *path, kas_dataset **out);
void kas_dataset_close(kas_dataset *dataset);

/* The search sees a validation split of the training set, balanced over classes and fixed by the
 * seed. Writes indices into train: first those for training, then those for validation.  *index is
 * freed with free(). fraction in (0, 1). */
kas_status kas_dataset_split(const kas_dataset *dataset, uint64_t seed, double fraction,
                             uint32_t **index, uint32_t *train_count, uint32_t *validation_count);

/* Writes a file of the layout above, atomically. */
kas_status kas_dataset_write(const char *path, const kas_dataset *dataset);

#endif
