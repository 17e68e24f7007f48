/* Reads published data sets into memory, from where kas_dataset_write writes them in our layout.
 * Folders of images are converted directly to a file.  Other folders include this header. */
#ifndef KAS_DATA_IMPORT_IMPORT_H
#define KAS_DATA_IMPORT_IMPORT_H

#include "host/data/dataset.h"

typedef enum kas_cifar { KAS_CIFAR10, KAS_CIFAR100 } kas_cifar;

/* Imports the published binary version of CIFAR-10 or CIFAR-100 (fine labels): records of one
 * or two label bytes and 32 x 32 pixels in three planes. `source` is the unpacked folder or the
 * archive. Class names come from batches.meta.txt or fine_label_names.txt if present. Files
 * with fewer records than published are read too, with a warning. mean, std and digest are not
 * filled (kas_dataset_finish). */
kas_status kas_import_cifar(kas_cifar kind, const char *source, kas_dataset **out);

/* Imports MNIST and data sets in the same form: IDX files in a folder, plain or .gz, whose names
 * contain train-images, train-labels, t10k-images (or test-images) and t10k-labels (or
 * test-labels). Images are grey [N][H][W], or [N][H][W][C]. Classes are the labels 0 .. K - 1 of
 * the training images. Fails with KAS_BAD_INPUT and names the file and what was expected. mean, std
 * and digest are not filled. */
kas_status kas_import_idx(const char *source, kas_dataset **out);

typedef struct kas_folder_options {
    uint32_t side;                    /* height and width of an image for the network */
    uint32_t c;                       /* its channels, 1 or 3 */
    double test_share;                /* share of test images when the folder has no test part */
    uint32_t limit_train, limit_test; /* as in kas_dataset_limit */
    bool skip_damaged; /* leave damaged images out with a warning; otherwise they end the import */
    bool pixels;       /* store the middle of each image, resized to side x side, instead of its
                          file */
    bool compress;     /* compress pixels with gzip */
    uint64_t seed;     /* for the choice of test images, and the order in which training images
                          are stored */
} kas_folder_options;

/* Converts a folder of images (folder.h) to a file of our layout. Memory is constant, apart from
 * the list of files. Every image is decoded once, on all cores, which finds damage and gives mean
 * and std: those of the training images as an evaluation shows them. Training images are stored in
 * random order, which KAS_SHUFFLE_WINDOW relies on (order.h). */
kas_status kas_import_folder(const char *source, const char *path,
                             const kas_folder_options *options);

/* Writes a data set from memory with its images resized to h x w (resize.h), in constant memory.
 * mean and std are those of the resized images. */
kas_status kas_dataset_write_resized(const char *path, const kas_dataset *dataset, uint32_t h,
                                     uint32_t w, bool compress);

/* Sets keep[i] to 1 for the images that kas_dataset_limit keeps. */
kas_status kas_limit_labels(const char *what, char *const *class_name, uint32_t classes,
                            const uint16_t *labels, uint32_t count, uint32_t limit, uint8_t *keep);

/* Keeps the first images of each class in file order, `train` and `test` in all (0 = all). Each
 * class keeps the same number to within one, and the first classes get the remainder. Fails with
 * KAS_BAD_INPUT when there are not that many images. mean, std and digest become outdated. */
kas_status kas_dataset_limit(kas_dataset *dataset, uint32_t train, uint32_t test);

/* Creates procedural images whose classes differ only in the arrangement of strokes (shapes.c).
 * `classes` is in [2, 12] and `side` in [8, 256]; everything else is drawn from `seed`. mean, std
 * and digest are filled. */
kas_status kas_make_shapes(uint32_t train, uint32_t test, uint32_t side, uint32_t classes,
                           uint64_t seed, kas_dataset **out);

#endif
