#include "host/store/libpq.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define SYMBOL(name, result, parameters) {#name, offsetof(kas_libpq, name)},
static const struct {
    const char *name;
    size_t offset;
} symbols[] = {KAS_LIBPQ_FUNCTIONS(SYMBOL)};

kas_status kas_libpq_load(const kas_libpq **out)
{
    static kas_libpq table;
    static void *library;
    *out = &table;
    if (library)
        return KAS_OK;
    void *handle = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return kas_fail(KAS_STORE,
                        "a study in PostgreSQL needs its client library (libpq5): %s; install the "
                        "package libpq5",
                        dlerror());
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *function = dlsym(handle, symbols[i].name);
        if (!function) {
            dlclose(handle);
            return kas_fail(KAS_STORE,
                            "libpq.so.5 has no function %s: its version is not supported",
                            symbols[i].name);
        }
        memcpy((char *)&table + symbols[i].offset, &function, sizeof function);
    }
    library = handle;
    return KAS_OK;
}
