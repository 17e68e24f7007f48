/* Writes the HDF5 files of datasets/FORMAT.md: whole arrays, arrays piece by piece, and attributes.
 *
 * A file appears under its name completely or not at all: it is written as a temporary file,
 * flushed to the disk and renamed. No times are stored, so that equal data gives equal files. */
#ifndef KAS_DATA_HDF5_HDF5_WRITER_H
#define KAS_DATA_HDF5_HDF5_WRITER_H

#include <hdf5.h>
#include <stdbool.h>

#include "host/core/file/files.h"
#include "host/core/status.h"

typedef struct kas_hdf5_writer {
    const char *path;     /* of the caller */
    kas_file_place place; /* the temporary file, and its final place */
    hid_t file;
} kas_hdf5_writer;

bool kas_hdf5_is_file(const char *path); /* whether HDF5 can read it */

/* Begins a file, whose attributes may take more than 64 KiB if `large_attributes` (HDF5 1.8 and newer
 * read it). Fails with KAS_FAILURE when the place cannot be written to. The caller ends it with
 * kas_hdf5_finish or kas_hdf5_abandon. */
kas_status kas_hdf5_begin(kas_hdf5_writer *writer, const char *path, bool large_attributes);
kas_status kas_hdf5_finish(kas_hdf5_writer *writer); /* ends it even when it fails */
void kas_hdf5_abandon(kas_hdf5_writer *writer);

/* An array or attribute; rank 0 is a single value. */
typedef struct kas_hdf5_array {
    const char *name; /* "train/images"; missing groups are created */
    int rank;
    hsize_t dims[4];
    hid_t file_type, memory_type;
    const void *data;
} kas_hdf5_array;
kas_status kas_hdf5_put(kas_hdf5_writer *writer, const kas_hdf5_array *array);
kas_status kas_hdf5_put_attribute(kas_hdf5_writer *writer, const kas_hdf5_array *attribute);

/* Creates an array of bytes that is written piece by piece along its first dimension (`data` is
 * ignored). `chunk` is the length of a chunk along it; 0 = contiguous. Chunks may be compressed
 * with gzip. */
kas_status kas_hdf5_open_pieces(kas_hdf5_writer *writer, const kas_hdf5_array *array, hsize_t chunk,
                                bool compress, hid_t *set);
/* Writes `count` elements of the first dimension from `first` on. */
kas_status kas_hdf5_put_piece(kas_hdf5_writer *writer, const kas_hdf5_array *array, hid_t set,
                              hsize_t first, hsize_t count, const void *data);
/* Closes the array. Returns `status` if that is a failure, else the status of closing. */
kas_status kas_hdf5_close_pieces(kas_hdf5_writer *writer, const kas_hdf5_array *array, hid_t set,
                                 kas_status status);

#endif
