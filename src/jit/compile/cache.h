/* A cache of compiled images on disk, shared by any number of processes.
 *
 * An entry is one file, written whole to a temporary file and renamed: the image, then a trailer
 * with its length and SHA-256. (Loaders of ELF files, dlopen and the CUDA driver, do not look past
 * the sections, so the file can be loaded as it is.) Every reader checks the trailer; a damaged
 * entry, or a folder in its place, counts as missing and is replaced. A failure of the compiler is
 * an entry too (".err", with the compiler's log), because a search would otherwise pay for the same
 * failure again.
 *
 * Two processes that miss the same entry would both compile it. That is harmless but wasteful, so a
 * lock file lets one of them wait; it is advisory only and correctness never depends on it. */
#ifndef KAS_JIT_COMPILE_CACHE_H
#define KAS_JIT_COMPILE_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "host/core/buf.h"
#include "host/core/status.h"

enum { KAS_CACHE_FORMAT = 1 }; /* part of every key: raised when entries or calling rules change */

/* Makes the path of an entry, <folder>/<2 hex>/<key>.<suffix>. The folders are made or checked to
 * be accessible to nobody but the user (core/file/private.h), because code is loaded from there. */
kas_status kas_cache_path(const char *folder, const char key[65], const char *suffix,
                          char path[4096]);
/* The same in a folder that others may write, for texts. */
kas_status kas_cache_shared_path(const char *folder, const char key[65], const char *suffix,
                                 char path[4096]);

/* Appends the content of an entry to `out` when it is there and whole, and sets *found to whether
 * it is. A damaged entry gives *found = false. */
kas_status kas_cache_read(const char *path, kas_buf *out, bool *found);
/* Writes an entry, in place of any that is there. */
kas_status kas_cache_write(const char *path, const void *data, size_t size);
/* Writes an entry only where there is none, damaged or whole; *existed says whether there was
 * one. */
kas_status kas_cache_write_new(const char *path, const void *data, size_t size, bool *existed);

/* Removes files older than an hour that killed processes left in `folder`: parts of entries or,
 * with `all`, where the folder holds nothing else, files of compilers. Writing an entry does so in
 * its folder. A live process writes its file in seconds and ends its compilation in minutes; if it
 * loses a file all the same, it makes it again. */
void kas_cache_sweep(const char *folder, bool all);

/* Takes the lock of an entry and waits at most `seconds` for the process that is making it. Returns
 * a descriptor for kas_cache_unlock, or -1 when the caller goes on without a lock (no lock support,
 * or time over). */
int kas_cache_lock(const char *path, double seconds);
void kas_cache_unlock(const char *path, int lock);
/* Returns whether some process is making this entry; false also where that cannot be known. */
bool kas_cache_locked(const char *path);

#endif
