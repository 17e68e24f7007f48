/* What the reading child leaves in shared memory: this header, then names, labels and pixels.
 *
 *     | packet | names [classes][256] | train labels | test labels | train pixels | test pixels |
 *
 * The layout follows from the counts alone (kas_packet_layout), so that the parent trusts no offset
 * that a child with corrupted memory may have left. */
#ifndef KAS_DATA_PACKET_H
#define KAS_DATA_PACKET_H

#include <stdbool.h>
#include <stdint.h>

typedef struct kas_packet {
    uint32_t h, w, c, classes, train_count, test_count;
    float mean[4], std[4];
} kas_packet;

typedef struct kas_packet_layout {
    uint64_t names, train_labels, test_labels, train_pixels, test_pixels, total; /* in bytes */
} kas_packet_layout;

/* False when a field is out of its range. Cannot overflow for fields within their ranges. */
bool kas_packet_layout_of(const kas_packet *packet, kas_packet_layout *out);

#endif
