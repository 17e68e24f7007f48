/* kas-gpu doctor: prints which parts this machine has, and what each missing part would enable;
 * with --calibrate it measures the machine model. */
#include <stdio.h>
#include <string.h>

#include "cuda/report.h"
#include "host/cli/cli.h"
#include "host/cli/given.h"
#include "host/cli/parts.h"
#include "host/core/buf.h"
#include "host/core/file/files.h"
#include "host/core/file/private.h"
#include "host/core/log.h"
#include "host/device/device.h"
#include "host/predict/calibrate.h"
#include "host/report/line.h"
#include "jit/compile/compile.h"

enum { MAX_PARTS = 3 + KAS_LIBRARY_PARTS }; /* three lines of compilers */

#define NO_CACHE "none: "

typedef struct findings {
    char cpu[128];
    int threads;
    size_t memory;
    char cpu_trouble[512];
    char cache[4096]; /* the folder, or NO_CACHE and why there is none */
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
        snprintf(f->cache, sizeof f->cache, NO_CACHE "%s", kas_error());
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
    if (strncmp(f->cache, NO_CACHE, strlen(NO_CACHE)) == 0)
        printf("  compiled kernels cannot be kept: %s\n\nHost\n", f->cache + strlen(NO_CACHE));
    else
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

/* ---- calibrating ----------------------------------------------------------------------------- */

typedef struct doctor_options {
    kas_cli_common common;
    bool calibrate;
    int kernels, precision;
    const char *device, *output;
} doctor_options;

static void show_progress(int done, int of)
{
    if (done % 8 == 0 || done == of)
        kas_info("calibrating: %d of %d kernels", done, of);
}

static kas_status tell_machine(const doctor_options *o, const kas_machine *m, const char *path)
{
    if (!o->common.json) {
        printf("%s: of kernels that were not fitted, half are predicted within %.0f%% of their "
               "time relative to the unmodified network\nkept in %s\n",
               m->name, 100 * m->error, path);
        return KAS_OK;
    }
    kas_buf line = {0};
    kas_line_begin(&line);
    kas_line_text(&line, "kind", "calibration");
    kas_line_text(&line, "machine", m->name);
    kas_line_text(&line, "file", path);
    kas_line_int(&line, "kernels", o->kernels);
    kas_line_number(&line, "error", m->error);
    kas_line_number(&line, "margin", m->margin);
    kas_line_end(&line);
    return kas_print_buf(&line);
}

static kas_status calibrate(const doctor_options *o)
{
    const kas_machine_calibration options = {.kernels = o->kernels,
                                             .precision = (kas_precision)o->precision,
                                             .on_kernel = show_progress};
    char path[4096];
    kas_device *device;
    kas_machine machine;
    if (o->output)
        KAS_TRY(kas_file_check_writable(o->output));
    KAS_TRY(kas_device_open(o->device, o->common.threads, &device));
    kas_status status = KAS_OK;
    if (o->output)
        snprintf(path, sizeof path, "%s", o->output);
    else
        status = kas_machine_kept(kas_device_get_info(device), path);
    if (status == KAS_OK)
        status = kas_machine_calibrate(device, &options, &machine);
    if (status == KAS_OK)
        status = kas_machine_write(path, &machine);
    if (status == KAS_OK)
        status = tell_machine(o, &machine, path);
    kas_device_close(device);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

enum { KEY_CALIBRATE = 0x200, KEY_PRECISION };

static const struct argp_option option_list[] = {
    {"calibrate", KEY_CALIBRATE, "KERNELS", OPTION_ARG_OPTIONAL,
     "Measure the machine model by which times are predicted, with this many sampled kernels "
     "(default 48: about 5 minutes on 2 cores); nothing else should run meanwhile",
     0},
    {"device", 'D', "D", 0, "To calibrate: auto (default), cpu, cuda or cuda:N", 0},
    {"precision", KEY_PRECISION, "P", 0, "To calibrate with: fp32 (default), tf32, bf16, fp16", 0},
    {"output", 'o', "FILE", 0,
     "Write the machine model here; otherwise it is kept with the compiled kernels, and used for "
     "this device from then on",
     0},
    {0}};

static const kas_cli_value values[] = {
    {'D', KAS_CLI_TEXT(doctor_options, device)},
    {KEY_PRECISION, KAS_CLI_CHOICE(doctor_options, precision, kas_precision_names)},
    {'o', KAS_CLI_TEXT(doctor_options, output)},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    doctor_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->common;
        return 0;
    case KEY_CALIBRATE:
        o->calibrate = true;
        if (arg)
            o->kernels = (int)kas_cli_int(state, "--calibrate", arg, KAS_CALIBRATION_LEAST, 10000);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument \"%s\"", arg);
        return 0;
    case ARGP_KEY_END:
        if (!o->calibrate)
            kas_cli_refuse(state, "device precision output", "needs --calibrate");
        return 0;
    default:
        return kas_cli_set(state, option_list, values, key, arg);
    }
}

static const char doc[] =
    "What this machine has for kas-gpu, and what each missing part would enable.\n\n"
    "  kas-gpu doctor\n"
    "  kas-gpu doctor --json | jq '.gpus'\n"
    "  kas-gpu doctor --calibrate\n"
    "  kas-gpu doctor --calibrate --device cuda -o h100.json\n"
    "\vA missing part is no failure: the exit code is 0. NVIDIA's libraries are looked for in "
    "$KAS_CUDA_PATH (a colon-separated list of folders), in the loader's path and in "
    "/usr/local/cuda/lib64; $KAS_CC chooses the host compiler.";

static kas_status run(int argc, char **argv)
{
    static const struct argp_child children[] = {{&kas_cli_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {option_list, parse, "", doc, children, 0, 0};
    static findings f; /* too large for the stack of every system */
    doctor_options o = {.device = "auto", .kernels = KAS_CALIBRATION_KERNELS};
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o));
    if (o.calibrate)
        return calibrate(&o);
    look(&f, o.common.threads);
    if (o.common.json)
        return print_json(&f);
    print_text(&f);
    return KAS_OK;
}

const kas_command kas_command_doctor = {"doctor", "Tell what this machine has for kas-gpu", run};
