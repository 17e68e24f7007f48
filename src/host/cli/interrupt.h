/* SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 of a long command: the first one asks it to end, the
 * same one again ends it at once. */
#ifndef KAS_CLI_INTERRUPT_H
#define KAS_CLI_INTERRUPT_H

#include "host/core/status.h"

void kas_interrupt_watch(void);
/* The same, but no number of signals ends the process: for one whose parent passes signals on,
 * since a batch system sends each of them to both. */
void kas_interrupt_watch_all(void);
/* Returns whether a signal has come. */
bool kas_interrupted(void);
/* Returns KAS_INTERRUPTED for a SIGINT and KAS_PREEMPTED for another signal, without a message. */
kas_status kas_interrupt_status(void);

#endif
