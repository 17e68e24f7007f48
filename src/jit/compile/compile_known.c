#include "jit/compile/compile_known.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "host/core/file/private.h"
#include "host/core/log.h"
#include "jit/compile/cache.h"
#include "jit/compile/compile_backend.h"

enum { KEY = 64 };

static kas_status note_of(const kas_compiler *compiler, const char *kernel, char path[4096])
{
    char key[KEY + 1];
    kas_compile_key(compiler, kernel, key);
    return kas_cache_path(compiler->folder, key, "in", path) == KAS_OK ? KAS_OK : KAS_MACHINE;
}

kas_status kas_compile_find(kas_compiler *compiler, const char *kernel, char path[4096],
                            bool *found)
{
    char note[4096], name[KEY + 16];
    *found = false;
    KAS_TRY(note_of(compiler, kernel, note));
    const ssize_t length = readlink(note, name, sizeof name - 1);
    if (length <= KEY || strspn(name, "0123456789abcdef") != KEY)
        return KAS_OK;
    name[length] = name[KEY] = '\0';
    *found = strcmp(name + KEY + 1, compiler->suffix) == 0;
    return !*found || kas_cache_path(compiler->folder, name, compiler->suffix, path) == KAS_OK
               ? KAS_OK
               : KAS_MACHINE;
}

void kas_compile_remember(kas_compiler *compiler, const char *kernel, const char *image)
{
    char note[4096];
    const char *name = strrchr(image, '/') + 1;
    if (note_of(compiler, kernel, note) != KAS_OK)
        return;
    int failed = symlink(name, note);
    if (failed && errno == EEXIST && unlink(note) == 0) /* it names an image that is gone */
        failed = symlink(name, note);
    if (failed)
        kas_debug("%s: %s", note, strerror(errno));
}

bool kas_compile_has(const char *image)
{
    kas_buf content = {0};
    bool whole = false;
    if (kas_private_file(image) == KAS_OK && kas_cache_read(image, &content, &whole) != KAS_OK)
        whole = false;
    kas_buf_free(&content);
    return whole;
}
