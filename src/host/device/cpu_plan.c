/* Plans on the CPU: a list that is walked.  The blocks of a launch are split evenly over the
 * threads, so that the same thread gets the same blocks in every run. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "host/device/cpu.h"

typedef struct kas_step {
    enum { STEP_LAUNCH, STEP_CONV, STEP_ZERO, STEP_COPY } kind;
    const kas_function *function; /* LAUNCH */
    unsigned grid[3];
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

kas_status kas_cpu_plan_create(kas_device *device, kas_plan **out)
{
    kas_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return kas_fail(KAS_NO_MEMORY, "no memory for a plan");
    plan->device = device;
    *out = plan;
    return KAS_OK;
}

void kas_cpu_plan_free(kas_plan *plan)
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

kas_status kas_cpu_plan_launch(kas_plan *plan, const kas_function *function, const unsigned *grid,
                               const unsigned *block, const void *args, size_t args_size)
{
    (void)block;
    kas_step step = {.kind = STEP_LAUNCH, .function = function};
    memcpy(step.grid, grid, sizeof step.grid);
    step.args = malloc(args_size ? args_size : 1);
    if (!step.args)
        return kas_fail(KAS_NO_MEMORY, "no memory for the arguments of %s", function->name);
    memcpy(step.args, args, args_size);
    const kas_status status = append(plan, &step);
    if (status != KAS_OK)
        free(step.args);
    return status;
}

kas_status kas_cpu_plan_conv(kas_plan *plan, kas_conv *conv, kas_conv_pass pass, void *x, void *w,
                             void *y)
{
    return append(
        plan, &(kas_step){.kind = STEP_CONV, .conv = conv, .pass = pass, .x = x, .w = w, .y = y});
}

kas_status kas_cpu_plan_zero(kas_plan *plan, void *memory, size_t bytes)
{
    return append(plan, &(kas_step){.kind = STEP_ZERO, .x = memory, .bytes = bytes});
}

kas_status kas_cpu_plan_copy(kas_plan *plan, void *to, const void *from, size_t bytes)
{
    return append(plan, &(kas_step){.kind = STEP_COPY, .x = to, .w = (void *)from, .bytes = bytes});
}

void kas_cpu_use_threads(const kas_cpu *cpu)
{
    omp_set_num_threads(cpu->base.info.threads);
}

/* The order of blocks in tests. Without memory for it they run ascending. */
static unsigned *block_order(kas_cpu_order order, unsigned total)
{
    if (order == KAS_ORDER_ASCENDING)
        return NULL;
    unsigned *block = malloc(total * sizeof *block);
    for (unsigned k = 0; block && k < total; k++)
        block[k] = order == KAS_ORDER_DESCENDING
                       ? total - 1 - k
                       : (unsigned)(((uint64_t)k * 2654435761u + 12345) % total);
    return block;
}

/* Numbers below 2^-126 count as 0 while kernels run, as exp of a large negative number leaves them
 * in every softmax: x86 takes over a hundred cycles for an operation that meets one. */
#ifdef __SSE__
static unsigned flush_tiny(void)
{
    const unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before | 0x8040); /* results, operands */
    return before;
}
static void restore_tiny(unsigned before)
{
    __builtin_ia32_ldmxcsr(before);
}
#else
static unsigned flush_tiny(void)
{
    return 0;
}
static void restore_tiny(unsigned before)
{
    (void)before;
}
#endif

static void run_blocks(kas_cpu_kernel *run, const void *args, const unsigned grid[3],
                       unsigned first, unsigned last, const unsigned *order)
{
    const unsigned before = flush_tiny();
    run(args, grid, first, last, order);
    restore_tiny(before);
}

void kas_cpu_launch(const kas_cpu *cpu, const kas_function *function, const unsigned grid[3],
                    const void *args)
{
    kas_cpu_kernel *run = function->run[cpu->order];
    const unsigned total = grid[0] * grid[1] * grid[2];
    unsigned *order = block_order(cpu->order, total);
    if (total == 1 || cpu->base.info.threads == 1) {
        run_blocks(run, args, grid, 0, total, order);
    } else {
#pragma omp parallel
        {
            const uint64_t thread = (uint64_t)omp_get_thread_num();
            const uint64_t threads = (uint64_t)omp_get_num_threads();
            const unsigned first = (unsigned)(total * thread / threads);
            const unsigned last = (unsigned)(total * (thread + 1) / threads);
            if (first < last)
                run_blocks(run, args, grid, first, last, order);
        }
    }
    free(order);
}

static kas_status run_step(const kas_cpu *cpu, const kas_step *step)
{
    switch (step->kind) {
    case STEP_LAUNCH:
        kas_cpu_launch(cpu, step->function, step->grid, step->args);
        return KAS_OK;
    case STEP_CONV:
        return kas_cpu_conv_run(step->conv, step->pass, step->x, step->w, step->y);
    case STEP_ZERO:
        if (step->bytes)
            memset(step->x, 0, step->bytes);
        return KAS_OK;
    case STEP_COPY:
        if (step->bytes)
            memmove(step->x, step->w, step->bytes);
        return KAS_OK;
    }
    return KAS_OK;
}

kas_status kas_cpu_plan_run(kas_plan *plan)
{
    const kas_cpu *cpu = (const kas_cpu *)plan->device;
    kas_cpu_use_threads(cpu);
    for (int i = 0; i < plan->steps; i++)
        KAS_TRY(run_step(cpu, &plan->step[i]));
    return KAS_OK;
}
