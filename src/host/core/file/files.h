/* Files and folders: whole reads with a limit, atomic writes. */
#ifndef KAS_CORE_FILE_FILES_H
#define KAS_CORE_FILE_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "host/core/buf.h"
#include "host/core/status.h"

/* Reads a whole regular file into `out` (appended). Fails with KAS_BAD_INPUT when it is missing,
 * not a regular file, or larger than `limit` bytes; the message names path and limit. */
kas_status kas_file_read(const char *path, size_t limit, kas_buf *out);

/* SHA-256 of a whole file, in hex. Fails as kas_file_read does. */
kas_status kas_file_digest(const char *path, size_t limit, char hex[65]);

/* Writes a temporary file, flushes it to the disk (fsync of file and folder) and renames it: a
 * reader sees the old file or the whole new one.  `path` may be a symbolic link, whose target is
 * written; what else it may be, target.h says. */
kas_status kas_file_write_atomic(const char *path, const void *data, size_t size);
/* The same where there is no such file yet; otherwise *existed is true and nothing is written.  Of
 * several that write at once, one does. (Where the file system has no hard links, the last.) */
kas_status kas_file_write_new(const char *path, const void *data, size_t size, bool *existed);

/* The two ends of such a write, for a library that wants to write the file itself: *fd is a new
 * empty file `temporary`, which the caller fills, flushes and closes, and removes when that fails.
 */
typedef struct kas_file_place {
    char target[PATH_MAX], temporary[PATH_MAX]; /* in one folder */
} kas_file_place;
kas_status kas_file_begin(const char *path, kas_file_place *place, int *fd);
kas_status kas_file_end(const char *path, const kas_file_place *place); /* renames */

/* Whether `path` could be written so, told before hours of work for what goes there. */
kas_status kas_file_check_writable(const char *path);

kas_status kas_mkdirs(const char *path);         /* like mkdir -p */
kas_status kas_mkdirs_private(const char *path); /* what is missing is made with mode 0700 */
bool kas_file_exists(const char *path);
kas_status kas_remove_tree(const char *path); /* like rm -rf; does not follow links */

#endif
