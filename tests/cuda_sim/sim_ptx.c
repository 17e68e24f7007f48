/* With KAS_CUDA_SIM=ptx kernels are compiled by the real NVRTC and their PTX is executed
 * (tests/ptx). A fault of a kernel aborts, as every broken rule of the stand-in does. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ptx/nvrtc.h"
#include "sim.h"
#include "sim_ptx.h"

bool sim_ptx(void)
{
    static int known = -1; /* asked for every number that a library writes */
    if (known >= 0)
        return known;
    const char *text = getenv("KAS_CUDA_SIM");
    known = text && *text;
    if (known && strcmp(text, "ptx") != 0)
        sim_broken("KAS_CUDA_SIM=%s: only \"ptx\" is known", text);
    return known;
}

void sim_wrote(const void *memory, size_t bytes)
{
    if (sim_ptx())
        ptx_region_wrote(memory, bytes);
}

/* ---- compiling ------------------------------------------------------------------------------- */

const char *sim_ptx_version(void)
{
    static char text[64];
    const char *required = getenv("KAS_PTX_REQUIRED"), *missing = ptx_nvrtc_missing();
    int major, minor;
    if (missing && required && *required)
        sim_broken("%s", missing);
    if (missing) {
        printf("SKIPPED: %s\n", missing);
        fflush(stdout);
        _exit(77);
    }
    ptx_nvrtc_version(&major, &minor);
    snprintf(text, sizeof text, "PTX of NVRTC %d.%d", major, minor);
    return text;
}

/* Only PTX is wanted: NVRTC stops there when it is given a virtual architecture. */
char *sim_ptx_compile(const char *text, int count, const char *const *options, bool *ok)
{
    static const char real[] = "--gpu-architecture=sm_";
    const char *all[16];
    char arch[64], *result;
    if (count > 16)
        sim_broken("%d options for NVRTC", count);
    for (int i = 0; i < count; i++) {
        all[i] = options[i];
        if (strncmp(options[i], real, sizeof real - 1) != 0)
            continue;
        snprintf(arch, sizeof arch, "--gpu-architecture=compute_%s", options[i] + sizeof real - 1);
        all[i] = arch;
    }
    *ok = ptx_nvrtc_compile(text, count, all, &result);
    return result;
}

/* ---- modules and launches -------------------------------------------------------------------- */

ptx_module *sim_ptx_load(const char *text)
{
    char fault[PTX_FAULT];
    ptx_module *module = ptx_read(text, fault);
    if (!module)
        sim_broken("ptx: %s", fault);
    return module;
}

ptx_function *sim_ptx_find(ptx_module *module, const char *name)
{
    char fault[PTX_FAULT];
    ptx_function *function = ptx_find(module, name, fault);
    if (!function && fault[0])
        sim_broken("ptx: %s", fault);
    return function;
}

void sim_ptx_launch(ptx_function *function, const unsigned grid[3], const unsigned block[3],
                    const void *args)
{
    char fault[PTX_FAULT];
    if (!ptx_launch(function, grid, block, args, sim_random(1u << 30), fault))
        sim_broken("ptx: %s", fault);
}

/* ---- the report ------------------------------------------------------------------------------ */

/* Appends a line of JSON to the file of KAS_PTX_REPORT. */
static FILE *open_report(void)
{
    const char *path = getenv("KAS_PTX_REPORT");
    FILE *file = path && *path ? fopen(path, "a") : NULL;
    if (path && *path && !file)
        sim_broken("cannot write KAS_PTX_REPORT=%s", path);
    return file;
}

static void report_function(FILE *file, const ptx_function *f)
{
    const ptx_counts c = ptx_count(f);
    fprintf(file,
            "{\"kernel\":\"%s\",\"launches\":%llu,\"blocks\":%llu,\"warps\":%llu,\"lanes\":%llu,"
            "\"load_bytes\":%llu,\"load_sectors\":%llu,\"store_bytes\":%llu,\"store_sectors\":%llu,"
            "\"shared_waves\":%llu,\"shared_conflicts\":%llu,\"chain\":%u,\"instructions\":{",
            ptx_name(f), (unsigned long long)c.launches, (unsigned long long)c.blocks,
            (unsigned long long)c.warps, (unsigned long long)c.lanes,
            (unsigned long long)c.load_bytes, (unsigned long long)c.load_sectors,
            (unsigned long long)c.store_bytes, (unsigned long long)c.store_sectors,
            (unsigned long long)c.shared_waves, (unsigned long long)c.shared_conflicts, c.chain);
    for (int k = 0; k < PTX_CLASSES; k++)
        fprintf(file, "%s\"%s\":%llu", k ? "," : "", ptx_class_name(k),
                (unsigned long long)c.instructions[k]);
    fputs("}}\n", file);
}

void sim_ptx_unload(ptx_module *module)
{
    FILE *file = open_report();
    const ptx_function *f = NULL;
    while (file && (f = ptx_next(module, f)) != NULL)
        if (ptx_count(f).launches)
            report_function(file, f);
    if (file)
        fclose(file);
    ptx_free(module);
}

/* What ran, and what the executor does not see: the libraries' own work. */
__attribute__((destructor)) static void report_all(void)
{
    FILE *file = open_report();
    if (!file)
        return;
    fprintf(file, "{\"launches\":%d,\"products_not_covered\":%d,\"convolutions_not_covered\":%d}\n",
            sim_launches, sim_matmuls, sim_convolutions);
    fclose(file);
}
