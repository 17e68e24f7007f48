/* Runs the steps of an epoch in chunks. The host sees the results of a chunk one chunk late.
 *
 * Within an epoch the host only enqueues work. Behind each chunk it enqueues a copy of the model's
 * sums into page-locked memory, and it looks at them while the next chunk runs:
 *
 *     device   | chunk 0        | chunk 1        | chunk 2        |
 *     host     0 1 . . . . . . . look 0, 2 . . . . look 1, 3 . . .
 *
 * so the device never waits for the host. The host does wait for the device, always for a chunk
 * behind which another one is enqueued. It must not run an epoch ahead, because its reports renew
 * the lease of a search's item, and because a loss that is not finite, pruning and a stop have to
 * take effect after a chunk and not after an epoch. The CPU device finishes a chunk while it is
 * enqueued, so there the host looks at once.
 *
 * Memory and events are allocated once, before the first epoch. */
#ifndef KAS_TRAIN_CHUNKS_H
#define KAS_TRAIN_CHUNKS_H

#include "host/model/model.h"

enum { KAS_CHUNK_STEPS = 16, KAS_CHUNKS_UNDER_WAY = 2 };

/* The results of a chunk that has run. */
typedef struct kas_chunk {
    uint64_t step;       /* step of the run behind the chunk */
    uint32_t steps;      /* number of steps in the chunk */
    double seconds;      /* device time from the chunk's beginning to its end */
    kas_metrics metrics; /* sums of the epoch up to the chunk's end */
} kas_chunk;

typedef struct kas_chunks {
    kas_device *device;
    kas_model *model;
    kas_timer *timer[KAS_CHUNKS_UNDER_WAY];
    kas_metrics *metrics; /* [KAS_CHUNKS_UNDER_WAY], page-locked */
    kas_chunk chunk[KAS_CHUNKS_UNDER_WAY];
    uint64_t enqueued, seen; /* chunks */
} kas_chunks;

/* Creates the chunks of a run; `model` must outlive them. The caller calls kas_chunks_free, also
 * after a failure. */
kas_status kas_chunks_create(kas_device *device, kas_model *model, kas_chunks *out);
void kas_chunks_free(kas_chunks *chunks); /* zeroed is allowed */

/* Returns the most steps of a chunk: 1 on the CPU, where more gain nothing. */
uint32_t kas_chunks_size(const kas_chunks *chunks);
/* Call these before and after the steps of a chunk, when kas_chunks_due is false. `step` is the
 * step of the run behind the chunk. */
kas_status kas_chunks_begin(kas_chunks *chunks);
kas_status kas_chunks_end(kas_chunks *chunks, uint64_t step, uint32_t steps);
/* Returns whether there is a chunk whose results nobody has looked at. */
bool kas_chunks_pending(const kas_chunks *chunks);
/* Returns whether the results of a chunk must be looked at before another one begins. */
bool kas_chunks_due(const kas_chunks *chunks);
/* Gets the results of the oldest pending chunk; waits for its end. */
kas_status kas_chunks_look(kas_chunks *chunks, kas_chunk *out);

#endif
