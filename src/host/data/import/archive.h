/* Collects named files from a folder or a tar archive (.tar, .tar.gz): what data sets are published
 * as.  Only regular files of classic tar headers are looked at; long-name and pax records are
 * skipped, which the published archives do not need.  zlib reads both forms of archive and is there
 * already, because HDF5 needs it; a library for archives would be one more dependency for this. */
#ifndef KAS_DATA_IMPORT_ARCHIVE_H
#define KAS_DATA_IMPORT_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>

#include "host/core/buf.h"
#include "host/core/status.h"

typedef struct kas_wanted_file {
    const char *name; /* without folders */
    bool required;
    size_t limit; /* bytes */
    kas_buf data; /* filled by kas_collect_files; freed by the caller with kas_buf_free */
    bool found;
} kas_wanted_file;

/* `source` is a folder that holds the files itself or in `subfolder`, or an archive that holds them
 * in any folder. KAS_BAD_INPUT names the source and the file that is missing, cut or too large. */
kas_status kas_collect_files(const char *source, const char *subfolder, kas_wanted_file *files,
                             size_t count);

#endif
