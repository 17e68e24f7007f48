/* Reads the HDF5 layout of datasets/FORMAT.md into a memory file: everything, or all but the images
 * and where those lie in the file.  Runs in the child of guard.h: only there may HDF5 see a file
 * that nobody has checked. */
#ifndef KAS_DATA_HDF5_HDF5_READ_H
#define KAS_DATA_HDF5_HDF5_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "host/core/status.h"

/* Of messages about images for which there is no memory. */
#define KAS_HDF5_LEAVE_IMAGES                                                                      \
    "; they stay in the file with --stream, where the command has it, or a smaller "               \
    "KAS_DATA_LIMIT_MB"

typedef struct kas_hdf5_request {
    const char *path;
    int fd;         /* of the memory file, which grows to the packet's size (packet.h) */
    uint64_t limit; /* bytes that the packet may have: larger images stay in the file */
    bool stream;    /* they stay there in any case */
} kas_hdf5_request;

/* `request` is a kas_hdf5_request. KAS_BAD_INPUT names file, object and what was expected. */
kas_status kas_hdf5_read(void *request);

#endif
