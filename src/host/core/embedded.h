/* Files that are part of the program (mk/embedded.mk): lists that are sorted by name and end with a
 * NULL name. */
#ifndef KAS_CORE_EMBEDDED_H
#define KAS_CORE_EMBEDDED_H

#include "host/core/buf.h"

typedef struct kas_embedded {
    const char *name; /* of the file, without .json */
    const char *text;
} kas_embedded;

extern const kas_embedded kas_embedded_networks[]; /* networks/ */
extern const kas_embedded kas_embedded_recipes[];  /* recipes/ */
extern const kas_embedded kas_embedded_kernels[];  /* kernels/ */

/* The text of the file of that name, or NULL. */
const char *kas_embedded_find(const kas_embedded *files, const char *name);

/* Adds the names: "a, b, c". */
void kas_embedded_list(const kas_embedded *files, kas_buf *out);

#endif
