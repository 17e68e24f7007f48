/* What a device implements of a group; only group.c and the devices include this file. */
#ifndef KAS_DEVICE_GROUP_IMPL_H
#define KAS_DEVICE_GROUP_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "host/device/backend.h"
#include "host/device/group.h"

enum { KAS_GROUP_ID = 128 };

struct kas_group {
    kas_device *device;
    int rank, ranks;
    double timeout;
    void *link; /* the device's */
    pthread_t watcher;
    pthread_mutex_t lock; /* of message, and of what an abort takes out of link */
    bool watched;
    _Atomic bool failed, closing;
    bool capture; /* see kas_group_captures; `join` clears it, with a warning, where it cannot be */
    _Atomic double waiting; /* since when; 0 = not at all */
    char message[512];
    char settings[160]; /* see kas_group_settings; `join` writes it */
};

/* Ends the group on this rank for the reason that kas_error gives, unless it has failed already. The
 * thread that watches it does the rest. The caller holds the lock. */
void kas_group_fail_locked(kas_group *);

/* Every function may fail with a message except the last two. `poll` is called by any thread; `abort`
 * at most once, by the thread that watches the group or before there is one. It may wait until the
 * graphs of all plans with exchanges are freed, so whoever frees them must not wait for it. */
struct kas_group_backend {
    kas_status (*id)(kas_device *, char id[KAS_GROUP_ID]);        /* rank 0: draws the id */
    kas_status (*join)(kas_group *, const char id[KAS_GROUP_ID]); /* sets link; need not wait */
    /* Fails when another rank has ended or failed; *joined: all ranks have joined. */
    kas_status (*poll)(kas_group *, bool *joined);
    void (*abort)(kas_group *); /* ends exchanges under way; no later one may begin */
    void (*leave)(kas_group *); /* frees link, also after abort or a failed join */
};
extern const kas_group_backend kas_cpu_group, kas_cuda_group;

#endif
