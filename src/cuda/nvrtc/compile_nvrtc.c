/* NVRTC as a backend: a text goes in, a cubin for one architecture comes out. It needs no GPU and
 * no headers. */
#include "jit/compile/compile_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/library.h"
#include "cuda/nvrtc/respill.h"
#include "host/core/clock.h"

/* --fmad: a*b + c is one instruction, as the CPU's -ffp-contract=fast has it.  Division, square
 * root and denormals stay IEEE (NVRTC's default), so that both devices agree closely. */
static const char *const options[] = {"--std=c++17", "--fmad=true", "--disable-warnings"};
enum { OPTIONS = sizeof options / sizeof *options };

#define NVRTC_CHECK(statement) check(n, n->statement, #statement)
static kas_status check(const kas_nvrtc *n, nvrtcResult result, const char *statement)
{
    if (result == KAS_NVRTC_SUCCESS)
        return KAS_OK;
    return kas_fail(result == KAS_NVRTC_ERROR_OUT_OF_MEMORY ? KAS_NO_MEMORY : KAS_DEVICE, "%s: %s",
                    statement, n->nvrtcGetErrorString(result));
}

static kas_status get_log(const kas_nvrtc *n, nvrtcProgram program, kas_buf *log)
{
    size_t size = 0;
    KAS_TRY(NVRTC_CHECK(nvrtcGetProgramLogSize(program, &size)));
    char *text = calloc(1, size + 1);
    if (!text)
        return kas_fail(KAS_NO_MEMORY, "out of memory reading NVRTC's log");
    kas_status status = NVRTC_CHECK(nvrtcGetProgramLog(program, text));
    if (status == KAS_OK)
        kas_buf_puts(log, text);
    free(text);
    return status == KAS_OK ? kas_buf_status(log) : status;
}

static kas_status get_cubin(const kas_nvrtc *n, nvrtcProgram program, kas_buf *image)
{
    size_t size = 0;
    KAS_TRY(NVRTC_CHECK(nvrtcGetCUBINSize(program, &size)));
    if (size == 0)
        return kas_fail(KAS_DEVICE, "NVRTC made no cubin");
    char *bytes = malloc(size);
    if (!bytes)
        return kas_fail(KAS_NO_MEMORY, "out of memory reading a cubin of %zu bytes", size);
    kas_status status = NVRTC_CHECK(nvrtcGetCUBIN(program, bytes));
    if (status == KAS_OK)
        kas_buf_add(image, bytes, size);
    free(bytes);
    return status == KAS_OK ? kas_buf_status(image) : status;
}

static kas_compile_outcome compile_program(kas_compiler *compiler, nvrtcProgram program,
                                           kas_compile_result *result)
{
    const kas_nvrtc *n = compiler->nvrtc;
    char arch[64];
    const char *all[OPTIONS + 1];
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", compiler->arch);
    memcpy(all, options, sizeof options);
    all[OPTIONS] = arch;
    nvrtcResult compiled = n->nvrtcCompileProgram(program, OPTIONS + 1, all);
    if (compiled == KAS_NVRTC_ERROR_COMPILATION)
        return get_log(n, program, &result->log) == KAS_OK ? KAS_COMPILE_REFUSED
                                                           : KAS_COMPILE_BROKEN;
    if (check(n, compiled, "nvrtcCompileProgram") != KAS_OK)
        return KAS_COMPILE_BROKEN;
    return get_cubin(n, program, &result->image) == KAS_OK ? KAS_COMPILED : KAS_COMPILE_BROKEN;
}

static kas_compile_outcome build_once(kas_compiler *compiler, const char *text,
                                      kas_compile_result *result)
{
    const kas_nvrtc *n = compiler->nvrtc;
    nvrtcProgram program = NULL;
    double start = kas_thread_seconds(); /* NVRTC works in the thread that calls it */
    if (NVRTC_CHECK(nvrtcCreateProgram(&program, text, "kernel.cu", 0, NULL, NULL)) != KAS_OK)
        return KAS_COMPILE_BROKEN;
    kas_compile_outcome outcome = compile_program(compiler, program, result);
    n->nvrtcDestroyProgram(&program); /* nothing to do about a failure here */
    result->cpu_seconds += kas_thread_seconds() - start;
    return outcome;
}

/* Builds the text with these kernels lean; *built is false where it does not compile. */
static kas_status build_with(kas_compiler *compiler, const char *text, const kas_respill *respill,
                             kas_compile_result *result, bool *built)
{
    kas_buf whole = {0};
    const kas_status status = kas_respill_text(text, respill, &whole);
    *built = status == KAS_OK && build_once(compiler, kas_buf_text(&whole), result) == KAS_COMPILED;
    kas_buf_free(&whole);
    return status;
}

/* Builds the text with these kernels lean, keeps in the list those that it helps, and takes the
 * image when it helps all of them. *built as above. */
static kas_status try_lean(kas_compiler *compiler, const char *text, kas_respill *respill,
                           kas_compile_result *result, bool *built)
{
    const int count = respill->count;
    kas_compile_result again = {0};
    kas_status status = build_with(compiler, text, respill, &again, built);
    result->cpu_seconds += again.cpu_seconds;
    if (*built)
        status = kas_respill_keep_better(again.image.data, again.image.size, respill);
    if (*built && status == KAS_OK && respill->count == count) {
        const kas_buf worse = result->image;
        result->image = again.image;
        again.image = worse;
    }
    kas_buf_free(&again.image);
    kas_buf_free(&again.log);
    return status;
}

/* Makes those spilling kernels lean that it helps. Where it helps only some, that takes a third
 * image. Where a text with lean kernels does not compile, the first image serves. */
static kas_status build_lean(kas_compiler *compiler, const char *text, kas_compile_result *result)
{
    kas_respill respill;
    bool built = true;
    kas_status status = kas_respill_find(result->image.data, result->image.size, &respill);
    for (int tried = 0; status == KAS_OK && built && respill.count > 0 && respill.count != tried;) {
        tried = respill.count;
        status = try_lean(compiler, text, &respill, result, &built);
    }
    kas_respill_free(&respill);
    return status;
}

static kas_compile_outcome build(kas_compiler *compiler, const char *text, size_t size,
                                 kas_compile_result *result)
{
    (void)size;
    const kas_compile_outcome outcome = build_once(compiler, text, result);
    if (outcome != KAS_COMPILED)
        return outcome;
    return build_lean(compiler, text, result) == KAS_OK ? KAS_COMPILED : KAS_COMPILE_BROKEN;
}

static kas_status check_arch(const kas_nvrtc *n, const char *arch)
{
    int count = 0, archs[64], wanted = atoi(arch + 3);
    KAS_TRY(NVRTC_CHECK(nvrtcGetNumSupportedArchs(&count)));
    if (count > (int)(sizeof archs / sizeof *archs))
        return kas_fail(KAS_DEVICE, "NVRTC lists %d architectures; at most 64 were expected",
                        count);
    KAS_TRY(NVRTC_CHECK(nvrtcGetSupportedArchs(archs)));
    for (int i = 0; i < count; i++)
        if (archs[i] == wanted)
            return KAS_OK;
    return kas_fail(KAS_UNSUPPORTED, "NVRTC %s cannot compile for %s (it knows sm_%d to sm_%d)",
                    n->library.version, arch, count ? archs[0] : 0, count ? archs[count - 1] : 0);
}

kas_status kas_compile_nvrtc_open(kas_compiler *compiler)
{
    const kas_nvrtc *n;
    KAS_TRY(kas_nvrtc_load(&n));
    KAS_TRY(check_arch(n, compiler->arch));
    compiler->nvrtc = n;
    compiler->build = build;
    compiler->suffix = "cubin";
    compiler->policy = KAS_RESPILL_POLICY;
    kas_buf_printf(&compiler->identity, "NVRTC %s %s", n->library.version, n->library.path);
    for (int i = 0; i < OPTIONS; i++)
        kas_buf_printf(&compiler->identity, " %s", options[i]);
    snprintf(compiler->program, sizeof compiler->program, "%s", n->library.path);
    snprintf(compiler->name, sizeof compiler->name, "NVRTC %s", n->library.version);
    snprintf(compiler->describe, sizeof compiler->describe, "%s %s", compiler->name,
             compiler->arch);
    return KAS_OK;
}
