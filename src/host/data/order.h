/* The order in which an epoch shows its images: a function of (seed, epoch), the same wherever the
 * images lie.
 *
 * FULL is a uniform permutation.  Every image is then read from another place, which a solid-state
 * disk and a page cache serve well.  WINDOW is for disks and network file systems that read long
 * runs much faster: the list of images is cut into blocks of 256, the blocks are shuffled, and
 * within every 32 blocks in that order the images are.  So 8,192 images of 32 places are mixed at a
 * time, and the system's read-ahead finds neighbours soon after one another.  A file should then be
 * in random order to begin with, as the importers write it. */
#ifndef KAS_DATA_ORDER_H
#define KAS_DATA_ORDER_H

#include <stdint.h>

#include "host/core/status.h"

typedef enum kas_shuffle { KAS_SHUFFLE_FULL, KAS_SHUFFLE_WINDOW } kas_shuffle;

enum { KAS_SHUFFLE_BLOCK = 256, KAS_SHUFFLE_BLOCKS = 32 };

/* Fills order[count] with a permutation of index[0 .. count), or of 0 .. count - 1 when it is NULL.
 * KAS_NO_MEMORY. */
kas_status kas_epoch_order(uint64_t seed, uint32_t epoch, kas_shuffle shuffle,
                           const uint32_t *index, uint32_t count, uint32_t *order);

#endif
