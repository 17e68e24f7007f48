#include "host/core/file/folder.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/buf.h"

static bool has_ending(const char *name, const char *ending)
{
    const size_t length = strlen(name), end = strlen(ending);
    return length > end && strcmp(name + length - end, ending) == 0;
}

static kas_status give(const char *folder, const char *name,
                       kas_status (*each)(void *context, const char *path), void *context)
{
    kas_buf path = {0};
    kas_buf_printf(&path, "%s/%s", folder, name);
    kas_status status = kas_buf_status(&path);
    if (status == KAS_OK)
        status = each(context, kas_buf_text(&path));
    kas_buf_free(&path);
    return status;
}

kas_status kas_folder_each(const char *folder, const char *ending,
                           kas_status (*each)(void *context, const char *path), void *context,
                           int *files)
{
    struct dirent **entry;
    const int count = scandir(folder, &entry, NULL, alphasort);
    kas_status status = KAS_OK;
    *files = 0;
    if (count < 0)
        return kas_fail_errno(KAS_BAD_INPUT, folder);
    for (int i = 0; i < count; i++) {
        if (has_ending(entry[i]->d_name, ending)) {
            ++*files;
            if (status == KAS_OK)
                status = give(folder, entry[i]->d_name, each, context);
        }
        free(entry[i]);
    }
    free(entry);
    return status;
}
