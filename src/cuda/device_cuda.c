/* The CUDA device: life, memory, timers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda.h"
#include "host/core/arena.h"
#include "host/core/log.h"
#include "host/device/group_impl.h"

struct kas_timer {
    kas_device *device;
    CUevent start, stop;
};

kas_status kas_cuda_enter(kas_cuda *cuda)
{
    if (cuda->lost)
        return kas_fail(KAS_DEVICE_LOST, "the GPU was lost to an earlier error: %s",
                        cuda->lost_message);
    return KAS_CU(cuda, cuCtxSetCurrent(cuda->context));
}

bool kas_cuda_enter_to_free(kas_cuda *cuda)
{
    if (cuda->lost)
        return false;
    if (KAS_CU(cuda, cuCtxSetCurrent(cuda->context)) != KAS_OK)
        kas_warn("a CUDA resource could not be released: %s", kas_error());
    return !cuda->lost;
}

bool kas_cuda_wait_to_free(kas_cuda *cuda)
{
    if (!kas_cuda_enter_to_free(cuda))
        return false;
    if (KAS_CU(cuda, cuStreamSynchronize(cuda->stream)) != KAS_OK)
        kas_warn("a CUDA resource could not be released: %s", kas_error());
    if (cuda->exchanges)
        cuda->driver->cuStreamSynchronize(cuda->exchanges);
    return true;
}

static kas_status cuda_sync(kas_device *device)
{
    kas_cuda *cuda = (kas_cuda *)device;
    KAS_TRY(kas_cuda_enter(cuda));
    return KAS_CU(cuda, cuStreamSynchronize(cuda->stream));
}

/* ---- memory ---------------------------------------------------------------------------------- */

static kas_status remember(kas_cuda *cuda, CUdeviceptr pointer, size_t bytes)
{
    if (!KAS_GROW(cuda->allocation, cuda->allocations))
        return kas_fail(KAS_NO_MEMORY, "no memory for a list of %d allocations",
                        cuda->allocations + 1);
    cuda->allocation[cuda->allocations++] = (kas_allocation){pointer, bytes};
    cuda->bytes += bytes;
    return KAS_OK;
}

/* Fails with the memory that is free and held: the driver's "out of memory" alone does not tell a
 * user whether the candidate or another process is too large. */
static kas_status explain_no_memory(kas_cuda *cuda, size_t bytes)
{
    size_t unused = 0, total = 0;
    KAS_TRY(KAS_CU(cuda, cuMemGetInfo_v2(&unused, &total)));
    return kas_fail(KAS_NO_MEMORY,
                    "%s: no %.1f MB of memory left: %.1f of %.1f MB are free, %.1f MB are held by "
                    "this process",
                    cuda->base.info.name, (double)bytes / 1e6, (double)unused / 1e6,
                    (double)total / 1e6, (double)cuda->bytes / 1e6);
}

static kas_status cuda_mem_alloc(kas_device *device, size_t bytes, void **out)
{
    kas_cuda *cuda = (kas_cuda *)device;
    CUdeviceptr pointer = 0;
    KAS_TRY(kas_cuda_enter(cuda));
    /* The driver refuses 0 bytes; callers get a pointer of their own, as from malloc */
    if (bytes == 0)
        bytes = 1;
    if (bytes > device->info.memory)
        return explain_no_memory(cuda, bytes);
    kas_status status = KAS_CU(cuda, cuMemAlloc_v2(&pointer, bytes));
    if (status == KAS_NO_MEMORY)
        return explain_no_memory(cuda, bytes);
    KAS_TRY(status);
    status = remember(cuda, pointer, bytes);
    if (status != KAS_OK) {
        cuda->driver->cuMemFree_v2(pointer);
        return status;
    }
    *out = (void *)(uintptr_t)pointer;
    return KAS_OK;
}

static void cuda_mem_free(kas_device *device, void *memory)
{
    kas_cuda *cuda = (kas_cuda *)device;
    int i = 0;
    while (i < cuda->allocations && cuda->allocation[i].pointer != (CUdeviceptr)(uintptr_t)memory)
        i++;
    if (i == cuda->allocations) {
        kas_warn("%s: memory %p is freed, but was not allocated by this device",
                 cuda->base.info.name, memory);
        return;
    }
    cuda->bytes -= cuda->allocation[i].bytes;
    cuda->allocation[i] = cuda->allocation[--cuda->allocations];
    if (!kas_cuda_wait_to_free(cuda))
        return;
    if (KAS_CU(cuda, cuMemFree_v2((CUdeviceptr)(uintptr_t)memory)) != KAS_OK)
        kas_warn("freeing memory: %s", kas_error());
}

static kas_status cuda_mem_upload(kas_device *device, void *to, const void *from, size_t bytes)
{
    kas_cuda *cuda = (kas_cuda *)device;
    KAS_TRY(kas_cuda_enter(cuda));
    if (bytes == 0)
        return KAS_OK;
    KAS_TRY(
        KAS_CU(cuda, cuMemcpyHtoDAsync_v2((CUdeviceptr)(uintptr_t)to, from, bytes, cuda->stream)));
    return KAS_CU(cuda, cuStreamSynchronize(cuda->stream));
}

static kas_status cuda_mem_download_later(kas_device *device, void *to, const void *from,
                                          size_t bytes)
{
    kas_cuda *cuda = (kas_cuda *)device;
    KAS_TRY(kas_cuda_enter(cuda));
    if (bytes == 0)
        return KAS_OK;
    return KAS_CU(cuda,
                  cuMemcpyDtoHAsync_v2(to, (CUdeviceptr)(uintptr_t)from, bytes, cuda->stream));
}

static kas_status cuda_mem_download(kas_device *device, void *to, const void *from, size_t bytes)
{
    kas_cuda *cuda = (kas_cuda *)device;
    KAS_TRY(cuda_mem_download_later(device, to, from, bytes));
    return bytes ? KAS_CU(cuda, cuStreamSynchronize(cuda->stream)) : KAS_OK;
}

static kas_status cuda_mem_zero(kas_device *device, void *memory, size_t bytes)
{
    kas_cuda *cuda = (kas_cuda *)device;
    KAS_TRY(kas_cuda_enter(cuda));
    if (bytes == 0)
        return KAS_OK;
    KAS_TRY(KAS_CU(cuda, cuMemsetD8Async((CUdeviceptr)(uintptr_t)memory, 0, bytes, cuda->stream)));
    return KAS_CU(cuda, cuStreamSynchronize(cuda->stream));
}

static void replace_workspace(kas_cuda *cuda, CUdeviceptr workspace, size_t bytes)
{
    if (cuda->workspace)
        cuda->driver->cuMemFree_v2(cuda->workspace);
    cuda->workspace = workspace;
    cuda->workspace_bytes = bytes;
    cuda->workspace_generation++;
}

kas_status kas_cuda_reserve_workspace(kas_cuda *cuda, size_t bytes)
{
    if (bytes <= cuda->workspace_bytes)
        return KAS_OK;
    if (bytes > cuda->most_workspace)
        return kas_fail(KAS_UNSUPPORTED,
                        "a workspace of %zu bytes is needed, at most %zu are allowed", bytes,
                        cuda->most_workspace);
    CUdeviceptr workspace = 0;
    KAS_TRY(KAS_CU(cuda, cuStreamSynchronize(cuda->stream)));
    KAS_TRY(KAS_CU(cuda, cuMemAlloc_v2(&workspace, bytes)));
    replace_workspace(cuda, workspace, bytes);
    return KAS_OK;
}

/* Frees a workspace. Graphs that read the old address are gone with their plans. */
static void cuda_trim(kas_device *device)
{
    kas_cuda *cuda = (kas_cuda *)device;
    if (cuda->workspace_bytes && kas_cuda_wait_to_free(cuda))
        replace_workspace(cuda, 0, 0);
}

/* ---- timers ---------------------------------------------------------------------------------- */

static void cuda_timer_free(kas_timer *timer)
{
    kas_cuda *cuda = (kas_cuda *)timer->device;
    if (kas_cuda_enter_to_free(cuda)) {
        if (timer->start)
            cuda->driver->cuEventDestroy_v2(timer->start);
        if (timer->stop)
            cuda->driver->cuEventDestroy_v2(timer->stop);
    }
    free(timer);
}

static kas_status cuda_timer_create(kas_device *device, kas_timer **out)
{
    kas_cuda *cuda = (kas_cuda *)device;
    kas_status status;
    KAS_TRY(kas_cuda_enter(cuda));
    kas_timer *timer = calloc(1, sizeof *timer);
    if (!timer)
        return kas_fail(KAS_NO_MEMORY, "no memory for a timer");
    timer->device = device;
    KAS_TRY_GOTO(KAS_CU(cuda, cuEventCreate(&timer->start, KAS_CU_EVENT_BLOCKING_SYNC)), failed);
    KAS_TRY_GOTO(KAS_CU(cuda, cuEventCreate(&timer->stop, KAS_CU_EVENT_BLOCKING_SYNC)), failed);
    *out = timer;
    return KAS_OK;
failed:
    cuda_timer_free(timer);
    return status;
}

static kas_status cuda_timer_start(kas_timer *timer)
{
    kas_cuda *cuda = (kas_cuda *)timer->device;
    KAS_TRY(kas_cuda_enter(cuda));
    return KAS_CU(cuda, cuEventRecord(timer->start, cuda->stream));
}

static kas_status cuda_timer_end(kas_timer *timer)
{
    kas_cuda *cuda = (kas_cuda *)timer->device;
    KAS_TRY(kas_cuda_enter(cuda));
    return KAS_CU(cuda, cuEventRecord(timer->stop, cuda->stream));
}

static kas_status cuda_timer_read(kas_timer *timer, double *seconds)
{
    kas_cuda *cuda = (kas_cuda *)timer->device;
    float milliseconds = 0;
    KAS_TRY(kas_cuda_enter(cuda));
    KAS_TRY(KAS_CU(cuda, cuEventSynchronize(timer->stop)));
    KAS_TRY(KAS_CU(cuda, cuEventElapsedTime(&milliseconds, timer->start, timer->stop)));
    *seconds = (double)milliseconds * 1e-3;
    return KAS_OK;
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* Closes a device, also one that was opened halfway. On a dead context the calls fail, which does
 * not matter any more: the process is about to end. */
static void cuda_close(kas_device *device)
{
    kas_cuda *cuda = (kas_cuda *)device;
    const kas_driver *driver = cuda->driver;
    if (cuda->context) {
        driver->cuCtxSetCurrent(cuda->context);
        if (cuda->stream)
            driver->cuStreamSynchronize(cuda->stream);
        for (int dtype = 0; dtype < KAS_DTYPES; dtype++)
            if (cuda->builtin[dtype])
                kas_cuda_module_free(cuda->builtin[dtype]);
        if (cuda->dnn_handle)
            cuda->dnn->cudnnDestroy(cuda->dnn_handle);
        if (cuda->lt_handle)
            cuda->lt->cublasLtDestroy(cuda->lt_handle);
        if (cuda->workspace)
            driver->cuMemFree_v2(cuda->workspace);
        if (cuda->stream)
            driver->cuStreamDestroy_v2(cuda->stream);
        driver->cuDevicePrimaryCtxRelease_v2(cuda->ordinal);
    }
    if (cuda->allocations)
        kas_debug("%s: closed with %d allocations, %zu bytes, not freed", cuda->base.info.name,
                  cuda->allocations, cuda->bytes);
    kas_compiler_close(cuda->compiler);
    free(cuda->allocation);
    free(cuda);
}

static const kas_backend cuda_backend = {
    .close = cuda_close,
    .mem_alloc = cuda_mem_alloc,
    .mem_free = cuda_mem_free,
    .mem_upload = cuda_mem_upload,
    .mem_download = cuda_mem_download,
    .mem_zero = cuda_mem_zero,
    .mem_download_later = cuda_mem_download_later,
    .host_alloc = kas_cuda_host_alloc,
    .host_free = kas_cuda_host_free,
    .upload_create = kas_cuda_upload_create,
    .upload_free = kas_cuda_upload_free,
    .upload_start = kas_cuda_upload_start,
    .upload_use = kas_cuda_upload_use,
    .upload_done = kas_cuda_upload_done,
    .upload_wait = kas_cuda_upload_wait,
    .module_load = kas_cuda_module_load,
    .module_builtin = kas_cuda_module_builtin,
    .module_free = kas_cuda_module_free,
    .module_function = kas_cuda_module_function,
    .conv_create = kas_cuda_conv_create,
    .conv_free = kas_cuda_conv_free,
    .conv_add_bias = kas_cuda_conv_add_bias,
    .conv_takes_bias = kas_cuda_conv_takes_bias,
    .conv_add_epilogue = kas_cuda_conv_add_epilogue,
    .conv_takes_epilogue = kas_cuda_conv_takes_epilogue,
    .run = kas_cuda_run,
    .forget = kas_cuda_forget,
    .sync = cuda_sync,
    .trim = cuda_trim,
    .timer_create = cuda_timer_create,
    .timer_free = cuda_timer_free,
    .timer_start = cuda_timer_start,
    .timer_end = cuda_timer_end,
    .timer_read = cuda_timer_read,
    .group = &kas_cuda_group,
};

static kas_status find_device(kas_cuda *cuda, int ordinal)
{
    int count = 0, major = 0, minor = 0, multiprocessors = 0, threads = 0;
    kas_device_info *info = &cuda->base.info;
    snprintf(info->name, sizeof info->name, "cuda:%d", ordinal); /* until its name is known */
    KAS_TRY(KAS_CU(cuda, cuDeviceGetCount(&count)));
    if (ordinal < 0 || ordinal >= count)
        return kas_fail(KAS_UNSUPPORTED, "cuda:%d: this machine has %d GPU%s%s", ordinal, count,
                        count == 1 ? "" : "s",
                        getenv("CUDA_VISIBLE_DEVICES") ? " (CUDA_VISIBLE_DEVICES is set)" : "");
    KAS_TRY(KAS_CU(cuda, cuDeviceGet(&cuda->ordinal, ordinal)));
    KAS_TRY(KAS_CU(cuda, cuDeviceGetAttribute(&major, KAS_CU_DEVICE_MAJOR, cuda->ordinal)));
    KAS_TRY(KAS_CU(cuda, cuDeviceGetAttribute(&minor, KAS_CU_DEVICE_MINOR, cuda->ordinal)));
    KAS_TRY(KAS_CU(cuda, cuDeviceGetAttribute(&multiprocessors, KAS_CU_DEVICE_MULTIPROCESSORS,
                                              cuda->ordinal)));
    KAS_TRY(
        KAS_CU(cuda, cuDeviceGetAttribute(&threads, KAS_CU_DEVICE_MAX_THREADS_PER_MULTIPROCESSOR,
                                          cuda->ordinal)));
    KAS_TRY(KAS_CU(cuda, cuDeviceTotalMem_v2(&info->memory, cuda->ordinal)));
    KAS_TRY(KAS_CU(cuda, cuDeviceGetName(info->name, (int)sizeof info->name, cuda->ordinal)));
    info->kind = KAS_DEVICE_CUDA;
    info->blocks = multiprocessors * (threads / KAS_MAX_BLOCK);
    snprintf(info->arch, sizeof info->arch, "sm_%d%d", major, minor);
    return KAS_OK;
}

/* Lets threads sleep while they wait: many items of one worker, each with a thread that spins,
 * would take the cores from compilers and decoders. */
static kas_status wait_asleep(kas_cuda *cuda)
{
    const CUresult result =
        cuda->driver->cuDevicePrimaryCtxSetFlags_v2(cuda->ordinal, KAS_CU_CTX_SCHED_BLOCKING_SYNC);
    if (result == KAS_CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE) /* by another device of this process */
        return KAS_OK;
    return kas_cuda_check(cuda, result, "cuDevicePrimaryCtxSetFlags_v2", __FILE__, __LINE__);
}

/* Returns the largest workspace of one call. Engines in float32 want one as large as their operands: at a
 * batch of 512 some hundred MB. */
static size_t most_workspace(size_t memory)
{
    const size_t least = (size_t)256 << 20, most = (size_t)2 << 30, share = memory / 32;
    return share < least ? least : share > most ? most : share;
}

static kas_status open_context(kas_cuda *cuda)
{
    CUcontext context = NULL;
    KAS_TRY(wait_asleep(cuda));
    KAS_TRY(KAS_CU(cuda, cuDevicePrimaryCtxRetain(&context, cuda->ordinal)));
    cuda->context = context; /* from here on cuda_close releases it */
    KAS_TRY(KAS_CU(cuda, cuCtxSetCurrent(context)));
    KAS_TRY(KAS_CU(cuda, cuStreamCreate(&cuda->stream, KAS_CU_STREAM_NON_BLOCKING)));
    cuda->most_workspace = most_workspace(cuda->base.info.memory);
    cuda->base.info.workspace = cuda->most_workspace;
    return KAS_OK;
}

kas_status kas_device_open_cuda(int ordinal, kas_device **out)
{
    *out = NULL;
    const kas_driver *driver;
    kas_status status;
    KAS_TRY(kas_driver_load(&driver));
    kas_cuda *cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        return kas_fail(KAS_NO_MEMORY, "no memory for a CUDA device");
    cuda->base.backend = &cuda_backend;
    cuda->driver = driver;
    KAS_TRY_GOTO(find_device(cuda, ordinal), failed);
    /* Without NVRTC no kernel can be made: better found here than after an hour. */
    KAS_TRY_GOTO(kas_compiler_open(cuda->base.info.arch, NULL, &cuda->compiler), failed);
    KAS_TRY_GOTO(open_context(cuda), failed);
    kas_debug("cuda:%d: %s, %s, %.1f GB, driver for CUDA %s, %s", ordinal, cuda->base.info.name,
              cuda->base.info.arch, (double)cuda->base.info.memory / 1e9, driver->library.version,
              kas_compiler_describe(cuda->compiler));
    *out = &cuda->base;
    return KAS_OK;
failed:
    cuda_close(&cuda->base);
    return status;
}
