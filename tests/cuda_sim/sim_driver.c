/* The driver's functions except those of streams and events. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"
#include "sim_ptx.h"

enum { DRIVER_VERSION = 13000, BLOCK_MAX = 256 /* the prelude's KAS_BLOCK_MAX */ };

static struct CUctx_st contexts[SIM_MAX_DEVICES];
static pid_t initialised; /* the process that did; its children cannot use the driver */

void sim_driver_reset(void)
{
    if (initialised != getpid())
        initialised = 0;
}

/* ---- devices and contexts -------------------------------------------------------------------- */

static int device_count(void)
{
    const char *text = getenv("KAS_SIM_DEVICES");
    int count = text ? atoi(text) : 1;
    return count < 0 ? 0 : count > SIM_MAX_DEVICES ? SIM_MAX_DEVICES : count;
}

CUresult cuInit(unsigned flags)
{
    SIM_CALL(cuInit, KAS_CUDA_ERROR_UNKNOWN, 0);
    if (flags != 0)
        return KAS_CUDA_ERROR_INVALID_VALUE;
    if (device_count() == 0)
        return KAS_CUDA_ERROR_NO_DEVICE;
    if (initialised && initialised != getpid())
        return KAS_CUDA_ERROR_NOT_INITIALIZED;
    initialised = getpid();
    return KAS_CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    SIM_CALL(cuDriverGetVersion, KAS_CUDA_ERROR_INVALID_VALUE, 0);
    *version = DRIVER_VERSION;
    return KAS_CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
    (void)error;
    *name = "CUDA_ERROR_OF_THE_STAND_IN";
    return KAS_CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    switch (error) {
    case KAS_CUDA_ERROR_OUT_OF_MEMORY:
        *text = "out of memory";
        break;
    case KAS_CUDA_ERROR_NO_DEVICE:
        *text = "no CUDA-capable device is detected";
        break;
    case KAS_CUDA_ERROR_ILLEGAL_ADDRESS:
        *text = "an illegal memory access was encountered";
        break;
    case KAS_CUDA_ERROR_NOT_FOUND:
        *text = "named symbol not found";
        break;
    default:
        *text = "an error that the stand-in was told to make";
    }
    return KAS_CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    SIM_CALL(cuDeviceGetCount, KAS_CUDA_ERROR_INVALID_VALUE, 0);
    if (initialised != getpid())
        return KAS_CUDA_ERROR_NOT_INITIALIZED;
    *count = device_count();
    return KAS_CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    SIM_CALL(cuDeviceGet, KAS_CUDA_ERROR_INVALID_DEVICE, 0);
    if (ordinal < 0 || ordinal >= device_count())
        return KAS_CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return KAS_CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    SIM_CALL(cuDeviceGetName, KAS_CUDA_ERROR_INVALID_DEVICE, 0);
    (void)device;
    snprintf(name, (size_t)size, "simulated GPU");
    return KAS_CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    SIM_CALL(cuDeviceGetAttribute, KAS_CUDA_ERROR_INVALID_VALUE, 0);
    (void)device;
    switch (attribute) {
    case KAS_CU_DEVICE_MAJOR:
        *value = 9;
        return KAS_CUDA_SUCCESS;
    case KAS_CU_DEVICE_MINOR:
        *value = 0;
        return KAS_CUDA_SUCCESS;
    case KAS_CU_DEVICE_MULTIPROCESSORS:
        *value = 2;
        return KAS_CUDA_SUCCESS;
    case KAS_CU_DEVICE_MAX_THREADS_PER_MULTIPROCESSOR:
        *value = 2048;
        return KAS_CUDA_SUCCESS;
    default:
        return KAS_CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    SIM_CALL(cuDeviceTotalMem_v2, KAS_CUDA_ERROR_INVALID_DEVICE, 0);
    (void)device;
    *bytes = sim_capacity();
    return KAS_CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    SIM_LOCKED();
    contexts[device].flags = flags;
    return sim_call("cuDevicePrimaryCtxSetFlags_v2", KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    SIM_CALL(cuDevicePrimaryCtxRetain, KAS_CUDA_ERROR_OUT_OF_MEMORY, sim_sticky);
    if (contexts[device].flags != KAS_CU_CTX_SCHED_BLOCKING_SYNC)
        sim_broken("threads that wait for device %d would spin", device);
    contexts[device].device = device;
    contexts[device].references++;
    sim_live++;
    *context = &contexts[device];
    return KAS_CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    SIM_LOCKED();
    if (contexts[device].references < 1)
        sim_broken("the context of device %d is released more often than retained", device);
    contexts[device].references--;
    sim_live--;
    return sim_call("cuDevicePrimaryCtxRelease_v2", KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    SIM_CALL(cuCtxSetCurrent, KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
    if (context && context->references < 1)
        sim_broken("a released context is made current");
    sim_context = context;
    return KAS_CUDA_SUCCESS;
}

/* ---- memory ---------------------------------------------------------------------------------- */

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    SIM_CALL(cuMemAlloc_v2, KAS_CUDA_ERROR_OUT_OF_MEMORY, sim_sticky);
    SIM_NOT_IN_CAPTURE();
    void *memory = NULL;
    if (!sim_context)
        return KAS_CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_alloc(sim_context->device, bytes, &memory);
    *pointer = (CUdeviceptr)(uintptr_t)memory;
    return result;
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    SIM_LOCKED();
    if (!sim_free((void *)(uintptr_t)pointer))
        sim_broken("cuMemFree: %p is not the start of a live allocation",
                   (void *)(uintptr_t)pointer);
    return sim_call("cuMemFree_v2", KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
}

/* Page-locked memory of the host. Copies read and write it late, as all memory here; copies with
 * other memory make the host wait on a GPU. */
typedef struct locked {
    struct locked *next;
    char *memory;
    size_t bytes;
} locked;
static locked *first_locked;

static void count_wait_for_copy(const void *host, size_t bytes)
{
    for (const locked *l = first_locked; l; l = l->next)
        if ((const char *)host >= l->memory && (const char *)host + bytes <= l->memory + l->bytes)
            return;
    sim_waits++;
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    SIM_CALL(cuMemHostAlloc, KAS_CUDA_ERROR_OUT_OF_MEMORY, sim_sticky);
    if (!sim_context || flags != 0 || bytes == 0)
        return KAS_CUDA_ERROR_INVALID_VALUE;
    locked *l = sim_new(sizeof *l);
    *l = (locked){first_locked, sim_new(bytes), bytes};
    first_locked = l;
    *pointer = l->memory;
    sim_live++;
    return KAS_CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *pointer)
{
    SIM_LOCKED();
    locked **link = &first_locked;
    while (*link && (*link)->memory != pointer)
        link = &(*link)->next;
    if (!*link)
        sim_broken("cuMemFreeHost: %p is not page-locked memory", pointer);
    locked *l = *link;
    *link = l->next;
    free(l->memory);
    free(l);
    sim_live--;
    return sim_call("cuMemFreeHost", KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
}

CUresult cuMemGetInfo_v2(size_t *unused, size_t *total)
{
    SIM_CALL(cuMemGetInfo_v2, KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
    *total = sim_capacity();
    *unused = *total - sim_used(sim_context->device);
    return KAS_CUDA_SUCCESS;
}

/* A copy or, without `from`, a fill. Ranges are checked when the work is done, too: the memory may
 * have been freed in between. */
typedef struct transfer {
    void *to;
    const void *from;
    size_t bytes;
    int device, value;
    bool to_device, from_device;
} transfer;

static void check_transfer(const transfer *t)
{
    if (t->to_device)
        sim_check_range("a copy's or fill's target", t->device, t->to, t->bytes);
    if (t->from_device)
        sim_check_range("a copy's source", t->device, t->from, t->bytes);
}

static void do_transfer(void *data)
{
    const transfer *t = data;
    check_transfer(t);
    if (t->from)
        memmove(t->to, t->from, t->bytes);
    else
        memset(t->to, t->value, t->bytes);
    if (t->to_device && t->from_device && sim_ptx())
        ptx_region_copied(t->to, t->from, t->bytes);
    else if (t->to_device)
        sim_wrote(t->to, t->bytes);
}

static CUresult queue_transfer(transfer t, CUstream stream)
{
    t.device = sim_stream_device(stream);
    check_transfer(&t);
    transfer *copy = sim_new(sizeof *copy);
    *copy = t;
    sim_enqueue(stream, do_transfer, copy, sizeof *copy);
    return KAS_CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    SIM_CALL(cuMemcpyHtoDAsync_v2, KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
    count_wait_for_copy(from, bytes);
    return queue_transfer(
        (transfer){.to = (void *)(uintptr_t)to, .from = from, .bytes = bytes, .to_device = true},
        stream);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    SIM_CALL(cuMemcpyDtoHAsync_v2, KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
    count_wait_for_copy(to, bytes);
    return queue_transfer(
        (transfer){.to = to, .from = (void *)(uintptr_t)from, .bytes = bytes, .from_device = true},
        stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    SIM_CALL(cuMemcpyDtoDAsync_v2, KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
    return queue_transfer((transfer){.to = (void *)(uintptr_t)to,
                                     .from = (void *)(uintptr_t)from,
                                     .bytes = bytes,
                                     .to_device = true,
                                     .from_device = true},
                          stream);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    SIM_CALL(cuMemsetD8Async, KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
    return queue_transfer(
        (transfer){.to = (void *)(uintptr_t)to, .bytes = count, .value = value, .to_device = true},
        stream);
}

/* ---- modules and launches -------------------------------------------------------------------- */

struct CUfunc_st {
    CUfunction next;
    char name[64];
    void (*run)(const void *args, const unsigned *grid, unsigned first, unsigned last,
                const unsigned *order);
    size_t args_size;
    int *block_x;      /* the image's variable, see sim_nvrtc.c */
    ptx_function *ptx; /* instead of run */
};
struct CUmod_st {
    void *handle; /* NULL where there is PTX */
    ptx_module *ptx;
    CUfunction first;
    int device;
};

/* Loads an image: dlopen needs a file, with a name that it has not seen. */
static void *open_image(const void *bytes, size_t size)
{
    char path[] = "/tmp/kas-cuda-sim-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
        sim_broken("cannot write %s", path);
    close(fd);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        fprintf(stderr, "cuda_sim: %s\n", dlerror());
    unlink(path);
    return handle;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    SIM_CALL(cuModuleLoadData, KAS_CUDA_ERROR_INVALID_IMAGE, sim_sticky);
    SIM_NOT_IN_CAPTURE();
    uint64_t size;
    if (memcmp(image, sim_image_magic, sizeof sim_image_magic) != 0)
        return KAS_CUDA_ERROR_INVALID_IMAGE;
    memcpy(&size, (const char *)image + 8, sizeof size);
    ptx_module *ptx = sim_ptx() ? sim_ptx_load((const char *)image + 16) : NULL;
    void *handle = ptx ? NULL : open_image((const char *)image + 16, size);
    if (!ptx && !handle)
        return KAS_CUDA_ERROR_INVALID_IMAGE;
    *module = sim_new(sizeof **module);
    (*module)->handle = handle;
    (*module)->ptx = ptx;
    (*module)->device = sim_context->device;
    sim_live++;
    return KAS_CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    SIM_LOCKED();
    sim_drain(NULL);
    for (CUfunction f = module->first; f;) {
        CUfunction next = f->next;
        free(f);
        f = next;
    }
    if (module->ptx)
        sim_ptx_unload(module->ptx);
    else
        dlclose(module->handle);
    free(module);
    sim_live--;
    return sim_call("cuModuleUnload", KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
}

static bool find_ptx(CUmodule module, CUfunction f)
{
    f->ptx = sim_ptx_find(module->ptx, f->name);
    f->args_size = f->ptx ? ptx_args_size(f->ptx) : 0;
    return f->ptx;
}

static bool find_built(CUmodule module, CUfunction f)
{
    char size_name[96];
    snprintf(size_name, sizeof size_name, "%s_args_size", f->name);
    const size_t *size = dlsym(module->handle, size_name);
    *(void **)&f->run = dlsym(module->handle, f->name);
    f->block_x = dlsym(module->handle, "kas_sim_block_x");
    f->args_size = size ? *size : 0;
    return f->run && size;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    SIM_CALL(cuModuleGetFunction, KAS_CUDA_ERROR_NOT_FOUND, sim_sticky);
    CUfunction f = sim_new(sizeof *f);
    snprintf(f->name, sizeof f->name, "%s", name);
    if (!(module->ptx ? find_ptx(module, f) : find_built(module, f))) {
        free(f);
        return KAS_CUDA_ERROR_NOT_FOUND;
    }
    f->next = module->first;
    module->first = f;
    *function = f;
    return KAS_CUDA_SUCCESS;
}

typedef struct launch {
    CUfunction function;
    unsigned grid[3], block[3];
    unsigned char args[];
} launch;

static void do_launch(void *data)
{
    const launch *l = data;
    sim_launches++;
    if (l->function->ptx) {
        sim_ptx_launch(l->function->ptx, l->grid, l->block, l->args);
        return;
    }
    const unsigned total = l->grid[0] * l->grid[1] * l->grid[2];
    unsigned *order = sim_new(total * sizeof *order);
    for (unsigned i = 0; i < total; i++) { /* a random permutation */
        unsigned j = sim_random(i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    *l->function->block_x = (int)l->block[0];
    l->function->run(l->args, l->grid, 0, total, order);
    if (*l->function->block_x < 0)
        sim_broken("%s: KAS_THREADS asks for more threads than the block's %u in x",
                   l->function->name, l->block[0]);
    free(order);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void **params, void **extra)
{
    SIM_CALL(cuLaunchKernel, KAS_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, sim_sticky);
    const uint64_t threads = (uint64_t)block_x * block_y * block_z;
    if (threads == 0 || !grid_x || !grid_y || !grid_z || grid_x > INT32_MAX || grid_y > 65535 ||
        grid_z > 65535 || block_z > 64 || extra || shared_bytes)
        return KAS_CUDA_ERROR_INVALID_VALUE;
    if (threads > BLOCK_MAX)
        return KAS_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    launch *l = sim_new(sizeof *l + function->args_size);
    l->function = function;
    l->grid[0] = grid_x, l->grid[1] = grid_y, l->grid[2] = grid_z;
    l->block[0] = block_x, l->block[1] = block_y, l->block[2] = block_z;
    if (function->args_size)
        memcpy(l->args, params[0], function->args_size);
    sim_enqueue(stream, do_launch, l, sizeof *l + function->args_size);
    return KAS_CUDA_SUCCESS;
}
