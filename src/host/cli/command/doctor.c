/* kas-gpu doctor: prints which parts this machine has, and what each missing part would enable. */
#include <stdio.h>
#include <string.h>

#include "cuda/report.h"
#include "host/cli/cli.h"
#include "host/cli/parts.h"
#include "host/core/buf.h"
#include "host/core/file/private.h"
#include "host/core/json/json.h"
#include "host/device/device.h"
#include "jit/compile/compile.h"

enum { MAX_PARTS = 3 + KAS_LIBRARY_PARTS }; /* three lines of compilers */

typedef struct findings {
    char cpu[128];
    int threads;
    size_t memory;
    char cpu_trouble[512];
    char cache[4096];
    kas_part part[MAX_PARTS];
    int parts;
    kas_cuda_report cuda;
} findings;

/* ---- looking --------------------------------------------------------------------------------- */

static kas_part *add(findings *f, const char *name, const char *enables)
{
    kas_part *p = &f->part[f->parts++];
    p->name = name;
    p->enables = enables;
    return p;
}

static void look_at_cpu(findings *f, int threads)
{
    kas_device *device;
    if (kas_device_open("cpu", threads, &device) != KAS_OK) {
        snprintf(f->cpu_trouble, sizeof f->cpu_trouble, "%s", kas_error());
        return;
    }
    const kas_device_info *info = kas_device_get_info(device);
    snprintf(f->cpu, sizeof f->cpu, "%s", info->name);
    f->threads = info->threads;
    f->memory = info->memory;
    kas_device_close(device);
}

/* Looks for the compiler that builds the CPU device's kernels, with its flags, and then for
 * the others. */
static void look_for_compilers(findings *f)
{
    static const char *const names[] = {"clang", "gcc"};
    kas_compiler *compiler;
    kas_part *p = add(f, "host compiler",
                      "kernels on the CPU device; without one only the GPU can train "
                      "candidates");
    p->found = kas_compiler_open("cpu", NULL, &compiler) == KAS_OK;
    if (p->found) {
        snprintf(p->version, sizeof p->version, "%s", kas_compiler_describe(compiler));
        snprintf(p->path, sizeof p->path, "%s", kas_compiler_path(compiler));
        kas_compiler_close(compiler);
    } else
        snprintf(p->missing, sizeof p->missing, "%s", kas_error());
    for (int i = 0; i < 2; i++) {
        p = add(f, names[i],
                i == 0 ? "faster kernels on the CPU device: it vectorises them better than gcc"
                       : "a host compiler where there is no clang");
        p->found = kas_compiler_probe(names[i], p->path, p->version) == KAS_OK;
        if (!p->found)
            snprintf(p->missing, sizeof p->missing, "%s", kas_error());
    }
}

static void look(findings *f, int threads)
{
    memset(f, 0, sizeof *f);
    look_at_cpu(f, threads);
    if (kas_cache_dir(f->cache) != KAS_OK)
        snprintf(f->cache, sizeof f->cache, "none: %s", kas_error());
    look_for_compilers(f);
    f->parts += kas_library_parts(&f->part[f->parts]);
    kas_cuda_report_make(&f->cuda);
}

/* ---- telling --------------------------------------------------------------------------------- */

static bool usable(const findings *f, const kas_cuda_gpu *gpu)
{
    return gpu->supported && f->cuda.part[0].found && f->cuda.part[1].found;
}

static void print_part(const char *name, bool found, const char *version, const char *path,
                       const char *missing, const char *enables)
{
    if (found)
        printf("  %-14s %s%s%s%s\n", name, version, *path ? " (" : "", path, *path ? ")" : "");
    else
        printf("  %-14s missing: %s\n  %-14s   would enable %s\n", name, missing, "", enables);
}

static void print_devices(const findings *f)
{
    int count = 0;
    printf("\nDevices for --device: cpu");
    for (int i = 0; i < f->cuda.gpus; i++)
        if (usable(f, &f->cuda.gpu[i])) {
            printf(", cuda:%d", f->cuda.gpu[i].ordinal);
            count++;
        }
    printf("\n");
    if (!count && f->cuda.gpus && f->cuda.part[1].found)
        printf("The GPU cannot be used: NVRTC %s does not compile for it.\n",
               f->cuda.part[1].version);
    else if (!count)
        printf("No GPU can be used: %s\n", !f->cuda.part[0].found   ? f->cuda.part[0].missing
                                           : !f->cuda.part[1].found ? f->cuda.part[1].missing
                                                                    : "the driver lists none.");
}

static void print_text(const findings *f)
{
    printf("kas-gpu %s\n\nCPU\n", KAS_VERSION);
    if (f->cpu_trouble[0])
        printf("  cannot be used: %s\n", f->cpu_trouble);
    else
        printf("  %s, %d thread%s, %.1f GB of memory\n", f->cpu, f->threads,
               f->threads == 1 ? "" : "s", (double)f->memory / 1e9);
    printf("  compiled kernels are kept in %s\n\nHost\n", f->cache);
    for (int i = 0; i < f->parts; i++) {
        const kas_part *p = &f->part[i];
        print_part(p->name, p->found, p->version, p->path, p->missing, p->enables);
    }
    printf("\nNVIDIA\n");
    for (int i = 0; i < KAS_CUDA_PARTS; i++) {
        const kas_cuda_part *p = &f->cuda.part[i];
        print_part(p->name, p->found, p->version, p->path, p->missing, p->enables);
    }
    for (int i = 0; i < f->cuda.gpus; i++) {
        const kas_cuda_gpu *g = &f->cuda.gpu[i];
        printf("  cuda:%-9d %s, %s, %d multiprocessors, %.1f GB%s\n", g->ordinal, g->name, g->arch,
               g->multiprocessors, (double)g->memory / 1e9, usable(f, g) ? "" : ": cannot be used");
    }
    print_devices(f);
}

static void json_part(kas_buf *out, bool first, const char *name, bool found, const char *version,
                      const char *path, const char *missing, const char *enables)
{
    const char *const field[] = {"name", "version", "path", "missing", "enables"};
    const char *const value[] = {name, version, path, missing, enables};
    kas_buf_printf(out, "%s{\"found\":%s", first ? "" : ",", found ? "true" : "false");
    for (int i = 0; i < 5; i++)
        if (value[i][0]) {
            kas_buf_printf(out, ",\"%s\":", field[i]);
            kas_buf_json_string(out, value[i]);
        }
    kas_buf_puts(out, "}");
}

static void json_gpus(kas_buf *out, const findings *f)
{
    for (int i = 0; i < f->cuda.gpus; i++) {
        const kas_cuda_gpu *g = &f->cuda.gpu[i];
        kas_buf_printf(out, "%s{\"device\":\"cuda:%d\",\"name\":", i ? "," : "", g->ordinal);
        kas_buf_json_string(out, g->name);
        kas_buf_printf(out,
                       ",\"arch\":\"%s\",\"memory_bytes\":%zu,\"multiprocessors\":%d,"
                       "\"usable\":%s}",
                       g->arch, g->memory, g->multiprocessors, usable(f, g) ? "true" : "false");
    }
}

static kas_status print_json(const findings *f)
{
    kas_buf out = {0};
    kas_buf_puts(&out, "{\"schema_version\":1,\"version\":");
    kas_buf_json_string(&out, KAS_VERSION);
    kas_buf_puts(&out, ",\"cpu\":{\"name\":");
    kas_buf_json_string(&out, f->cpu);
    kas_buf_printf(&out, ",\"threads\":%d,\"memory_bytes\":%zu},\"cache\":", f->threads, f->memory);
    kas_buf_json_string(&out, f->cache);
    kas_buf_puts(&out, ",\"host\":[");
    for (int i = 0; i < f->parts; i++) {
        const kas_part *p = &f->part[i];
        json_part(&out, i == 0, p->name, p->found, p->version, p->path, p->missing, p->enables);
    }
    kas_buf_puts(&out, "],\"nvidia\":[");
    for (int i = 0; i < KAS_CUDA_PARTS; i++) {
        const kas_cuda_part *p = &f->cuda.part[i];
        json_part(&out, i == 0, p->name, p->found, p->version, p->path, p->missing, p->enables);
    }
    kas_buf_puts(&out, "],\"gpus\":[");
    json_gpus(&out, f);
    kas_buf_puts(&out, "]}");
    kas_status status = kas_buf_status(&out);
    if (status == KAS_OK)
        printf("%s\n", out.data);
    kas_buf_free(&out);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static error_t parse(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = state->input;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument \"%s\"", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char doc[] =
    "What this machine has for kas-gpu, and what each missing part would enable.\n\n"
    "  kas-gpu doctor\n"
    "  kas-gpu doctor --json | jq '.gpus'\n"
    "\vA missing part is no failure: the exit code is 0. NVIDIA's libraries are looked for in "
    "$KAS_CUDA_PATH (a colon-separated list of folders), in the loader's path and in "
    "/usr/local/cuda/lib64; $KAS_CC chooses the host compiler.";

static kas_status run(int argc, char **argv)
{
    static const struct argp_child children[] = {{&kas_cli_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {NULL, parse, "", doc, children, 0, 0};
    static findings f; /* too large for the stack of every system */
    kas_cli_common common = {0};
    bool done;
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &common, &done));
    if (done)
        return KAS_OK;
    look(&f, common.threads);
    if (common.json)
        return print_json(&f);
    print_text(&f);
    return KAS_OK;
}

const kas_command kas_command_doctor = {"doctor", "Tell what this machine has for kas-gpu", run};
