/* The CPU device: creation, memory and timers. Work is done while it is enqueued, so there is
 * nothing to wait for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef KAS_HAVE_DNNL
#include <oneapi/dnnl/dnnl.h>
#endif

#include "host/core/machine.h"
#include "host/device/cpu/cpu.h"
#include "host/device/group_impl.h"

struct kas_timer {
    kas_device *device;
    struct timespec start, end;
};

static void cpu_close(kas_device *device)
{
    kas_cpu *cpu = (kas_cpu *)device;
    for (int dtype = 0; dtype < KAS_DTYPES; dtype++)
        if (cpu->builtin[dtype])
            kas_cpu_module_free(cpu->builtin[dtype]);
#ifdef KAS_HAVE_DNNL
    if (cpu->stream)
        dnnl_stream_destroy(cpu->stream);
    if (cpu->engine)
        dnnl_engine_destroy(cpu->engine);
#endif
    free(cpu);
}

static kas_status cpu_mem_alloc(kas_device *device, size_t bytes, void **out)
{
    /* The system may promise more memory than the machine has, and kill the process when it
     * uses it. */
    const size_t rounded = bytes ? (bytes + 255) & ~(size_t)255 : 256;
    const size_t all = device->info.memory;
    if (rounded < bytes || (all && rounded > all) || !(*out = aligned_alloc(256, rounded)))
        return kas_fail(KAS_NO_MEMORY, "the CPU device has no %.1f MB of memory left",
                        (double)bytes / 1e6);
    return KAS_OK;
}

static void cpu_mem_free(kas_device *device, void *memory)
{
    (void)device;
    free(memory);
}

static kas_status cpu_mem_copy(kas_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    if (bytes)
        memcpy(to, from, bytes);
    return KAS_OK;
}

static kas_status cpu_mem_zero(kas_device *device, void *memory, size_t bytes)
{
    (void)device;
    if (bytes)
        memset(memory, 0, bytes);
    return KAS_OK;
}

/* ---- uploads: copied at once, so that there is nothing to order ------------------------------ */

static kas_status cpu_upload_create(kas_device *device, int slots, kas_upload **out)
{
    kas_upload *upload = malloc(sizeof *upload);
    if (!upload)
        return kas_fail(KAS_NO_MEMORY, "no memory for a ring of uploads");
    *upload = (kas_upload){device, slots};
    *out = upload;
    return KAS_OK;
}

static void cpu_upload_free(kas_upload *upload)
{
    free(upload);
}

static kas_status cpu_upload_start(kas_upload *upload, int slot, void *to, const void *from,
                                   size_t bytes)
{
    (void)slot;
    return cpu_mem_copy(upload->device, to, from, bytes);
}

static kas_status cpu_upload_nothing(kas_upload *upload, int slot)
{
    (void)upload, (void)slot;
    return KAS_OK;
}

/* ---- timers ---------------------------------------------------------------------------------- */

static kas_status cpu_sync(kas_device *device)
{
    (void)device;
    return KAS_OK;
}

static kas_status cpu_timer_create(kas_device *device, kas_timer **out)
{
    kas_timer *timer = calloc(1, sizeof *timer);
    if (!timer)
        return kas_fail(KAS_NO_MEMORY, "no memory for a timer");
    timer->device = device;
    *out = timer;
    return KAS_OK;
}

static void cpu_timer_free(kas_timer *timer)
{
    free(timer);
}

static kas_status cpu_timer_start(kas_timer *timer)
{
    KAS_CHECK_LIBC(clock_gettime(CLOCK_MONOTONIC, &timer->start) == 0, KAS_DEVICE);
    return KAS_OK;
}

static kas_status cpu_timer_end(kas_timer *timer)
{
    KAS_CHECK_LIBC(clock_gettime(CLOCK_MONOTONIC, &timer->end) == 0, KAS_DEVICE);
    return KAS_OK;
}

static kas_status cpu_timer_read(kas_timer *timer, double *seconds)
{
    *seconds = (double)(timer->end.tv_sec - timer->start.tv_sec) +
               1e-9 * (double)(timer->end.tv_nsec - timer->start.tv_nsec);
    return KAS_OK;
}

static const kas_backend cpu_backend = {
    .close = cpu_close,
    .mem_alloc = cpu_mem_alloc,
    .mem_free = cpu_mem_free,
    .mem_upload = cpu_mem_copy,
    .mem_download = cpu_mem_copy,
    .mem_zero = cpu_mem_zero,
    .mem_download_later = cpu_mem_copy,
    .host_alloc = cpu_mem_alloc,
    .host_free = cpu_mem_free,
    .upload_create = cpu_upload_create,
    .upload_free = cpu_upload_free,
    .upload_start = cpu_upload_start,
    .upload_use = cpu_upload_nothing,
    .upload_done = cpu_upload_nothing,
    .upload_wait = cpu_upload_nothing,
    .module_load = kas_cpu_module_load,
    .module_builtin = kas_cpu_module_builtin,
    .module_free = kas_cpu_module_free,
    .module_function = kas_cpu_module_function,
    .conv_create = kas_cpu_conv_create,
    .conv_free = kas_cpu_conv_free,
    .conv_add_epilogue = kas_cpu_conv_add_epilogue,
    .conv_takes_epilogue = kas_cpu_conv_takes_epilogue,
    .conv_hold = kas_cpu_conv_hold,
    .run = kas_cpu_run,
    .sync = cpu_sync,
    .timer_create = cpu_timer_create,
    .timer_free = cpu_timer_free,
    .timer_start = cpu_timer_start,
    .timer_end = cpu_timer_end,
    .timer_read = cpu_timer_read,
    .group = &kas_cpu_group,
};

/* Reads "model name : Intel(R) ..." from /proc/cpuinfo; without such a line the name is
 * just "CPU". */
static void read_cpu_name(char name[128])
{
    snprintf(name, 128, "CPU");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file)
        return;
    char line[256];
    while (fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon)
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(name, 128, "%.127s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    fclose(file);
}

kas_status kas_device_open_cpu(int threads, kas_device **out)
{
    kas_cpu *cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return kas_fail(KAS_NO_MEMORY, "no memory for the CPU device");
    cpu->base.backend = &cpu_backend;
    kas_device_info *info = &cpu->base.info;
    info->kind = KAS_DEVICE_CPU;
    read_cpu_name(info->name);
    snprintf(info->arch, sizeof info->arch, "cpu");
    info->threads = threads ? threads : kas_cores();
    info->memory = (size_t)kas_memory();
    cpu->use_library = true;
    *out = &cpu->base;
    return KAS_OK;
}

static kas_status check_cpu(const kas_device *device)
{
    if (device->info.kind != KAS_DEVICE_CPU)
        return kas_fail(KAS_USAGE, "device \"%s\" is not the CPU device", device->info.name);
    return KAS_OK;
}

kas_status kas_device_cpu_set_order(kas_device *device, kas_cpu_order order)
{
    KAS_TRY(check_cpu(device));
    ((kas_cpu *)device)->order = order;
    return KAS_OK;
}

kas_status kas_device_cpu_use_library(kas_device *device, bool use)
{
    KAS_TRY(check_cpu(device));
    ((kas_cpu *)device)->use_library = use;
    return KAS_OK;
}
