/* Inside a worker only: its lanes, threads that evaluate one item each on a device handle of their
 * own.
 *
 *     worker.c   the process: hello, messages to the lanes, end
 *     lane.c     a lane: the calls of an evaluation to its supervisor, its log
 *     crew.c     what lanes share: the device for one alone, and its memory
 *
 * The main thread reads all messages.  Everything below `lock` is guarded by it; `changed` is
 * signalled whenever any of it changes.  Nobody writes to the supervisor under `lock`: the pipe may
 * be full until the supervisor reads, and it may first want the main thread to read. */
#ifndef KAS_SEARCH_CREW_H
#define KAS_SEARCH_CREW_H

#include <pthread.h>
#include <stdio.h>

#include "host/search/channel.h"
#include "host/search/worker.h"

typedef struct kas_crew {
    kas_channel channel; /* read by the main thread; written under `sending` */
    pthread_mutex_t sending;
    const kas_evaluator *evaluator;
    void *state; /* the evaluator's, of the whole worker */
    int lanes;
    kas_worker *lane; /* [lanes] */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool lost;                  /* the supervisor is gone, or says so: all end */
    int inside;                 /* lanes that are at work on the device */
    int wanting;                /* lanes that wait to be alone */
    bool alone;                 /* one is */
    size_t reserved;            /* bytes of the device's memory */
    kas_status first;           /* of opening the first lane's device; */
    char device[128], arch[32]; /* what it is */
    bool opened;                /* that is known */
    char message[1024];
} kas_crew;

struct kas_worker {
    kas_crew *crew;
    int number;
    pthread_t thread;
    bool running;
    void *state; /* the evaluator's, of this lane */
    bool
        alone; /* this lane has the device to itself; under the crew's lock, as are the next four */
    bool stop;
    bool answered;
    kas_verdict verdict;
    cJSON *work; /* the item that it has; NULL = idle */
    int64_t id;
    double last_progress;
    char phase[32];
    char last_words[64]; /* what a thread that dies for this lane says */
    FILE *log;
    size_t reserved;
};

/* crew.c. A lane at work is inside, but while it waits here. */
void kas_crew_enter(kas_worker *worker);
void kas_crew_leave(kas_worker *worker);
/* Is alone no longer, if it was; lets those go first that want to be. */
void kas_crew_yield(kas_worker *worker);

/* lane.c: the thread. */
void *kas_lane_run(void *worker);
/* Says that the lane is alive while it waits, at most once a second; called without the lock. */
void kas_lane_wait(kas_worker *worker);

#endif
