/* NCCL between processes, each with GPUs of its own: shared memory, sums in the order of ranks.
 *
 * An exchange is work on a stream, done when the stream comes to it, and waits there for the other
 * ranks, as a kernel of NCCL does: for ever, unless the communicator is aborted. That another rank
 * has ended shows in ncclCommGetAsyncError alone. It and ncclCommAbort are called while an exchange
 * waits, so they take no lock until that has ended, and do no work of streams.
 *
 * NCCL's communicators that do not block have a thread that puts a call on the stream some time after it
 * was made. Here that is done when the caller asks ncclCommGetAsyncError for the second time; another
 * call before breaks a rule.
 *
 * An exchange that a stream captures becomes part of the graph, and each launch does it anew. Each such
 * replay can be made to fail, as "replayed ncclAllReduce" or "replayed ncclAllGather". It then waits for
 * an abort, and ncclCommGetAsyncError gives the error, except for KAS_NCCL_IN_PROGRESS. Two rules are
 * NCCL's: a communicator that aborts waits until all graphs that have captured it are destroyed, and an
 * exchange is captured by all ranks or by none. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "host/device/shared.h"
#include "sim.h"

enum { SYSTEM_ERROR = 2, INTERNAL_ERROR = 3, INVALID_ARGUMENT = 4, REMOTE_ERROR = 6 };

typedef struct exchange {
    ncclComm_t comm;
    void *to;
    size_t count;
    bool gather, captured;
} exchange;

struct ncclComm {
    kas_shared *shared;
    int device, rank, ranks;
    _Atomic bool aborted, stuck; /* stuck: its last call is under way for ever */
    _Atomic int error;           /* of a call or an exchange: the end of it */
    exchange given;              /* by the last call, made by `caller`, for `stream` */
    CUstream stream;
    pthread_t caller;
    _Atomic bool given_now; /* it is not on the stream yet */
    int asked;              /* since, by its caller */
    ncclComm_t next;        /* of those that were aborted */
};

/* Queued work still points to them, so their memory stays. */
static _Atomic ncclComm_t aborted;

ncclResult_t ncclGetVersion(int *version)
{
    const char *asked = getenv("KAS_SIM_NCCL");
    *version = asked ? atoi(asked) : 22809;
    return KAS_NCCL_SUCCESS;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == REMOTE_ERROR ? "a remote process exited or there was a network error"
           : result               ? "NCCL error of the stand-in"
                                  : "no error";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    SIM_CALL(ncclGetUniqueId, SYSTEM_ERROR, 0);
    return kas_shared_create(id->internal) == KAS_OK ? KAS_NCCL_SUCCESS : SYSTEM_ERROR;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    SIM_CALL(ncclCommInitRankConfig, INTERNAL_ERROR, 0);
    if (!sim_context)
        sim_broken("ncclCommInitRankConfig without a context");
    if (config->magic != 0xcafebeef || config->version != 21400 || config->blocking != 0)
        return INVALID_ARGUMENT;
    ncclComm_t c = sim_new(sizeof *c);
    c->device = sim_context->device;
    c->rank = rank;
    c->ranks = ranks;
    if (kas_shared_join(id.internal, rank, ranks, &c->shared) != KAS_OK) {
        free(c);
        return SYSTEM_ERROR;
    }
    sim_live++;
    *comm = c;
    return KAS_NCCL_IN_PROGRESS;
}

static void do_exchange(void *data);

/* Returns whether the last call is on its stream, and puts it there if it is time. */
static bool is_taken(ncclComm_t comm)
{
    if (!comm->given_now)
        return true;
    if (!pthread_equal(comm->caller, pthread_self()) || comm->asked++ == 0)
        return false;
    SIM_LOCKED();
    exchange *data = sim_new(sizeof *data);
    *data = comm->given;
    data->captured = sim_captures(comm->stream);
    sim_enqueue(comm->stream, do_exchange, data, sizeof *data);
    comm->given_now = false;
    return true;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    const int planted = sim_planted("ncclCommGetAsyncError", REMOTE_ERROR);
    comm->stuck |= planted == KAS_NCCL_IN_PROGRESS;
    *error = comm->stuck                          ? KAS_NCCL_IN_PROGRESS
             : planted                            ? planted
             : comm->error                        ? comm->error
             : !kas_shared_complete(comm->shared) ? KAS_NCCL_IN_PROGRESS
             : !is_taken(comm)                    ? KAS_NCCL_IN_PROGRESS
             : kas_shared_look(comm->shared) >= 0 ? REMOTE_ERROR
                                                  : KAS_NCCL_SUCCESS;
    return KAS_NCCL_SUCCESS;
}

static bool is_captured(ncclComm_t comm)
{
    SIM_LOCKED();
    return sim_in_a_graph(do_exchange, comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    comm->aborted = true;
    kas_shared_abort(comm->shared);
    while (is_captured(comm))
        usleep(1000);
    comm->next = atomic_exchange(&aborted, comm);
    atomic_fetch_sub((_Atomic int *)&sim_live, 1);
    return KAS_NCCL_SUCCESS;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    SIM_LOCKED();
    if (is_captured(comm))
        sim_broken("ncclCommDestroy waits for ever for a graph that has captured an exchange");
    kas_shared_leave(comm->shared);
    free(comm);
    sim_live--;
    return sim_call("ncclCommDestroy", INTERNAL_ERROR, 0);
}

/* Returns whether a replayed exchange was made to fail. */
static bool has_failed(const exchange *e)
{
    const int planted =
        e->captured ? sim_planted(e->gather ? "replayed ncclAllGather" : "replayed ncclAllReduce",
                                  REMOTE_ERROR)
                    : 0;
    if (!planted)
        return false;
    if (planted != KAS_NCCL_IN_PROGRESS)
        e->comm->error = planted;
    return true;
}

static bool are_alike(const exchange *e)
{
    char captured[KAS_SHARED_RANKS];
    captured[e->comm->rank] = e->captured;
    if (!kas_shared_gather(e->comm->shared, captured, 1))
        return false;
    for (int rank = 0; rank < e->comm->ranks; rank++)
        if (captured[rank] != e->captured)
            sim_broken("an exchange is captured by one of ranks %d and %d", e->comm->rank, rank);
    return true;
}

static void do_exchange(void *data)
{
    const exchange *e = data;
    ncclComm_t c = e->comm;
    sim_check_range("an exchange's memory", c->device, e->to,
                    e->gather ? e->count * (size_t)c->ranks : e->count * sizeof(float));
    const bool done = !c->aborted && !has_failed(e) && are_alike(e) &&
                      (e->gather ? kas_shared_gather(c->shared, e->to, e->count)
                                 : kas_shared_mean(c->shared, e->to, e->count));
    while (!done && !c->aborted) /* that another rank aborts ends nothing here */
        usleep(1000);
}

/* An error of a call is the end of its communicator, which does not block. */
static ncclResult_t begin(const char *name, ncclComm_t comm, cudaStream_t stream, exchange e)
{
    SIM_LOCKED();
    const int code = sim_call(name, INTERNAL_ERROR, 0);
    if (code) { /* the thread that watches the group asks meanwhile, and may be the first to know */
        usleep(60000);
        comm->error = code;
    }
    if (comm->error)
        return comm->error;
    if (comm->aborted)
        sim_broken("an exchange of an aborted communicator");
    if (sim_stream_device((CUstream)stream) != comm->device)
        return INVALID_ARGUMENT;
    if (comm->given_now)
        sim_broken("%s while the call before is under way", name);
    comm->given = e;
    comm->stream = (CUstream)stream;
    comm->caller = pthread_self();
    comm->asked = 0;
    comm->given_now = true;
    return KAS_NCCL_IN_PROGRESS;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    if (from != to || type != KAS_NCCL_FLOAT32 || op != KAS_NCCL_AVG)
        return INVALID_ARGUMENT;
    return begin("ncclAllReduce", comm, stream, (exchange){.comm = comm, .to = to, .count = count});
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    if (from != (char *)to + (size_t)comm->rank * count || type != KAS_NCCL_INT8)
        return INVALID_ARGUMENT;
    return begin("ncclAllGather", comm, stream,
                 (exchange){.comm = comm, .to = to, .count = count, .gather = true});
}
