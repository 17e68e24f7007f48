/* Compiling ahead of need: a helper process that compiles the programs of the next candidates into
 * the cache while workers train others, so that no device waits for a compiler.
 *
 * The supervisor gives it one candidate at a time (lookahead.c). It compiles exactly the texts that
 * a worker will request (programs.h) and reports the time that it took. It opens no device: a
 * worker reports the architecture. Nothing waits for it, and no result depends on it, because a
 * worker compiles every program itself that is not in the cache.
 *
 * It runs at low priority. It ends with its supervisor, together with the compilers that it
 * started, even when the supervisor is killed by kill -9. Its log is STUDY/logs/compile-ahead.log.
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

/* The study and the device for which candidates are compiled. */
typedef struct kas_ahead_order {
    const kas_search_options *search;
    const char *arch;     /* of the device, as kas_device_info.arch */
    int h, w, c, classes; /* of the data set: the network's input and output */
    int threads;          /* number of compilers at once */
} kas_ahead_order;

/* The functions of a helper. It is a table so that tests of the supervisor can use a helper that
 * misbehaves on demand. */
typedef struct kas_ahead_maker {
    /* keeps no pointer into `order` */
    kas_status (*open)(const kas_ahead_order *order, void **state);
    /* `stats` gets the sums over the candidate's programs. */
    kas_status (*make)(void *state, const char *name, const char *kernel, kas_compile_stats *stats);
    void (*close)(void *state);
} kas_ahead_maker;

/* Serves requests until the supervisor closes the pipe. */
kas_status kas_ahead_run(const kas_ahead_maker *maker);

/* The helper of a search: it solves a kernel for every target and compiles the programs that its
 * evaluation needs. */
extern const kas_ahead_maker kas_ahead_programs;

#endif
