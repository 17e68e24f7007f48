/* Runs plans on the CPU by walking the list of steps.  The blocks of a launch are split evenly over
 * the threads, so that the same thread gets the same blocks in every run. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "host/device/cpu/cpu.h"

void kas_cpu_use_threads(const kas_cpu *cpu)
{
    omp_set_num_threads(cpu->base.info.threads);
}

/* Returns the order of blocks in tests. When there is no memory for it, blocks run ascending. */
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

/* Numbers below 2^-126 count as 0 while kernels run. Every softmax produces such numbers, as exp of
 * a large negative number, and x86 takes over a hundred cycles for an operation on one. */
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
    case KAS_STEP_LAUNCH:
        kas_cpu_launch(cpu, step->function, step->grid, step->args);
        return KAS_OK;
    case KAS_STEP_CONV:
        return kas_cpu_conv_run(step);
    case KAS_STEP_ZERO:
        if (step->bytes)
            memset(step->to, 0, step->bytes);
        return KAS_OK;
    case KAS_STEP_COPY:
        if (step->bytes)
            memmove(step->to, step->from, step->bytes);
        return KAS_OK;
    case KAS_STEP_MEAN:
    case KAS_STEP_GATHER:
    case KAS_STEP_JOIN:
        return kas_cpu_exchange(step);
    }
    return KAS_OK;
}

kas_status kas_cpu_run(kas_device *device, const kas_step *step, int steps, void **kept)
{
    const kas_cpu *cpu = (const kas_cpu *)device;
    (void)kept; /* the steps themselves are run */
    kas_cpu_use_threads(cpu);
    for (int i = 0; i < steps; i++)
        KAS_TRY(run_step(cpu, &step[i]));
    return KAS_OK;
}
