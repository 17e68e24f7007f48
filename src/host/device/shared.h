/* Sums between processes of one machine, through memory that all of them map.
 *
 *     | joined, arrived, left, failed | slots of turn 0, one a rank | slots of turn 1 |
 *
 * Numbers go through in pieces of a slot. Every rank copies its piece into its slot, waits until
 * all have done so, and adds up all slots in the order of ranks: all ranks get the same bits, in
 * every run. Turns alternate between two sets of slots, so that a piece needs one meeting and not
 * two: a rank that fills a slot again has met all others behind the last reading of it.
 *
 * The memory is a file without a name (memfd_create), which the other ranks open through /proc: so
 * nothing is left whenever the ranks are killed, and all must be processes of one user that see each
 * other's numbers. A rank holds a lock on a byte of the file that is its own. The system releases it
 * when the process ends, however it ends, so that others see it, also where nobody has reaped the
 * process yet.
 *
 * The CPU device uses this (group.h), and the tests' stand-in for NCCL does too. One thread of a
 * process uses a handle; kas_shared_abort and kas_shared_look may be called by another. */
#ifndef KAS_DEVICE_SHARED_H
#define KAS_DEVICE_SHARED_H

#include <stdbool.h>
#include <stddef.h>

#include "host/core/status.h"

enum { KAS_SHARED_ID = 128, KAS_SHARED_RANKS = 64 };

typedef struct kas_shared kas_shared;

/* Makes the memory of a group and writes its id. Rank 0 calls it, and the memory is there until it
 * leaves or its process ends; the others must have joined by then. */
kas_status kas_shared_create(char id[KAS_SHARED_ID]);
/* Joins as one of `ranks` ranks and does not wait for the others. KAS_MACHINE: the process that has
 * made the memory has ended. The caller frees *out with kas_shared_leave. */
kas_status kas_shared_join(const char *id, int rank, int ranks, kas_shared **out);
bool kas_shared_complete(const kas_shared *shared); /* whether all ranks have joined */
/* Returns the number of a rank that has ended without kas_shared_leave, or that has aborted; -1 =
 * none is known. */
int kas_shared_look(kas_shared *shared);

/* Replace every number by its mean over all ranks, and fill [ranks][bytes] of `all` with what each
 * rank had at its own place. They wait for the other ranks, and return false after an abort, with
 * contents that mean nothing. */
bool kas_shared_mean(kas_shared *shared, float *values, size_t count);
bool kas_shared_gather(kas_shared *shared, void *all, size_t bytes);

/* Ends all waits, those of the other ranks too. */
void kas_shared_abort(kas_shared *shared);
void kas_shared_leave(kas_shared *shared); /* NULL is allowed */

#endif
