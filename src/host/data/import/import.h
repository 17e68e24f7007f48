/* Reads published data sets into memory, to be written in our layout (kas_dataset_write), or, from
 * folders of images, straight into a file.  Other folders include this header. */
#ifndef KAS_DATA_IMPORT_IMPORT_H
#define KAS_DATA_IMPORT_IMPORT_H

#include "host/data/dataset.h"

typedef enum kas_cifar { KAS_CIFAR10, KAS_CIFAR100 } kas_cifar;

/* The binary version of CIFAR-10 or CIFAR-100 (fine labels), as published: records of one or two
 * label bytes and 32 x 32 pixels in three planes.  `source` is the unpacked folder or the archive.
 * Class names come from batches.meta.txt or fine_label_names.txt where they are present.  Files
 * with fewer records than published are read too, with a warning.  mean, std and digest are not
 * filled (kas_dataset_finish). */
kas_status kas_import_cifar(kas_cifar kind, const char *source, kas_dataset **out);

/* MNIST and what is kept like it: IDX files in a folder, plain or .gz, whose names contain
 * train-images, train-labels, t10k-images (or test-images) and t10k-labels (test-labels).  Images
 * are [N][H][W], grey, or [N][H][W][C].  Classes are the labels 0 .. K - 1 of the training images.
 * KAS_BAD_INPUT naming the file and what was expected; mean, std and digest are not filled. */
kas_status kas_import_idx(const char *source, kas_dataset **out);

typedef struct kas_folder_options {
    uint32_t side;                    /* height and width of what a network gets of an image */
    uint32_t c;                       /* its channels, 1 or 3 */
    double test_share;                /* of the images, where the folder has no test part */
    uint32_t limit_train, limit_test; /* as in kas_dataset_limit */
    bool skip_damaged; /* leave them out with a warning; otherwise they end the import */
    bool pixels;       /* store the middle of each image, resized to side x side, not its file */
    bool compress;     /* pixels with gzip */
    uint64_t seed;     /* of the share, and of the order in which training images are stored */
} kas_folder_options;

/* A folder of images (folder.h) into a file of the layout, at constant memory but for the list of
 * files.  Every image is decoded once, on all cores, so that damage is found here, and mean and std
 * are known: of what an evaluation shows of the training images. Training images are stored in
 * random order, which a shuffle by windows relies on (order.h). */
kas_status kas_import_folder(const char *source, const char *path,
                             const kas_folder_options *options);

/* Writes a data set in memory with its images resized to h x w (resize.h), at constant memory; mean
 * and std are those of the resized images. */
kas_status kas_dataset_write_resized(const char *path, const kas_dataset *dataset, uint32_t h,
                                     uint32_t w, bool compress);

/* keep[i] = 1 for the images that kas_dataset_limit keeps. */
kas_status kas_limit_labels(const char *what, char *const *class_name, uint32_t classes,
                            const uint16_t *labels, uint32_t count, uint32_t limit, uint8_t *keep);

/* Keeps the first images of each class in file order, the same number of each class to within one
 * (the first classes get what does not divide); 0 = all.  KAS_BAD_INPUT when there are not as many.
 * mean, std and digest go stale. */
kas_status kas_dataset_limit(kas_dataset *dataset, uint32_t train, uint32_t test);

/* Procedural images whose classes differ in nothing but the arrangement of strokes (shapes.c).
 * classes in [2, 12], side in [8, 256]; everything else is drawn from `seed`. Finished. */
kas_status kas_make_shapes(uint32_t train, uint32_t test, uint32_t side, uint32_t classes,
                           uint64_t seed, kas_dataset **out);

#endif
