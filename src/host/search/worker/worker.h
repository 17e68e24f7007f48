/* A worker: a process that evaluates items for a supervisor on one device (docs/search.md).
 *
 * It evaluates one item at a time or several at once, each in a slot: a thread with a device handle
 * of its own.  A worker may crash, hang or lose its device at any moment, and the supervisor deals
 * with it.  The functions that evaluate are given as a table, so that the tests run everything
 * else, real processes and pipes included, with an evaluation that crashes on demand.
 *
 * Commands come on file descriptor 0 and answers go to 3.  Descriptors 1 and 2 are the log of the
 * present item, or of the worker when it has several slots.  A worker ignores SIGINT, SIGTERM,
 * SIGHUP, SIGUSR1 and SIGUSR2: a terminal and a batch system send them to all processes, and the
 * supervisor decides what they mean.  The operating system kills the worker when its supervisor
 * dies. */
#ifndef KAS_SEARCH_WORKER_WORKER_H
#define KAS_SEARCH_WORKER_WORKER_H

#include <cjson/cJSON.h>

#include "host/store/store.h"
#include "host/study/options.h"

enum { KAS_WORKER_REPLY_FD = 3, KAS_WORKER_SLOTS = 64 };

typedef struct kas_slot kas_slot;

/* What the supervisor's message says of an item; it points into the message. */
typedef struct kas_task {
    int64_t id;
    kas_work_kind kind;
    int64_t index;
    int64_t seed;           /* of a final training: which of its seeds */
    const char *name;       /* of the candidate; "" without one */
    const char *kernel;     /* the candidate as JSON; NULL = the network as it is */
    const char *checkpoint; /* the file to resume from and to write */
    const char *weights;    /* the file for the final weights; NULL = they are not kept */
    const char *init;       /* the file of weights to start from; NULL = random weights */
    int rung;               /* number of the rung to which it is trained; it has been screened and
                               measured before unless this is 0 */
    int until;          /* epochs at that rung, with the schedule of the whole recipe; 0 = all */
    const char *gains;  /* as in a kernel file; NULL = not calibrated yet */
    kas_work_role role; /* TRAINING: its latency is known; MEASURING: it is only measured, and goes
                           back to the queue */
    /* Of a final training that several workers share (docs/parallel.md); 0 ranks: this one alone.
     * The ranks meet in the folder `meeting` under the name `attempt`, and wait for each other as
     * long as `rank_timeout`, in seconds. */
    int rank, ranks;
    const char *meeting, *attempt;
    double rank_timeout;
} kas_task;

typedef struct kas_outcome {
    kas_work_state state; /* a final one; QUEUED: it was stopped and wrote a checkpoint; WAITING:
                             the same, because it has reached its rung */
    char reason[512];
    kas_measured measured;
    /* All epochs, also those before a resume: their reports may be lost with an earlier supervisor,
     * but the checkpoint has them. malloc'ed; the worker frees it. */
    kas_epoch *epoch;
    int epochs;
    char *correct; /* as in kas_train_result; NULL = unknown; malloc'ed; the worker frees it */
} kas_outcome;

/* An evaluation calls these to report to the supervisor. KAS_STOP: write a checkpoint and end. */
kas_verdict kas_slot_progress(kas_slot *slot, const char *phase, uint64_t step, uint64_t steps,
                              double loss);
/* Tells the gains of the candidate, which later trainings of it are given. */
void kas_slot_calibrated(kas_slot *slot, const char *gains);
/* Tells how the ranks of the item exchange (train.h), which the study keeps. */
void kas_slot_exchange(kas_slot *slot, const char *exchange);
/* These two wait for the answer: CONTINUE, PRUNE (too slow, or too far below the best), STOP. PRUNE
 * comes before STOP, so that what becomes of a candidate does not depend on when a search stops.
 * Measurements may be told more than once; those that are NaN stay as they are known. */
kas_verdict kas_slot_measured(kas_slot *slot, const kas_measured *measured);
kas_verdict kas_slot_epoch(kas_slot *slot, const kas_epoch *epoch);
/* Returns whether the last question was answered. If not, the supervisor is gone, STOP says nothing
 * about the candidate, and a checkpoint behind the epoch would hide it from the next supervisor. */
bool kas_slot_answered(kas_slot *slot);

/* Between these two no other item of this worker computes, so it disturbs no measurement: the
 * others stop at their next report of progress, and this one waits until they have.  A second begin
 * changes nothing.  The next report of progress is an end too. */
void kas_slot_begin_alone(kas_slot *slot);
void kas_slot_end_alone(kas_slot *slot);

/* Waits until the other items of this worker leave `bytes` of the `room` in the device's memory, or
 * until no other item has any. The bytes are this item's until it ends. KAS_STOP: stop. */
kas_verdict kas_slot_reserve(kas_slot *slot, size_t bytes, size_t room);
void kas_slot_release(kas_slot *slot); /* the worker calls it at the end of an item */

typedef struct kas_evaluator {
    /* Opens the data, which all slots share and only read. */
    kas_status (*open)(const kas_search_options *options, const char *dataset, const char *device,
                       void **state);
    /* Opens the slot's own device handle, in the slot's thread. Gives the name of the device, and
     * the architecture that kernels are compiled for. */
    kas_status (*enter)(void *state, void **own, char name[128], char arch[32]);
    /* A failure becomes the item's state, with the message as reason. NO_MEMORY: out-of-memory (the
     * item is too large for the device); DEVICE_LOST: device-lost; MACHINE: machine-fault; any
     * other status: failed. After device-lost and machine-fault the worker ends, and the supervisor
     * tries the item again. */
    kas_status (*evaluate)(void *own, kas_slot *slot, const kas_task *task, kas_outcome *out);
    void (*leave)(void *own);
    void (*close)(void *state);
    /* Waits until the device has done what the slot enqueued. kas_slot_progress calls it before it
     * waits for another item that wants the device alone. Optional. */
    void (*settle)(void *own);
} kas_evaluator;

/* Serves until the supervisor closes the pipe. */
kas_status kas_worker_run(const kas_evaluator *evaluator);

/* The evaluator of a search (evaluate.c): it solves, calibrates, measures and trains. */
extern const kas_evaluator kas_evaluator_train;

/* Both ends write and read these parts of messages. */
cJSON *kas_measured_message(const char *type, const kas_measured *measured);
kas_measured kas_measured_from(const cJSON *message);
void kas_epoch_put(cJSON *message, const kas_epoch *epoch);
kas_epoch kas_epoch_from(const cJSON *message);

#endif
