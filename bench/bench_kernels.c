/* How far is each generated kernel from the bytes that it must move?  Every operation of a kernel
 * file's programs is timed by itself on the CPU device, in the order and on the data of a whole
 * pass.
 *
 *     build/bench/bench_kernels [--threads N] [KERNEL.json ...]     (default:
 * kernels/involution.json)
 *
 * One JSON object a line for each operation at the first layer of each size of ResNet-20, batch 32:
 * its median seconds over RUNS passes, the bytes of its floor (every tensor once), and GB/s. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/clock.h"
#include "host/core/random.h"
#include "host/net/targets.h"
#include "host/report/line.h"
#include "host/space/canonical.h"
#include "host/space/file/kernel_json.h"
#include "host/space/solve/solve.h"
#include "jit/compile/compile.h"
#include "jit/ir/program.h"

enum { RUNS = 7, BATCH = 32, MAX_OPERATIONS = 256 };

typedef struct bench {
    kas_device *device;
    kas_module *module;
    const kas_program *program;
    void *memory[512];
    int plans, convs;
    kas_plan *plan[MAX_OPERATIONS];
    kas_conv *conv[MAX_OPERATIONS];
    double seconds[MAX_OPERATIONS][RUNS];
} bench;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static const kas_operation *operation(const bench *b, int i)
{
    const kas_program *p = b->program;
    return i < p->forwards ? &p->forward[i] : &p->backward[i - p->forwards];
}

/* Normal numbers in all memory: what a pass writes is then what it would write. */
static kas_status make_memory(bench *b)
{
    const kas_program *p = b->program;
    kas_rng rng = kas_rng_make(1, KAS_PURPOSE_TEST, 0);
    if (p->buffers > 512)
        return kas_fail(KAS_UNSUPPORTED, "the program has %d buffers", p->buffers);
    for (int i = 0; i < p->buffers; i++) {
        KAS_TRY(kas_mem_alloc(b->device, p->buffer[i].bytes, &b->memory[i]));
        float *to = b->memory[i];
        const float scale = p->buffer[i].role == KAS_ROLE_WEIGHT ? 0.1f : 1.0f;
        for (size_t k = 0; k < p->buffer[i].bytes / sizeof *to; k++)
            to[k] = scale * (float)kas_rng_normal(&rng);
    }
    return KAS_OK;
}

static kas_status make_plan(bench *b, int i)
{
    const kas_operation *op = operation(b, i);
    KAS_TRY(kas_plan_create(b->device, &b->plan[i]));
    b->plans = i + 1;
    if (op->kind == KAS_OPERATION_CONV) {
        KAS_TRY(kas_conv_create(b->device, &op->conv, &b->conv[b->convs]));
        kas_conv *conv = b->conv[b->convs++];
        return kas_plan_conv(b->plan[i], conv, op->pass, b->memory[op->x], b->memory[op->w],
                             b->memory[op->y]);
    }
    void *args[KAS_MAX_LAUNCH_ARGS];
    kas_function *function;
    for (int k = 0; k < op->args; k++)
        args[k] = b->memory[op->arg[k]];
    KAS_TRY(kas_module_function(b->module, op->function, &function));
    return kas_plan_launch(b->plan[i], function, op->grid, op->block, args,
                           sizeof *args * (size_t)op->args);
}

static kas_status measure(bench *b)
{
    for (int run = -1; run < RUNS; run++)
        for (int i = 0; i < b->plans; i++) {
            const double start = kas_monotonic();
            KAS_TRY(kas_plan_run(b->plan[i]));
            KAS_TRY(kas_device_sync(b->device));
            if (run >= 0)
                b->seconds[i][run] = kas_monotonic() - start;
        }
    return KAS_OK;
}

static kas_status print(bench *b, const char *name)
{
    kas_buf out = {0};
    for (int i = 0; i < b->plans; i++) {
        const kas_operation *op = operation(b, i);
        qsort(b->seconds[i], RUNS, sizeof *b->seconds[i], by_value);
        const double median = b->seconds[i][RUNS / 2];
        kas_line_begin(&out);
        kas_line_text(&out, "bench", "kernels");
        kas_line_text(&out, "kernel", name);
        kas_line_text(&out, "layer", b->program->target.name);
        kas_line_text(&out, "operation",
                      op->kind == KAS_OPERATION_CONV ? "convolution" : op->function);
        kas_line_int(&out, "batch", BATCH);
        kas_line_int(&out, "threads", kas_device_get_info(b->device)->threads);
        kas_line_number(&out, "median_seconds", median);
        kas_line_number(&out, "bytes", op->bytes);
        kas_line_number(&out, "gb_per_second", op->bytes / median * 1e-9);
        kas_line_end(&out);
    }
    fputs(kas_buf_text(&out), stdout);
    const kas_status status = kas_buf_status(&out);
    kas_buf_free(&out);
    return status;
}

static kas_status run_program(bench *b, const char *name)
{
    char path[4096];
    kas_compiler *compiler = NULL;
    kas_status status;
    if (b->program->forwards + b->program->backwards > MAX_OPERATIONS)
        return kas_fail(KAS_UNSUPPORTED, "%s has too many operations", name);
    KAS_TRY(kas_compiler_open(kas_device_get_info(b->device)->arch, NULL, &compiler));
    KAS_TRY_GOTO(kas_compile(compiler, b->program->source, path, NULL), done);
    KAS_TRY_GOTO(kas_module_load(b->device, path, &b->module), done);
    KAS_TRY_GOTO(make_memory(b), done);
    for (int i = 0; i < b->program->forwards + b->program->backwards; i++)
        KAS_TRY_GOTO(make_plan(b, i), done);
    KAS_TRY_GOTO(measure(b), done);
    status = print(b, name);
done:
    for (int i = 0; i < b->plans; i++)
        kas_plan_free(b->plan[i]);
    for (int i = 0; i < b->convs; i++)
        kas_conv_free(b->conv[i]);
    for (int i = 0; i < b->program->buffers && i < 512; i++)
        kas_mem_free(b->device, b->memory[i]);
    kas_module_free(b->module);
    kas_compiler_close(compiler);
    return status;
}

/* Whether an earlier target has the same sizes. */
static bool seen(const kas_target *targets, int t)
{
    for (int i = 0; i < t; i++)
        if (targets[i].c_in == targets[t].c_in && targets[i].c_out == targets[t].c_out &&
            targets[i].h == targets[t].h && targets[i].w == targets[t].w)
            return true;
    return false;
}

static kas_status run_targets(kas_device *device, const kas_kernel *kernel,
                              const kas_target *targets, int count, const char *name)
{
    const kas_budget budget = {.max_flops_ratio = 1, .max_params_ratio = 1};
    kas_solution solution = {0};
    kas_status status = kas_solve(kernel, targets, count, &budget, &solution);
    const kas_program_options options = {
        .batch = BATCH,
        .training = true,
        .linear_policy = kas_linear_policy_of(kas_device_get_info(device)->arch),
        .prefix = "k"};
    for (int t = 0; t < count && status == KAS_OK; t++) {
        kas_program *program;
        if (seen(targets, t))
            continue;
        status = kas_program_build(kernel, &targets[t], &solution.binding[t], &options, &program);
        if (status != KAS_OK)
            break;
        bench *b = calloc(1, sizeof *b);
        if (b) {
            b->device = device;
            b->program = program;
            status = run_program(b, name);
        } else {
            status = kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was measured");
        }
        free(b);
        kas_program_free(program);
    }
    kas_solution_free(&solution);
    return status;
}

static kas_status run_file(kas_device *device, const char *path)
{
    kas_kernel kernel;
    char name[KAS_NAME_SIZE];
    kas_net *net = NULL;
    kas_target *targets = NULL;
    int count;
    KAS_TRY(kas_kernel_read_file(path, &kernel));
    KAS_TRY(kas_kernel_canonicalize(&kernel, &kernel));
    KAS_TRY(kas_kernel_name(&kernel, name));
    KAS_TRY(kas_net_build("resnet20", 32, 32, 3, 10, &net));
    kas_status status = kas_net_targets(net, NULL, &targets, &count);
    if (status == KAS_OK)
        status = run_targets(device, &kernel, targets, count, name);
    free(targets);
    kas_net_free(net);
    return status;
}

int main(int argc, char **argv)
{
    kas_device *device;
    int first = 1, threads = 1;
    if (argc > 2 && strcmp(argv[1], "--threads") == 0) {
        threads = atoi(argv[2]);
        first = 3;
    }
    kas_status status = kas_device_open("cpu", threads, &device);
    if (status == KAS_OK) {
        if (first == argc)
            status = run_file(device, "kernels/involution.json");
        for (int i = first; i < argc && status == KAS_OK; i++)
            status = run_file(device, argv[i]);
        kas_device_close(device);
    }
    if (status != KAS_OK)
        fprintf(stderr, "bench_kernels: %s\n", kas_error());
    return status == KAS_OK ? 0 : 1;
}
