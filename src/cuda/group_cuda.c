/* Groups on the CUDA device: a communicator of NCCL and a stream of its own.
 *
 *     stream   ... record ready |  backward of earlier layers  | wait done | optimiser
 *     NCCL         wait ready   |  all-reduce of a bucket ...  | record done
 *
 * NCCL is told to use rings, its simple protocol and no sums in switches: then the order of a sum
 * follows from the number of ranks and their places, and two runs have the same bits. Whoever sets
 * NCCL_ALGO, NCCL_PROTO or NCCL_NVLS_ENABLE decides instead.
 *
 * The communicator does not block: a rank that never comes ends in a timeout and not in a hang. The
 * lock of the group keeps the watcher from freeing the communicator under a call.
 *
 * The same calls can be captured (run_cuda.c): the two events then make a branch of the graph. Other
 * exchanges are made while such a graph runs, which is NCCL's graph mixing, and NCCL frees a
 * communicator only behind the graphs that have captured it. It would map the memory of captured
 * exchanges into other ranks, and unmap it some time after the graph is gone; NCCL_GRAPH_REGISTER=0
 * leaves the memory and the kernels those of other exchanges. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda/cuda.h"
#include "host/core/clock.h"
#include "host/core/log.h"
#include "host/device/group_impl.h"

_Static_assert(sizeof(ncclUniqueId) == KAS_GROUP_ID, "NCCL's id");

typedef struct link {
    const kas_nccl *nccl;
    ncclComm_t comm; /* NULL: none yet, or aborted */
    CUstream stream;
    CUevent ready, done;
} link_t;

static kas_status check(const kas_nccl *nccl, ncclResult_t result, const char *call)
{
    if (result == KAS_NCCL_SUCCESS || result == KAS_NCCL_IN_PROGRESS)
        return KAS_OK;
    return kas_fail(KAS_DEVICE, "%s: %s (NCCL %s, error %d)", call,
                    nccl->ncclGetErrorString(result), nccl->library.version, (int)result);
}
#define KAS_NCCL(nccl, call) check((nccl), (nccl)->call, #call)

/* The last one is for captured exchanges alone. */
static const char *const fixed[][2] = {{"NCCL_ALGO", "Ring"},
                                       {"NCCL_PROTO", "Simple"},
                                       {"NCCL_NVLS_ENABLE", "0"},
                                       {"NCCL_GRAPH_REGISTER", "0"}};
enum { FIXED = sizeof fixed / sizeof *fixed };

static void describe(const kas_nccl *nccl, bool capture, char *out, size_t size)
{
    int used = snprintf(out, size, "NCCL %s with ", nccl->library.version);
    for (int i = 0; i < FIXED - !capture && used < (int)size; i++)
        used += snprintf(out + used, size - (size_t)used, "%s%s=%s", i ? ", " : "", fixed[i][0],
                         getenv(fixed[i][0]));
}

/* NCCL captures since 2.9. Its 2.16.5 mended a crash in ncclCommAbort, by which a graph that hangs
 * must end. */
static bool can_capture(const kas_group *g, const kas_nccl *nccl)
{
    const char *mixing = getenv("NCCL_GRAPH_MIXING_SUPPORT");
    int version = 0;
    nccl->ncclGetVersion(&version);
    if (version >= 21605 && (!mixing || strcmp(mixing, "0") != 0))
        return true;
    if (g->rank == 0)
        kas_warn("exchanges are not captured, and lie between graphs: %s",
                 version < 21605 ? "this needs NCCL 2.16.5" : "NCCL_GRAPH_MIXING_SUPPORT is 0");
    return false;
}

static kas_status load(const kas_nccl **nccl)
{
    for (int i = 0; i < FIXED; i++)
        KAS_CHECK_LIBC(setenv(fixed[i][0], fixed[i][1], 0) == 0, KAS_MACHINE);
    return kas_nccl_load(nccl);
}

static kas_status draw_id(kas_device *device, char id[KAS_GROUP_ID])
{
    const kas_nccl *nccl;
    ncclUniqueId unique;
    KAS_TRY(load(&nccl));
    KAS_TRY(kas_cuda_enter((kas_cuda *)device));
    KAS_TRY(KAS_NCCL(nccl, ncclGetUniqueId(&unique)));
    memcpy(id, &unique, sizeof unique);
    return KAS_OK;
}

static kas_status join(kas_group *g, const char id[KAS_GROUP_ID])
{
    kas_cuda *cuda = (kas_cuda *)g->device;
    ncclUniqueId unique;
    /* The oldest form of the struct, which every version since reads. */
    ncclConfig_t config = {.size = offsetof(ncclConfig_t, blocking) + 2 * sizeof(int),
                           .magic = 0xcafebeef,
                           .version = 21400,
                           .blocking = 0};
    link_t *l = g->link = calloc(1, sizeof *l);
    if (!l)
        return kas_fail(KAS_NO_MEMORY, "no memory for a communicator");
    KAS_TRY(load(&l->nccl));
    g->capture = g->capture && can_capture(g, l->nccl);
    describe(l->nccl, g->capture, g->settings, sizeof g->settings);
    KAS_TRY(kas_cuda_enter(cuda));
    KAS_TRY(KAS_CU(cuda, cuStreamCreate(&l->stream, KAS_CU_STREAM_NON_BLOCKING)));
    cuda->exchanges = l->stream;
    KAS_TRY(KAS_CU(cuda, cuEventCreate(&l->ready, KAS_CU_EVENT_DISABLE_TIMING)));
    KAS_TRY(KAS_CU(cuda, cuEventCreate(&l->done, KAS_CU_EVENT_DISABLE_TIMING)));
    memcpy(&unique, id, sizeof unique);
    return KAS_NCCL(l->nccl, ncclCommInitRankConfig(&l->comm, g->ranks, unique, g->rank, &config));
}

static kas_status poll(kas_group *g, bool *joined)
{
    link_t *l = g->link;
    ncclResult_t error = KAS_NCCL_SUCCESS;
    kas_status status = KAS_OK;
    pthread_mutex_lock(&g->lock);
    if (l->comm) /* otherwise nothing is under way: the group has ended */
        status = KAS_NCCL(l->nccl, ncclCommGetAsyncError(l->comm, &error));
    pthread_mutex_unlock(&g->lock);
    *joined = error == KAS_NCCL_SUCCESS;
    return status == KAS_OK ? check(l->nccl, error, "another rank, or the way to it") : status;
}

/* NCCL ends what runs at once, and then waits until the graphs that have captured exchanges are freed
 * (kas_cuda_forget). A context that is dead frees no graph; its process ends anyway. */
static void abort_exchanges(kas_group *g)
{
    const kas_cuda *cuda = (const kas_cuda *)g->device;
    link_t *l = g->link;
    pthread_mutex_lock(&g->lock);
    const ncclComm_t comm = l->comm;
    l->comm = NULL;
    pthread_mutex_unlock(&g->lock);
    if (comm && !cuda->lost)
        l->nccl->ncclCommAbort(comm);
}

static void leave(kas_group *g)
{
    kas_cuda *cuda = (kas_cuda *)g->device;
    link_t *l = g->link;
    cuda->exchanges = NULL;
    if (kas_cuda_enter_to_free(cuda)) {
        if (l->stream)
            cuda->driver->cuStreamSynchronize(l->stream);
        if (l->comm && KAS_NCCL(l->nccl, ncclCommDestroy(l->comm)) != KAS_OK)
            kas_warn("rank %d of %d leaves the group: %s", g->rank, g->ranks, kas_error());
        if (l->ready)
            cuda->driver->cuEventDestroy_v2(l->ready);
        if (l->done)
            cuda->driver->cuEventDestroy_v2(l->done);
        if (l->stream)
            cuda->driver->cuStreamDestroy_v2(l->stream);
    }
    free(l);
}

const kas_group_backend kas_cuda_group = {draw_id, join, poll, abort_exchanges, leave};

/* ---- exchanges ------------------------------------------------------------------------------- */

static kas_status call(const kas_group *g, const kas_step *step)
{
    const link_t *l = g->link;
    char *to = step->to;
    if (step->kind == KAS_STEP_MEAN)
        return KAS_NCCL(l->nccl,
                        ncclAllReduce(to, to, step->bytes / sizeof(float), KAS_NCCL_FLOAT32,
                                      KAS_NCCL_AVG, l->comm, (cudaStream_t)l->stream));
    return KAS_NCCL(l->nccl, ncclAllGather(to + (size_t)g->rank * step->bytes, to, step->bytes,
                                           KAS_NCCL_INT8, l->comm, (cudaStream_t)l->stream));
}

/* Makes the call behind what the stream has so far. The lock is held. A call of NCCL that fails ends
 * the group here, before the thread that watches it finds the failure without knowing which call it
 * was; other failures may be those of a capture, which is given up. */
static kas_status enqueue(kas_cuda *cuda, const kas_step *step)
{
    kas_group *g = step->group;
    link_t *l = g->link;
    if (!l->comm)
        return kas_fail(KAS_DEVICE, "the group has ended");
    KAS_TRY(KAS_CU(cuda, cuEventRecord(l->ready, cuda->stream)));
    KAS_TRY(KAS_CU(cuda, cuStreamWaitEvent(l->stream, l->ready, 0)));
    const kas_status status = call(g, step);
    if (status != KAS_OK)
        kas_group_fail_locked(g);
    return status;
}

/* Waits until NCCL has taken a call: a communicator that does not block allows no other call before.
 * That takes a thread of NCCL's some microseconds, and a step has ten such calls and more, so it sleeps
 * only where it takes longer. While it waits for ranks that do not come, the watcher must be able to
 * take the lock and abort. */
static kas_status await_taken(kas_group *g)
{
    const struct timespec pause = {0, 100000};
    const double sleepy = kas_monotonic() + 100e-6;
    for (bool taken = false;;) {
        KAS_TRY(poll(g, &taken));
        if (taken)
            return kas_group_check(g);
        if (kas_monotonic() < sleepy)
            sched_yield();
        else
            nanosleep(&pause, NULL);
    }
}

kas_status kas_cuda_exchange(kas_cuda *cuda, const kas_step *step)
{
    kas_group *g = step->group;
    link_t *l = g->link;
    if (step->kind == KAS_STEP_JOIN) {
        KAS_TRY(KAS_CU(cuda, cuEventRecord(l->done, l->stream)));
        return KAS_CU(cuda, cuStreamWaitEvent(cuda->stream, l->done, 0));
    }
    KAS_TRY(kas_group_check(g));
    pthread_mutex_lock(&g->lock);
    kas_status status = enqueue(cuda, step);
    pthread_mutex_unlock(&g->lock);
    if (status == KAS_OK)
        status = await_taken(g);
    const kas_status failed = status == KAS_OK ? KAS_OK : kas_group_check(g);
    return failed != KAS_OK ? failed : status;
}
