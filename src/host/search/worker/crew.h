/* Inside a worker only: its slots, threads that evaluate one item each on a device handle of their
 * own.
 *
 *     worker.c   the process: hello, messages to the slots, end
 *     slot.c     a slot: the calls of an evaluation to its supervisor, its log
 *     crew.c     what slots share: the device for one alone, and its memory
 *
 * The main thread reads all messages.  Everything below `lock` is guarded by it; `changed` is
 * signalled whenever any of it changes.  Nobody writes to the supervisor under `lock`: the pipe may
 * be full until the supervisor reads, and it may first want the main thread to read. */
#ifndef KAS_SEARCH_WORKER_CREW_H
#define KAS_SEARCH_WORKER_CREW_H

#include <pthread.h>
#include <stdio.h>

#include "host/search/worker/channel.h"
#include "host/search/worker/worker.h"

typedef struct kas_crew {
    kas_channel channel; /* read by the main thread; written under `sending` */
    pthread_mutex_t sending;
    const kas_evaluator *evaluator;
    void *state; /* the evaluator's, of the whole worker */
    int slots;
    kas_slot *slot; /* [slots] */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool lost;                  /* the supervisor is gone, or says so: all end */
    int inside;                 /* slots that are at work on the device */
    int wanting;                /* slots that wait to be alone */
    bool alone;                 /* one is */
    size_t reserved;            /* bytes of the device's memory */
    kas_status first;           /* of opening the first slot's device; */
    char device[128], arch[32]; /* what it is */
    bool opened;                /* that is known */
    char message[1024];
} kas_crew;

struct kas_slot {
    kas_crew *crew;
    int number;
    pthread_t thread;
    bool running;
    void *state; /* the evaluator's, of this slot */
    bool
        alone; /* this slot has the device to itself; under the crew's lock, as are the next four */
    bool stop;
    bool answered;
    kas_verdict verdict;
    cJSON *work; /* the item that it has; NULL = idle */
    int64_t id;
    double last_progress;
    char phase[32];
    char last_words[64]; /* what a thread that dies for this slot says */
    FILE *log;
    size_t reserved;
};

/* crew.c. A slot at work is inside, but while it waits here. */
void kas_crew_enter(kas_slot *slot);
void kas_crew_leave(kas_slot *slot);
/* Is alone no longer, if it was; lets those go first that want to be. */
void kas_crew_yield(kas_slot *slot);

/* slot.c: the thread. */
void *kas_slot_run(void *worker);
/* Says that the slot is alive while it waits, at most once a second; called without the lock. */
void kas_slot_wait(kas_slot *slot);

#endif
