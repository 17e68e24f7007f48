/* Plans: recorded operations, put on the stream one after the other.  Running one makes no
 * allocation and waits for nothing, so that it can be captured as a graph. */
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda.h"

typedef struct kas_step {
    enum { STEP_LAUNCH, STEP_CONV, STEP_ZERO, STEP_COPY } kind;
    const kas_function *function; /* LAUNCH */
    unsigned grid[3], block[3];
    void *args; /* owned */
    kas_conv *conv;
    kas_conv_pass pass;
    void *x, *w, *y; /* CONV; ZERO: x; COPY: x from w */
    size_t bytes;
} kas_step;

struct kas_plan {
    kas_device *device;
    kas_step *step;
    int steps, capacity;
};

kas_status kas_cuda_plan_create(kas_device *device, kas_plan **out)
{
    kas_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return kas_fail(KAS_NO_MEMORY, "no memory for a plan");
    plan->device = device;
    *out = plan;
    return KAS_OK;
}

void kas_cuda_plan_free(kas_plan *plan)
{
    for (int i = 0; i < plan->steps; i++)
        free(plan->step[i].args);
    free(plan->step);
    free(plan);
}

static kas_status append(kas_plan *plan, const kas_step *step)
{
    if (plan->steps == plan->capacity) {
        const int capacity = plan->capacity ? 2 * plan->capacity : 64;
        kas_step *grown = realloc(plan->step, (size_t)capacity * sizeof *grown);
        if (!grown)
            return kas_fail(KAS_NO_MEMORY, "no memory for a plan of %d steps", capacity);
        plan->step = grown;
        plan->capacity = capacity;
    }
    plan->step[plan->steps++] = *step;
    return KAS_OK;
}

kas_status kas_cuda_plan_launch(kas_plan *plan, const kas_function *function, const unsigned *grid,
                                const unsigned *block, const void *args, size_t args_size)
{
    kas_step step = {.kind = STEP_LAUNCH, .function = function};
    memcpy(step.grid, grid, sizeof step.grid);
    memcpy(step.block, block, sizeof step.block);
    step.args = malloc(args_size ? args_size : 1);
    if (!step.args)
        return kas_fail(KAS_NO_MEMORY, "no memory for the arguments of %s", function->name);
    if (args_size)
        memcpy(step.args, args, args_size);
    const kas_status status = append(plan, &step);
    if (status != KAS_OK)
        free(step.args);
    return status;
}

kas_status kas_cuda_plan_conv(kas_plan *plan, kas_conv *conv, kas_conv_pass pass, void *x, void *w,
                              void *y)
{
    return append(
        plan, &(kas_step){.kind = STEP_CONV, .conv = conv, .pass = pass, .x = x, .w = w, .y = y});
}

kas_status kas_cuda_plan_zero(kas_plan *plan, void *memory, size_t bytes)
{
    return append(plan, &(kas_step){.kind = STEP_ZERO, .x = memory, .bytes = bytes});
}

kas_status kas_cuda_plan_copy(kas_plan *plan, void *to, const void *from, size_t bytes)
{
    return append(plan, &(kas_step){.kind = STEP_COPY, .x = to, .w = (void *)from, .bytes = bytes});
}

static kas_status run_step(kas_cuda *cuda, const kas_step *step)
{
    const CUdeviceptr to = (CUdeviceptr)(uintptr_t)step->x, from = (CUdeviceptr)(uintptr_t)step->w;
    switch (step->kind) {
    case STEP_LAUNCH:
        return kas_cuda_launch(cuda, step->function, step->grid, step->block, step->args);
    case STEP_CONV:
        return kas_cuda_conv_run(step->conv, step->pass, step->x, step->w, step->y);
    case STEP_ZERO:
        return step->bytes ? KAS_CU(cuda, cuMemsetD8Async(to, 0, step->bytes, cuda->stream))
                           : KAS_OK;
    case STEP_COPY:
        return step->bytes ? KAS_CU(cuda, cuMemcpyDtoDAsync_v2(to, from, step->bytes, cuda->stream))
                           : KAS_OK;
    }
    return KAS_OK;
}

kas_status kas_cuda_plan_run(kas_plan *plan)
{
    kas_cuda *cuda = (kas_cuda *)plan->device;
    KAS_TRY(kas_cuda_enter(cuda));
    for (int i = 0; i < plan->steps; i++) {
        kas_status status = run_step(cuda, &plan->step[i]);
        if (status != KAS_OK)
            return kas_fail_context(status, "step %d of a plan of %d", i, plan->steps);
    }
    return KAS_OK;
}
