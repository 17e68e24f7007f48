/* Uploads beside the work: a second stream, and two events for each slot of the ring.
 *
 * `copied` orders the work behind the copy, `read` the next copy behind the work.  An event that
 * was never recorded holds nobody up, so the first use of a slot needs no special case. */
#include <stdlib.h>

#include "cuda/cuda.h"
#include "host/core/log.h"

typedef struct slot {
    CUevent copied, read;
} slot;

typedef struct cuda_upload {
    kas_upload base;
    CUstream stream;
    slot slot[];
} cuda_upload;

static kas_cuda *cuda_of(const kas_upload *upload)
{
    return (kas_cuda *)upload->device;
}

kas_status kas_cuda_host_alloc(kas_device *device, size_t bytes, void **out)
{
    kas_cuda *cuda = (kas_cuda *)device;
    KAS_TRY(kas_cuda_enter(cuda));
    return KAS_CU(cuda, cuMemHostAlloc(out, bytes ? bytes : 1, 0));
}

void kas_cuda_host_free(kas_device *device, void *memory)
{
    kas_cuda *cuda = (kas_cuda *)device;
    if (kas_cuda_wait_to_free(cuda) && KAS_CU(cuda, cuMemFreeHost(memory)) != KAS_OK)
        kas_warn("freeing page-locked memory: %s", kas_error());
}

/* Frees a ring, also one that was made halfway. */
void kas_cuda_upload_free(kas_upload *upload)
{
    cuda_upload *u = (cuda_upload *)upload;
    kas_cuda *cuda = cuda_of(upload);
    if (kas_cuda_enter_to_free(cuda)) {
        if (u->stream && KAS_CU(cuda, cuStreamSynchronize(u->stream)) != KAS_OK)
            kas_warn("ending uploads: %s", kas_error());
        for (int i = 0; i < u->base.slots; i++) {
            if (u->slot[i].copied)
                cuda->driver->cuEventDestroy_v2(u->slot[i].copied);
            if (u->slot[i].read)
                cuda->driver->cuEventDestroy_v2(u->slot[i].read);
        }
        if (u->stream)
            cuda->driver->cuStreamDestroy_v2(u->stream);
    }
    free(u);
}

kas_status kas_cuda_upload_create(kas_device *device, int slots, kas_upload **out)
{
    kas_cuda *cuda = (kas_cuda *)device;
    kas_status status;
    KAS_TRY(kas_cuda_enter(cuda));
    cuda_upload *u = calloc(1, sizeof *u + (size_t)slots * sizeof *u->slot);
    if (!u)
        return kas_fail(KAS_NO_MEMORY, "no memory for a ring of uploads");
    u->base = (kas_upload){device, slots};
    KAS_TRY_GOTO(KAS_CU(cuda, cuStreamCreate(&u->stream, KAS_CU_STREAM_NON_BLOCKING)), failed);
    for (int i = 0; i < slots; i++) {
        KAS_TRY_GOTO(KAS_CU(cuda, cuEventCreate(&u->slot[i].copied, KAS_CU_EVENT_BLOCKING_SYNC)),
                     failed);
        KAS_TRY_GOTO(KAS_CU(cuda, cuEventCreate(&u->slot[i].read, KAS_CU_EVENT_BLOCKING_SYNC)),
                     failed);
    }
    *out = &u->base;
    return KAS_OK;
failed:
    kas_cuda_upload_free(&u->base);
    return status;
}

kas_status kas_cuda_upload_start(kas_upload *upload, int slot, void *to, const void *from,
                                 size_t bytes)
{
    cuda_upload *u = (cuda_upload *)upload;
    kas_cuda *cuda = cuda_of(upload);
    KAS_TRY(kas_cuda_enter(cuda));
    KAS_TRY(KAS_CU(cuda, cuStreamWaitEvent(u->stream, u->slot[slot].read, 0)));
    if (bytes)
        KAS_TRY(
            KAS_CU(cuda, cuMemcpyHtoDAsync_v2((CUdeviceptr)(uintptr_t)to, from, bytes, u->stream)));
    return KAS_CU(cuda, cuEventRecord(u->slot[slot].copied, u->stream));
}

kas_status kas_cuda_upload_use(kas_upload *upload, int slot)
{
    kas_cuda *cuda = cuda_of(upload);
    KAS_TRY(kas_cuda_enter(cuda));
    return KAS_CU(cuda,
                  cuStreamWaitEvent(cuda->stream, ((cuda_upload *)upload)->slot[slot].copied, 0));
}

kas_status kas_cuda_upload_done(kas_upload *upload, int slot)
{
    kas_cuda *cuda = cuda_of(upload);
    KAS_TRY(kas_cuda_enter(cuda));
    return KAS_CU(cuda, cuEventRecord(((cuda_upload *)upload)->slot[slot].read, cuda->stream));
}

kas_status kas_cuda_upload_wait(kas_upload *upload, int slot)
{
    kas_cuda *cuda = cuda_of(upload);
    KAS_TRY(kas_cuda_enter(cuda));
    return KAS_CU(cuda, cuEventSynchronize(((cuda_upload *)upload)->slot[slot].copied));
}
