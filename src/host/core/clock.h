/* Seconds that only go forward, from an arbitrary start: what durations are measured with. */
#ifndef KAS_CORE_CLOCK_H
#define KAS_CORE_CLOCK_H

#include <time.h>

static inline double kas_monotonic(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail: the clock exists, the address is good */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of processors, for all threads of this process: what others on the machine disturb less. */
static inline double kas_processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
