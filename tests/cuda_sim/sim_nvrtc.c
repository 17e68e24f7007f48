/* NVRTC: builds the same text with the host compiler. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"
#include "sim_ptx.h"

/* The program's own flags for device code, when this library was loaded by it. */
extern const char *const kas_device_code_flags[] __attribute__((weak));
extern const char kas_device_code_compiler[] __attribute__((weak));

struct _nvrtcProgram {
    char *text, *image, *log;
    size_t image_size;
};

const char *nvrtcGetErrorString(nvrtcResult result)
{
    return result == KAS_NVRTC_ERROR_COMPILATION ? "NVRTC_ERROR_COMPILATION"
                                                 : "NVRTC_ERROR_OF_THE_STAND_IN";
}

/* Text behind the prelude: a block must be as wide as KAS_THREADS asks, which the CPU's loops
 * cannot see. A kernel sets the variable to -1 when it is not. */
static const char checks[] = "__attribute__((visibility(\"default\"))) int kas_sim_block_x;\n"
                             "static inline int kas_sim_threads(int count)\n"
                             "{\n"
                             "    if (count > kas_sim_block_x) kas_sim_block_x = -1;\n"
                             "    return count;\n"
                             "}\n"
                             "#undef KAS_THREADS\n"
                             "#define KAS_THREADS(t, count) KAS_LANES_(t, kas_sim_threads(count))\n"
                             "#undef KAS_WIDE_THREADS\n"
                             "#define KAS_WIDE_THREADS(t, count) KAS_LANES_(t, KAS_WIDTH * "
                             "kas_sim_threads((count) / KAS_WIDTH))\n"
                             "#undef KAS_PART_THREADS\n"
                             "#define KAS_PART_THREADS(t, count) KAS_LANES_(t, "
                             "(kas_sim_threads(((count) + KAS_WIDTH - 1) / KAS_WIDTH), (count)))\n";

int kas_sim_version(const char *added)
{
    uint32_t hash = 2166136261u ^ SIM_IMAGE_FORMAT; /* FNV-1a */
    for (const char *p = added ? added : checks; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    return 100 + (int)(hash & 0xffffff);
}

nvrtcResult nvrtcVersion(int *major, int *minor)
{
    SIM_CALL(nvrtcVersion, 11, 0);
    *major = 13;
    *minor = kas_sim_version(NULL); /* part of the compile cache's key */
    if (sim_ptx())
        *minor = kas_sim_version(sim_ptx_version());
    return KAS_NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetNumSupportedArchs(int *count)
{
    SIM_CALL(nvrtcGetNumSupportedArchs, 11, 0);
    *count = 2;
    return KAS_NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *archs)
{
    SIM_CALL(nvrtcGetSupportedArchs, 11, 0);
    archs[0] = 80;
    archs[1] = 90;
    return KAS_NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *text, const char *name,
                               int headers, const char *const *header_texts,
                               const char *const *header_names)
{
    SIM_CALL(nvrtcCreateProgram, KAS_NVRTC_ERROR_OUT_OF_MEMORY, 0);
    (void)name, (void)header_texts, (void)header_names;
    if (headers)
        sim_broken("headers are given to NVRTC");
    *program = sim_new(sizeof **program);
    (*program)->text = strdup(text);
    (*program)->log = strdup("");
    if (!(*program)->text || !(*program)->log)
        sim_broken("out of memory");
    sim_live++;
    return KAS_NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    SIM_LOCKED();
    free((*program)->text);
    free((*program)->image);
    free((*program)->log);
    free(*program);
    *program = NULL;
    sim_live--;
    return sim_call("nvrtcDestroyProgram", 11, 0);
}

/* Writes the size of each kernel's argument, for each KAS_KERNEL(name, args_t) of the text; the
 * driver knows it from a cubin. */
static void write_sizes(FILE *file, const char *text)
{
    for (const char *p = text; (p = strpbrk(p, "K/\"")) != NULL;) {
        char name[64], type[64];
        if (strncmp(p, "/*", 2) == 0) {
            const char *end = strstr(p + 2, "*/");
            p = end ? end + 2 : p + strlen(p);
        } else if (strncmp(p, "//", 2) == 0)
            p += strcspn(p, "\n");
        else if (sscanf(p, "KAS_KERNEL ( %63[A-Za-z0-9_] , %63[A-Za-z0-9_ ] )", name, type) == 2) {
            fprintf(file,
                    "\n__attribute__((visibility(\"default\"))) const unsigned long "
                    "%s_args_size = sizeof(%s);\n",
                    name, type);
            p++;
        } else
            p++;
    }
}

static void write_source(const char *path, const char *text)
{
    static const char marker[] =
        "#line 1 \"kernel\"\n"; /* src/jit/compile/compile.c, behind the prelude */
    const char *behind = strstr(text, marker);
    FILE *file = fopen(path, "w");
    if (!file)
        sim_broken("cannot write %s", path);
    if (behind) {
        fwrite(text, 1, (size_t)(behind - text), file);
        fputs(checks, file);
        fputs(behind, file);
        write_sizes(file, behind);
    } else
        sim_broken("the text for NVRTC has no prelude");
    if (fclose(file) != 0)
        sim_broken("cannot write %s", path);
}

static char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        sim_broken("cannot read %s", path);
    *size = (size_t)ftell(file);
    rewind(file);
    char *data = sim_new(*size + 1);
    if (fread(data, 1, *size, file) != *size)
        sim_broken("cannot read %s", path);
    fclose(file);
    return data;
}

/* -O1 and not -O3: compiling takes a third of the time, and a test runs a kernel a few times. */
static int run_compiler(const char *folder)
{
    char command[4096];
    int n = snprintf(command, sizeof command, "%s",
                     kas_device_code_compiler ? kas_device_code_compiler : "cc");
    for (int i = 0; kas_device_code_flags && kas_device_code_flags[i]; i++)
        n += snprintf(command + n, sizeof command - (size_t)n, " %s", kas_device_code_flags[i]);
    snprintf(command + n, sizeof command - (size_t)n,
             " -O1 -w -march=native -fPIC -shared -o %s/image.so -x c %s/text.c -x none -lm "
             ">%s/log 2>&1",
             folder, folder, folder);
    return system(command);
}

static void set_image(nvrtcProgram program, const char *image, size_t size)
{
    const uint64_t length = size;
    program->image_size = size + 16;
    program->image = sim_new(program->image_size);
    memcpy(program->image, sim_image_magic, sizeof sim_image_magic);
    memcpy(program->image + 8, &length, sizeof length);
    memcpy(program->image + 16, image, size);
}

static bool compile_ptx(nvrtcProgram program, int count, const char *const *options)
{
    bool ok;
    char *result = sim_ptx_compile(program->text, count, options, &ok);
    if (ok) {
        set_image(program, result, strlen(result) + 1);
        free(result);
    } else {
        free(program->log);
        program->log = result;
    }
    return ok;
}

static bool compile_host(nvrtcProgram program)
{
    char folder[] = "/tmp/kas-cuda-sim-XXXXXX", path[64];
    if (!mkdtemp(folder))
        sim_broken("cannot make a folder in /tmp");
    snprintf(path, sizeof path, "%s/text.c", folder);
    write_source(path, program->text);
    int failed = run_compiler(folder);
    size_t size = 0;
    free(program->log);
    unlink(path);
    snprintf(path, sizeof path, "%s/log", folder);
    program->log = read_file(path, &size);
    unlink(path);
    snprintf(path, sizeof path, "%s/image.so", folder);
    if (!failed) {
        char *image = read_file(path, &size);
        set_image(program, image, size);
        free(image);
    }
    unlink(path);
    rmdir(folder);
    return !failed;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char *const *options)
{
    int code = sim_call("nvrtcCompileProgram", 11, 0); /* compiles beside other threads: no lock */
    if (code)
        return code;
    bool arch = false;
    for (int i = 0; i < count; i++)
        arch = arch || strcmp(options[i], "--gpu-architecture=sm_90") == 0 ||
               strcmp(options[i], "--gpu-architecture=sm_80") == 0;
    if (!arch)
        sim_broken("NVRTC is not told an architecture that it knows");
    const bool ok = sim_ptx() ? compile_ptx(program, count, options) : compile_host(program);
    return ok ? KAS_NVRTC_SUCCESS : KAS_NVRTC_ERROR_COMPILATION;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *size)
{
    SIM_CALL(nvrtcGetCUBINSize, 11, 0);
    *size = program->image_size;
    return KAS_NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin)
{
    SIM_CALL(nvrtcGetCUBIN, 11, 0);
    memcpy(cubin, program->image, program->image_size);
    return KAS_NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size)
{
    SIM_CALL(nvrtcGetProgramLogSize, 11, 0);
    *size = strlen(program->log) + 1;
    return KAS_NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log)
{
    SIM_CALL(nvrtcGetProgramLog, 11, 0);
    memcpy(log, program->log, strlen(program->log) + 1);
    return KAS_NVRTC_SUCCESS;
}
