/* The limits of every data set, whatever file it comes from (datasets/FORMAT.md). */
#ifndef KAS_DATA_HDF5_LIMITS_H
#define KAS_DATA_HDF5_LIMITS_H

enum { KAS_DATASET_MAX_CLASSES = 65535, KAS_DATASET_MAX_SIDE = 65535, KAS_DATASET_NAME_SIZE = 256 };

#endif
