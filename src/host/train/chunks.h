/* The steps of an epoch in chunks, of which the host learns one chunk late.
 *
 * Within an epoch the host only enqueues.  Behind each chunk it enqueues a copy of the model's sums
 * into page-locked memory, and looks at them when the next chunk is under way:
 *
 *     device   | chunk 0        | chunk 1        | chunk 2        |
 *     host     0 1 . . . . . . . look 0, 2 . . . . look 1, 3 . . .
 *
 * so the device never has to wait for the host.  The host does wait for the device, for a chunk
 * behind which there is another: it must not run an epoch ahead, because what it reports renews the
 * lease of a search's item, and because a loss that is not finite, a pruning and a stop are to take
 * effect after a chunk and not after an epoch.  The CPU device has done a chunk when it was
 * enqueued; there the host looks at once.
 *
 * Memory and events are made once, before the first epoch. */
#ifndef KAS_TRAIN_CHUNKS_H
#define KAS_TRAIN_CHUNKS_H

#include "host/model/model.h"

enum { KAS_CHUNK_STEPS = 16, KAS_CHUNKS_UNDER_WAY = 2 };

/* What is known of a chunk that was run. */
typedef struct kas_chunk {
    uint64_t step;       /* of the run, behind it */
    uint32_t steps;      /* its own */
    double seconds;      /* of the device, from the chunk's begin to its end */
    kas_metrics metrics; /* sums of the epoch up to its end */
} kas_chunk;

typedef struct kas_chunks {
    kas_device *device;
    kas_model *model;
    kas_timer *timer[KAS_CHUNKS_UNDER_WAY];
    kas_metrics *metrics; /* [KAS_CHUNKS_UNDER_WAY], page-locked */
    kas_chunk chunk[KAS_CHUNKS_UNDER_WAY];
    uint64_t enqueued, seen; /* chunks */
} kas_chunks;

/* `model` must outlive it. On failure kas_chunks_free is the caller's all the same. */
kas_status kas_chunks_create(kas_device *device, kas_model *model, kas_chunks *out);
void kas_chunks_free(kas_chunks *chunks); /* of zeros is allowed */

/* Steps of a chunk at most: 1 on the CPU, where there is nothing to gain from more. */
uint32_t kas_chunks_size(const kas_chunks *chunks);
/* Around the steps of a chunk, when none is due. `step`: of the run, behind the chunk. */
kas_status kas_chunks_begin(kas_chunks *chunks);
kas_status kas_chunks_end(kas_chunks *chunks, uint64_t step, uint32_t steps);
/* Is there a chunk that nobody has looked at? */
bool kas_chunks_pending(const kas_chunks *chunks);
/* Is it time to look at one, before another begins? */
bool kas_chunks_due(const kas_chunks *chunks);
/* The oldest of those that are pending; waits for its end. */
kas_status kas_chunks_look(kas_chunks *chunks, kas_chunk *out);

#endif
