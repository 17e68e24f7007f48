#include "host/tune/timing.h"

#include <stdlib.h>

#include "host/device/fill.h"
#include "host/predict/seconds.h"
#include "host/train/stats.h"

enum {
    CACHES = 4,  /* so many times as large is what sweeps them */
    HOPELESS = 3 /* so many times slower */
};

/* ---- memory ---------------------------------------------------------------------------------- */

static kas_status allocate(kas_device *device, const kas_buffer *buffer, kas_rng *rng, void **out)
{
    KAS_TRY(kas_mem_alloc(device, buffer->bytes, out));
    return kas_mem_fill_normal(device, *out, buffer->dtype,
                               buffer->bytes / kas_dtype_size(buffer->dtype), 0.1, rng);
}

/* A copy reads what it copies through the caches, even where its writes go around them. */
static kas_status make_sweep(kas_tune_stand *stand, double caches)
{
    const size_t half = CACHES * (size_t)caches;
    KAS_TRY(kas_mem_alloc(stand->device, 2 * half, &stand->swept));
    KAS_TRY(kas_mem_zero(stand->device, stand->swept, 2 * half));
    KAS_TRY(kas_plan_create(stand->device, &stand->sweep));
    return kas_plan_copy(stand->sweep, (char *)stand->swept + half, stand->swept, half);
}

kas_status kas_tune_stand_make(kas_device *device, const kas_machine *machine,
                               const kas_program *program, uint64_t seed, kas_tune_stand *out)
{
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_TEST, 0);
    *out = (kas_tune_stand){.device = device};
    out->memory = calloc((size_t)program->buffers + 1, sizeof *out->memory);
    if (!out->memory)
        return kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was tuned");
    out->buffers = program->buffers;
    for (int i = 0; i < program->buffers; i++)
        KAS_TRY(allocate(device, &program->buffer[i], &rng, &out->memory[i]));
    if (machine)
        KAS_TRY(make_sweep(out, machine->outer_bytes));
    return kas_timer_create(device, &out->timer);
}

void kas_tune_stand_free(kas_tune_stand *stand)
{
    kas_timer_free(stand->timer);
    kas_plan_free(stand->sweep);
    kas_mem_free(stand->device, stand->swept);
    for (int i = 0; i < stand->buffers; i++)
        kas_mem_free(stand->device, stand->memory[i]);
    free(stand->memory);
    *stand = (kas_tune_stand){0};
}

/* ---- time ------------------------------------------------------------------------------------ */

static kas_status make_plan(const kas_tune_stand *stand, const kas_tune_version *version,
                            int launches, kas_plan **plan)
{
    const kas_operation *op = version->op;
    void *args[KAS_MAX_LAUNCH_ARGS];
    kas_function *function;
    for (int k = 0; k < op->args; k++) {
        if (op->arg[k] >= stand->buffers)
            return kas_fail(KAS_FAILURE, "%s: its buffers are not those of the default schedule",
                            op->function);
        args[k] = stand->memory[op->arg[k]];
    }
    KAS_TRY(kas_module_function(version->module, op->function, &function));
    KAS_TRY(kas_plan_create(stand->device, plan));
    for (int k = 0; k < launches; k++)
        KAS_TRY(kas_plan_launch(*plan, function, op->grid, op->block, args,
                                sizeof *args * (size_t)op->args));
    return KAS_OK;
}

/* Each version is first in every other round. */
static kas_status take_rounds(const kas_tune_stand *stand, kas_plan *const plan[2], bool cold,
                              int rounds, kas_samples seconds[2], kas_samples *ratio)
{
    for (int k = 0; k < 2; k++)
        KAS_TRY(kas_plan_prepare(plan[k]));
    for (int round = -1; round < rounds; round++) {
        double taken[2];
        for (int k = 0; k < 2; k++) {
            const int way = (k + round + 1) % 2;
            KAS_TRY(cold ? kas_plan_seconds_swept(stand->device, stand->timer, stand->sweep,
                                                  plan[way], &taken[way])
                         : kas_plan_seconds(stand->device, stand->timer, plan[way], &taken[way]));
        }
        if (round < 0 && taken[1] > HOPELESS * taken[0])
            rounds = 0;     /* what is so slow is timed once */
        else if (round < 0) /* the first runs are slower */
            continue;
        KAS_TRY(kas_samples_add(&seconds[0], taken[0]));
        KAS_TRY(kas_samples_add(&seconds[1], taken[1]));
        KAS_TRY(kas_samples_add(ratio, taken[1] / taken[0]));
    }
    return KAS_OK;
}

kas_status kas_tune_plans_in_turns(const kas_tune_stand *stand, kas_plan *const plan[2], bool cold,
                                   int rounds, kas_tune_ratio *out)
{
    kas_samples seconds[2] = {{0}, {0}}, ratio = {0};
    const kas_status status = take_rounds(stand, plan, cold, rounds, seconds, &ratio);
    for (int k = 0; k < 2; k++)
        out->seconds[k] = kas_samples_quantile(&seconds[k], 0.5);
    out->low = kas_samples_quantile(&ratio, 0.1);
    out->ratio = kas_samples_quantile(&ratio, 0.5);
    out->high = kas_samples_quantile(&ratio, 0.9);
    for (int k = 0; k < 2; k++)
        kas_samples_free(&seconds[k]);
    kas_samples_free(&ratio);
    return status;
}

kas_status kas_tune_in_turns(const kas_tune_stand *stand, const kas_tune_version version[2],
                             int repeats, int rounds, kas_tune_ratio *out)
{
    const int launches = repeats > 0 ? repeats : 1;
    kas_plan *plan[2] = {NULL, NULL};
    *out = (kas_tune_ratio){0};
    kas_status status = make_plan(stand, &version[0], launches, &plan[0]);
    if (status == KAS_OK)
        status = make_plan(stand, &version[1], launches, &plan[1]);
    if (status == KAS_OK)
        status = kas_tune_plans_in_turns(stand, plan, repeats == 0, rounds, out);
    for (int k = 0; k < 2; k++) {
        out->seconds[k] /= launches;
        kas_plan_free(plan[k]);
    }
    return status;
}
