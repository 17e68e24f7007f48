/* Runs a piece of work in a child process with limits on time and memory.
 *
 * It is for libraries that a damaged file can crash or hang, such as HDF5, which has many known
 * vulnerabilities and in which a flipped byte in a B-tree can cause an endless loop. The child is a
 * plain fork: it must not start threads or use locks that other threads of the parent may hold;
 * glibc keeps malloc usable. It dies with the parent. Results are passed in memory that the caller
 * shares with it, such as a memfd. */
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

/* Runs `work` in the child and returns its status, with its message. When the child crashes or
 * exceeds a limit, it fails with KAS_BAD_INPUT and names `path` and the stage in which the
 * work was. */
kas_status kas_guard_run(const char *path, kas_guard_limits limits, kas_guard_work work,
                         void *argument);

/* Sets the present stage for that message, such as "reading train/images". Called by the work. */
void kas_guard_stage(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
