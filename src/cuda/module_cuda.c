/* Cubins and their kernels. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "cuda/cuda.h"
#include "cuda/kernels/device_code.h"
#include "host/core/file/files.h"
#include "host/core/file/private.h"

enum { MAX_IMAGE = 256 << 20 };

struct kas_module {
    kas_device *device;
    CUmodule handle;
    kas_function *first; /* functions that were asked for */
    char path[256];      /* for messages */
};

kas_status kas_cuda_module_load(kas_device *device, const char *image_path, kas_module **out)
{
    kas_cuda *cuda = (kas_cuda *)device;
    kas_buf image = {0};
    kas_status status;
    KAS_TRY(kas_cuda_enter(cuda));
    kas_module *module = calloc(1, sizeof *module);
    if (!module)
        return kas_fail(KAS_NO_MEMORY, "no memory for a module");
    module->device = device;
    snprintf(module->path, sizeof module->path, "%s", image_path);
    if (kas_private_file(image_path) != KAS_OK ||
        kas_file_read(image_path, MAX_IMAGE, &image) != KAS_OK) {
        status = KAS_DEVICE; /* not the user's file: a cache that was cleared, say */
        goto failed;
    }
    KAS_TRY_GOTO(KAS_CU(cuda, cuModuleLoadData(&module->handle, kas_buf_text(&image))), failed);
    kas_buf_free(&image);
    *out = module;
    return KAS_OK;
failed:
    kas_buf_free(&image);
    free(module);
    return status == KAS_OK ? KAS_OK : kas_fail_context(status, "%s", image_path);
}

kas_status kas_cuda_module_builtin(kas_device *device, kas_dtype dtype, kas_module **out)
{
    kas_cuda *cuda = (kas_cuda *)device;
    KAS_TRY(kas_cuda_enter(cuda));
    kas_module **kept = &cuda->builtin[dtype];
    if (!*kept) {
        char path[4096];
        KAS_TRY(kas_compile(cuda->compiler, kas_builtin_text[dtype], path, NULL));
        KAS_TRY(kas_cuda_module_load(device, path, kept));
    }
    *out = *kept;
    return KAS_OK;
}

void kas_cuda_module_free(kas_module *module)
{
    kas_cuda *cuda = (kas_cuda *)module->device;
    if (kas_cuda_enter_to_free(cuda)) {
        cuda->driver->cuStreamSynchronize(cuda->stream); /* the module's kernels may be running */
        cuda->driver->cuModuleUnload(module->handle);
    }
    for (kas_function *f = module->first; f;) {
        kas_function *next = f->next;
        free(f);
        f = next;
    }
    free(module);
}

kas_status kas_cuda_module_function(kas_module *module, const char *name, kas_function **out)
{
    kas_cuda *cuda = (kas_cuda *)module->device;
    KAS_TRY(kas_cuda_enter(cuda));
    for (kas_function *f = module->first; f; f = f->next)
        if (strcmp(f->name, name) == 0) {
            *out = f;
            return KAS_OK;
        }
    kas_function *function = calloc(1, sizeof *function);
    if (!function)
        return kas_fail(KAS_NO_MEMORY, "no memory for a function");
    function->device = module->device;
    snprintf(function->name, sizeof function->name, "%s", name);
    kas_status status = KAS_CU(cuda, cuModuleGetFunction(&function->handle, module->handle, name));
    if (status != KAS_OK) {
        free(function);
        return kas_fail_context(status, "%s: kernel %s", module->path, name);
    }
    function->next = module->first;
    module->first = function;
    *out = function;
    return KAS_OK;
}

kas_status kas_cuda_launch(kas_cuda *cuda, const kas_function *function, const unsigned grid[3],
                           const unsigned block[3], const void *args)
{
    void *params[] = {(void *)args}; /* the driver knows the struct's size from the image */
    kas_status status =
        KAS_CU(cuda, cuLaunchKernel(function->handle, grid[0], grid[1], grid[2], block[0], block[1],
                                    block[2], 0, cuda->stream, params, NULL));
    if (status == KAS_OK)
        return KAS_OK;
    return kas_fail_context(status, "kernel %s (%ux%ux%u blocks of %ux%ux%u)", function->name,
                            grid[0], grid[1], grid[2], block[0], block[1], block[2]);
}
