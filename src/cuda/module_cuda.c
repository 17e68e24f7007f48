/* Cubins and their kernels. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "cuda/cuda.h"
#include "cuda/kernels/device_code.h"
#include "host/core/file/files.h"
#include "host/core/file/private.h"
#include "host/core/log.h"
#include "host/core/machine.h"

enum {
    MAX_IMAGE = 256 << 20,
    PARTS = 8 /* of the built-in kernels, which are compiled side by side */
};

struct kas_module {
    kas_device *device;
    CUmodule handle[PARTS];
    int handles;
    kas_function *first; /* functions that were asked for */
    char path[256];      /* for messages */
};

static kas_status add_image(kas_module *module, const char *path)
{
    kas_cuda *cuda = (kas_cuda *)module->device;
    kas_buf image = {0};
    kas_status status = KAS_DEVICE; /* not the user's file: a cache that was cleared, say */
    snprintf(module->path, sizeof module->path, "%s", path);
    if (kas_private_file(path) == KAS_OK && kas_file_read(path, MAX_IMAGE, &image) == KAS_OK)
        status =
            KAS_CU(cuda, cuModuleLoadData(&module->handle[module->handles], kas_buf_text(&image)));
    kas_buf_free(&image);
    module->handles += status == KAS_OK;
    return status == KAS_OK ? KAS_OK : kas_fail_context(status, "%s", path);
}

static kas_status load_images(kas_device *device, char (*path)[4096], int count, kas_module **out)
{
    kas_module *module = calloc(1, sizeof *module);
    if (!module)
        return kas_fail(KAS_NO_MEMORY, "no memory for a module");
    module->device = device;
    for (int i = 0; i < count; i++) {
        const kas_status status = add_image(module, path[i]);
        if (status != KAS_OK) {
            kas_cuda_module_free(module);
            return status;
        }
    }
    *out = module;
    return KAS_OK;
}

kas_status kas_cuda_module_load(kas_device *device, const char *image_path, kas_module **out)
{
    char path[1][4096];
    KAS_TRY(kas_cuda_enter((kas_cuda *)device));
    snprintf(path[0], sizeof path[0], "%s", image_path);
    return load_images(device, path, 1, out);
}

/* Compiles the kernels in parts on all cores: on one core they take 15 to 25 seconds. (NVRTC can split one
 * text, but then some kernels have other machine code.) */
static kas_status compile_parts(kas_cuda *cuda, kas_dtype dtype, char (*path)[4096])
{
    kas_buf text[PARTS] = {{0}};
    const char *texts[PARTS];
    kas_status status = KAS_OK;
    bool known = true;
    for (int i = 0; i < PARTS; i++) {
        kas_buf_printf(&text[i], "#define KAS_PARTS %d\n#define KAS_PART %d\n", PARTS, i);
        kas_buf_puts(&text[i], kas_builtin_text[dtype]);
        status = status == KAS_OK ? kas_buf_status(&text[i]) : status;
        texts[i] = kas_buf_text(&text[i]);
        known = known && kas_compile_is_known(cuda->compiler, texts[i]);
    }
    if (!known)
        kas_info("%s: the built-in kernels for %s are compiled, once on this machine",
                 cuda->base.info.name, kas_dtype_names[dtype]);
    if (status == KAS_OK)
        status = kas_compile_all(cuda->compiler, texts, PARTS, kas_cores(), path, NULL);
    for (int i = 0; i < PARTS; i++)
        kas_buf_free(&text[i]);
    return status;
}

kas_status kas_cuda_module_builtin(kas_device *device, kas_dtype dtype, kas_module **out)
{
    kas_cuda *cuda = (kas_cuda *)device;
    KAS_TRY(kas_cuda_enter(cuda));
    kas_module **kept = &cuda->builtin[dtype];
    if (!*kept) {
        char path[PARTS][4096];
        KAS_TRY(compile_parts(cuda, dtype, path));
        KAS_TRY(load_images(device, path, PARTS, kept));
    }
    *out = *kept;
    return KAS_OK;
}

void kas_cuda_module_free(kas_module *module)
{
    kas_cuda *cuda = (kas_cuda *)module->device;
    if (kas_cuda_enter_to_free(cuda)) {
        cuda->driver->cuStreamSynchronize(cuda->stream); /* the module's kernels may be running */
        for (int i = 0; i < module->handles; i++)
            cuda->driver->cuModuleUnload(module->handle[i]);
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
    snprintf(function->name, sizeof function->name, "%s", name);
    CUresult found = KAS_CUDA_ERROR_NOT_FOUND;
    for (int i = 0; i < module->handles && found == KAS_CUDA_ERROR_NOT_FOUND; i++)
        found = cuda->driver->cuModuleGetFunction(&function->handle, module->handle[i], name);
    const kas_status status =
        kas_cuda_check(cuda, found, "cuModuleGetFunction", __FILE__, __LINE__);
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
