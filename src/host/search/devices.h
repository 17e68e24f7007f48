/* Which devices a search runs on. The supervisor never opens one itself: a short-lived child does,
 * so that no GPU context stays behind in the process that has to survive everything. */
#ifndef KAS_SEARCH_DEVICES_H
#define KAS_SEARCH_DEVICES_H

#include "host/device/device.h"

typedef struct kas_devices {
    int count;
    char spec[KAS_MAX_DEVICES][16]; /* "cpu", "cuda:0" */
    char kind[16];                  /* "cpu" or "cuda" */
    /* Of GPUs that were tried: the least of each (kas_device_info). 0: none was. */
    int blocks;
    size_t memory, workspace;
} kas_devices;

/* "auto": every GPU, else the CPU. "cuda": every GPU, KAS_DEVICE with the reason when there is
 * none. "cpu". "cuda:0,2": these, opened by the workers. KAS_USAGE for anything else. */
kas_status kas_devices_find(const char *spec, kas_devices *out);

/* Whether each can be opened (and what they have), tried in a process of its own as above: numbers
 * that a user gave are checked before a study is made with them. KAS_DEVICE names the first that
 * cannot. */
kas_status kas_devices_check(kas_devices *devices);

#endif
