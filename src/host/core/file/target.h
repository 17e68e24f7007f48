/* Where the output of a command goes, decided before anything is replaced.
 *
 * Writing a file whole means renaming a new one over it (files.h), which would replace a symbolic
 * link, a device or a FIFO by a file, and an input of the same command by its output. */
#ifndef KAS_CORE_FILE_TARGET_H
#define KAS_CORE_FILE_TARGET_H

#include <limits.h>

#include "host/core/status.h"

/* The file that a write to `path` makes or replaces: `path` itself, or the end of its symbolic
 * links, which need not exist.  KAS_FAILURE for a folder, a special file and an input. */
kas_status kas_file_target(const char *path, char target[PATH_MAX]);

/* Says that `path` is an input of this command: no write of this process replaces it, under
 * whatever name; of a folder, no file below it that is there.  One that does not exist is passed
 * over.  To be called before other threads begin. */
kas_status kas_file_is_input(const char *path);
void kas_file_forget_inputs(void);

#endif
