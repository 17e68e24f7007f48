/* Describes HDF5 objects and errors for messages. */
#ifndef KAS_DATA_HDF5_HDF5_TYPE_H
#define KAS_DATA_HDF5_HDF5_TYPE_H

#include <hdf5.h>

/* Writes the description of a type and shape: "uint8 [100][32][32][3]", "float32", "a
 * string [10]". */
void kas_hdf5_describe(hid_t type, hid_t space, char *out, size_t size);

/* Writes the innermost entry of HDF5's error stack, such as "unable to read superblock". */
void kas_hdf5_reason(char *out, size_t size);

#endif
