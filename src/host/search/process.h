/* Starting and ending worker processes.
 *
 * A worker leads a process group of its own, so that Ctrl-C in a terminal does not reach it and
 * that killing it takes the compilers it started along.  The kernel kills it when its supervisor
 * dies, even by kill -9. */
#ifndef KAS_SEARCH_PROCESS_H
#define KAS_SEARCH_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "host/core/status.h"

typedef struct kas_process {
    pid_t pid;    /* 0 = none */
    int to, from; /* our ends of the pipes: its file descriptors 0 and 3 */
} kas_process;

/* `argv` is NULL-terminated, argv[0] a path; output and error of the process are appended to the
 * file `log`. */
kas_status kas_process_start(const char *const *argv, const char *log, kas_process *out);

/* Closes its command pipe: a worker then ends by itself. */
void kas_process_close_input(kas_process *process);
void kas_process_kill(kas_process *process); /* SIGKILL to the whole group */
/* Waits up to `seconds` for its end, then kills; frees the descriptors. The status of waitpid. */
int kas_process_reap(kas_process *process, double seconds);

#endif
