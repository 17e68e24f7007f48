/* A second stream: the two backward passes of a convolution side by side.
 *
 * Neither reads what the other writes, and late layers are too small to fill a GPU.
 * KAS_CUDA_STREAMS=2 switches it on; whether it pays has not been measured, so one stream is the
 * default.
 *
 *     stream   ... record fork | backward data ----------------| wait join ...
 *     side         wait fork   | backward weights | record join
 *
 * The side has a workspace of its own.  Within a capture the same calls make two branches of the
 * graph. */
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda.h"

kas_status kas_cuda_side_open(kas_cuda *cuda)
{
    const char *streams = getenv("KAS_CUDA_STREAMS");
    if (!streams || !*streams || strcmp(streams, "1") == 0)
        return KAS_OK;
    if (strcmp(streams, "2") != 0)
        return kas_fail(KAS_USAGE, "KAS_CUDA_STREAMS=%s: expected 1 or 2", streams);
    kas_cuda_side *side = &cuda->side;
    KAS_TRY(KAS_CU(cuda, cuStreamCreate(&side->stream, KAS_CU_STREAM_NON_BLOCKING)));
    KAS_TRY(KAS_CU(cuda, cuEventCreate(&side->fork, KAS_CU_EVENT_DISABLE_TIMING)));
    return KAS_CU(cuda, cuEventCreate(&side->join, KAS_CU_EVENT_DISABLE_TIMING));
}

void kas_cuda_side_close(kas_cuda *cuda)
{
    kas_cuda_side *side = &cuda->side;
    if (side->stream)
        cuda->driver->cuStreamSynchronize(side->stream);
    if (side->fork)
        cuda->driver->cuEventDestroy_v2(side->fork);
    if (side->join)
        cuda->driver->cuEventDestroy_v2(side->join);
    if (side->workspace)
        cuda->driver->cuMemFree_v2(side->workspace);
    if (side->stream)
        cuda->driver->cuStreamDestroy_v2(side->stream);
}

/* ---- which steps ----------------------------------------------------------------------------- */

static bool apart(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return x + a_bytes <= y || y + b_bytes <= x;
}

/* Returns whether the first two steps are backward weights (and bias), then backward data of one
 * convolution whose outputs touch neither each other nor what the other reads (a planner of memory
 * might lay dx over x). */
bool kas_cuda_may_fork(const kas_cuda *cuda, const kas_step *step, int steps)
{
    if (!cuda->side.stream || steps < 2)
        return false;
    const kas_step *weights = &step[0], *data = &step[1];
    if (weights->kind != KAS_STEP_CONV || data->kind != KAS_STEP_CONV ||
        weights->conv != data->conv || weights->pass != KAS_CONV_BACKWARD_WEIGHTS ||
        data->pass != KAS_CONV_BACKWARD_DATA)
        return false;
    size_t bytes[3]; /* of x, w, y */
    kas_cuda_conv_bytes(weights->conv, bytes);
    return apart(data->x, bytes[0], weights->x, bytes[0]) &&
           apart(data->x, bytes[0], weights->w, bytes[1]) &&
           apart(data->x, bytes[0], weights->y, bytes[2]) &&
           (!weights->bias || apart(data->x, bytes[0], weights->bias, bytes[1])) &&
           apart(weights->w, bytes[1], data->w, bytes[1]) &&
           apart(weights->w, bytes[1], data->y, bytes[2]);
}

/* ---- running --------------------------------------------------------------------------------- */

/* Makes the side's stream and workspace the device's for a while, because everything that enqueues
 * uses the device's. */
static kas_status swap(kas_cuda *cuda)
{
    kas_cuda_side *side = &cuda->side;
    const CUstream stream = cuda->stream;
    const CUdeviceptr workspace = cuda->workspace;
    cuda->stream = side->stream;
    cuda->workspace = side->workspace;
    side->stream = stream;
    side->workspace = workspace;
    return cuda->dnn_handle ? KAS_CUDNN(cuda, cudnnSetStream(cuda->dnn_handle, cuda->stream))
                            : KAS_OK;
}

static kas_status on_the_side(kas_cuda *cuda, const kas_step *weights)
{
    KAS_TRY(kas_cuda_conv_run(weights));
    return KAS_CU(cuda, cuEventRecord(cuda->side.join, cuda->stream));
}

kas_status kas_cuda_run_forked(kas_cuda *cuda, const kas_step *step)
{
    kas_cuda_side *side = &cuda->side;
    KAS_TRY(KAS_CU(cuda, cuEventRecord(side->fork, cuda->stream)));
    KAS_TRY(KAS_CU(cuda, cuStreamWaitEvent(side->stream, side->fork, 0)));
    kas_status status = swap(cuda);
    if (status == KAS_OK)
        status = on_the_side(cuda, &step[0]);
    const kas_status back = swap(cuda);
    KAS_TRY(status);
    KAS_TRY(back);
    KAS_TRY(kas_cuda_conv_run(&step[1]));
    return KAS_CU(cuda, cuStreamWaitEvent(cuda->stream, side->join, 0));
}
