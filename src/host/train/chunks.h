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
 * The ranks of a group (docs/parallel.md) gather their sums behind each chunk, with what each of
 * them wants to do next, so all of them see the same and decide the same after the same chunk.
 *
 * Memory and events are allocated once, before the first epoch. */
#ifndef KAS_TRAIN_CHUNKS_H
#define KAS_TRAIN_CHUNKS_H

#include "host/model/model.h"
#include "host/train/train.h"

enum { KAS_CHUNK_STEPS = 16, KAS_CHUNKS_UNDER_WAY = 2 };

/* What a rank says behind a chunk. */
typedef struct kas_chunk_words {
    kas_metrics metrics;
    uint32_t verdict, unused;
} kas_chunk_words;

/* The results of a chunk that has run. */
typedef struct kas_chunk {
    uint64_t step;       /* step of the run behind the chunk */
    uint32_t steps;      /* number of steps in the chunk */
    double seconds;      /* device time from the chunk's beginning to its end */
    kas_metrics metrics; /* sums of the epoch up to the chunk's end, of all ranks */
    kas_verdict verdict; /* what the ranks agree on: the largest of their verdicts */
} kas_chunk;

typedef struct kas_chunks {
    kas_device *device;
    kas_model *model;
    kas_timer *timer[KAS_CHUNKS_UNDER_WAY];
    kas_group *group;
    int ranks;
    kas_chunk_words *words;         /* [KAS_CHUNKS_UNDER_WAY][ranks], page-locked */
    char *gathered;                 /* device: [ranks] words, and one of each verdict */
    kas_plan *gather[KAS_STOP + 1]; /* by this rank's verdict; NULL: there is no group */
    kas_chunk chunk[KAS_CHUNKS_UNDER_WAY];
    uint64_t enqueued, seen; /* chunks */
} kas_chunks;

/* Creates the chunks of a run; `model` must outlive them; `group` may be NULL. The caller calls
 * kas_chunks_free, also after a failure. */
kas_status kas_chunks_create(kas_device *device, kas_model *model, kas_group *group,
                             kas_chunks *out);
void kas_chunks_free(kas_chunks *chunks); /* zeroed is allowed */

/* Returns the most steps of a chunk: 1 on the CPU, where more gain nothing. */
uint32_t kas_chunks_size(const kas_chunks *chunks);
/* Call these before and after the steps of a chunk, when kas_chunks_due is false. `step` is the
 * step of the run behind the chunk, `verdict` what this rank wants. */
kas_status kas_chunks_begin(kas_chunks *chunks);
kas_status kas_chunks_end(kas_chunks *chunks, uint64_t step, uint32_t steps, kas_verdict verdict);
/* Returns whether there is a chunk whose results nobody has looked at. */
bool kas_chunks_pending(const kas_chunks *chunks);
/* Returns whether the results of a chunk must be looked at before another one begins. */
bool kas_chunks_due(const kas_chunks *chunks);
/* Gets the results of the oldest pending chunk; waits for its end. */
kas_status kas_chunks_look(kas_chunks *chunks, kas_chunk *out);

/* Adds up the words of `ranks` ranks. */
void kas_chunk_words_sum(const kas_chunk_words *words, int ranks, kas_metrics *sum,
                         kas_verdict *verdict);

#endif
