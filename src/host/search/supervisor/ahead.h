/* Compiling ahead of need: a helper process that compiles the programs of the next candidates into
 * the cache while workers train others, so that no device waits for a compiler.
 *
 * It is told a candidate at a time (lookahead.c), makes exactly the texts that a worker will ask
 * for (programs.h) and says what that took.  It opens no device: the architecture comes from a
 * worker.  Nothing waits for it, and no result depends on it: what it has not made, or not yet, a
 * worker makes itself.
 *
 * It runs at low priority and ends with its supervisor, compilers that it started included: also
 * when the supervisor is killed by kill -9. Its log is STUDY/logs/compile-ahead.log.
 *
 *     to the helper                                from the helper
 *     hello    options, arch, h, w, c, classes,    ready
 *              threads                             error     it cannot start; message
 *     kernel   index, name, kernel                 made      index, made (0: all was cached),
 *     (end of file: end at once)                             cpu_seconds; message of a failure */
#ifndef KAS_SEARCH_SUPERVISOR_AHEAD_H
#define KAS_SEARCH_SUPERVISOR_AHEAD_H

#include "host/study/options.h"
#include "jit/compile/compile.h"

enum {
    KAS_AHEAD_NICE = 10,
    KAS_AHEAD_MOST = 64 /* candidates */
};

/* What candidates are compiled for. */
typedef struct kas_ahead_order {
    const kas_search_options *search;
    const char *arch;     /* of the device, as kas_device_info.arch */
    int h, w, c, classes; /* of the data set: the network's input and output */
    int threads;          /* that compile at once */
} kas_ahead_order;

/* A table, so that tests of the supervisor can have a helper that misbehaves on demand. */
typedef struct kas_ahead_maker {
    kas_status (*open)(const kas_ahead_order *order, void **state); /* keeps no pointer of it */
    /* `stats`: sums over the candidate's programs. */
    kas_status (*make)(void *state, const char *name, const char *kernel, kas_compile_stats *stats);
    void (*close)(void *state);
} kas_ahead_maker;

/* Serves until the supervisor closes the pipe. */
kas_status kas_ahead_run(const kas_ahead_maker *maker);

/* The real one: solves a kernel for every target and compiles what its evaluation needs. */
extern const kas_ahead_maker kas_ahead_programs;

#endif
