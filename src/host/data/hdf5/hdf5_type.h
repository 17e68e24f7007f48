/* Words about HDF5 objects for messages. */
#ifndef KAS_DATA_HDF5_HDF5_TYPE_H
#define KAS_DATA_HDF5_HDF5_TYPE_H

#include <hdf5.h>

/* "uint8 [100][32][32][3]", "float32", "a string [10]". */
void kas_hdf5_describe(hid_t type, hid_t space, char *out, size_t size);

/* The innermost entry of HDF5's error stack, such as "unable to read superblock". */
void kas_hdf5_reason(char *out, size_t size);

#endif
