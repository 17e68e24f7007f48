/* Files that travel inside the program (mk/embedded.mk): lists that end with a NULL name, sorted by
 * name. */
#ifndef KAS_CORE_EMBEDDED_H
#define KAS_CORE_EMBEDDED_H

typedef struct kas_embedded {
    const char *name; /* of the file, without .json */
    const char *text;
} kas_embedded;

extern const kas_embedded kas_embedded_recipes[]; /* recipes/ */

#endif
