/* The slots of a worker: threads that evaluate one item each, with a device handle of their own.
 * Internal to a worker.
 *
 *     worker.c   the process: hello, messages to the slots, end
 *     slot.c     a slot: what its evaluation says to the supervisor, its log
 *     crew.c     what slots share: exclusive use of the device, and its memory
 *
 * The main thread reads all messages. All members below `lock` are guarded by it; `changed` is
 * signalled whenever one of them changes. No thread writes to the supervisor while it holds `lock`:
 * the pipe may stay full until the supervisor reads, and the supervisor may first need the main
 * thread to read. */
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
    bool lost;                  /* the supervisor is gone or has told the worker to end */
    int inside;                 /* slots that use the device, not exclusively */
    int wanting;                /* slots that wait for exclusive use of the device */
    bool alone;                 /* a slot has the device exclusively */
    size_t reserved;            /* bytes of the device's memory */
    kas_status first;           /* status of opening the first slot's device, with its message */
    char device[128], arch[32]; /* name and architecture of that device */
    bool opened;                /* `first`, `device`, `arch` and `message` are set */
    char message[1024];
} kas_crew;

struct kas_slot {
    kas_crew *crew;
    int number;
    pthread_t thread;
    bool running;
    void *state; /* the evaluator's, of this slot */
    /* The crew's lock guards the next five members. */
    bool alone; /* the slot has the device exclusively */
    bool stop;
    bool answered;
    kas_verdict verdict;
    cJSON *work; /* the item that it evaluates; NULL = idle */
    int64_t id;
    double last_progress;
    char phase[32];
    char last_words[64]; /* the message that the worker sends when this slot's item kills it */
    FILE *log;
    size_t reserved;
};

/* ---- crew.c ---------------------------------------------------------------------------------- */
/* Begins the slot's use of the device, which other slots may use at the same time. It waits while a
 * slot has the device exclusively or waits for that. */
void kas_crew_enter(kas_slot *slot);
/* Ends the slot's use of the device, exclusive or not. */
void kas_crew_leave(kas_slot *slot);
/* Ends the slot's exclusive use of the device, if it has it. When other slots wait for exclusive
 * use, it lets them go first. */
void kas_crew_yield(kas_slot *slot);

/* ---- slot.c ---------------------------------------------------------------------------------- */
/* Runs the thread of a slot. */
void *kas_slot_run(void *worker);
/* Tells the supervisor, at most once a second, that the slot is alive while it waits. The caller
 * must not hold the lock. */
void kas_slot_wait(kas_slot *slot);

#endif
