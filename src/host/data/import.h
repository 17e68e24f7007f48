/* Reads published data sets into memory, to be written in our layout (kas_dataset_write). */
#ifndef KAS_DATA_IMPORT_H
#define KAS_DATA_IMPORT_H

#include "host/data/dataset.h"

typedef enum kas_cifar { KAS_CIFAR10, KAS_CIFAR100 } kas_cifar;

/* The binary version of CIFAR-10 or CIFAR-100 (fine labels), as published: records of one or two
 * label bytes and 32 x 32 pixels in three planes.  `source` is the unpacked folder or the archive.
 * Class names come from batches.meta.txt or fine_label_names.txt where they are present.  Files
 * with fewer records than published are read too, with a warning.  mean, std and digest are not
 * filled (kas_dataset_finish). */
kas_status kas_import_cifar(kas_cifar kind, const char *source, kas_dataset **out);

/* Keeps the first images of each class in file order, the same number of each class to within one
 * (the first classes get what does not divide); 0 = all.  KAS_BAD_INPUT when there are not as many.
 * mean, std and digest go stale. */
kas_status kas_dataset_limit(kas_dataset *dataset, uint32_t train, uint32_t test);

/* Procedural images whose classes differ in nothing but the arrangement of strokes (shapes.c).
 * classes in [2, 12], side in [8, 256]; everything else is drawn from `seed`. Finished. */
kas_status kas_make_shapes(uint32_t train, uint32_t test, uint32_t side, uint32_t classes,
                           uint64_t seed, kas_dataset **out);

#endif
