/* Records plans, in the same way for every device. A device only runs recorded steps. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/arena.h"
#include "host/device/backend.h"

struct kas_plan {
    kas_device *device;
    kas_step *step;
    int steps;
    bool captures; /* exchanges (kas_plan_capture_exchanges) */
    void *kept;    /* the device's data for the present steps */
    int ahead;     /* runs that kas_plan_time enqueues in front of the one that it measures */
};

kas_status kas_plan_create(kas_device *device, kas_plan **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return kas_fail(KAS_NO_MEMORY, "no memory for a plan");
    (*out)->device = device;
    return KAS_OK;
}

static void forget(kas_plan *plan)
{
    if (plan->kept)
        plan->device->backend->forget(plan->device, plan->kept);
    plan->kept = NULL;
}

void kas_plan_free(kas_plan *plan)
{
    if (!plan)
        return;
    forget(plan);
    for (int i = 0; i < plan->steps; i++)
        free(plan->step[i].args);
    free(plan->step);
    free(plan);
}

static kas_status append(kas_plan *plan, const kas_step *step)
{
    forget(plan);
    if (!KAS_GROW(plan->step, plan->steps))
        return kas_fail(KAS_NO_MEMORY, "no memory for a plan of %d steps", plan->steps + 1);
    plan->step[plan->steps++] = *step;
    return KAS_OK;
}

/* Checks a launch here, so that a mistake shows on machines without a GPU too. */
static kas_status check_launch(const unsigned grid[3], const unsigned block[3], size_t args_size)
{
    if (!kas_launch_is_legal(grid, block))
        return kas_fail(KAS_DEVICE,
                        "launch of %u x %u x %u blocks of %u x %u x %u threads: a block has 1 to "
                        "%d threads, a grid at most 65535 in y and z and 2^31 - 1 in all",
                        grid[0], grid[1], grid[2], block[0], block[1], block[2], KAS_MAX_BLOCK);
    if (args_size > KAS_MAX_ARGS)
        return kas_fail(KAS_DEVICE, "launch: %zu bytes of arguments, at most %d are allowed",
                        args_size, KAS_MAX_ARGS);
    return KAS_OK;
}

kas_status kas_plan_launch(kas_plan *plan, const kas_function *function, const unsigned grid[3],
                           const unsigned block[3], const void *args, size_t args_size)
{
    if (!function)
        return kas_fail(KAS_DEVICE, "launch: this kernel was not loaded");
    KAS_TRY(check_launch(grid, block, args_size));
    kas_step step = {.kind = KAS_STEP_LAUNCH, .function = function};
    memcpy(step.grid, grid, sizeof step.grid);
    memcpy(step.block, block, sizeof step.block);
    step.args = malloc(args_size ? args_size : 1);
    if (!step.args)
        return kas_fail(KAS_NO_MEMORY, "no memory for %zu bytes of arguments", args_size);
    if (args_size)
        memcpy(step.args, args, args_size);
    const kas_status status = append(plan, &step);
    if (status != KAS_OK)
        free(step.args);
    return status;
}

kas_status kas_plan_conv(kas_plan *plan, kas_conv *conv, kas_conv_pass pass, void *x, void *w,
                         void *y)
{
    return kas_plan_conv_bias(plan, conv, pass, x, w, y, NULL);
}

kas_status kas_plan_conv_bias(kas_plan *plan, kas_conv *conv, kas_conv_pass pass, void *x, void *w,
                              void *y, void *bias)
{
    if (!kas_conv_uses(&((const kas_conv_base *)conv)->desc, pass))
        return kas_fail(KAS_USAGE, "convolution: pass %d was not prepared", (int)pass);
    return append(plan, &(kas_step){.kind = KAS_STEP_CONV,
                                    .conv = conv,
                                    .pass = pass,
                                    .x = x,
                                    .w = w,
                                    .y = y,
                                    .bias = bias});
}

kas_status kas_plan_conv_epilogue(kas_plan *plan, kas_conv *conv, kas_conv_epilogue epilogue,
                                  const kas_conv_call *call)
{
    return append(plan, &(kas_step){.kind = KAS_STEP_CONV,
                                    .conv = conv,
                                    .pass = KAS_CONV_FORWARD,
                                    .x = (void *)(uintptr_t)call->x,
                                    .w = (void *)(uintptr_t)call->w,
                                    .y = call->y,
                                    .bias = (void *)(uintptr_t)call->bias,
                                    .bias_rounded = call->bias_rounded,
                                    .fused = true,
                                    .epilogue = epilogue,
                                    .residual = call->residual});
}

kas_status kas_plan_zero(kas_plan *plan, void *memory, size_t bytes)
{
    return append(plan, &(kas_step){.kind = KAS_STEP_ZERO, .to = memory, .bytes = bytes});
}

kas_status kas_plan_copy(kas_plan *plan, void *to, const void *from, size_t bytes)
{
    return append(plan, &(kas_step){.kind = KAS_STEP_COPY, .to = to, .from = from, .bytes = bytes});
}

static kas_status exchange(kas_plan *plan, kas_group *group, kas_step step)
{
    step.group = group;
    step.captured = plan->captures;
    return append(plan, &step);
}

kas_status kas_plan_mean(kas_plan *plan, kas_group *group, float *values, size_t count)
{
    return exchange(
        plan, group,
        (kas_step){.kind = KAS_STEP_MEAN, .to = values, .bytes = count * sizeof *values});
}

kas_status kas_plan_gather(kas_plan *plan, kas_group *group, void *all, size_t bytes)
{
    return exchange(plan, group, (kas_step){.kind = KAS_STEP_GATHER, .to = all, .bytes = bytes});
}

kas_status kas_plan_join(kas_plan *plan, kas_group *group)
{
    return exchange(plan, group, (kas_step){.kind = KAS_STEP_JOIN});
}

void kas_plan_capture_exchanges(kas_plan *plan)
{
    plan->captures = true;
}

kas_status kas_plan_run(kas_plan *plan)
{
    return plan->device->backend->run(plan->device, plan->step, plan->steps, &plan->kept);
}

static bool is_asynchronous(const kas_device *device)
{
    return device->info.kind != KAS_DEVICE_CPU;
}

/* The first run of a plan loads modules, the second one makes a graph. */
kas_status kas_plan_prepare(kas_plan *plan)
{
    for (int run = 0; run < 2 && is_asynchronous(plan->device); run++)
        KAS_TRY(kas_plan_run(plan));
    return KAS_OK;
}

static kas_status time_behind(kas_plan *plan, kas_timer *timer, double *seconds)
{
    for (int i = 0; i < plan->ahead; i++)
        KAS_TRY(kas_plan_run(plan));
    KAS_TRY(kas_timer_start(timer));
    KAS_TRY(kas_plan_run(plan));
    return kas_timer_stop(timer, seconds);
}

kas_status kas_plan_time(kas_plan *plan, kas_timer *timer, double *seconds)
{
    enum { MOST_AHEAD = 64 };
    static const double launches =
        50e-6; /* seconds of the host for two points and a run, and more */
    if (!is_asynchronous(plan->device))
        return time_behind(plan, timer, seconds);
    if (plan->ahead == 0)
        KAS_TRY(kas_plan_prepare(plan));
    for (int needed = plan->ahead > 0 ? plan->ahead : 1;;) {
        plan->ahead = needed;
        KAS_TRY(time_behind(plan, timer, seconds));
        needed = (int)fmin(ceil(launches / fmax(*seconds, 1e-6)), MOST_AHEAD);
        if (needed <= plan->ahead)
            return KAS_OK;
    }
}

/* ---- times of steps -------------------------------------------------------------------------- */

int kas_plan_steps(const kas_plan *plan)
{
    return plan->steps;
}

/* A single step that is timed; `kept` is the device's data for a plan of one step. */
typedef struct timed_step {
    kas_timer *timer;
    void *kept;
} timed_step;

/* Keeps a device that works asynchronously busy, by a plan that clears memory, for longer than the host
 * takes to enqueue the steps one by one: a step that waits for the host would seem to take as long as
 * its launch. */
static kas_status fill_queue(kas_plan *filler, kas_timer *timer, int steps)
{
    enum { MOST = 900 };
    static const double launch = 25e-6; /* seconds of the host for a step, and more */
    double seconds;
    KAS_TRY(kas_plan_time(filler, timer, &seconds));
    const double times = ceil(launch * steps / fmax(seconds, 1e-6));
    for (int i = 0; i < MOST && i < times; i++)
        KAS_TRY(kas_plan_run(filler));
    return KAS_OK;
}

/* Makes the plan that clears memory; without memory for it there is none. */
static kas_status make_filler(kas_device *device, void **memory, kas_plan **out)
{
    enum { BYTES = 64 << 20 };
    const kas_status status = kas_mem_alloc(device, BYTES, memory);
    if (status == KAS_NO_MEMORY)
        return KAS_OK;
    KAS_TRY(status);
    KAS_TRY(kas_plan_create(device, out));
    return kas_plan_zero(*out, *memory, BYTES);
}

static kas_status time_steps(kas_plan *plan, timed_step *timed, kas_plan *filler, double *seconds)
{
    kas_device *device = plan->device;
    for (int i = 0; i < plan->steps; i++)
        KAS_TRY(kas_timer_create(device, &timed[i].timer));
    if (filler && plan->steps > 0)
        KAS_TRY(fill_queue(filler, timed[0].timer, plan->steps));
    if (is_asynchronous(device))
        KAS_TRY(kas_plan_run(plan));
    for (int i = 0; i < plan->steps; i++) {
        KAS_TRY(kas_timer_start(timed[i].timer));
        KAS_TRY(device->backend->run(device, &plan->step[i], 1, &timed[i].kept));
        KAS_TRY(kas_timer_end(timed[i].timer));
    }
    for (int i = 0; i < plan->steps; i++)
        KAS_TRY(kas_timer_read(timed[i].timer, &seconds[i]));
    return KAS_OK;
}

kas_status kas_plan_time_steps(kas_plan *plan, double *seconds)
{
    timed_step *timed = calloc((size_t)plan->steps + 1, sizeof *timed);
    if (!timed)
        return kas_fail(KAS_NO_MEMORY, "no memory to time %d steps of a plan", plan->steps);
    void *memory = NULL;
    kas_plan *filler = NULL;
    kas_status status = KAS_OK;
    if (is_asynchronous(plan->device))
        status = make_filler(plan->device, &memory, &filler);
    if (status == KAS_OK)
        status = time_steps(plan, timed, filler, seconds);
    kas_plan_free(filler);
    kas_mem_free(plan->device, memory);
    for (int i = 0; i < plan->steps; i++) {
        kas_timer_free(timed[i].timer);
        if (timed[i].kept)
            plan->device->backend->forget(plan->device, timed[i].kept);
    }
    free(timed);
    return status;
}
