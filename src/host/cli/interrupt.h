/* SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 of a long command: the first one asks it to end, the
 * same one again ends it at once. */
#ifndef KAS_CLI_INTERRUPT_H
#define KAS_CLI_INTERRUPT_H

#include "host/core/status.h"

void kas_interrupt_watch(void);
/* The same, but no number of signals ends the process: for one whose parent passes signals on,
 * since a batch system sends each of them to both. */
void kas_interrupt_watch_all(void);
/* Ends the watch: signals do again what they did before, and no time ends anything. A signal that has
 * come is still reported by kas_interrupted. */
void kas_interrupt_end(void);
/* From this time on (seconds since 1970; 0 = never) it is as if a SIGTERM had come. */
void kas_interrupt_at(double until);
/* Returns whether a signal or that time has come. */
bool kas_interrupted(void);
/* Returns KAS_INTERRUPTED for a SIGINT and else KAS_PREEMPTED, without a message. */
kas_status kas_interrupt_status(void);

#endif
