#include "support/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/file/files.h"

char folder[64];

int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/kas-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

int remove_folder(void **state)
{
    (void)state;
    return kas_remove_tree(folder) == KAS_OK ? 0 : -1;
}

const char *in_folder(const char *name)
{
    static char path[8][256];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}
