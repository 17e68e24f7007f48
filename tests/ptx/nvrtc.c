#include "ptx/nvrtc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_api.h"
#include "ptx/form.h"

/* Not in cuda_api.h, because only the executor asks for PTX. */
#define FUNCTIONS(X)                                                                               \
    KAS_NVRTC_FUNCTIONS(X)                                                                         \
    X(nvrtcGetPTXSize, nvrtcResult, (nvrtcProgram program, size_t * size))                         \
    X(nvrtcGetPTX, nvrtcResult, (nvrtcProgram program, char *ptx))

#define SLOT(symbol, result, parameters) result(*symbol) parameters;
static struct {
    bool tried;
    char missing[256];
    FUNCTIONS(SLOT)
} nvrtc;

/* Looks where src/cuda/library.c does, but for $KAS_CUDA_LIBS. */
static void *open_library(void)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
    char folders[8192], path[8400];
    const char *known = getenv("KAS_CUDA_PATH");
    for (int k = 0; k < 2; k++) {
        snprintf(folders, sizeof folders, "%s", known ? known : "");
        for (char *save, *p = strtok_r(folders, ":", &save); p; p = strtok_r(NULL, ":", &save)) {
            snprintf(path, sizeof path, "%s/%s", p, names[k]);
            void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            if (handle)
                return handle;
        }
        snprintf(path, sizeof path, "/usr/local/cuda/lib64/%s", names[k]);
        void *handle = dlopen(names[k], RTLD_NOW | RTLD_LOCAL);
        if (handle || (handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
            return handle;
    }
    return NULL;
}

const char *ptx_nvrtc_missing(void)
{
    if (nvrtc.tried)
        return nvrtc.missing[0] ? nvrtc.missing : NULL;
    nvrtc.tried = true;
    void *handle = open_library();
    if (!handle)
        snprintf(nvrtc.missing, sizeof nvrtc.missing,
                 "NVRTC was not found in $KAS_CUDA_PATH, the loader's path or "
                 "/usr/local/cuda/lib64");
#define FIND(symbol, result, parameters)                                                           \
    *(void **)&nvrtc.symbol = handle ? dlsym(handle, #symbol) : NULL;                              \
    if (handle && !nvrtc.symbol)                                                                   \
        snprintf(nvrtc.missing, sizeof nvrtc.missing, "NVRTC has no function %s", #symbol);
    FUNCTIONS(FIND)
    return nvrtc.missing[0] ? nvrtc.missing : NULL;
}

void ptx_nvrtc_version(int *major, int *minor)
{
    if (ptx_nvrtc_missing() || nvrtc.nvrtcVersion(major, minor) != KAS_NVRTC_SUCCESS)
        *major = *minor = 0;
}

static char *text_of(nvrtcProgram program, nvrtcResult (*size_of)(nvrtcProgram, size_t *),
                     nvrtcResult (*get)(nvrtcProgram, char *))
{
    size_t size = 0;
    if (size_of(program, &size) != KAS_NVRTC_SUCCESS)
        size = 0;
    char *text = ptx_new(size + 1);
    if (size && get(program, text) != KAS_NVRTC_SUCCESS)
        text[0] = '\0';
    return text;
}

bool ptx_nvrtc_compile(const char *text, int count, const char *const *options, char **result)
{
    nvrtcProgram program = NULL;
    if (ptx_nvrtc_missing() ||
        nvrtc.nvrtcCreateProgram(&program, text, "kernel.cu", 0, NULL, NULL) != KAS_NVRTC_SUCCESS) {
        *result = strdup("NVRTC made no program");
        return false;
    }
    const bool ok = nvrtc.nvrtcCompileProgram(program, count, options) == KAS_NVRTC_SUCCESS;
    *result = ok ? text_of(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
                 : text_of(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog);
    nvrtc.nvrtcDestroyProgram(&program);
    return ok;
}
