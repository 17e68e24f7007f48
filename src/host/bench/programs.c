#include "host/bench/programs.h"

#include <stdlib.h>

#include "host/device/fill.h"
#include "jit/compile/compile.h"

struct kas_bench_programs {
    kas_device *device;
    kas_module *module;
    int count, buffers;
    kas_loaded **loaded; /* [count] */
    kas_plan **plan;     /* [count] */
    void **memory;       /* [buffers] */
    kas_timer *timer;
};

static kas_status compile(kas_bench_programs *b, kas_program *const *program, const char *cache_dir)
{
    char path[4096];
    kas_buf text = {0};
    kas_compiler *compiler = NULL;
    kas_status status = KAS_OK;
    for (int i = 0; i < b->count; i++)
        kas_buf_puts(&text, program[i]->source);
    KAS_TRY_GOTO(kas_buf_status(&text), out);
    KAS_TRY_GOTO(kas_compiler_open(kas_device_get_info(b->device)->arch, cache_dir, &compiler),
                 out);
    KAS_TRY_GOTO(kas_compile(compiler, kas_buf_text(&text), path, NULL), out);
    status = kas_module_load(b->device, path, &b->module);
out:
    kas_compiler_close(compiler);
    kas_buf_free(&text);
    return status;
}

/* Makes a buffer of normal numbers; weights are smaller, as in networks. */
static kas_status fill(kas_bench_programs *b, int i, size_t bytes, kas_dtype dtype, double scale)
{
    kas_rng rng = kas_rng_make(0, KAS_PURPOSE_TEST, (uint64_t)i);
    KAS_TRY(kas_mem_alloc(b->device, bytes, &b->memory[i]));
    return kas_mem_fill_normal(b->device, b->memory[i], dtype, bytes / kas_dtype_size(dtype), scale,
                               &rng);
}

static kas_status make_memory(kas_bench_programs *b, kas_program *const *program)
{
    for (int p = 0; p < b->count; p++)
        b->buffers = program[p]->buffers > b->buffers ? program[p]->buffers : b->buffers;
    b->memory = calloc((size_t)b->buffers + 1, sizeof *b->memory);
    if (!b->memory)
        return kas_fail(KAS_NO_MEMORY, "no memory for a list of %d buffers", b->buffers);
    for (int i = 0; i < b->buffers; i++) {
        size_t bytes = 0;
        kas_dtype dtype = KAS_F32;
        bool weight = false;
        for (int p = 0; p < b->count; p++) {
            if (i >= program[p]->buffers)
                continue;
            const kas_buffer *buffer = &program[p]->buffer[i];
            bytes = buffer->bytes > bytes ? buffer->bytes : bytes;
            dtype = buffer->dtype != KAS_F32 ? buffer->dtype : dtype;
            weight |= buffer->role == KAS_ROLE_WEIGHT;
        }
        KAS_TRY(fill(b, i, bytes, dtype, weight ? 0.05 : 1));
    }
    return KAS_OK;
}

static kas_status record(kas_bench_programs *b, const kas_program *program, int p)
{
    KAS_TRY(kas_program_load(b->device, program, &b->module, &b->loaded[p]));
    KAS_TRY(kas_plan_create(b->device, &b->plan[p]));
    KAS_TRY(kas_loaded_append(b->loaded[p], b->plan[p], false, b->memory));
    return program->training ? kas_loaded_append(b->loaded[p], b->plan[p], true, b->memory)
                             : KAS_OK;
}

static kas_status prepare(kas_bench_programs *b, kas_program *const *program, const char *cache_dir)
{
    b->loaded = calloc((size_t)b->count, sizeof(kas_loaded *));
    b->plan = calloc((size_t)b->count, sizeof(kas_plan *));
    if (!b->loaded || !b->plan)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d programs", b->count);
    KAS_TRY(kas_timer_create(b->device, &b->timer));
    KAS_TRY(compile(b, program, cache_dir));
    KAS_TRY(make_memory(b, program));
    for (int p = 0; p < b->count; p++)
        KAS_TRY(record(b, program[p], p));
    return KAS_OK;
}

kas_status kas_bench_programs_create(kas_device *device, kas_program *const *program, int count,
                                     const char *cache_dir, kas_bench_programs **out)
{
    kas_bench_programs *b = calloc(1, sizeof *b);
    if (!b)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d programs", count);
    b->device = device;
    b->count = count;
    const kas_status status = prepare(b, program, cache_dir);
    if (status != KAS_OK) {
        kas_bench_programs_free(b);
        return status;
    }
    *out = b;
    return KAS_OK;
}

void kas_bench_programs_free(kas_bench_programs *b)
{
    if (!b)
        return;
    for (int p = 0; p < b->count && b->plan; p++)
        kas_plan_free(b->plan[p]);
    for (int p = 0; p < b->count && b->loaded; p++)
        kas_loaded_free(b->loaded[p]);
    for (int i = 0; i < b->buffers && b->memory; i++)
        kas_mem_free(b->device, b->memory[i]);
    kas_module_free(b->module);
    kas_timer_free(b->timer);
    free(b->memory);
    free(b->plan);
    free(b->loaded);
    free(b);
}

kas_status kas_bench_programs_run(kas_bench_programs *b, int number, double *seconds)
{
    return kas_plan_time(b->plan[number], b->timer, seconds);
}
