/* Chooses how many trainings fill a GPU (`--pack auto`).
 *
 * A launch has one block for some thousands of elements (ops), and a GPU runs a fixed number of
 * blocks at once. A launch with fewer blocks leaves the rest of the GPU idle and takes as long as a
 * full one, so its time is proportional to its bytes divided by the share that it fills. Averaged
 * over its time, a step therefore fills the share
 *
 *     filled = sum of bytes / sum of (bytes / share),   share = min(1, blocks / blocks at once)
 *
 * and 1 / filled trainings side by side fill the GPU; trainings that do not fit into its memory
 * would only wait. This is an estimate from the shapes of the unmodified network: nothing is
 * measured, candidates differ, and the blocks of a library's convolutions are assumed to be like
 * our own. */
#ifndef KAS_SEARCH_PACK_H
#define KAS_SEARCH_PACK_H

#include "host/model/planned_bytes.h"
#include "host/net/net.h"

enum { KAS_PACK_MOST = 16 };

typedef struct kas_pack {
    double filled; /* share of the GPU that one training fills, 0..1; 0: not estimated */
    int fills;     /* trainings that fill it */
    int fits;      /* trainings that its memory holds; INT_MAX: all */
    int chosen;    /* the smaller of the two, 1 to KAS_PACK_MOST */
} kas_pack;

/* Returns the share that the step fills of a GPU that runs `blocks` blocks at
 * once (kas_device_info). */
double kas_pack_filled(const kas_planned_bytes *step, const kas_net *net, int batch, int blocks);
/* Chooses the number of trainings. `training` is the device memory of one training in bytes, and
 * `room` the memory that a worker has; 0 = unknown. */
kas_pack kas_pack_choose(double filled, size_t training, size_t room);

#endif
