/* Declarations that the files of the reading child share: the open file, messages, and access
 * to objects.
 *
 * Handles and mappings are not closed on failure, because the child ends right after the read. */
#ifndef KAS_DATA_HDF5_HDF5_CHILD_H
#define KAS_DATA_HDF5_HDF5_CHILD_H

#include <hdf5.h>

#include "host/data/hdf5/hdf5_read.h"
#include "host/data/hdf5/limits.h"
#include "host/data/hdf5/packet.h"

typedef struct kas_hdf5_child {
    const kas_hdf5_request *request;
    hid_t file;
    kas_packet packet;
    kas_packet_layout layout;
    char (*names)[KAS_DATASET_NAME_SIZE]; /* names of classes, until the packet's memory exists */
} kas_hdf5_child;

/* Fails with KAS_BAD_INPUT "PATH: OBJECT: WHAT (HDF5: reason)". */
kas_status kas_hdf5_damaged(const kas_hdf5_child *r, const char *object, const char *what);
/* Fails with KAS_BAD_INPUT "PATH: OBJECT: expected WANTED, found ...". */
kas_status kas_hdf5_expected(const kas_hdf5_child *r, const char *object, const char *wanted,
                             hid_t type, hid_t space);

kas_status kas_hdf5_open(kas_hdf5_child *r);
/* Opens a data set such as "train/images" and gets its type and shape; `wanted` is for messages.
 * *rank gets the rank, and `size` at most H5S_MAX_RANK sizes. */
kas_status kas_hdf5_open_set(const kas_hdf5_child *r, const char *name, const char *wanted,
                             hid_t *set, hid_t *type, hid_t *space, int *rank, hsize_t *size);

/* ---- attributes of "/" (hdf5_attributes.c), written to r->packet and r->names ---------------- */

kas_status kas_hdf5_read_layout_number(const kas_hdf5_child *r);
kas_status kas_hdf5_read_classes(kas_hdf5_child *r);
kas_status kas_hdf5_read_mean_and_std(kas_hdf5_child *r);
kas_status kas_hdf5_read_input(kas_hdf5_child *r);  /* h, w, c, for encoded images */
kas_status kas_hdf5_read_digest(kas_hdf5_child *r); /* "" when there is none */

/* ---- places of a data set's bytes (hdf5_storage.c) ------------------------------------------- */

typedef struct kas_hdf5_pieces {
    kas_packet_storage storage;
    char why_not[256]; /* why it cannot be read in pieces; "" if it can */
    int rank;
    hsize_t chunk; /* elements of the first dimension in a chunk; 0 = contiguous */
    int deflate;   /* index of the gzip filter in the chain; -1 = none */
} kas_hdf5_pieces;

/* Finds out how a data set of 1-byte elements with the shape `size` [rank] is stored. */
kas_status kas_hdf5_look_for_pieces(const kas_hdf5_child *r, const char *name, hid_t set, int rank,
                                    const hsize_t *size, kas_hdf5_pieces *out);
/* Writes the places of all extents, pieces->storage.extents of them, to `out`. */
kas_status kas_hdf5_locate(const kas_hdf5_child *r, const char *name, hid_t set,
                           const kas_hdf5_pieces *pieces, kas_extent *out);

#endif
