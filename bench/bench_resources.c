/* What do the hand-written kernels ask of a GPU?  Read from the cubins that NVRTC makes for sm_80
 * and sm_90; no GPU is needed.
 *
 *     build/bench/bench_resources
 *
 * One JSON object a line for each kernel, dtype and architecture: registers and bytes of local
 * memory of a thread, instructions that access global memory, those of 16 bytes and those of them
 * that write; and of a build that has the way of whole rows alone (wide.h), the share of the bytes
 * that goes 16 at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/kernels/device_code.h"
#include "cuda/library.h"
#include "cuda/nvrtc/resources.h"
#include "host/core/file/files.h"
#include "host/device/device.h"
#include "host/report/line.h"
#include "jit/compile/compile.h"

typedef struct kernels {
    kas_resources *list;
    int count;
} kernels;

static kas_status read_kernels(kas_compiler *compiler, const char *text, kernels *out)
{
    char path[4096];
    kas_buf image = {0};
    KAS_TRY(kas_compile(compiler, text, path, NULL));
    KAS_TRY(kas_file_read(path, 1 << 26, &image));
    const kas_status status = kas_cubin_resources(image.data, image.size, &out->list, &out->count);
    kas_buf_free(&image);
    return status;
}

/* Every row is whole, so that the other ways are not built. */
static kas_status read_whole(kas_compiler *compiler, const char *text, kernels *out)
{
    kas_buf whole = {0};
    kas_buf_printf(&whole, "#undef KAS_WHOLE\n#define KAS_WHOLE(whole) 1\n%s", text);
    const kas_status status = read_kernels(compiler, kas_buf_text(&whole), out);
    kas_buf_free(&whole);
    return status;
}

static void print_kernel(const char *arch, kas_dtype dtype, const kas_resources *kernel,
                         const kernels *whole)
{
    double share = 0;
    for (int i = 0; i < whole->count; i++)
        if (strcmp(whole->list[i].name, kernel->name) == 0 && whole->list[i].bytes)
            share = 16.0 * whole->list[i].wide / whole->list[i].bytes;
    kas_buf out = {0};
    kas_line_begin(&out);
    kas_line_text(&out, "bench", "resources");
    kas_line_text(&out, "arch", arch);
    kas_line_text(&out, "number", kas_dtype_names[dtype]);
    kas_line_text(&out, "kernel", kernel->name);
    kas_line_int(&out, "registers", kernel->registers);
    kas_line_int(&out, "local_bytes", kernel->local_bytes);
    kas_line_int(&out, "accesses", kernel->accesses);
    kas_line_int(&out, "wide", kernel->wide);
    kas_line_int(&out, "wide_stores", kernel->wide_stores);
    kas_line_number(&out, "whole_share", share);
    kas_line_end(&out);
    fputs(kas_buf_text(&out), stdout);
    kas_buf_free(&out);
}

static kas_status run(const char *arch, kas_dtype dtype)
{
    kas_compiler *compiler;
    kernels both = {0}, whole = {0};
    KAS_TRY(kas_compiler_open(arch, NULL, &compiler));
    kas_status status = read_kernels(compiler, kas_builtin_text[dtype], &both);
    if (status == KAS_OK)
        status = read_whole(compiler, kas_builtin_text[dtype], &whole);
    for (int i = 0; status == KAS_OK && i < both.count; i++)
        print_kernel(arch, dtype, &both.list[i], &whole);
    free(both.list);
    free(whole.list);
    kas_compiler_close(compiler);
    return status;
}

int main(void)
{
    static const char *const archs[] = {"sm_80", "sm_90"};
    const kas_nvrtc *nvrtc;
    if (kas_nvrtc_load(&nvrtc) != KAS_OK) {
        fprintf(stderr, "resources: skipped: %s\n", kas_error());
        return 0;
    }
    for (int i = 0; i < 2; i++)
        for (int dtype = 0; dtype < KAS_DTYPES; dtype++)
            if (run(archs[i], (kas_dtype)dtype) != KAS_OK) {
                fprintf(stderr, "%s\n", kas_error());
                return 1;
            }
    return 0;
}
