/* Loads kernels on the CPU: those linked into the program, and shared objects made at run time. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/file/private.h"
#include "host/device/cpu/cpu.h"

struct kas_module {
    kas_device *device;
    void *handle; /* of dlopen; NULL: the linked-in kernels of `dtype` */
    kas_dtype dtype;
    char path[256];
    kas_function *functions; /* the functions that were requested */
};

static kas_status module_create(kas_device *device, const char *path, kas_module **out)
{
    kas_module *module = calloc(1, sizeof *module);
    if (!module)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory for a module", path);
    module->device = device;
    snprintf(module->path, sizeof module->path, "%s", path);
    *out = module;
    return KAS_OK;
}

kas_status kas_cpu_module_load(kas_device *device, const char *image_path, kas_module **out)
{
    kas_module *module = NULL;
    KAS_TRY(module_create(device, image_path, &module));
    if (kas_private_file(image_path) != KAS_OK) {
        free(module);
        return kas_fail(KAS_DEVICE, "%s", kas_error());
    }
    errno = 0;
    module->handle = dlopen(image_path, RTLD_NOW | RTLD_LOCAL);
    if (!module->handle) {
        const kas_status status =
            kas_fail(kas_machine_or(KAS_DEVICE), "dlopen(\"%s\"): %s", image_path, dlerror());
        free(module);
        return status;
    }
    *out = module;
    return KAS_OK;
}

kas_status kas_cpu_module_builtin(kas_device *device, kas_dtype dtype, kas_module **out)
{
    kas_module **kept = &((kas_cpu *)device)->builtin[dtype];
    if (!*kept) {
        KAS_TRY(module_create(device, "the linked-in kernels", kept));
        (*kept)->dtype = dtype;
    }
    *out = *kept;
    return KAS_OK;
}

void kas_cpu_module_free(kas_module *module)
{
    while (module->functions) {
        kas_function *next = module->functions->next;
        free(module->functions);
        module->functions = next;
    }
    if (module->handle)
        dlclose(module->handle);
    free(module);
}

static bool find_kernel(const kas_module *module, const char *name, kas_cpu_kernel *run[3])
{
    if (!module->handle) {
        for (const kas_builtin_kernel *k = kas_builtin_kernels; k->name; k++)
            if (!strcmp(k->name, name)) {
                memcpy(run, k->run[module->dtype], sizeof k->run[0]);
                return true;
            }
        return false;
    }
    void *symbol = dlsym(module->handle, name);
    /* A loaded module has only the order of lanes for which it was compiled. */
    for (int i = 0; i < 3; i++)
        memcpy(&run[i], &symbol, sizeof symbol);
    return symbol;
}

kas_status kas_cpu_module_function(kas_module *module, const char *name, kas_function **out)
{
    kas_function *function = module->functions;
    while (function && strcmp(function->name, name))
        function = function->next;
    if (!function) {
        kas_cpu_kernel *run[3];
        if (strlen(name) >= sizeof function->name || !find_kernel(module, name, run))
            return kas_fail(KAS_DEVICE, "%s: there is no kernel \"%s\"", module->path, name);
        function = calloc(1, sizeof *function);
        if (!function)
            return kas_fail(KAS_NO_MEMORY, "%s: no memory for kernel \"%s\"", module->path, name);
        snprintf(function->name, sizeof function->name, "%s", name);
        memcpy(function->run, run, sizeof run);
        function->next = module->functions;
        module->functions = function;
    }
    *out = function;
    return KAS_OK;
}
