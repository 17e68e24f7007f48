/* Starting and ending worker processes, and the helper that compiles ahead.
 *
 * A worker leads a process group of its own, so that Ctrl-C in a terminal does not reach it and
 * that killing it takes the compilers it started along.  The kernel kills it when its supervisor
 * dies, even by kill -9. */
#ifndef KAS_SEARCH_WORKER_PROCESS_H
#define KAS_SEARCH_WORKER_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "host/core/status.h"

typedef struct kas_process {
    pid_t pid;    /* 0 = none */
    int to, from; /* our ends of the pipes: its file descriptors 0 and 3; writes do not block */
} kas_process;

/* `argv` is NULL-terminated, argv[0] a path; output and error of the process are appended to the
 * file `log`. */
kas_status kas_process_start(const char *const *argv, const char *log, kas_process *out);

/* For the process that was started so, first of all: a supervisor that is gone shows as an error of
 * a write, programs that it starts get neither pipe, and when memory is short the kernel shall take
 * it and not its supervisor: `oom_score`, 0 to 1000. */
kas_status kas_process_begin(int oom_score);
kas_status kas_process_ignore(int number); /* a signal, but programs that it starts do not */

/* Closes its command pipe: a worker then ends by itself. */
void kas_process_close_input(kas_process *process);
void kas_process_kill(kas_process *process); /* SIGKILL to the whole group */
/* Waits up to `seconds` for its end, then kills; frees the descriptors. The status of waitpid. */
int kas_process_reap(kas_process *process, double seconds);

#endif
