/* Runs a piece of work in a child process with limits on time and memory.
 *
 * For libraries that a damaged file can crash or hang (HDF5: CVE lists are long, and a flipped byte
 * in a B-tree can make it loop for ever).  The child is a plain fork: it must not start threads or
 * use locks that other threads of the parent may hold; glibc keeps malloc usable.  It dies with the
 * parent. Results travel through memory that the caller shares with it (a memfd, say). */
#ifndef KAS_DATA_HDF5_GUARD_H
#define KAS_DATA_HDF5_GUARD_H

#include <stdint.h>

#include "host/core/status.h"

typedef struct kas_guard_limits {
    uint64_t memory_bytes; /* address space on top of what the parent already uses */
    unsigned cpu_seconds;
    unsigned wall_seconds;
} kas_guard_limits;

typedef kas_status (*kas_guard_work)(void *argument);

/* Returns what `work` returned, with its message.  When the child crashed or ran out of time:
 * KAS_BAD_INPUT, naming `path` and the stage the work was in. */
kas_status kas_guard_run(const char *path, kas_guard_limits limits, kas_guard_work work,
                         void *argument);

/* Inside the work: what is being done now, for that message ("reading train/images"). */
void kas_guard_stage(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
