/* Shows the progress of a search on stderr: a line for each candidate that ends and, in between and while ancestors evolve, a
 * status line that is overwritten on a terminal and printed once a minute elsewhere. */
#ifndef KAS_CLI_PROGRESS_H
#define KAS_CLI_PROGRESS_H

#include <stdbool.h>

#include "host/search/supervisor/supervisor.h"

typedef struct kas_progress {
    bool terminal, quiet;
    bool drawn;       /* the terminal shows a status line, which must be overwritten */
    double last_line; /* when the last status line was printed elsewhere */
    double began;     /* when the first brood of ancestors was scored; 0: not yet */
    int first;        /* ancestors that were scored by then */
} kas_progress;

kas_progress kas_progress_make(bool quiet);
/* Handles an event of kas_session_run; `context` is a kas_progress. */
void kas_progress_event(void *context, const kas_event *event);
/* Shows how far the ancestors are: `scored` of `wanted`, of which the best gives the share `best` of the convolutions' variance.
 * `context` is a kas_progress. */
void kas_progress_ancestors(void *context, int scored, int wanted, double best);
void kas_progress_end(kas_progress *progress);

/* The same for the other commands: shows one line, which is overwritten on a terminal, where `pause`
 * seconds lie at least between two, and printed once a minute elsewhere. *shown is when one was shown
 * last. */
void kas_progress_show(bool quiet, double pause, double *shown, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void kas_progress_wipe(bool quiet); /* on a terminal */

#endif
