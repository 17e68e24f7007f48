/* The evaluation of a work item in a worker: solve, calibrate, measure, train; of a finalist also:
 * time in turns with the unmodified network. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/core/log.h"
#include "host/score/calibrate.h"
#include "host/search/worker/evaluation.h"

static void close_worker(void *state)
{
    kas_evaluation_shared *s = state;
    free(s->index);
    kas_problem_close(&s->problem);
    free(s);
}

static kas_status open_worker(const kas_search_options *options, const char *dataset,
                              const char *device, void **state)
{
    kas_evaluation_shared *s = calloc(1, sizeof *s);
    if (!s)
        return kas_fail(KAS_NO_MEMORY, "worker: out of memory");
    kas_status status = KAS_OK;
    s->options = *options;
    snprintf(s->spec, sizeof s->spec, "%s", device);
    KAS_TRY_GOTO(kas_problem_open(options, dataset, &s->problem), fail);
    KAS_TRY_GOTO(kas_problem_split(&s->problem, options, &s->index, &s->train_count,
                                   &s->validation_count, &s->confirm_count),
                 fail);
    *state = s;
    return KAS_OK;
fail:
    close_worker(s);
    return status;
}

static kas_status enter_slot(void *state, void **own, char name[128], char arch[32])
{
    const kas_evaluation_shared *s = state;
    kas_evaluation_slot *b = calloc(1, sizeof *b);
    if (!b)
        return kas_fail(KAS_NO_MEMORY, "worker: out of memory");
    b->shared = s;
    kas_status status = kas_device_open(s->spec, s->options.threads, &b->device);
    if (status != KAS_OK) {
        free(b);
        return status;
    }
    snprintf(name, 128, "%s", kas_device_get_info(b->device)->name);
    snprintf(arch, 32, "%s", kas_device_get_info(b->device)->arch);
    *own = b;
    return KAS_OK;
}

/* Before plans of a library are timed; the next report of progress ends it. */
void kas_evaluation_be_alone(void *slot)
{
    kas_slot_begin_alone(slot);
}

static void leave_slot(void *own)
{
    kas_evaluation_slot *b = own;
    kas_device_close(b->device);
    free(b);
}

kas_status kas_evaluation_build(kas_evaluation *r, kas_stage stage, const char *tuned)
{
    const kas_evaluation_slot *mine = r->mine;
    kas_programs_free(&r->programs);
    return kas_stage_build(r->replacement, &mine->shared->options, stage,
                           kas_device_get_info(mine->device)->arch, tuned, &r->programs);
}

void kas_evaluation_waited(kas_evaluation *r, double seconds)
{
    double *sum = &r->out->measured.compile_seconds;
    *sum = isnan(*sum) ? seconds : *sum + seconds;
}

bool kas_evaluation_enter(kas_evaluation *r, const char *phase)
{
    bool go_on = kas_slot_progress(r->slot, phase, 0, 1, NAN) != KAS_STOP;
    if (!go_on)
        r->out->state = KAS_WORK_QUEUED;
    return go_on;
}

static kas_status tell_gains(const kas_evaluation *r)
{
    kas_buf text = {0};
    const kas_status status = kas_gains_write_replacement(r->replacement, &text);
    if (status == KAS_OK)
        kas_slot_calibrated(r->slot, kas_buf_text(&text));
    kas_buf_free(&text);
    return status;
}

/* Calibrates a candidate that never was: one that goes on, and a final training, have their gains.
 * *go_on is false when the outcome is decided. */
static kas_status calibrate(kas_evaluation *r, bool *go_on)
{
    const kas_evaluation_shared *shared = r->mine->shared;
    const kas_calibrate_options options = {.net = shared->problem.net,
                                           .programs = &r->programs,
                                           .dataset = shared->problem.dataset,
                                           .index = shared->index,
                                           .count = shared->train_count,
                                           .seed = shared->options.seed,
                                           .init = r->task->init,
                                           .init_partial = shared->options.init_partial};
    kas_calibration found;
    *go_on = kas_evaluation_enter(r, "compiling");
    if (!*go_on || r->replacement->gain)
        return KAS_OK;
    KAS_TRY(kas_evaluation_build(r, KAS_STAGE_CALIBRATION, NULL));
    KAS_TRY(kas_calibrate(r->mine->device, &options, r->replacement, &found));
    kas_evaluation_waited(r, found.compile_seconds);
    r->out->measured.output_std_min = found.std_min;
    r->out->measured.output_std_max = found.std_max;
    *go_on = found.result == KAS_CALIBRATE_OK;
    if (*go_on)
        return tell_gains(r);
    r->out->state = KAS_WORK_SCREENED;
    kas_calibration_reason(&found, r->out->reason, sizeof r->out->reason);
    return KAS_OK;
}

/* Where measuring has machines of its own, the ones that train calibrate: with the initial weights,
 * which those that measure need not have, and before their trainings only. */
static kas_status calibrate_measure_train(kas_evaluation *r)
{
    const kas_task *task = r->task;
    const bool turns = task->kind == KAS_WORK_TURNS, once = task->role == KAS_TAKES_MEASURING;
    bool go_on = true;
    kas_status status = r->replacement && !once ? calibrate(r, &go_on) : KAS_OK;
    if (status == KAS_OK && go_on && !turns && task->rung == 0 && task->rank == 0 &&
        task->role != KAS_TAKES_TRAINING)
        status = kas_evaluation_measure(r, &go_on);
    if (status == KAS_OK && go_on && once && !turns)
        r->out->state = KAS_WORK_QUEUED;
    else if (status == KAS_OK && go_on)
        status = turns ? kas_evaluation_take_turns(r) : kas_evaluation_train(r);
    status = kas_evaluation_blame(r, status);
    kas_programs_free(&r->programs);
    return status;
}

static kas_status evaluate_task(kas_evaluation *r)
{
    const kas_task *task = r->task;
    const kas_evaluation_shared *b = r->mine->shared;
    kas_replacement candidate;
    if (!task->kernel)
        return calibrate_measure_train(r);
    KAS_TRY(kas_problem_place(&b->options, task->name, task->kernel, task->gains, b->problem.target,
                              b->problem.targets, &candidate));
    r->replacement = &candidate;
    const kas_status status = calibrate_measure_train(r);
    kas_replacement_free(&candidate);
    return status;
}

/* An idle slot holds nothing of the device: its neighbours may have it. */
static kas_status evaluate(void *own, kas_slot *slot, const kas_task *task, kas_outcome *out)
{
    kas_evaluation_slot *mine = own;
    kas_evaluation r = {.mine = mine, .slot = slot, .task = task, .out = out};
    kas_device_set_quiet(mine->device, kas_evaluation_be_alone, slot);
    const kas_status status = evaluate_task(&r);
    kas_device_set_quiet(mine->device, NULL, NULL);
    kas_device_trim(mine->device);
    return status;
}

/* A failure is the next call's to tell. */
static void settle(void *own)
{
    const kas_evaluation_slot *mine = own;
    if (kas_device_sync(mine->device) != KAS_OK)
        kas_debug("waiting for the device: %s", kas_error());
}

const kas_evaluator kas_evaluator_train = {open_worker, enter_slot,   evaluate,
                                           leave_slot,  close_worker, settle};
