/* Checks of the folders and files from which code is loaded: only the user may have put it there.
 *
 * A folder must be the user's own, no symbolic link, and closed for writing to group and others;
 * the same holds for a file, but root may own it too.  A path below a folder that anybody may write
 * is refused too, because whoever may rename a folder may replace it; a folder with the sticky bit
 * (/tmp) is allowed. Write permissions of a group on a folder above are not checked: they are the
 * user's decision.
 *
 * KAS_CACHE_TRUSTED=1 together with KAS_CACHE_DIR says that the cache is shared with trusted
 * people: then none of this is checked, and folders get the mode that the umask gives. */
#ifndef KAS_CORE_FILE_PRIVATE_H
#define KAS_CORE_FILE_PRIVATE_H

#include "host/core/status.h"

/* Creates the folder `path` with mode 0700, whatever the umask is. A folder that exists is checked
 * and gets that mode. */
kas_status kas_private_folder(const char *path);
/* Returns KAS_FAILURE when the file `path` is missing or may not be loaded. */
kas_status kas_private_file(const char *path);

/* Finds the folder for caches: $KAS_CACHE_DIR, else $XDG_CACHE_HOME/kas-gpu, else ~/.cache/kas-gpu,
 * else one in /tmp.  The folder is created when it is missing, and checked otherwise. A folder that
 * KAS_CACHE_DIR names keeps its mode. */
kas_status kas_cache_dir(char out[4096]);

#endif
