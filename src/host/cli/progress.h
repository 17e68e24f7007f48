/* How a search shows itself on stderr: a line for each candidate that ends, and between them one
 * line that is written over on a terminal, or one line a minute elsewhere. */
#ifndef KAS_CLI_PROGRESS_H
#define KAS_CLI_PROGRESS_H

#include <stdbool.h>

#include "host/search/supervisor/supervisor.h"

typedef struct kas_progress {
    bool terminal, quiet;
    bool drawn;       /* a line stands on the terminal and is to be written over */
    double last_line; /* when one was written elsewhere */
} kas_progress;

kas_progress kas_progress_make(bool quiet);
/* For kas_session_run; `context` is a kas_progress. */
void kas_progress_event(void *context, const kas_event *event);
void kas_progress_end(kas_progress *progress);

#endif
