/* Finds the devices on which a search runs. The supervisor never opens a device itself, nor the
 * driver. A short-lived child process does, so that no GPU context stays in the process that must
 * survive everything, and so that a later child can do it again: a driver that was initialised before
 * a fork cannot be used behind it. */
#ifndef KAS_SEARCH_DEVICES_H
#define KAS_SEARCH_DEVICES_H

#include "host/device/device.h"

typedef struct kas_devices {
    int count;
    char spec[KAS_MAX_DEVICES][24]; /* "cpu", "cuda:0" */
    char kind[16];                  /* "cpu" or "cuda" */
    /* Among the GPUs that were opened for a check: the least blocks and memory, and the largest
     * workspace (kas_device_info). 0: none was opened. */
    int blocks;
    size_t memory, workspace;
    char name[128]; /* of the first of them; "" */
} kas_devices;

/* Finds the devices of a user's `spec`. "auto" is every GPU, or the CPU when there is none. "cuda"
 * is every GPU; it fails with KAS_DEVICE and the reason when there is none. "cpu" is the CPU.
 * "cuda:0,2" names GPUs, which the workers will open. Anything else fails with KAS_USAGE. */
kas_status kas_devices_find(const char *spec, kas_devices *out);

/* Checks in a child process that each device can be opened, and gets their sizes, so that device
 * numbers from a user are checked before a study is created with them. Fails with KAS_DEVICE and
 * names the first device that cannot be opened. */
kas_status kas_devices_check(kas_devices *devices);

#endif
