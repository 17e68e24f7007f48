/* The contents of the memory that the reading child shares: this header, then, in this order,
 *
 *     extents of train, of test           places of images in the file; none when pixels are here
 *     offsets of train [N + 1], of test   of encoded images only
 *     checksums of train [N], of test     of encoded images only
 *     names [classes][256]
 *     labels of train [N], of test
 *     pixels of train, of test            unless they stay in the file
 *
 * The layout follows from the counts alone (kas_packet_layout), so the parent does not have to
 * trust an offset from a child whose memory may be corrupted. */
#ifndef KAS_DATA_HDF5_PACKET_H
#define KAS_DATA_HDF5_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "host/data/hdf5/storage.h"

/* The form in which the images of one set are stored (storage.h). */
typedef struct kas_packet_storage {
    uint64_t total, extent_bytes, extents; /* 0 where images are omitted (hdf5_read.h) */
} kas_packet_storage;

typedef struct kas_packet {
    uint32_t h, w, c, classes, train_count, test_count;
    float mean[4], std[4];
    uint32_t encoded;  /* images are JPEG or PNG: always streamed */
    uint32_t streamed; /* images stay in the file */
    kas_packet_storage train, test;
    char digest[72]; /* as in the file, or "" */
} kas_packet;

/* Offsets of the parts, in bytes. */
typedef struct kas_packet_layout {
    uint64_t train_extents, test_extents, train_offsets, test_offsets, train_crc, test_crc, names,
        train_labels, test_labels, train_pixels, test_pixels, total;
} kas_packet_layout;

/* Computes the layout. Returns false when a field is out of its range; it cannot
 * overflow otherwise. */
bool kas_packet_layout_of(const kas_packet *packet, kas_packet_layout *out);

#endif
