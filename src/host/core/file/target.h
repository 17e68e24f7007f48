/* Decides where the output of a command goes, before anything is replaced.
 *
 * A file is written by renaming a new one over it (files.h). Without these checks that would turn a
 * symbolic link, a device or a FIFO into a file, and overwrite an input of the same command with
 * its output. */
#ifndef KAS_CORE_FILE_TARGET_H
#define KAS_CORE_FILE_TARGET_H

#include <limits.h>

#include "host/core/status.h"

/* Finds the file that a write to `path` creates or replaces: `path` itself, or the end of its chain
 * of symbolic links, which need not exist. Returns KAS_FAILURE for a folder, a special file and an
 * input of this command. */
kas_status kas_file_target(const char *path, char target[PATH_MAX]);

/* Declares that `path` is an input of this command, so that no later write of this process replaces
 * it, under whatever name. For a folder this covers every file that is in it now. A path that does
 * not exist is ignored. Call this before other threads begin. */
kas_status kas_file_is_input(const char *path);
void kas_file_forget_inputs(void);

#endif
