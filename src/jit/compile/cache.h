/* Images of compiled programs on disk, shared by any number of processes.
 *
 * An entry is one file, written whole to a temporary file and renamed: the image, then a trailer
 * with its length and SHA-256.  (Loaders of ELF files, dlopen and the CUDA driver, do not look past
 * the sections, so the file can be loaded as it is.)  Whoever reads an entry checks the trailer; a
 * damaged entry counts as missing and is replaced, and so does a folder in its place.  A failure of
 * the compiler is an entry too
 * (".err", its log), because a search would otherwise pay for the same failure again.
 *
 * Two processes that miss the same entry would compile it twice.  That is harmless but wasteful, so
 * a lock file lets one of them wait; it is advisory only and correctness never depends on it. */
#ifndef KAS_JIT_COMPILE_CACHE_H
#define KAS_JIT_COMPILE_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "host/core/buf.h"
#include "host/core/status.h"

enum { KAS_CACHE_FORMAT = 1 }; /* part of every key: bump when entries or calling rules change */

/* <folder>/<2 hex>/<key>.<suffix>, folders made or checked, for nobody but the user (private.h):
 * code is loaded from there. */
kas_status kas_cache_path(const char *folder, const char key[65], const char *suffix,
                          char path[4096]);
/* The same in a folder that others may write, for texts. */
kas_status kas_cache_shared_path(const char *folder, const char key[65], const char *suffix,
                                 char path[4096]);

/* Appends the content of an entry to `out` when it is there and whole; *found says which. A damaged
 * entry is found = false. */
kas_status kas_cache_read(const char *path, kas_buf *out, bool *found);
kas_status kas_cache_write(const char *path, const void *data, size_t size);
/* The same where there is no entry, damaged or whole; *existed says that there was one. */
kas_status kas_cache_write_new(const char *path, const void *data, size_t size, bool *existed);

/* Removes what processes that were killed left in `folder`, of entries or, where the folder holds
 * nothing else (`all`), of compilers: files that are older than an hour.  Writing an entry does so
 * in its folder.  A live process writes its file in seconds and ends its compilation in minutes;
 * one that should lose it all the same makes it anew. */
void kas_cache_sweep(const char *folder, bool all);

/* Takes the lock of an entry, waiting at most `seconds` for whoever is making it; returns a
 * descriptor for kas_cache_unlock, or -1 when it goes on without (no lock support, or time over).
 */
int kas_cache_lock(const char *path, double seconds);
void kas_cache_unlock(const char *path, int lock);
/* Is somebody making this entry? false also where nobody can know. */
bool kas_cache_locked(const char *path);

#endif
