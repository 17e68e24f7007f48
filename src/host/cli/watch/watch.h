/* Shows a study while it is under way: kas-gpu status --watch. */
#ifndef KAS_CLI_WATCH_WATCH_H
#define KAS_CLI_WATCH_WATCH_H

#include "host/cli/study_open.h"

/* Shows the study until it is done, or fails with KAS_INTERRUPTED, without a message, when a signal
 * ends it. On a terminal a picture of the present state is drawn again in its place every second;
 * elsewhere a line is printed whenever the state changes; with --json that line is what `command`
 * prints. The store is only read. */
kas_status kas_study_watch(const kas_study_command *command, const kas_study_args *args);

/* Appends the picture: at most `rows` lines of at most `columns` characters. `now` is Unix time. */
void kas_watch_frame(const kas_study_view *view, const char *study, double now, int rows,
                     int columns, kas_buf *out);
/* Appends the state as one line, with its end. */
void kas_watch_line(const kas_study_view *view, kas_buf *out);

#endif
