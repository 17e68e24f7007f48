/* Files and folders: whole reads with a limit, atomic writes. */
#ifndef KAS_CORE_FILE_FILES_H
#define KAS_CORE_FILE_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "host/core/buf.h"
#include "host/core/status.h"

/* Reads a whole regular file and appends it to `out`. Fails with KAS_BAD_INPUT when the file
 * is missing, is not a regular file, or is larger than `limit` bytes; the message names path
 * and limit. */
kas_status kas_file_read(const char *path, size_t limit, kas_buf *out);

/* Computes the SHA-256 of a whole file, in hex digits. Fails as kas_file_read does. */
kas_status kas_file_digest(const char *path, size_t limit, char hex[65]);

/* Replaces the file `path` by one with `size` bytes of `data`. It writes a temporary file, flushes
 * it to the disk (fsync of the file and of its folder) and renames it, so that a reader sees either
 * the old file or the whole new one. Where `path` is a symbolic link, the file that it points to is
 * written. target.h says what else `path` may be. */
kas_status kas_file_write_atomic(const char *path, const void *data, size_t size);
/* Writes a text that was built, and frees it. Writes nothing, and fails, when building it failed, as
 * `built` or the text says. */
kas_status kas_buf_save(kas_buf *text, const char *path, kas_status built);
/* The name of a temporary file ends with this and six letters and digits. */
#define KAS_FILE_UNFINISHED ".unfinished-"
/* Removes the temporary files of `path` that nobody has written to for `idle` seconds: their processes were killed. With
 * 0, nobody may be writing `path` meanwhile. */
void kas_file_remove_unfinished(const char *path, int idle);
/* Does the same as kas_file_write_atomic, but only where there is no such file yet; otherwise *existed is set to true and
 * nothing is written. When several processes write at once, exactly one succeeds. (On a file system
 * without hard links, the last one does.) */
kas_status kas_file_write_new(const char *path, const void *data, size_t size, bool *existed);

/* Begins and ends such a write for a library that wants to write the file itself. kas_file_begin
 * creates the new empty file `temporary` and opens it as *fd. The caller fills, flushes and closes
 * it, and removes it when that fails; kas_file_end renames it to `target`. */
typedef struct kas_file_place {
    char target[PATH_MAX], temporary[PATH_MAX]; /* in one folder */
} kas_file_place;
kas_status kas_file_begin(const char *path, kas_file_place *place, int *fd);
kas_status kas_file_end(const char *path, const kas_file_place *place); /* renames */

/* Checks that `path` could be written in this way, so that a mistake shows before hours of work. */
kas_status kas_file_check_writable(const char *path);

kas_status kas_mkdirs(const char *path);         /* like mkdir -p */
kas_status kas_mkdirs_private(const char *path); /* creates missing folders with mode 0700 */
bool kas_file_exists(const char *path);
kas_status kas_remove_tree(const char *path); /* like rm -rf; does not follow links */

#endif
