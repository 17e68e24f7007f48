/* Several processes that train one network, one rank a process and a device (docs/parallel.md).
 *
 * On the CUDA device a group is a communicator of NCCL with a stream of its own; on the CPU device it
 * is shared memory (shared.h), so all ranks are on one machine. Both add in the order that the ranks
 * and their number alone decide, so two runs have the same bits, and all ranks have them.
 *
 * Exchanges are steps of a plan. Work that is recorded behind an exchange runs beside it, and may
 * neither read nor write its memory, up to kas_plan_join. All ranks must run the same exchanges in
 * the same order.
 *
 * Meeting. Rank 0 publishes the group's id in the file FOLDER/NAME, written atomically; the others
 * wait for it, and rank 0 removes it when all have joined. NAME must be one that no earlier attempt
 * had (it names run and attempt), and is also inside the file, so nobody reads the id of another
 * attempt.
 *
 * Failures. A thread asks every 50 ms whether another rank has ended or failed and whether this
 * process has waited longer than `timeout` for the others (kas_group_wait). Then it ends the exchange
 * on this rank, so that the thread that waits goes on, and every later call of the group fails with
 * the reason. If that does not free the process within half a minute, it is ended. A failed group
 * stays so. */
#ifndef KAS_DEVICE_GROUP_H
#define KAS_DEVICE_GROUP_H

#include "host/device/device.h"

typedef struct kas_group kas_group;

typedef struct kas_group_options {
    const char *folder, *name;
    int rank, ranks;
    double timeout; /* seconds that a rank waits for the others, in the meeting too */
    bool capture;   /* see kas_plan_capture_exchanges; of all ranks or of none */
} kas_group_options;

/* Joins the group, and waits until all ranks have. Other folders free it with kas_group_close, after
 * the plans that use it and before the device. */
kas_status kas_group_open(kas_device *device, const kas_group_options *options, kas_group **out);
void kas_group_close(kas_group *group); /* leaves it; NULL is allowed */
/* Ends the group for all ranks because this one failed with `status`: before plans and memory that
 * exchanges use are freed. It does not wait for the end. NULL, and KAS_OK, do nothing. */
void kas_group_abort(kas_group *group, kas_status status);
int kas_group_rank(const kas_group *group);  /* NULL: 0 */
int kas_group_ranks(const kas_group *group); /* NULL: 1 */
/* Says by what the group adds and in which order: what the bits of its sums depend on. */
const char *kas_group_settings(const kas_group *group);
/* Returns whether exchanges are captured: asked for, possible, and not given up so far. */
bool kas_group_captures(const kas_group *group); /* NULL: false */
/* Fails when the group has failed. */
kas_status kas_group_check(kas_group *group);
/* Begins the time that this thread may take for what follows, in which other ranks may hold it up:
 * until the next call with true, which begins it again, or with false, which ends it. A step of
 * training is the unit: any of its calls may wait, for an exchange or for a queue behind one. NULL is
 * allowed. */
void kas_group_wait(kas_group *group, bool waits);

/* Record exchanges. kas_plan_mean replaces `count` floats by their mean over the ranks.
 * kas_plan_gather fills `all`, [ranks][bytes], where each rank has written its own part.
 * kas_plan_join makes what is recorded later wait for them. */
kas_status kas_plan_mean(kas_plan *plan, kas_group *group, float *values, size_t count);
kas_status kas_plan_gather(kas_plan *plan, kas_group *group, void *all, size_t bytes);
kas_status kas_plan_join(kas_plan *plan, kas_group *group);
/* Lets the CUDA device put exchanges that are recorded from here on into the plan's graph, where the
 * group captures; otherwise they lie between graphs. All ranks must run the plan equally often, because
 * NCCL wants an exchange captured by all of them or by none: when one rank cannot, none does. */
void kas_plan_capture_exchanges(kas_plan *plan);

/* Fills `all`, [ranks][bytes] in the memory of the host, with what each rank has at `mine`. Waits. */
kas_status kas_group_gather(kas_group *group, const void *mine, size_t bytes, void *all);

#endif
