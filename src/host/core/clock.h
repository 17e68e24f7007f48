/* Clocks for measuring durations: seconds from an arbitrary start that never go backward. */
#ifndef KAS_CORE_CLOCK_H
#define KAS_CORE_CLOCK_H

#include <time.h>

/* Returns the wall-clock time in seconds. */
static inline double kas_monotonic(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail: the clock exists, the address is good */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the processor time that all threads of this process have used, in seconds. Other
 * processes on the machine disturb it less than they disturb kas_monotonic. */
static inline double kas_processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
