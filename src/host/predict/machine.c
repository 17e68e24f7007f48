#include "host/predict/machine.h"

#include <math.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/report.h"
#include "host/core/file/files.h"
#include "host/core/file/private.h"
#include "host/core/json/json.h"
#include "host/device/cpu/cpu_conv.h"

enum { SCHEMA = 1, FILE_MOST = 1 << 16 };

/* ---- fields ---------------------------------------------------------------------------------- */

#define TEXT(member)                                                                               \
    {                                                                                              \
        .key = #member, .type = KAS_FIELD_TEXT, .offset = offsetof(kas_machine, member),           \
        .size = sizeof((kas_machine *)0)->member                                                   \
    }
#define FLAG(member)                                                                               \
    {                                                                                              \
        .key = #member, .type = KAS_FIELD_FLAG, .offset = offsetof(kas_machine, member)            \
    }
#define NUMBER(key_, member, low_, high_)                                                          \
    {                                                                                              \
        .key = key_, .type = KAS_FIELD_NUMBER, .offset = offsetof(kas_machine, member),            \
        .low = low_, .high = high_                                                                 \
    }
#define COST(member) NUMBER(#member, member, 1e-3, 1e4)

static const kas_field fields[] = {
    TEXT(name),
    TEXT(device),
    FLAG(gpu),
    FLAG(calibrated),
    NUMBER("cores", cores, 1, 1e5),
    NUMBER("clock", clock, 1e7, 1e11),
    NUMBER("lanes", lanes, 1, 4096),
    NUMBER("warp", warp, 1, 4096),
    NUMBER("threads", threads, 0, 1e5),
    NUMBER("memory_bandwidth", memory_bandwidth, 1e8, 1e15),
    NUMBER("rate_fp32", rate[KAS_PRECISION_FP32], 1e8, 1e18),
    NUMBER("rate_tf32", rate[KAS_PRECISION_TF32], 1e8, 1e18),
    NUMBER("rate_bf16", rate[KAS_PRECISION_BF16], 1e8, 1e18),
    NUMBER("rate_fp16", rate[KAS_PRECISION_FP16], 1e8, 1e18),
    NUMBER("read_latency", read_latency, 0, 1e-3),
    NUMBER("error", error, 0, 1e3),
    NUMBER("margin", margin, 0, 1e3),
    /* These are fitted. */
    NUMBER("outer_bandwidth", outer_bandwidth, 1e8, 1e16),
    NUMBER("inner_bandwidth", inner_bandwidth, 1e8, 1e17),
    NUMBER("outer_bytes", outer_bytes, 1, 1e12),
    NUMBER("inner_bytes", inner_bytes, 1, 1e12),
    NUMBER("launch", launch, 1e-9, 1e-2),
    NUMBER("call", call, 1e-9, 1e-2),
    NUMBER("efficiency_window", efficiency[KAS_CONV_WINDOW], 1e-5, 8),
    NUMBER("efficiency_map", efficiency[KAS_CONV_MAP], 1e-5, 8),
    NUMBER("efficiency_grouped", efficiency[KAS_CONV_GROUPED], 1e-5, 8),
    NUMBER("efficiency_depthwise", efficiency[KAS_CONV_DEPTHWISE], 1e-5, 8),
    NUMBER("half_channels", half_channels, 1e-2, 1e4),
    NUMBER("half_grouped", half_grouped, 1e-2, 1e4),
    NUMBER("pass", pass, 1e-4, 1),
    COST(arithmetic),
    COST(function),
    COST(load),
    COST(reduce),
    COST(gather),
    COST(division),
    COST(shared),
    COST(turn),
};
enum { FIELDS = sizeof fields / sizeof *fields, FITTED = 17 };

const kas_field *kas_machine_fields(int *fitted, int *count)
{
    *fitted = FITTED;
    *count = FIELDS;
    return fields;
}

kas_conv_class kas_conv_class_of(const kas_conv_desc *d)
{
    if (d->groups > 1)
        return d->c_in == d->groups && d->c_out == d->groups ? KAS_CONV_DEPTHWISE
                                                             : KAS_CONV_GROUPED;
    return d->kernel_h * d->kernel_w > 1 ? KAS_CONV_WINDOW : KAS_CONV_MAP;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Checks what no limit of a single field says. */
static kas_status check(const char *path, const kas_machine *m)
{
    const bool whole = m->cores == floor(m->cores) && m->lanes == floor(m->lanes);
    if (!whole || (!m->gpu && m->lanes != 4 && m->lanes != 8 && m->lanes != 16))
        return kas_fail(KAS_BAD_INPUT,
                        "%s: cores %g and lanes %g: whole numbers are expected, and a CPU has 4, 8 "
                        "or 16 lanes",
                        path, m->cores, m->lanes);
    if (m->gpu != (m->threads > 0))
        return kas_fail(KAS_BAD_INPUT,
                        "%s: gpu %s and threads %g: a GPU has threads, and a CPU has 0", path,
                        m->gpu ? "true" : "false", m->threads);
    if (!kas_machine_is_ordered(m))
        return kas_fail(KAS_BAD_INPUT,
                        "%s: inner_bandwidth %g, outer_bandwidth %g and memory_bandwidth %g: each "
                        "must be at least as large as the next",
                        path, m->inner_bandwidth, m->outer_bandwidth, m->memory_bandwidth);
    return KAS_OK;
}

static kas_status read_json(const cJSON *json, const char *path, kas_machine *out)
{
    const char *allowed[FIELDS + 3] = {"schema_version", "kind"};
    const char *kind;
    int64_t version;
    for (int i = 0; i < FIELDS; i++)
        allowed[2 + i] = fields[i].key;
    KAS_TRY(kas_json_int(json, path, "schema_version", 1, SCHEMA, &version));
    KAS_TRY(kas_json_string(json, path, "kind", &kind));
    if (strcmp(kind, "machine") != 0)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: field \"kind\": expected \"machine\", found \"%s\"; kas-gpu doctor "
                        "--calibrate writes machine files",
                        path, kind);
    KAS_TRY(kas_json_only(json, path, allowed));
    KAS_TRY(kas_fields_read(fields, FIELDS, json, path, out));
    return check(path, out);
}

kas_status kas_machine_read(const char *path, kas_machine *out)
{
    const kas_json_limits limits = {.bytes = FILE_MOST, .depth = 4};
    kas_buf text = {0};
    cJSON *json = NULL;
    *out = (kas_machine){0};
    kas_status status = kas_file_read(path, FILE_MOST, &text);
    if (status == KAS_OK)
        status = kas_json_parse(path, kas_buf_text(&text), text.size, limits, &json);
    if (status == KAS_OK)
        status = read_json(json, path, out);
    cJSON_Delete(json);
    kas_buf_free(&text);
    return status;
}

kas_status kas_machine_write(const char *path, const kas_machine *machine)
{
    kas_buf text = {0};
    kas_buf_printf(&text, "{\"schema_version\":%d,\"kind\":\"machine\",", SCHEMA);
    kas_fields_write(fields, FIELDS, machine, &text);
    kas_buf_puts(&text, "}\n");
    return kas_buf_save(&text, path, KAS_OK);
}

kas_status kas_machine_kept(const kas_device_info *info, char path[4096])
{
    char cache[4096], name[sizeof info->name];
    size_t n = 0;
    KAS_TRY(kas_cache_dir(cache));
    for (const char *c = info->name; *c; c++)
        if (isalnum((unsigned char)*c))
            name[n++] = (char)tolower((unsigned char)*c);
        else if (n > 0 && name[n - 1] != '-')
            name[n++] = '-';
    while (n > 0 && name[n - 1] == '-')
        n--;
    name[n] = '\0';
    const int size =
        info->kind == KAS_DEVICE_CPU
            ? snprintf(path, 4096, "%s/machine-%s-%d-threads.json", cache, name, info->threads)
            : snprintf(path, 4096, "%s/machine-%s.json", cache, name);
    return size < 4096 ? KAS_OK : kas_fail(KAS_BAD_INPUT, "%s: the path is too long", cache);
}

/* ---- finding --------------------------------------------------------------------------------- */

/* Returns whether the device's name has `word`, whatever its case, blanks and hyphens, as a whole:
 * "NVIDIA GeForce RTX 4090" has "rtx4090", "Orin Nano" has "orin-nano", "NVIDIA L40S" has no "l4". */
static bool in_name(const char *name, const char *word)
{
    for (; *name; name++) {
        const char *at = name, *of = word;
        while (*of && *at && (*at == ' ' || *of == '-' || tolower((unsigned char)*at) == *of)) {
            const bool blank = *at == ' ', hyphen = *of == '-';
            at += blank || !hyphen;
            of += hyphen || !blank;
        }
        if (!*of && !isdigit((unsigned char)*at))
            return true;
    }
    return false;
}

/* Gives a CPU's model as many cores as the device uses. Memory and the last cache are shared, and
 * are no faster than what the cores' own caches take. */
static void scale_to(kas_machine *m, double cores)
{
    const double factor = cores / m->cores;
    m->cores = cores;
    m->inner_bandwidth *= factor;
    m->outer_bandwidth = fmin(m->outer_bandwidth, m->inner_bandwidth);
    m->memory_bandwidth = fmin(m->memory_bandwidth, m->outer_bandwidth);
    m->inner_bytes *= factor;
    for (int i = 0; i <= KAS_PRECISION_FP16; i++)
        m->rate[i] *= factor;
}

/* Returns whether a built-in machine is like the device: a GPU of its name, or a CPU with vectors as
 * wide as those for which the CPU device was built. */
static bool is_like(const kas_machine *m, const kas_device_info *info)
{
    return m->gpu ? in_name(info->name, m->name) : m->lanes == kas_cpu_lanes();
}

/* Takes the built-in machine that is like the device, of several the one with the longest name, or else
 * the first of its kind. */
void kas_machine_builtin_of(const kas_device_info *info, kas_machine *out)
{
    const bool gpu = info->kind == KAS_DEVICE_CUDA;
    const kas_machine *found = NULL, *m;
    for (int i = 0; (m = kas_machine_builtin(i)); i++)
        if (m->gpu == gpu &&
            (!found || (is_like(m, info) &&
                        (!is_like(found, info) || strlen(m->name) > strlen(found->name)))))
            found = m;
    *out = *found;
    if (gpu)
        return;
    out->calibrated = out->calibrated && strcmp(out->device, info->name) == 0;
    scale_to(out, info->threads);
}

kas_status kas_machine_of(const kas_device_info *info, kas_machine *out)
{
    char path[4096];
    if (kas_machine_kept(info, path) == KAS_OK && kas_file_exists(path))
        return kas_machine_read(path, out);
    kas_machine_builtin_of(info, out);
    return KAS_OK;
}

/* Finds the GPU that a specification allows; returns false when there is none that can be used. */
static bool find_gpu(const kas_device_spec *spec, kas_device_info *info)
{
    kas_cuda_report *report = malloc(sizeof *report);
    bool found = false;
    if (!report)
        return false;
    kas_cuda_report_make(report);
    for (int i = 0; i < report->gpus && !found; i++) {
        const kas_cuda_gpu *gpu = &report->gpu[i];
        found = gpu->supported && (spec->ordinals == 0 || spec->ordinal[0] == gpu->ordinal);
        *info = (kas_device_info){.kind = KAS_DEVICE_CUDA};
        snprintf(info->name, sizeof info->name, "%s", gpu->name);
    }
    free(report);
    return found;
}

kas_status kas_machine_here(const char *device, int threads, kas_machine *out)
{
    kas_device_spec spec;
    kas_device_info info;
    kas_device *cpu;
    KAS_TRY(kas_device_spec_read(device ? device : "auto", &spec));
    if (spec.cuda && find_gpu(&spec, &info))
        return kas_machine_of(&info, out);
    if (!spec.cpu)
        return kas_fail(KAS_DEVICE,
                        "device \"%s\": no such GPU can be used; kas-gpu doctor says why", device);
    KAS_TRY(kas_device_open("cpu", threads, &cpu));
    const kas_status status = kas_machine_of(kas_device_get_info(cpu), out);
    kas_device_close(cpu);
    return status;
}

static kas_status unknown(const char *spec)
{
    kas_buf names = {0};
    for (int i = 0; kas_machine_builtin(i); i++)
        kas_buf_printf(&names, "%s%s", i ? ", " : "", kas_machine_builtin(i)->name);
    const kas_status status = kas_fail(
        KAS_BAD_INPUT,
        "machine \"%s\": expected \"auto\", the path of a machine file (kas-gpu doctor --calibrate "
        "-o FILE.json writes one), or one of %s",
        spec, kas_buf_text(&names));
    kas_buf_free(&names);
    return status;
}

kas_status kas_machine_find(const char *spec, const char *device, int threads, kas_machine *out)
{
    const kas_machine *m;
    if (strcmp(spec, "auto") == 0)
        return kas_machine_here(device, threads, out);
    for (int i = 0; (m = kas_machine_builtin(i)); i++)
        if (strcmp(spec, m->name) == 0) {
            *out = *m;
            if (!m->gpu && threads > 0)
                scale_to(out, threads);
            return KAS_OK;
        }
    if (strchr(spec, '/') || strstr(spec, ".json"))
        return kas_machine_read(spec, out);
    return unknown(spec);
}
