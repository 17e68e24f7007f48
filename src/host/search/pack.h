/* `--pack auto`: how many trainings fill a GPU.
 *
 * A launch has a block for some thousands of numbers (ops), and a GPU runs so many blocks at once.
 * A launch with fewer leaves the rest idle, and takes as long as if it had them all: its time goes
 * with its bytes by the share that it fills.  So a step fills, over its time, the share
 *
 *     filled = sum of bytes / sum of (bytes / share),   share = min(1, blocks / blocks at once)
 *
 * and 1 / filled trainings side by side fill the GPU; what does not fit into its memory would only
 * wait.  An estimate from the shapes of the unmodified network: nothing is measured, candidates
 * differ, and blocks of a library's convolutions are taken to be like our own. */
#ifndef KAS_SEARCH_PACK_H
#define KAS_SEARCH_PACK_H

#include "host/model/planned_bytes.h"
#include "host/net/net.h"

enum { KAS_PACK_MOST = 16 };

typedef struct kas_pack {
    double filled; /* of the GPU by one training, over 0 to 1; 0: it was not tried */
    int fills;     /* trainings that fill it */
    int fits;      /* trainings that its memory holds; INT_MAX: all */
    int chosen;    /* the lesser, 1 to KAS_PACK_MOST */
} kas_pack;

/* The share of a GPU of `blocks` at once (kas_device_info) that the step fills. */
double kas_pack_filled(const kas_planned_bytes *step, const kas_net *net, int batch, int blocks);
/* `training`: bytes of device memory of one; `room`: bytes that a worker has, 0 = not known. */
kas_pack kas_pack_choose(double filled, size_t training, size_t room);

#endif
