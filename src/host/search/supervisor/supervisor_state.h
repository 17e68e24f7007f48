/* Inside the supervisor only: its state, shared by its files.
 *
 *     supervisor.c   the loop, signals, start and end
 *     queue.c     which item is next
 *     lookahead.c    the helper that compiles what comes after it
 *     report.c       what a worker said, and what follows from it
 *     keep_weights.c which candidates' weights stay */
#ifndef KAS_SEARCH_SUPERVISOR_SUPERVISOR_STATE_H
#define KAS_SEARCH_SUPERVISOR_SUPERVISOR_STATE_H

#include <poll.h>

#include "host/core/clock.h"
#include "host/search/supervisor/ahead.h"
#include "host/search/supervisor/supervisor.h"
#include "host/search/worker/channel.h"
#include "host/search/worker/process.h"
#include "host/store/owner.h"
#include "host/study/study_dir.h"

enum { KAS_FAULTS_IN_A_ROW = 3 };

/* An item in a worker. */
typedef struct kas_item {
    bool busy;
    bool dropped;      /* its lease is lost: whatever is said of it is ignored */
    bool shared;       /* others were in the worker while it was: see kas_worker_died */
    double last_heard; /* listened */
    double last_renewed;
    kas_work work;
    char phase[32];
    double fraction;
} kas_item;

/* A worker. */
typedef struct kas_worker {
    kas_process process; /* pid 0 = none */
    kas_channel channel;
    const char *device;
    int number;
    kas_item *item; /* [pack] */
    bool ready;
    bool hung;        /* was killed for silence */
    bool ending;      /* its device is lost and it is about to end: gets no more work */
    bool solo;        /* the item that it has must be alone */
    int64_t reporter; /* the item that said, or whose silence did, that the worker ends; 0 = none */
    int failed_starts; /* in a row */
    double last_heard; /* listened */
    char error[512];   /* why it could not start */
    kas_status error_status;
} kas_worker;

/* The helper that compiles ahead. */
typedef struct kas_lookahead {
    kas_process process; /* pid 0 = none */
    kas_channel channel;
    char arch[32]; /* of the first worker that was ready; "" = none yet */
    bool ready, busy, given_up;
    int64_t next;       /* candidates below were given to it, or begun without it */
    double last_heard;  /* listened; or began, or was given something */
    int deaths;         /* in a row */
    int made;           /* candidates of which it compiled something */
    double cpu_seconds; /* that its compilers took */
    double waited;      /* for compilers, by items that ended in this run */
} kas_lookahead;

/* Candidates that the strategy has given and the store does not have: they wait here until they are
 * due, so that the store is the same whether anybody looks ahead or not. */
typedef struct kas_foreseen {
    kas_work work[KAS_AHEAD_MOST];
    int count;
    kas_status status; /* how the strategy ended after them; KAS_OK = it goes on */
    char message[512];
} kas_foreseen;

typedef struct kas_supervisor {
    const kas_supervisor_options *options;
    kas_store *store;
    kas_worker *worker;
    kas_item *item; /* of all workers */
    int64_t *solo;  /* items to be tried alone, first come first; [solos] */
    int solos;
    int64_t fault[KAS_FAULTS_IN_A_ROW]; /* candidates that ended in a row by the machine's fault */
    int faults;
    struct pollfd *poll; /* two a worker, from it and to it, and the helper's */
    kas_lookahead ahead;
    kas_foreseen foreseen;
    char owner[KAS_OWNER_SIZE];
    kas_work *list; /* the store's items, as of the last refresh */
    int count;
    int sampled;           /* candidates that the strategy has given in this process */
    bool exhausted;        /* the strategy has no more */
    double began, counted; /* monotonic; time already added to the study */
    double busy_before;    /* seconds of earlier runs */
    double looked;         /* monotonic */
    double listened;       /* when it looked last: kas_supervisor_listened */
    bool stopping;
    double stop_at; /* listened */
} kas_supervisor;

kas_status kas_supervisor_refresh(kas_supervisor *s);
void kas_supervisor_emit(kas_supervisor *s, kas_event_kind kind, const kas_work *work,
                         const char *text);
double kas_supervisor_lease(const kas_supervisor *s);
/* Seconds for which this process has listened, until now.  Silence is measured with it: a
 * supervisor that was stopped (Ctrl-Z, a batch system, a virtual machine that paused) has heard
 * nobody meanwhile, and whoever was stopped with it had nothing to say. */
double kas_supervisor_listened(kas_supervisor *s);
/* Nothing was heard since `last_heard`, for longer than hang_seconds. */
bool kas_supervisor_silent(const kas_supervisor *s, double last_heard);

/* queue.c. A study whose final trainings have ended needs no workers. */
bool kas_queue_complete(const kas_supervisor *s);
/* *found with *out claimed; or *done: nothing will ever come; or neither: wait. */
kas_status kas_queue_next(kas_supervisor *s, kas_work *out, bool *found, bool *done);

/* The n-th candidate from now that nobody has begun, 0 = the next; NULL when it is not known. */
const kas_work *kas_queue_waiting(const kas_supervisor *s, int n);
/* Draws one more candidate before it is due, if there will be one; a failure is told when it is. */
void kas_queue_foresee(kas_supervisor *s);

/* lookahead.c. Nothing here fails: the search does without. */
void kas_lookahead_serve(kas_supervisor *s); /* starts the helper, gives it the next candidate */
void kas_lookahead_listen(kas_supervisor *s);
void kas_lookahead_watch(kas_supervisor *s); /* ends it when it hangs: after what it said is read */
void kas_lookahead_begin(kas_supervisor *s);
void kas_lookahead_end(kas_supervisor *s); /* says what it was good for */

/* keep_weights.c. Deletes the weights of ended candidates that are not on the frontier, and of
 * those on it what is over the limit. */
kas_status kas_supervisor_keep_weights(const kas_supervisor *s);

/* The item that must be tried alone next, claimed; *found is false when there is none any more. */
kas_status kas_queue_solo(kas_supervisor *s, kas_work *out, bool *found);

/* report.c */
int kas_worker_busy(const kas_supervisor *s, const kas_worker *worker); /* items that it has */
kas_status kas_worker_give(kas_supervisor *s, kas_worker *worker,
                           kas_work *work); /* takes `work` */
kas_status kas_worker_hear(kas_supervisor *s, kas_worker *worker, const cJSON *message);
/* The worker is gone, `wait_status` says how: its items end or go back. */
kas_status kas_worker_died(kas_supervisor *s, kas_worker *worker, int wait_status,
                           const char *nonsense);

#endif
