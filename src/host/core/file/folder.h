/* The files of a folder. */
#ifndef KAS_CORE_FILE_FOLDER_H
#define KAS_CORE_FILE_FOLDER_H

#include "host/core/status.h"

/* Calls `each` with the path of every file whose name has this ending (".json"), in the order of their
 * names, until it fails; *files gets their number. KAS_BAD_INPUT when the folder cannot be read. */
kas_status kas_folder_each(const char *folder, const char *ending,
                           kas_status (*each)(void *context, const char *path), void *context,
                           int *files);

#endif
