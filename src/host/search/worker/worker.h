/* A worker: a process that evaluates work items for a supervisor, one at a time or several at once
 * on one device (docs/search.md): each in a slot, a thread with a device handle of its own.
 *
 * It may crash, hang or lose its device at any moment; the supervisor sees to the rest.  What it
 * evaluates with is given as a table, so that the tests run the whole machinery, real processes and
 * pipes included, with an evaluation that crashes on demand.
 *
 * Commands come on file descriptor 0, answers go to 3; 1 and 2 are the log of the present item
 * (with several slots, of the worker).
 * SIGINT and SIGTERM do nothing (a terminal and a batch system send them to everybody; the
 * supervisor decides), and the kernel kills the worker when its supervisor dies. */
#ifndef KAS_SEARCH_WORKER_WORKER_H
#define KAS_SEARCH_WORKER_WORKER_H

#include <cjson/cJSON.h>

#include "host/store/store.h"
#include "host/study/options.h"

enum { KAS_WORKER_REPLY_FD = 3, KAS_WORKER_SLOTS = 64 };

typedef struct kas_slot kas_slot; /* a slot */

typedef struct kas_task {
    int64_t id;
    kas_work_kind kind;
    int64_t index;
    const char *name;       /* of the kernel; "" without one */
    const char *kernel;     /* JSON; NULL = the network as it is */
    const char *checkpoint; /* file to resume from and to write */
    const char *weights;    /* where the final weights go; NULL = nowhere */
    const char *init;       /* weights to start from; NULL = random */
} kas_task;

typedef struct kas_outcome {
    kas_work_state state; /* a final one, or QUEUED: stopped, checkpoint written */
    char reason[512];
    kas_measured measured;
    /* All epochs, those before a resume included: a report can be lost with its supervisor, the
     * checkpoint was not. malloc'ed; the worker frees. */
    kas_epoch *epoch;
    int epochs;
} kas_outcome;

/* Calls of an evaluation to its supervisor. KAS_STOP: write a checkpoint and end. */
kas_verdict kas_slot_progress(kas_slot *slot, const char *phase, uint64_t step, uint64_t steps,
                              double loss);
/* These two wait for the supervisor's word: CONTINUE, PRUNE (too slow; too far below), STOP. */
kas_verdict kas_slot_measured(kas_slot *slot, const kas_measured *measured);
kas_verdict kas_slot_epoch(kas_slot *slot, const kas_epoch *epoch);

/* What is measured between these two is not disturbed by other items of this worker: they wait at
 * their next report of progress, and this one waits for them.  Beginning twice is beginning once;
 * the next report of progress ends it too. */
void kas_slot_begin_alone(kas_slot *slot);
void kas_slot_end_alone(kas_slot *slot);

/* Waits until `bytes` of the device's memory, of which `room` can be had, are left by the other
 * items of this worker, or until there is none; they are this item's until its end. STOP: stop. */
kas_verdict kas_slot_reserve(kas_slot *slot, size_t bytes, size_t room);
void kas_slot_release(kas_slot *slot); /* the worker does it at the end of an item */

typedef struct kas_evaluator {
    /* Opens what all slots share and only read: the data. */
    kas_status (*open)(const kas_search_options *options, const char *dataset, const char *device,
                       void **state);
    /* Opens what a slot has to itself, the device, in the slot's thread. Its name and what kernels
     * are compiled for. */
    kas_status (*enter)(void *state, void **own, char name[128], char arch[32]);
    /* A failure becomes the item's state, with the message as reason: NO_MEMORY out-of-memory (it
     * is too large for the device), DEVICE_LOST device-lost, MACHINE machine-fault (after these
     * two the worker ends, and the supervisor tries the item again), anything else failed. */
    kas_status (*evaluate)(void *own, kas_slot *slot, const kas_task *task, kas_outcome *out);
    void (*leave)(void *own);
    void (*close)(void *state);
    /* Waits until the device has done what the slot enqueued: before it waits for a neighbour that
     * wants the device alone, from within kas_slot_progress. Optional. */
    void (*settle)(void *own);
} kas_evaluator;

/* Serves until the supervisor closes the pipe. */
kas_status kas_worker_run(const kas_evaluator *evaluator);

/* The real one (evaluate.c): solve, screen, measure, train. */
extern const kas_evaluator kas_evaluator_train;

/* Words of the messages, used by both ends. */
cJSON *kas_measured_message(const char *type, const kas_measured *measured);
kas_measured kas_measured_from(const cJSON *message);
void kas_epoch_put(cJSON *message, const kas_epoch *epoch);
kas_epoch kas_epoch_from(const cJSON *message);

#endif
