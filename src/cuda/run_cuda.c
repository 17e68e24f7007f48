/* Plans: recorded operations, put on the stream one after the other.  Running one makes no
 * allocation and waits for nothing, so that it can be captured as a graph. */
#include "cuda/cuda.h"

static kas_status run_step(kas_cuda *cuda, const kas_step *step)
{
    const CUdeviceptr to = (CUdeviceptr)(uintptr_t)step->to,
                      from = (CUdeviceptr)(uintptr_t)step->from;
    switch (step->kind) {
    case KAS_STEP_LAUNCH:
        return kas_cuda_launch(cuda, step->function, step->grid, step->block, step->args);
    case KAS_STEP_CONV:
        return kas_cuda_conv_run(step->conv, step->pass, step->x, step->w, step->y);
    case KAS_STEP_ZERO:
        return step->bytes ? KAS_CU(cuda, cuMemsetD8Async(to, 0, step->bytes, cuda->stream))
                           : KAS_OK;
    case KAS_STEP_COPY:
        return step->bytes ? KAS_CU(cuda, cuMemcpyDtoDAsync_v2(to, from, step->bytes, cuda->stream))
                           : KAS_OK;
    }
    return KAS_OK;
}

kas_status kas_cuda_run(kas_device *device, const kas_step *step, int steps)
{
    kas_cuda *cuda = (kas_cuda *)device;
    KAS_TRY(kas_cuda_enter(cuda));
    for (int i = 0; i < steps; i++) {
        kas_status status = run_step(cuda, &step[i]);
        if (status != KAS_OK)
            return kas_fail_context(status, "step %d of a plan of %d", i, steps);
    }
    return KAS_OK;
}
