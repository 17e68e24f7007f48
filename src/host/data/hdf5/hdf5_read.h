/* Reads the HDF5 layout of datasets/FORMAT.md into a memory file: everything, or everything except
 * the images, with or without their places in the file. It runs in the child of guard.h, because only
 * there may HDF5 open an unchecked file. */
#ifndef KAS_DATA_HDF5_HDF5_READ_H
#define KAS_DATA_HDF5_HDF5_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "host/core/status.h"

/* The end of messages about images for which there is no memory. */
#define KAS_HDF5_LEAVE_IMAGES                                                                      \
    "; they stay in the file with --stream, where the command has it, or a smaller "               \
    "KAS_DATA_LIMIT_MB"

typedef enum kas_hdf5_images {
    KAS_HDF5_READ,  /* into memory, as long as they fit and are not encoded */
    KAS_HDF5_LEAVE, /* in the file in any case; their places are found */
    KAS_HDF5_OMIT   /* neither read nor looked for, however they are stored */
} kas_hdf5_images;

typedef struct kas_hdf5_request {
    const char *path;
    int fd;         /* of the memory file, which grows to the packet's size (packet.h) */
    uint64_t limit; /* most bytes of the packet; images beyond that stay in the file */
    kas_hdf5_images images;
} kas_hdf5_request;

/* Reads the file; `request` is a kas_hdf5_request. Fails with KAS_BAD_INPUT and names the file, the
 * object and what was expected. */
kas_status kas_hdf5_read(void *request);

#endif
