/* What the reading child leaves in shared memory: this header, then, in this order,
 *
 *     extents of train, of test           where the images lie in the file; none when they are here
 *     offsets of train [N + 1], of test   of encoded images only
 *     checksums of train [N], of test     of encoded images only
 *     names [classes][256]
 *     labels of train [N], of test
 *     pixels of train, of test            unless they stay in the file
 *
 * The layout follows from the counts alone (kas_packet_layout), so that the parent trusts no offset
 * that a child with corrupted memory may have left. */
#ifndef KAS_DATA_HDF5_PACKET_H
#define KAS_DATA_HDF5_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "host/data/hdf5/storage.h"

/* How the images of one set are stored (storage.h). */
typedef struct kas_packet_storage {
    uint64_t total, extent_bytes, extents;
} kas_packet_storage;

typedef struct kas_packet {
    uint32_t h, w, c, classes, train_count, test_count;
    float mean[4], std[4];
    uint32_t encoded;  /* images are JPEG or PNG: always streamed */
    uint32_t streamed; /* images stay in the file */
    kas_packet_storage train, test;
    char digest[72]; /* as the file has it, or "" */
} kas_packet;

/* In bytes. */
typedef struct kas_packet_layout {
    uint64_t train_extents, test_extents, train_offsets, test_offsets, train_crc, test_crc, names,
        train_labels, test_labels, train_pixels, test_pixels, total;
} kas_packet_layout;

/* False when a field is out of its range. Cannot overflow for fields within their ranges. */
bool kas_packet_layout_of(const kas_packet *packet, kas_packet_layout *out);

#endif
