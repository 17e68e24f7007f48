/* The order of the images in an epoch: a function of (seed, epoch) that does not depend on where
 * the images are stored.
 *
 * FULL is a uniform permutation. Every image is then read from another place, which is fast on a
 * solid-state disk and in a page cache. WINDOW is for disks and network file systems that read long
 * runs much faster: the list of images is cut into blocks of 256, the blocks are shuffled, and the
 * images of every 32 successive blocks are shuffled together. So 8,192 images from 32 places are
 * mixed at a time, and the system's read-ahead finds neighbours soon after one another. With WINDOW
 * the file itself should be in random order, as the importers write it. */
#ifndef KAS_DATA_ORDER_H
#define KAS_DATA_ORDER_H

#include <stdint.h>

#include "host/core/status.h"

typedef enum kas_shuffle { KAS_SHUFFLE_FULL, KAS_SHUFFLE_WINDOW } kas_shuffle;

enum { KAS_SHUFFLE_BLOCK = 256, KAS_SHUFFLE_BLOCKS = 32 };

/* Fills order[count] with a permutation of index[0 .. count), or of 0 .. count - 1 when `index` is
 * NULL. The only failure is KAS_NO_MEMORY. */
kas_status kas_epoch_order(uint64_t seed, uint32_t epoch, kas_shuffle shuffle,
                           const uint32_t *index, uint32_t count, uint32_t *order);

#endif
