#include "host/core/embedded.h"

#include <string.h>

const char *kas_embedded_find(const kas_embedded *files, const char *name)
{
    while (files->name && strcmp(files->name, name) != 0)
        files++;
    return files->text;
}

void kas_embedded_list(const kas_embedded *files, kas_buf *out)
{
    for (const kas_embedded *e = files; e->name; e++)
        kas_buf_printf(out, "%s%s", e == files ? "" : ", ", e->name);
}
