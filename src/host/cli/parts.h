/* Lists the libraries with which this program was built, for `doctor` and `--version`. */
#ifndef KAS_CLI_PARTS_H
#define KAS_CLI_PARTS_H

#include <stdbool.h>

typedef struct kas_part {
    const char *name, *enables; /* what it enables, for users */
    bool found;
    char version[256], path[4096];
    char missing[1024]; /* why it was not found */
} kas_part;

enum { KAS_LIBRARY_PARTS = 7 };

/* Fills KAS_LIBRARY_PARTS entries and returns that number. */
int kas_library_parts(kas_part *out);

/* Prints the versions of kas-gpu, of the libraries it was built with, and of those of NVIDIA's
 * libraries that it finds. */
void kas_print_version(void);

#endif
