/* Creates threads whose stacks have the same size everywhere.
 *
 * glibc takes the size of a thread's stack from `ulimit -s`. Where that is unlimited, as under
 * many batch systems, it takes 2 MiB, which is too little for a compiler in a library (NVRTC):
 * compilers recurse. */
#ifndef KAS_CORE_THREAD_H
#define KAS_CORE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "host/core/status.h"

enum { KAS_THREAD_STACK = 16 << 20 }; /* bytes; only pages that are used take memory */

/* Sets the owner of the calling thread: an opaque pointer to what it works for. Threads that it
 * creates later inherit the owner, so that code in any of them, such as a signal handler, can ask
 * for it. NULL at first. */
void kas_thread_set_owner(void *owner);
void *kas_thread_owner(void);

/* Creates a thread. Returns false when the system refuses. */
bool kas_thread_create(pthread_t *thread, void *(*run)(void *), void *context);

/* Returns on how many threads kas_thread_each works: `threads`, or all cores for 0, but not more
 * than there are items, and at most KAS_THREADS_MOST. */
enum { KAS_THREADS_MOST = 256 };
int kas_thread_count(int threads, int items);
/* Calls work(context, thread, item) once for each item from 0 to items - 1. Items are begun in
 * their order, on kas_thread_count(threads, items) threads, which have the numbers from 0; the
 * calling thread is one of them. After a failure no item is begun any more, and the first failure
 * is returned with its message. */
kas_status kas_thread_each(int threads, int items,
                           kas_status (*work)(void *context, int thread, int item), void *context);

#endif
