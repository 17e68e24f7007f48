/* The supervisor: gives work items to worker processes and keeps the store.
 *
 * It never touches a GPU and evaluates nothing itself, so that no candidate can end it.  One loop
 * waits for lines of the workers, signals and time:
 *
 *     idle worker      -> next item: baseline, then candidates, then finalists in turns with the
 *                         unmodified network, then the final trainings
 *     nothing to do    -> the candidates that wait at a rung: the best go on, the others end
 *     line of a worker -> lease renewed, epoch recorded, pruning decided, item finished
 *     silence          -> the worker is killed, its item is "hung"
 *     end of file      -> the worker died: by a signal of its own, its item is "crashed"; killed
 *                         from outside, its item returns to the queue, from its checkpoint
 *
 * An item also returns to the queue after a fault of the machine (KAS_MACHINE: a full disk, no
 * memory, no compiler; a lost device). After three such faults it ends as "machine-fault" (or
 * "device-lost") in this run; the next run tries it again. When three candidates in a row end in
 * this way, the search stops.
 *
 * A worker may have several items at once (`pack`). When such a worker dies, no item is blamed:
 * all return to the queue, and the item whose call reported the fault first is tried again alone,
 * or each of them when it is unknown which one that was. Only an item that had the worker to
 * itself from its start is judged, so a bad item costs the others no more than a restart from
 * their checkpoints.
 *
 * A program may propose candidates at the beginning of a generation (proposer.h); nothing else is
 * begun before it has answered.
 *
 * Several supervisors may work on one study. Of those that could, one proposes candidates, ends
 * rungs and names the answer: on a server the one with the study's lock (kas_store_lead), and when
 * it is gone another. It keeps a few candidates waiting for the others.
 *
 * SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 mean: stop soon. Checkpoints are saved and leases
 * given back. A second SIGINT does not wait for that; the others may come more than once, because
 * batch systems send them to all processes and batch scripts pass them on.
 *
 * A helper process may compile the next candidates (ahead.h). Whatever happens to it, the search
 * continues with the same results.
 *
 * Killing the supervisor at any moment loses nothing: the next supervisor repeats from the
 * checkpoints whatever is not committed, and committed work is never done twice. */
#ifndef KAS_SEARCH_SUPERVISOR_SUPERVISOR_H
#define KAS_SEARCH_SUPERVISOR_SUPERVISOR_H

#include "host/search/supervisor/proposer.h"
#include "host/store/store.h"
#include "host/strategy/strategy.h"

typedef enum kas_event_kind {
    KAS_EVENT_STARTED,  /* an item was given to a worker */
    KAS_EVENT_ENDED,    /* an item ended, and its result is committed */
    KAS_EVENT_WORKER,   /* a worker was lost and is replaced; see text */
    KAS_EVENT_NOTE,     /* a message for the user; see text */
    KAS_EVENT_STOPPING, /* the first signal came */
    KAS_EVENT_TICK      /* twice a second */
} kas_event_kind;

typedef struct kas_event {
    kas_event_kind kind;
    const kas_work *work; /* STARTED, ENDED */
    const char *text;     /* WORKER, NOTE */
    /* The state of the search. */
    int total;                       /* candidates wanted; 0 = until the time limit */
    int ended, finished, running;    /* candidates */
    const kas_work *best, *baseline; /* NULL = none yet */
    bool finals;                     /* the final trainings are running */
    const char *phase;               /* of one of the running items: "training" */
    double fraction;                 /* of its steps, 0..1 */
    double elapsed;                  /* seconds of this run */
    double eta;                      /* seconds left; NaN = unknown */
} kas_event;

/* The helper that compiles the next candidates (ahead.h). */
typedef struct kas_ahead_options {
    const char *const *argv; /* NULL-terminated */
    int candidates;          /* the most that may be compiled before a worker begins them; 1 to
                                KAS_AHEAD_MOST */
    int threads;             /* of its compilers */
    int h, w, c, classes;    /* of the data set */
} kas_ahead_options;

typedef struct kas_supervisor_options {
    const char *study; /* folder */
    const char *dataset;
    const kas_search_options *search;
    kas_strategy strategy;
    double predicted; /* seconds of a forward pass of the unmodified network; 0 = unknown */
    const char *const *worker_argv; /* NULL-terminated */
    int workers;
    const char *const *device; /* device specs, given to the workers round robin */
    int devices;
    int pack;                       /* items at once in a worker, 1 to KAS_WORKER_SLOTS; 0 = 1 */
    bool retrain;                   /* run finished final trainings again whose weights are
                                       missing */
    double hang_seconds;            /* silence after which a worker is killed */
    double until;                   /* seconds since 1970 at which the search stops as upon a
                                       SIGTERM; no item begins that would probably not reach its
                                       first checkpoint by then; 0 = never */
    double least;                   /* seconds that this is supposed to take while nobody knows; 0 =
                                       KAS_UNTIL_LEAST (core/clock.h) */
    uint64_t checkpoint_limit;      /* bytes */
    uint64_t weights_limit;         /* bytes of the frontier's weights; 0 = keep none */
    const kas_ahead_options *ahead; /* NULL: nothing is compiled ahead */
    kas_asking *asking;             /* of a program that proposes; NULL: none */
    kas_work_role role;             /* which items it takes */
    bool takes_only;                /* it proposes nothing and has no strategy: `kas-gpu worker` */
    bool leaves_finals; /* it has fewer workers or GPUs than a final training has ranks */
    int max_deaths;     /* faults of the machine after which an item ends; 0 = 3 */
    void (*on_event)(void *context, const kas_event *event);
    void *context;
} kas_supervisor_options;

/* Runs the study until everything is done. Fails with KAS_NOTHING_VALID when no candidate finished;
 * with KAS_INTERRUPTED (SIGINT) or KAS_PREEMPTED (another signal) when it was stopped, after
 * everything is saved; with KAS_FAILURE when the baseline or a final training failed; with
 * KAS_MACHINE when the machine could not evaluate three candidates in a row, or none at all; and
 * with KAS_DEVICE when workers cannot start. */
kas_status kas_supervise(kas_store *store, const kas_supervisor_options *options);

#endif
