/* Threads whose stacks have one size everywhere.
 *
 * glibc takes a thread's stack from `ulimit -s`, and 2 MiB where that is unlimited, as it is under
 * many batch systems: too little for compilers that are libraries (NVRTC), which recurse. */
#ifndef KAS_CORE_THREAD_H
#define KAS_CORE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

enum { KAS_THREAD_STACK = 16 << 20 }; /* bytes; only what is touched takes memory */

/* What the calling thread works for; threads that it makes from here on work for the same, so that
 * whatever asks in any of them (a handler of signals, say) learns it.  NULL at first. */
void kas_thread_set_owner(void *owner);
void *kas_thread_owner(void);

/* false when there is no thread to be had. */
bool kas_thread_create(pthread_t *thread, void *(*run)(void *), void *context);

#endif
