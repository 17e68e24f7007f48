/* Clocks for measuring durations: seconds from an arbitrary start that never go backward. And the
 * time that a command has before it must have ended (--until). */
#ifndef KAS_CORE_CLOCK_H
#define KAS_CORE_CLOCK_H

#include <math.h>
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

/* Returns that of the calling thread. */
static inline double kas_thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What some work took, in seconds. */
typedef struct kas_elapsed {
    double wall;
    double processor; /* all threads together */
} kas_elapsed;

/* Returns what this process took since `began`; since {0}: the clocks, to be subtracted later. */
static inline kas_elapsed kas_elapsed_since(kas_elapsed began)
{
    return (kas_elapsed){kas_monotonic() - began.wall, kas_processor_seconds() - began.processor};
}

/* A command begins no work in the last seconds before --until, because it could not save any of it.
 * So many they are while nobody knows how long the work needs to its first checkpoint. */
enum { KAS_UNTIL_LEAST = 30 };

/* Returns the seconds until a time of day, in seconds since 1970; 0 stands for never. */
static inline double kas_seconds_until(double when)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return when > 0 ? when - ((double)t.tv_sec + 1e-9 * (double)t.tv_nsec) : INFINITY;
}

#endif
