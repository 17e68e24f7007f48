/* The state of the supervisor, shared by its files and internal to them.
 *
 *     supervisor.c    the loop, signals, start and end
 *     queue.c         chooses the next item
 *     lookahead.c     gives later candidates to the helper that compiles ahead
 *     proposer.c      asks the program that proposes candidates (proposer.h)
 *     report.c        handles the messages and the death of a worker
 *     ranks.c         final trainings that several workers share
 *     verdict.c       decides whether a candidate goes on
 *     deadline.c      begins no item that would not be saved before --until
 *     ending.c        says how a study ended
 *     event.c         tells the caller what happens
 *     keep_weights.c  deletes weights that need not be kept */
#ifndef KAS_SEARCH_SUPERVISOR_SUPERVISOR_STATE_H
#define KAS_SEARCH_SUPERVISOR_SUPERVISOR_STATE_H

#include <poll.h>

#include "host/core/clock.h"
#include "host/leaderboard/judge.h"
#include "host/leaderboard/losses.h"
#include "host/search/supervisor/ahead.h"
#include "host/search/supervisor/supervisor.h"
#include "host/search/worker/channel.h"
#include "host/search/worker/process.h"
#include "host/store/owner.h"
#include "host/study/study_dir.h"

enum { KAS_FAULTS_IN_A_ROW = 3 };

/* An item that a worker evaluates. */
typedef struct kas_item {
    bool busy;
    bool dropped;      /* its lease is lost: messages about it are ignored */
    bool shared;       /* other items were in the worker at the same time: see kas_worker_died */
    double last_heard; /* in time of kas_supervisor_listened */
    double last_renewed;
    double given; /* when the worker got it, until its first checkpoint; then 0 */
    kas_work work;
    char phase[32];
    double fraction;
    /* Of a final training that several workers share (ranks.c). `work` of rank 0 is the item; that of
     * the others has no texts. */
    int rank, ranks; /* 0 ranks: one worker has it */
    bool over;       /* the worker has told its result or died */
    /* Of rank 0: when the others should have ended too, on the clock of kas_supervisor_listened, and
     * the result that decides; 0 and NULL: there is none yet. */
    double end_by;
    cJSON *result;
} kas_item;

/* A worker. */
typedef struct kas_worker {
    kas_process process; /* pid 0 = none */
    kas_channel channel;
    const char *device;
    char device_name[128]; /* that of the device, when it is known */
    int number;
    kas_item *item; /* [pack] */
    bool ready;
    bool hung;         /* was killed because it was silent */
    double killed;     /* and when, in time of kas_supervisor_listened */
    bool ending;       /* its device is lost and it will end: it gets no more work */
    bool solo;         /* its item must be alone in it */
    int64_t reporter;  /* id of the item that announced the worker's end, or was silent; 0 = none */
    int failed_starts; /* in a row */
    double last_heard; /* in time of kas_supervisor_listened */
    char error[512];   /* why it could not start */
    kas_status error_status;
} kas_worker;

/* The helper that compiles ahead. */
typedef struct kas_lookahead {
    kas_process process; /* pid 0 = none */
    kas_channel channel;
    char arch[32]; /* from the first worker that was ready; "" = none yet */
    bool ready, busy, given_up;
    int64_t next;       /* candidates with a smaller number were given to it, or begun without it */
    double last_heard;  /* when it last spoke, began or got a candidate, in time of
                           kas_supervisor_listened */
    int deaths;         /* in a row */
    int made;           /* candidates for which it compiled something */
    double cpu_seconds; /* processor time of its compilers */
    double compiler_wait; /* seconds that items which ended in this run waited for compilers */
} kas_lookahead;

/* Candidates that the strategy has drawn and the store does not have yet. They wait here until they
 * are due, so that the store is the same with and without the helper. */
typedef struct kas_foreseen {
    kas_work work[KAS_AHEAD_MOST];
    int count;
    kas_status status; /* how the strategy ended after them; KAS_OK = it has more */
    char message[512];
} kas_foreseen;

/* What events tell of the list of items. */
typedef struct kas_tally {
    kas_store_mark of;            /* as of when; zero: of no list */
    int ended, finished, running; /* candidates */
    int best;                     /* place of the candidate that leads; -1: none */
    bool finals;
} kas_tally;

typedef struct kas_supervisor {
    const kas_supervisor_options *options;
    kas_store *store;
    kas_worker *worker;
    kas_item *item; /* of all workers */
    int64_t *solo;  /* [solos] ids of items to be tried alone, in order */
    int solos;
    int64_t fault[KAS_FAULTS_IN_A_ROW]; /* the last candidates in a row that ended by a fault of
                                           the machine */
    int faults;
    struct pollfd *poll; /* two for each worker, from it and to it; the helper's, the proposer's,
                            the store's */
    kas_lookahead ahead;
    kas_foreseen foreseen;
    char owner[KAS_OWNER_SIZE];
    kas_work *list; /* the store's items, as of the last refresh */
    int count;
    kas_store_mark mark;
    kas_tally tally;
    kas_losses losses;
    kas_curve *curve; /* [curves] of finished candidates, as kas_verdict_prune looked last */
    int curves;
    int64_t wanted; /* candidates that reach training, 0 = until the time limit; and the
                                digest of the study's options when it was looked up */
    char options_digest[65];
    int sampled;             /* candidates taken from the strategy in this process */
    bool exhausted;          /* the strategy has no more candidates */
    bool drawing;            /* what it gave last runs nowhere: the loop asks for more at once */
    bool dry;                /* the store had no item when it was asked last */
    bool leads;              /* it proposes, as of the last kas_supervisor_lead */
    bool follows;            /* it has said that another supervisor proposes */
    double began, counted;   /* monotonic clock; seconds already added to the study */
    double busy_before;      /* seconds of earlier runs */
    double drew;             /* device time of drawing, not added to the study yet */
    double looked;           /* monotonic clock, at the last call of kas_supervisor_listened */
    double listened;         /* and the result of that call */
    double first_checkpoint; /* seconds that an item needs to its first checkpoint, or to its end
                                where it has none */
    enum { KAS_OF_NOBODY, KAS_OF_STUDY, KAS_OF_RUN } checkpoint_of; /* whom that is known from */
    bool stopping;
    double stop_at; /* in time of kas_supervisor_listened */
} kas_supervisor;

kas_status kas_supervisor_refresh(kas_supervisor *s);
/* Returns the candidate that leads, as of the last refresh; NULL: none. */
const kas_work *kas_supervisor_leader(kas_supervisor *s);
/* Sets `leads`, and tells the user when that changes. */
kas_status kas_supervisor_lead(kas_supervisor *s);
double kas_supervisor_lease(const kas_supervisor *s);
/* Returns the seconds for which this process has been able to listen to workers so far. Silence is
 * measured in this time: while a supervisor is stopped (Ctrl-Z, a batch system, a paused virtual
 * machine) it hears nobody, and workers that are stopped with it cannot speak. */
double kas_supervisor_listened(kas_supervisor *s);
/* Returns whether nothing was heard since `last_heard` for longer than hang_seconds. */
bool kas_supervisor_silent(const kas_supervisor *s, double last_heard);

/* Tells the caller of kas_supervise what happens (event.c). */
void kas_supervisor_emit(kas_supervisor *s, kas_event_kind kind, const kas_work *work,
                         const char *text);

/* ---- queue.c --------------------------------------------------------------------------------- */
/* Returns whether all items, the final trainings included, have ended: such a study needs
 * no workers. */
bool kas_queue_complete(const kas_supervisor *s);
/* Returns whether all candidates have ended and none of them is an answer (--finalists 0 asks for
 * none), so that nothing follows. */
bool kas_queue_without_answer(const kas_supervisor *s);
/* Lets a complete study go on that has fewer candidates than it has to get, as when it grows: a
 * supervisor that did not know of the others may have ended it. */
kas_status kas_queue_reopen(kas_supervisor *s);
/* Of the supervisor that proposes, on a server: keeps a few candidates in the queue, for others. */
kas_status kas_queue_stock(kas_supervisor *s);
/* Claims the next item. It sets *found and fills *out; or it sets *done when there will never be
 * another item; or it sets neither when the caller must wait. Final trainings are taken only with
 * `finals`. */
kas_status kas_queue_next(kas_supervisor *s, bool finals, kas_work *out, bool *found, bool *done);

/* Returns the n-th candidate that nobody has begun, where 0 is the next one; NULL when it is not
 * known yet. */
const kas_work *kas_queue_waiting(const kas_supervisor *s, int n);
/* Draws one more candidate before it is due, if there will be one. A failure is reported when the
 * candidate is due. */
void kas_queue_foresee(kas_supervisor *s);
/* Claims the next item that must be tried alone; *found is false when there is none left. */
kas_status kas_queue_solo(kas_supervisor *s, kas_work *out, bool *found);

/* ---- lookahead.c: none of these fails, because the search can continue without the helper ---- */
void kas_lookahead_serve(kas_supervisor *s); /* starts it, gives it work */
void kas_lookahead_listen(kas_supervisor *s);
void kas_lookahead_watch(kas_supervisor *s); /* ends it when it hangs */
void kas_lookahead_begin(kas_supervisor *s);
void kas_lookahead_end(kas_supervisor *s); /* logs what it achieved */

/* Says what there is to say about the program that proposes, and stops it when it has taken as long
 * as a worker may be silent (proposer.c). */
kas_status kas_supervisor_watch_proposer(kas_supervisor *s);

/* Deletes the weights of ended candidates that are not on the frontier and, when those on the
 * frontier exceed the limit, some of these too (keep_weights.c). */
kas_status kas_supervisor_keep_weights(kas_supervisor *s);

/* ---- verdict.c ------------------------------------------------------------------------------- */
/* Reads the measurements of an item from a worker's message. The machine may have been busier than
 * when the unmodified network was measured, so a candidate's latency is told in that one: its ratio
 * is of neighbours in time. The unmodified network keeps its first latency when it is measured again,
 * because it resumes: those of earlier candidates are told in it. */
kas_measured kas_verdict_measured(const kas_supervisor *s, const kas_work *work,
                                  const cJSON *message);
/* Returns whether --latency ends a candidate that was measured. Later generations must not depend
 * on a measurement, and one here says nothing of another machine: there the forecast decides. */
bool kas_verdict_too_slow(const kas_supervisor *s, const kas_work *work);
/* Finds out whether --prune ends a candidate after an epoch. */
kas_status kas_verdict_prune(kas_supervisor *s, const kas_work *work, const kas_epoch *epoch,
                             bool *prune);
void kas_verdict_end(kas_supervisor *s); /* frees what it knows */

/* ---- deadline.c ------------------------------------------------------------------------------ */
/* Finds out how long the study's items have needed to their first checkpoints. */
kas_status kas_deadline_begin(kas_supervisor *s);
/* An item has a checkpoint now, or has ended. */
void kas_deadline_hear(kas_supervisor *s, kas_item *item);
/* Returns whether an item that began now would not reach its first checkpoint before --until. */
bool kas_deadline_is_near(const kas_supervisor *s);
void kas_deadline_tell(kas_supervisor *s); /* why the search ends before --until */

/* ---- ending.c -------------------------------------------------------------------------------- */
/* Returns whether the item ended without a result and the study is not complete without it. A
 * finalist that only explores may fail; one that could not be timed in turns keeps the latency of
 * the search. */
bool kas_supervisor_is_missing(const kas_work *w);
/* Returns KAS_OK when the study has its answer, and else why not. */
kas_status kas_supervisor_ending(kas_supervisor *s);

/* ---- ranks.c --------------------------------------------------------------------------------- */
/* Returns whether the worker may be given a final training: where these have ranks, it is the first
 * of so many workers that are all idle. */
bool kas_ranks_free(const kas_supervisor *s, const kas_worker *worker);
/* Writes the path of the folder in which ranks meet. */
kas_status kas_ranks_folder(const kas_supervisor *s, char out[KAS_STUDY_PATH]);
/* Prepares the folder in which the ranks of an item meet, where an earlier attempt may have left a
 * file of that name, and gives the other ranks their items; the caller sends the work to all. */
kas_status kas_ranks_begin(kas_supervisor *s, kas_worker *first);
/* Adds to the message "work" what a rank needs to know. */
kas_status kas_ranks_describe(const kas_supervisor *s, const kas_item *item, cJSON *message);
/* Keeps how the ranks of an item exchange: what its bits depend on. */
kas_status kas_ranks_hear_exchange(kas_supervisor *s, kas_item *item, const cJSON *message);
/* Handle the result of a rank and the death of its worker. The item ends, or returns to the queue,
 * when all ranks are over. */
kas_status kas_ranks_hear_result(kas_supervisor *s, kas_worker *worker, kas_item *item,
                                 const cJSON *result);
kas_status kas_ranks_died(kas_supervisor *s, kas_worker *worker, kas_item *item);
/* Kills ranks that go on for too long after another one has ended. */
void kas_ranks_watch(kas_supervisor *s);

/* ---- report.c -------------------------------------------------------------------------------- */
/* Returns how many items the worker has. */
int kas_worker_busy(const kas_supervisor *s, const kas_worker *worker);
/* Sends an item to the worker and takes ownership of the contents of `work`. */
kas_status kas_worker_give(kas_supervisor *s, kas_worker *worker, kas_work *work);
/* Ends an item, or returns it to the queue, as its result says. */
kas_status kas_worker_end_item(kas_supervisor *s, kas_worker *worker, kas_item *item,
                               const cJSON *result);
/* Returns an item to the queue; `failed`: it counts as a fault of the machine, unless the search
 * stops: what ends a job may also end its workers. */
kas_status kas_worker_release(kas_supervisor *s, kas_worker *worker, kas_item *item, bool failed);
/* Frees the place of an item in its worker. */
void kas_worker_clear(kas_supervisor *s, kas_worker *worker, kas_item *item);
/* Handles one message of the worker. */
kas_status kas_worker_hear(kas_supervisor *s, kas_worker *worker, const cJSON *message);
/* Handles the end of a worker: its items end or return to the queue. `wait_status` is that of
 * waitpid. `bad_message` describes an invalid message that it sent; NULL = none. */
kas_status kas_worker_died(kas_supervisor *s, kas_worker *worker, int wait_status,
                           const char *bad_message);

#endif
