/* Starts and ends worker processes and the helper that compiles ahead.
 *
 * A worker leads a process group of its own, so that Ctrl-C in a terminal does not reach it and
 * that killing it also kills the compilers that it started. The kernel kills it when its supervisor
 * dies, even by kill -9. */
#ifndef KAS_SEARCH_WORKER_PROCESS_H
#define KAS_SEARCH_WORKER_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "host/core/status.h"

typedef struct kas_process {
    pid_t pid;    /* 0 = none */
    int to, from; /* our ends of the pipes to its file descriptors 0 and 3; non-blocking */
} kas_process;

/* Starts a process. `argv` is NULL-terminated and argv[0] is a path. The output and errors of the
 * process are appended to the file `log`, or go where ours go (NULL). */
kas_status kas_process_start(const char *const *argv, const char *log, kas_process *out);

/* The started process calls this before anything else. Afterwards a vanished supervisor shows as a
 * failed write instead of a signal, programs that it starts inherit neither pipe, and when memory
 * is short the kernel prefers to kill it rather than its supervisor (`oom_score`, 0 to 1000). */
kas_status kas_process_begin(int oom_score);
kas_status kas_process_ignore(int number); /* a signal; programs that it starts do not */

/* Makes the started process lead a group, all of which ends when the process is told to end or its
 * supervisor dies: for a process that starts others. */
kas_status kas_process_lead(void);

/* Closes its command pipe, upon which a worker ends by itself. */
void kas_process_close_input(kas_process *process);
void kas_process_kill(kas_process *process);        /* SIGKILL to its group */
bool kas_process_ended(const kas_process *process); /* it waits to be reaped */
/* Waits up to `seconds` for the process to end, then kills it, and closes the descriptors. Returns
 * the status of waitpid. A process that does not even then end, because a driver or a disk holds it in
 * the kernel, is left behind after some seconds, like one that was killed: it does nothing more. */
int kas_process_reap(kas_process *process, double seconds);

#endif
