/* The evaluation of a work item in a worker: solve, calibrate, measure, train; of a finalist also:
 * time in turns with the unmodified network. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/predict/turns.h"
#include "host/score/calibrate.h"
#include "host/search/worker/programs.h"
#include "host/search/worker/worker.h"
#include "host/study/problem.h"
#include "host/study/study_dir.h"
#include "host/train/checkpoint.h"
#include "host/train/digest.h"
#include "host/train/imitate.h"
#include "host/tune/tune.h"
#include "jit/tuned.h"

/* What the slots of a worker share, and only read. */
typedef struct worker_state {
    kas_search_options options;
    char spec[32]; /* of the device */
    kas_problem problem;
    uint32_t *index, train_count, validation_count, confirm_count; /* kas_problem_split */
} worker_state;

/* A slot. */
typedef struct slot_state {
    const worker_state *shared;
    kas_device *device;
} slot_state;

static void close_worker(void *state)
{
    worker_state *s = state;
    free(s->index);
    kas_problem_close(&s->problem);
    free(s);
}

static kas_status open_worker(const kas_search_options *options, const char *dataset,
                              const char *device, void **state)
{
    worker_state *s = calloc(1, sizeof *s);
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
    const worker_state *s = state;
    slot_state *b = calloc(1, sizeof *b);
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
static void be_alone(void *worker)
{
    kas_slot_begin_alone(worker);
}

static void leave_slot(void *own)
{
    slot_state *b = own;
    kas_device_close(b->device);
    free(b);
}

/* One item on its way; callbacks of the trainer find everything here. */
typedef struct run {
    slot_state *mine;
    kas_slot *slot;
    const kas_task *task;
    kas_replacement *replacement; /* NULL = the network as it is */
    kas_programs programs;        /* of the present stage */
    char start[KAS_STUDY_PATH];   /* weights that imitation has made; "" = it takes no part */
    kas_outcome *out;
} run;

static kas_status build_with(run *r, kas_stage stage, const char *tuned)
{
    const slot_state *mine = r->mine;
    kas_programs_free(&r->programs);
    return kas_stage_build(r->replacement, &mine->shared->options, stage,
                           kas_device_get_info(mine->device)->arch, tuned, &r->programs);
}

/* Lowers the candidate for what follows. */
static kas_status build(run *r, kas_stage stage)
{
    return build_with(r, stage, NULL);
}

/* Adds to what the item waited for compilers. */
static void waited(run *r, double seconds)
{
    double *sum = &r->out->measured.compile_seconds;
    *sum = isnan(*sum) ? seconds : *sum + seconds;
}

/* Says what comes next; false when the supervisor wants an end: the outcome is then "stopped". */
static bool enter(run *r, const char *phase)
{
    bool go_on = kas_slot_progress(r->slot, phase, 0, 1, NAN) != KAS_STOP;
    if (!go_on)
        r->out->state = KAS_WORK_QUEUED;
    return go_on;
}

static kas_verdict on_progress(void *context, uint64_t step, uint64_t steps, double loss)
{
    const run *r = context;
    return kas_slot_progress(r->slot, "training", step, steps, loss);
}

static kas_verdict on_epoch(void *context, const kas_epoch *epoch)
{
    const run *r = context;
    return r->task->rank == 0 ? kas_slot_epoch(r->slot, epoch) : KAS_CONTINUE; /* rank 0 asks */
}

static kas_status tell_gains(const run *r)
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
static kas_status calibrate(run *r, bool *go_on)
{
    const worker_state *shared = r->mine->shared;
    const kas_calibrate_options options = {.net = shared->problem.net,
                                           .programs = &r->programs,
                                           .dataset = shared->problem.dataset,
                                           .index = shared->index,
                                           .count = shared->train_count,
                                           .seed = shared->options.seed,
                                           .init = r->task->init,
                                           .init_partial = shared->options.init_partial};
    kas_calibration found;
    *go_on = enter(r, "compiling");
    if (!*go_on || r->replacement->gain)
        return KAS_OK;
    KAS_TRY(build(r, KAS_STAGE_CALIBRATION));
    KAS_TRY(kas_calibrate(r->mine->device, &options, r->replacement, &found));
    waited(r, found.compile_seconds);
    r->out->measured.output_std_min = found.std_min;
    r->out->measured.output_std_max = found.std_max;
    *go_on = found.result == KAS_CALIBRATE_OK;
    if (*go_on)
        return tell_gains(r);
    r->out->state = KAS_WORK_SCREENED;
    kas_calibration_reason(&found, r->out->reason, sizeof r->out->reason);
    return KAS_OK;
}

/* Times the network in turns with the unmodified one: how busy the machine is at the moment, both
 * feel alike. Compiles before the neighbours are made to wait. */
static kas_status time_in_turns(run *r, int turns, double most_seconds)
{
    const worker_state *shared = r->mine->shared;
    kas_turns *taken = NULL;
    kas_turns_result found = {0};
    double seconds;
    KAS_TRY(kas_programs_load(&r->programs, r->mine->device, NULL, &seconds));
    waited(r, seconds);
    kas_slot_begin_alone(r->slot);
    kas_status status =
        kas_turns_create(r->mine->device, shared->problem.net, KAS_LATENCY_BATCH,
                         (kas_precision)shared->options.recipe.precision, NULL, &taken);
    if (status == KAS_OK)
        status = kas_turns_measure(taken, &r->programs, turns, most_seconds, &found);
    kas_turns_free(taken);
    kas_slot_end_alone(r->slot);
    KAS_TRY(status);
    kas_planned_bytes_free(&found.planned);
    kas_info("%.6f s, the unmodified network %.6f s; ratio %.3f (%.3f - %.3f) over %d turns",
             found.seconds, found.unmodified, found.ratio, found.ratio_low, found.ratio_high,
             found.turns);
    r->out->measured.latency = found.seconds;
    r->out->measured.latency_iqr = (found.ratio_high - found.ratio_low) * found.unmodified;
    r->out->measured.ratio = found.ratio;
    r->out->measured.ratio_low = found.ratio_low;
    r->out->measured.ratio_high = found.ratio_high;
    return KAS_OK;
}

/* Whether the item's schedules are searched. Trainings keep the default ones: their bits depend on
 * no measurement. */
static bool is_tuned(const run *r)
{
    const int whose = r->mine->shared->options.tune;
    return r->replacement && (whose == KAS_TUNE_ALL ||
                              (whose == KAS_TUNE_FRONTIER && (r->task->kind == KAS_WORK_TURNS ||
                                                              kas_work_is_final(r->task->kind))));
}

/* Searches the schedules of the inference's launches, or takes those that the study has, and lowers
 * the candidate with them. A search that fails costs the item its tuned schedules and nothing else,
 * unless the device or the machine is at fault. */
static kas_status tune(run *r, bool *go_on)
{
    const kas_device_info *info = kas_device_get_info(r->mine->device);
    char folder[4096];
    kas_machine machine;
    kas_tune_options options = {.trials = KAS_TUNE_TRIALS,
                                .seed = r->mine->shared->options.seed,
                                .folder = folder,
                                .pins = getenv("KAS_SCHEDULE_PINS"),
                                .begin = be_alone,
                                .quiet = r->slot};
    KAS_TRY(kas_tuned_folder(info, folder));
    KAS_TRY(kas_machine_of(info, &machine));
    for (int p = 0; p < r->programs.count; p++) {
        kas_tuned tuned;
        *go_on = enter(r, "tuning");
        if (!*go_on)
            return KAS_OK;
        const kas_status status =
            kas_tune(r->mine->device, &machine, NULL, &r->programs, p, &options, &tuned);
        if (status == KAS_DEVICE_LOST || status == KAS_MACHINE)
            return status;
        kas_slot_end_alone(r->slot);
        if (status == KAS_OK)
            kas_tuned_free(&tuned);
        else
            kas_warn("tuning: %s; launches have their default schedules", kas_error());
    }
    return build_with(r, KAS_STAGE_LATENCY, options.pins ? options.pins : folder);
}

static kas_status measure(run *r, bool *go_on)
{
    enum { TURNS = 10 };
    const double most_seconds = 0.25;
    const kas_search_options *options = &r->mine->shared->options;
    const kas_measured *measured = &r->out->measured;
    /* The programs of the calibration are of inference in float32. */
    const bool serve =
        r->programs.count && !is_tuned(r) && options->recipe.precision == KAS_PRECISION_FP32 &&
        (kas_programs_take_gains(&r->programs) || !kas_replacement_scales(r->replacement));
    *go_on = enter(r, "measuring");
    if (!*go_on)
        return KAS_OK;
    if (!serve)
        KAS_TRY(build(r, KAS_STAGE_LATENCY));
    if (is_tuned(r))
        KAS_TRY(tune(r, go_on));
    if (!*go_on)
        return KAS_OK;
    KAS_TRY(time_in_turns(r, TURNS, most_seconds));
    kas_verdict verdict = kas_slot_measured(r->slot, measured);
    *go_on = verdict == KAS_CONTINUE;
    if (verdict == KAS_STOP)
        r->out->state = KAS_WORK_QUEUED;
    if (verdict == KAS_PRUNE) {
        r->out->state = KAS_WORK_OVER_LATENCY;
        snprintf(r->out->reason, sizeof r->out->reason,
                 "a forward pass of %d images takes %.3g ms, %.3g times as long as that of the "
                 "unmodified network in turns with it, more than --latency %g; --latency 0 trains "
                 "it all the same",
                 KAS_LATENCY_BATCH, 1e3 * measured->latency, measured->ratio, options->latency);
    }
    return KAS_OK;
}

/* The latency of a finalist, once more: it was chosen for the one that it has. */
static kas_status take_turns(run *r)
{
    enum { TURNS = 30 };
    const double most_seconds = 5;
    bool go_on = enter(r, "measuring in turns");
    if (!go_on)
        return KAS_OK;
    KAS_TRY(build(r, KAS_STAGE_LATENCY));
    if (is_tuned(r))
        KAS_TRY(tune(r, &go_on));
    if (!go_on)
        return KAS_OK;
    KAS_TRY(time_in_turns(r, TURNS, most_seconds));
    r->out->state = KAS_WORK_FINISHED;
    return KAS_OK;
}

static void set_state(run *r, const kas_train_result *result, int epochs)
{
    switch (result->state) {
    case KAS_TRAINED:
        r->out->state = KAS_WORK_FINISHED;
        break;
    case KAS_PRUNED:
        r->out->state = KAS_WORK_PRUNED;
        snprintf(r->out->reason, sizeof r->out->reason,
                 "after epoch %d of %d its accuracy of %.1f%% was too far below the best curve",
                 result->epochs, epochs, 100 * result->accuracy);
        break;
    case KAS_STOPPED:
        r->out->state = KAS_WORK_QUEUED;
        break;
    case KAS_PAUSED:
        r->out->state = KAS_WORK_WAITING;
        break;
    case KAS_DIVERGED:
        r->out->state = KAS_WORK_DIVERGED;
        if (result->epochs == epochs)
            snprintf(r->out->reason, sizeof r->out->reason, "%s was not finite",
                     result->not_finite);
        else
            snprintf(r->out->reason, sizeof r->out->reason, "%s was not finite in epoch %d",
                     result->not_finite, result->epochs + 1);
        break;
    }
}

/* Bytes of the device's memory that a training takes, and those that one alone can have. */
static kas_status plan_memory(const run *r, const kas_train_options *options, size_t *bytes,
                              size_t *room)
{
    const kas_device_info *info = kas_device_get_info(r->mine->device);
    kas_memory_plan plan;
    KAS_TRY(kas_train_plan_memory(options, &plan));
    *bytes = plan.total + info->workspace;
    *room = info->memory ? info->memory - info->memory / 16 : SIZE_MAX / 2; /* libraries' */
    return KAS_OK;
}

/* Waits for `times` the memory of a training. The run is planned as if it had the device to
 * itself: its launches, and so its bits, do not depend on the neighbours. */
static kas_status reserve(run *r, const kas_train_options *options, int times, bool *go_on)
{
    size_t bytes, room;
    KAS_TRY(plan_memory(r, options, &bytes, &room));
    *go_on = kas_slot_reserve(r->slot, bytes * (size_t)times, room) != KAS_STOP;
    if (!*go_on)
        r->out->state = KAS_WORK_QUEUED;
    return KAS_OK;
}

/* A checkpoint that is damaged, or that another kind of device wrote, costs the item what it had
 * done, not its chance. */
static kas_status drop_useless_checkpoint(const kas_train_options *options)
{
    uint8_t digest[32];
    kas_checkpoint checkpoint;
    if (!options->checkpoint || !kas_file_exists(options->checkpoint))
        return KAS_OK;
    KAS_TRY(kas_train_digest(options, digest));
    const kas_status status = kas_checkpoint_read(options->checkpoint, digest, &checkpoint);
    if (status == KAS_OK)
        kas_checkpoint_free(&checkpoint);
    if (status != KAS_BAD_INPUT)
        return status;
    kas_warn("%s; it was removed, and this item begins again", kas_error());
    KAS_CHECK_LIBC(unlink(options->checkpoint) == 0, KAS_FAILURE);
    return KAS_OK;
}

static kas_train_options training(run *r)
{
    const worker_state *b = r->mine->shared;
    const bool final = kas_work_is_final(r->task->kind),
               candidate = r->task->kind == KAS_WORK_CANDIDATE;
    return (kas_train_options){.net = b->problem.net,
                               .dataset = b->problem.dataset,
                               .programs = &r->programs,
                               .recipe = kas_search_recipe(&b->options, candidate),
                               .seed = b->options.seed + (uint64_t)r->task->seed,
                               .train_index = final ? NULL : b->index,
                               .train_count =
                                   final ? b->problem.dataset->train.count : b->train_count,
                               .validation_index = final ? NULL : b->index + b->train_count,
                               .validation_count = final ? 0 : b->validation_count,
                               .confirm_count = final ? 0 : b->confirm_count,
                               .evaluate_test = final,
                               .until = r->task->until,
                               .read_threads = b->options.read_threads,
                               .on_epoch = on_epoch,
                               .on_progress = on_progress,
                               .context = r,
                               .checkpoint = r->task->checkpoint,
                               .weights_out = r->task->weights,
                               .weights_in = *r->start ? r->start : r->task->init,
                               .init_partial = b->options.init_partial,
                               .ranks = r->task->ranks,
                               .sync_batch_norm = r->task->ranks && b->options.sync_batch_norm};
}

static kas_verdict on_imitation(void *context, uint64_t step, uint64_t steps, double missed)
{
    const run *r = context;
    return kas_slot_progress(r->slot, "imitating", step, steps, missed);
}

/* Screens a candidate out that misses too much of what its convolutions gave. */
static bool misses_too_much(run *r, const kas_imitate_result *result)
{
    const double most = r->mine->shared->options.most_missed;
    if (most <= 0 || result->mean <= most)
        return false;
    r->out->state = KAS_WORK_SCREENED;
    snprintf(r->out->reason, sizeof r->out->reason,
             "after %u steps of imitation its kernels miss %.1f%% of the convolutions' variance, "
             "where %.1f%% is allowed",
             result->steps, 100 * result->mean, 100 * most);
    return true;
}

static kas_status learn_to_imitate(run *r, bool *go_on)
{
    enum { STEPS = 100 }; /* enough: docs/training.md, Imitation */
    kas_imitate_options options = {.train = training(r), .unscored = true};
    kas_train_options *t = &options.train;
    kas_imitate_result result;
    KAS_TRY(kas_recipe_load("imitation", &t->recipe, NULL));
    t->recipe.batch = r->mine->shared->options.recipe.batch;
    options.images = STEPS * (uint32_t)t->recipe.batch;
    if (options.images > t->train_count)
        options.images = 0;
    t->weights_in = r->task->init;
    t->weights_out = r->start;
    t->on_progress = on_imitation;
    const kas_status status = kas_imitate(r->mine->device, &options, &result);
    waited(r, result.compile_seconds);
    if (status == KAS_OK)
        kas_info(
            "after %u steps of imitation the kernels miss %.1f%% of the convolutions' variance",
            result.steps, 100 * result.mean);
    *go_on = status == KAS_OK && !misses_too_much(r, &result);
    kas_imitate_result_free(&result);
    if (status == KAS_INTERRUPTED) {
        r->out->state = KAS_WORK_QUEUED;
        return KAS_OK;
    }
    if (status == KAS_NOTHING_VALID) {
        r->out->state = KAS_WORK_DIVERGED;
        snprintf(r->out->reason, sizeof r->out->reason, "%.500s", kas_error());
        return KAS_OK;
    }
    return status;
}

/* Makes the weights with which a candidate begins, unless it has them from an earlier rung or run.
 * They lie beside its checkpoint, and are made again, with the same bits, when they are gone. */
static kas_status imitate(run *r, bool *go_on)
{
    const kas_task *task = r->task;
    *go_on = true;
    if (!r->mine->shared->options.imitate || task->kind != KAS_WORK_CANDIDATE)
        return KAS_OK;
    kas_study_start_path(task->checkpoint, r->start);
    if (kas_file_exists(r->start))
        return KAS_OK;
    *go_on = enter(r, "preparing");
    if (!*go_on)
        return KAS_OK;
    KAS_TRY(build(r, KAS_STAGE_IMITATION));
    const kas_train_options options = training(r);
    KAS_TRY(reserve(r, &options, 2, go_on)); /* a network with twins and one without */
    return *go_on ? learn_to_imitate(r, go_on) : KAS_OK;
}

/* Returns the stage of the item's training. */
static kas_stage training_stage(const run *r)
{
    return kas_work_is_final(r->task->kind) ? KAS_STAGE_FINAL : KAS_STAGE_TRAINING;
}

/* Meets the other ranks; an item without ranks has no group. */
static kas_status meet(const run *r, kas_group **out)
{
    const kas_group_options options = {.folder = r->task->meeting,
                                       .name = r->task->attempt,
                                       .rank = r->task->rank,
                                       .ranks = r->task->ranks,
                                       .timeout = r->task->rank_timeout};
    *out = NULL;
    return r->task->ranks ? kas_group_open(r->mine->device, &options, out) : KAS_OK;
}

static kas_status train(run *r)
{
    kas_train_result result = {0};
    bool go_on;
    KAS_TRY(imitate(r, &go_on));
    kas_train_options options = training(r);
    if (!go_on || !enter(r, "preparing"))
        return KAS_OK;
    KAS_TRY(build(r, training_stage(r)));
    if (r->task->rank == 0) /* before the others read it: they wait for this rank */
        KAS_TRY(drop_useless_checkpoint(&options));
    KAS_TRY(reserve(r, &options, 1, &go_on));
    if (!go_on)
        return KAS_OK;
    KAS_TRY(meet(r, &options.group));
    const kas_status status = kas_train(r->mine->device, &options, &result);
    kas_group_close(options.group);
    KAS_TRY(status);
    set_state(r, &result, options.recipe.epochs);
    r->out->measured.accuracy = result.accuracy;
    r->out->measured.step_seconds = result.step_seconds;
    waited(r, result.compile_seconds);
    r->out->measured.memory = (double)result.memory;
    r->out->epoch = result.epoch; /* ours now */
    r->out->epochs = result.epochs;
    r->out->correct = result.correct;
    result.epoch = NULL;
    result.correct = NULL;
    kas_train_result_free(&result);
    return KAS_OK;
}

/* Memory that cannot be had is the item's own fault when its training is too large for the device;
 * otherwise somebody else has it.  Files (the data set, weights to start from) were good when this
 * worker opened the study: that they cannot be read any more is no fault of an item either, nor that
 * another rank of it has ended. */
static kas_status blame(run *r, kas_status status)
{
    const kas_train_options options = training(r);
    size_t bytes, room;
    if (status == KAS_BAD_INPUT || (status == KAS_DEVICE && r->task->ranks))
        return KAS_MACHINE;
    if (status != KAS_NO_MEMORY)
        return status;
    return build(r, training_stage(r)) == KAS_OK &&
                   plan_memory(r, &options, &bytes, &room) == KAS_OK && bytes > room
               ? KAS_NO_MEMORY
               : KAS_MACHINE;
}

/* Where measuring has machines of its own, the ones that train calibrate: with the initial weights,
 * which those that measure need not have, and before their trainings only. */
static kas_status calibrate_measure_train(run *r)
{
    const kas_task *task = r->task;
    const bool turns = task->kind == KAS_WORK_TURNS, once = task->role == KAS_TAKES_MEASURING;
    bool go_on = true;
    kas_status status = r->replacement && !once ? calibrate(r, &go_on) : KAS_OK;
    if (status == KAS_OK && go_on && !turns && task->rung == 0 && task->rank == 0 &&
        task->role != KAS_TAKES_TRAINING)
        status = measure(r, &go_on);
    if (status == KAS_OK && go_on && once && !turns)
        r->out->state = KAS_WORK_QUEUED;
    else if (status == KAS_OK && go_on)
        status = turns ? take_turns(r) : train(r);
    status = blame(r, status);
    kas_programs_free(&r->programs);
    return status;
}

static kas_status evaluate_task(run *r)
{
    const kas_task *task = r->task;
    const worker_state *b = r->mine->shared;
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
    slot_state *mine = own;
    run r = {.mine = mine, .slot = slot, .task = task, .out = out};
    kas_device_set_quiet(mine->device, be_alone, slot);
    const kas_status status = evaluate_task(&r);
    kas_device_set_quiet(mine->device, NULL, NULL);
    kas_device_trim(mine->device);
    return status;
}

/* A failure is the next call's to tell. */
static void settle(void *own)
{
    const slot_state *mine = own;
    if (kas_device_sync(mine->device) != KAS_OK)
        kas_debug("waiting for the device: %s", kas_error());
}

const kas_evaluator kas_evaluator_train = {open_worker, enter_slot,   evaluate,
                                           leave_slot,  close_worker, settle};
