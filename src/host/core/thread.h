/* Creates threads whose stacks have the same size everywhere.
 *
 * glibc takes the size of a thread's stack from `ulimit -s`. Where that is unlimited, as under
 * many batch systems, it takes 2 MiB, which is too little for a compiler in a library (NVRTC):
 * compilers recurse. */
#ifndef KAS_CORE_THREAD_H
#define KAS_CORE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

enum { KAS_THREAD_STACK = 16 << 20 }; /* bytes; only pages that are used take memory */

/* Sets the owner of the calling thread: an opaque pointer to what it works for. Threads that it
 * creates later inherit the owner, so that code in any of them, such as a signal handler, can ask
 * for it. NULL at first. */
void kas_thread_set_owner(void *owner);
void *kas_thread_owner(void);

/* Creates a thread. Returns false when the system refuses. */
bool kas_thread_create(pthread_t *thread, void *(*run)(void *), void *context);

#endif
