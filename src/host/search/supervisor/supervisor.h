/* The supervisor: gives work items to worker processes and keeps the store.
 *
 * It never touches a GPU and evaluates nothing itself, so that no candidate can end it.  One loop
 * waits for lines of the workers, signals and time:
 *
 *     idle worker      -> next item: baseline, then candidates, then the two final trainings
 *     line of a worker -> lease renewed, epoch recorded, pruning decided, item finished
 *     silence          -> the worker is killed, its item is "hung"
 *     end of file      -> the worker died: by its own signal "crashed"; killed from outside, the
 * item goes back to the queue and on from its checkpoint
 *
 * So it does after a fault of the machine (KAS_MACHINE: a full disk, no memory, no compiler; a lost
 * device).  After three of them the item ends as "machine-fault" ("device-lost"), for this run: the
 * next one tries it again.  When three candidates in a row end so, the search stops.
 *
 * A worker may have several items at once (`pack`).  Nothing that happens to it is then held
 * against any of them: all go back to the queue, and the one whose call reported first is tried
 * again alone, or each of them when nobody knows which that was.  Only an item that had the worker
 * to itself from its start is judged, so a bad one costs the others a restart from their
 * checkpoints and nothing else.
 *
 * Beside the workers a helper may compile the next candidates (ahead.h); whatever becomes of it,
 * the search goes on with the same results.
 *
 * Killing the supervisor itself at any moment loses nothing: whatever is not committed is done
 * again by the next one from the checkpoint, and what is committed is never done twice. */
#ifndef KAS_SEARCH_SUPERVISOR_SUPERVISOR_H
#define KAS_SEARCH_SUPERVISOR_SUPERVISOR_H

#include "host/store/store.h"
#include "host/study/problem.h"

typedef enum kas_event_kind {
    KAS_EVENT_STARTED,  /* an item was given to a worker */
    KAS_EVENT_ENDED,    /* an item ended, and is committed */
    KAS_EVENT_WORKER,   /* a worker was lost and is replaced; see text */
    KAS_EVENT_NOTE,     /* something to tell once; see text */
    KAS_EVENT_STOPPING, /* the first signal came */
    KAS_EVENT_TICK      /* twice a second */
} kas_event_kind;

typedef struct kas_event {
    kas_event_kind kind;
    const kas_work *work; /* STARTED, ENDED */
    const char *text;     /* WORKER, NOTE */
    /* where the search stands */
    int total;                       /* candidates wanted; 0 = until the time is over */
    int ended, finished, running;    /* candidates */
    const kas_work *best, *baseline; /* NULL = none yet */
    bool finals;                     /* the final trainings are under way */
    const char *phase;               /* of one of the items under way: "training" */
    double fraction;                 /* of its steps, 0..1 */
    double elapsed;                  /* seconds of this run */
    double eta;                      /* seconds left; NaN = unknown */
} kas_event;

/* The helper that compiles the next candidates (ahead.h). */
typedef struct kas_ahead_options {
    const char *const *argv; /* NULL-terminated */
    int candidates;          /* at most so many that no worker has begun; 1 to KAS_AHEAD_MOST */
    int threads;             /* of its compilers */
    int h, w, c, classes;    /* of the data set */
} kas_ahead_options;

typedef struct kas_supervisor_options {
    const char *study; /* folder */
    const char *dataset;
    const kas_search_options *search;
    kas_strategy strategy;
    const char *const *worker_argv; /* NULL-terminated */
    int workers;
    const char *const *device; /* one spec a worker, round robin */
    int devices;
    int pack;                       /* items at once in a worker, 1 to KAS_WORKER_SLOTS; 0 = 1 */
    bool retrain;                   /* final trainings that finished and whose weights are gone */
    double hang_seconds;            /* silence after which a worker is killed */
    uint64_t checkpoint_limit;      /* bytes */
    uint64_t weights_limit;         /* bytes, of the frontier's weights; 0 = none are kept */
    const kas_ahead_options *ahead; /* NULL: nothing is compiled ahead */
    int max_deaths;                 /* faults of the machine that an item may have; 0 = 3 */
    void (*on_event)(void *context, const kas_event *event);
    void *context;
} kas_supervisor_options;

/* Runs until everything is done. KAS_NOTHING_VALID when no candidate finished; KAS_INTERRUPTED
 * (SIGINT) or KAS_PREEMPTED (SIGTERM, SIGHUP) when stopped: everything is saved; KAS_FAILURE when
 * the baseline or a final training failed; KAS_MACHINE when the machine could not evaluate three
 * candidates in a row, or none at all; KAS_DEVICE when workers cannot start. */
kas_status kas_supervise(kas_store *store, const kas_supervisor_options *options);

#endif
