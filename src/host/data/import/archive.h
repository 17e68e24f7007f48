/* Collects named files from a folder or a tar archive (.tar, .tar.gz), the forms in which data
 * sets are published. Only regular files with classic tar headers are read; long-name and pax
 * records are skipped, because the published archives do not need them. zlib reads both forms
 * of archive and is present anyway, because HDF5 needs it; a library for archives would be one
 * more dependency. */
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
    kas_buf data; /* filled by kas_collect_files; the caller frees it with kas_buf_free */
    bool found;
} kas_wanted_file;

/* Collects the files. `source` is a folder with the files in it or in its `subfolder`, or an
 * archive with the files in any folder. Fails with KAS_BAD_INPUT and names the source and the file
 * that is missing, truncated or too large. */
kas_status kas_collect_files(const char *source, const char *subfolder, kas_wanted_file *files,
                             size_t count);

#endif
