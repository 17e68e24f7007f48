/* Files and folders: whole reads with a limit, atomic writes. */
#ifndef KAS_CORE_FILES_H
#define KAS_CORE_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "host/core/buf.h"
#include "host/core/status.h"

/* Reads a whole regular file into `out` (appended). Fails with KAS_BAD_INPUT when it is missing,
 * not a regular file, or larger than `limit` bytes; the message names path and limit. */
kas_status kas_file_read(const char *path, size_t limit, kas_buf *out);

/* SHA-256 of a whole file, in hex. Fails as kas_file_read does. */
kas_status kas_file_digest(const char *path, size_t limit, char hex[65]);

/* Writes a temporary file beside `path`, flushes it to the disk (fsync of file and folder) and
 * renames it: a reader sees the old file or the whole new one. */
kas_status kas_file_write_atomic(const char *path, const void *data, size_t size);
/* The same where there is no such file yet; otherwise *existed is true and nothing is written.  Of
 * several that write at once, one does. (Where the file system has no hard links, the last.) */
kas_status kas_file_write_new(const char *path, const void *data, size_t size, bool *existed);

/* Whether `path` could be written so, told before hours of work for what goes there: its folder
 * must exist and allow it, and `path` be no folder. */
kas_status kas_file_check_writable(const char *path);

kas_status kas_mkdirs(const char *path); /* like mkdir -p */
bool kas_file_exists(const char *path);
kas_status kas_remove_tree(const char *path); /* like rm -rf; does not follow links */

/* The folder for caches: $KAS_CACHE_DIR, else $XDG_CACHE_HOME/kas-gpu, else ~/.cache/kas-gpu.
 * Written to `out` (PATH_MAX); created when missing. */
kas_status kas_cache_dir(char out[4096]);

#endif
