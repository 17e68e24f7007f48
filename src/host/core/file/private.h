/* Folders and files that code is loaded from: nobody but the user may have put it there.
 *
 * A folder must be the user's own, no symbolic link, and closed for writing to group and others;
 * so must a file, which may also be root's.  A folder above that anybody may write is refused too,
 * unless its sticky bit is set (/tmp): whoever may rename a folder may replace it.  What a group
 * may do to a folder above is the user's affair.
 *
 * KAS_CACHE_TRUSTED=1 beside KAS_CACHE_DIR says that a cache is shared with people who are trusted:
 * then nothing of this is checked, and folders are made as the umask says. */
#ifndef KAS_CORE_FILE_PRIVATE_H
#define KAS_CORE_FILE_PRIVATE_H

#include "host/core/status.h"

/* Makes `path` with mode 0700, whatever the umask, or checks it and sets that mode. */
kas_status kas_private_folder(const char *path);
/* KAS_FAILURE when what lies at `path` may not be loaded, or is missing. */
kas_status kas_private_file(const char *path);

/* The folder for caches: $KAS_CACHE_DIR, else $XDG_CACHE_HOME/kas-gpu, else ~/.cache/kas-gpu, else
 * one in /tmp.  Made when missing, else checked.  One that KAS_CACHE_DIR names keeps its mode. */
kas_status kas_cache_dir(char out[4096]);

#endif
