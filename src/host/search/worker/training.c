/* The training of a work item, and the imitation before it. */
#include <stdio.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/search/worker/evaluation.h"
#include "host/train/checkpoint.h"
#include "host/train/digest.h"
#include "host/train/imitate.h"

/* Returns whether the item is at the rung that is an imitation, of which no training follows. */
static bool only_imitates(const kas_evaluation *r)
{
    return r->task->kind == KAS_WORK_CANDIDATE &&
           kas_search_rung_imitates(&r->mine->shared->options, r->task->rung);
}

static kas_verdict on_progress(void *context, uint64_t step, uint64_t steps, double loss)
{
    const kas_evaluation *r = context;
    return kas_slot_progress(r->slot, "training", step, steps, loss);
}

/* Where a candidate's epoch was not judged, the run ends like a pruned one, without a checkpoint: it
 * goes on from an earlier one, and the next supervisor is asked about the epoch. */
static kas_verdict on_epoch(void *context, const kas_epoch *epoch)
{
    kas_evaluation *r = context;
    if (r->task->rank > 0)
        return KAS_CONTINUE; /* rank 0 asks */
    const kas_verdict verdict = kas_slot_epoch(r->slot, epoch);
    r->unjudged = r->task->kind == KAS_WORK_CANDIDATE && !kas_slot_answered(r->slot);
    return r->unjudged ? KAS_PRUNE : verdict;
}

static void set_state(kas_evaluation *r, const kas_train_result *result, int epochs)
{
    switch (result->state) {
    case KAS_TRAINED:
        r->out->state = only_imitates(r) ? KAS_WORK_WAITING : KAS_WORK_FINISHED;
        break;
    case KAS_PRUNED:
        if (r->unjudged) {
            r->out->state = KAS_WORK_QUEUED;
            break;
        }
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
static kas_status plan_memory(const kas_evaluation *r, const kas_train_options *options,
                              size_t *bytes, size_t *room)
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
static kas_status reserve(kas_evaluation *r, const kas_train_options *options, int times,
                          bool *go_on)
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

static void on_exchange(void *context, const char *exchange)
{
    const kas_evaluation *r = context;
    if (r->task->rank == 0)
        kas_slot_exchange(r->slot, exchange);
}

/* The epoch behind the imitation is that of --imitate 1. */
static kas_recipe recipe_of(const kas_evaluation *r)
{
    kas_search_options options = r->mine->shared->options;
    if (only_imitates(r))
        options.imitate = 1;
    return kas_search_recipe(&options, r->task->kind == KAS_WORK_CANDIDATE);
}

static kas_train_options training(kas_evaluation *r)
{
    const kas_evaluation_shared *b = r->mine->shared;
    const bool final = kas_work_is_final(r->task->kind);
    return (kas_train_options){.net = b->problem.net,
                               .dataset = b->problem.dataset,
                               .programs = &r->programs,
                               .recipe = recipe_of(r),
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
                               .on_exchange = on_exchange,
                               .context = r,
                               .checkpoint = r->task->checkpoint,
                               .weights_out = only_imitates(r) ? NULL : r->task->weights,
                               .weights_in = *r->start ? r->start : r->task->init,
                               .init_partial = b->options.init_partial,
                               .ranks = r->task->ranks,
                               .sync_batch_norm = r->task->ranks && b->options.sync_batch_norm};
}

static kas_verdict on_imitation(void *context, uint64_t step, uint64_t steps, double missed)
{
    const kas_evaluation *r = context;
    return kas_slot_progress(r->slot, "imitating", step, steps, missed);
}

/* Screens a candidate out that misses too much of what its convolutions gave. */
static bool misses_too_much(kas_evaluation *r, const kas_imitate_result *result)
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

/* Has the study know what the kernels miss before their weights are there: whoever goes on with these
 * does not imitate again. Returns whether it does. */
static bool tell_missed(const kas_evaluation *r)
{
    (void)kas_slot_measured(r->slot, &r->out->measured); /* a stop is heard again */
    return kas_slot_answered(r->slot);
}

/* Takes the weights that imitation has made, where its candidate is not screened out: a file at
 * r->start is a verdict too, for a worker that goes on behind this one. */
static kas_status take_start(const kas_evaluation *r, const char *made, bool go_on)
{
    if (go_on)
        KAS_CHECK_LIBC(rename(made, r->start) == 0, KAS_FAILURE);
    else
        unlink(made);
    return KAS_OK;
}

static kas_status learn_to_imitate(kas_evaluation *r, bool *go_on)
{
    enum { STEPS = 100 }; /* enough: docs/training.md, Imitation */
    kas_imitate_options options = {.train = training(r), .unscored = true};
    kas_train_options *t = &options.train;
    kas_imitate_result result;
    char made[KAS_STUDY_PATH + 8];
    snprintf(made, sizeof made, "%s.made", r->start);
    KAS_TRY(kas_recipe_load("imitation", &t->recipe, NULL));
    t->recipe.batch = r->mine->shared->options.recipe.batch;
    options.images = STEPS * (uint32_t)t->recipe.batch;
    if (options.images > t->train_count)
        options.images = 0;
    t->weights_in = r->task->init;
    t->weights_out = made;
    t->on_progress = on_imitation;
    const kas_status status = kas_imitate(r->mine->device, &options, &result);
    kas_evaluation_waited(r, result.compile_seconds);
    if (status == KAS_OK) {
        r->out->measured.missed = result.mean;
        kas_info(
            "after %u steps of imitation the kernels miss %.1f%% of the convolutions' variance",
            result.steps, 100 * result.mean);
    }
    *go_on = status == KAS_OK && !misses_too_much(r, &result);
    kas_imitate_result_free(&result);
    if (status == KAS_INTERRUPTED || (*go_on && !tell_missed(r))) {
        *go_on = false;
        r->out->state = KAS_WORK_QUEUED;
        return KAS_OK;
    }
    if (status == KAS_NOTHING_VALID) {
        r->out->state = KAS_WORK_DIVERGED;
        snprintf(r->out->reason, sizeof r->out->reason, "%.500s", kas_error());
        return KAS_OK;
    }
    return status == KAS_OK ? take_start(r, made, *go_on) : status;
}

/* Makes the weights with which a candidate begins, unless it has them from an earlier rung or run.
 * They lie beside its checkpoint, and are made again, with the same bits, when they are gone. */
static kas_status imitate(kas_evaluation *r, bool *go_on)
{
    const kas_task *task = r->task;
    *go_on = true;
    const bool always = r->mine->shared->options.imitate && task->kind == KAS_WORK_CANDIDATE;
    if (!always && !only_imitates(r))
        return KAS_OK;
    kas_study_start_path(task->checkpoint, r->start);
    if (kas_file_exists(r->start))
        return KAS_OK;
    *go_on = kas_evaluation_enter(r, "preparing");
    if (!*go_on)
        return KAS_OK;
    KAS_TRY(kas_evaluation_build(r, KAS_STAGE_IMITATION, NULL));
    const kas_train_options options = training(r);
    KAS_TRY(reserve(r, &options, 2, go_on)); /* a network with twins and one without */
    return *go_on ? learn_to_imitate(r, go_on) : KAS_OK;
}

/* Returns the stage of the item's training. */
static kas_stage training_stage(const kas_evaluation *r)
{
    return kas_work_is_final(r->task->kind) ? KAS_STAGE_FINAL : KAS_STAGE_TRAINING;
}

/* Meets the other ranks; an item without ranks has no group. */
static kas_status meet(const kas_evaluation *r, kas_group **out)
{
    const kas_group_options options = {.folder = r->task->meeting,
                                       .name = r->task->attempt,
                                       .rank = r->task->rank,
                                       .ranks = r->task->ranks,
                                       .timeout = r->task->rank_timeout,
                                       .capture = r->mine->shared->options.capture_exchange};
    *out = NULL;
    return r->task->ranks ? kas_group_open(r->mine->device, &options, out) : KAS_OK;
}

kas_status kas_evaluation_train(kas_evaluation *r)
{
    kas_train_result result = {0};
    bool go_on;
    KAS_TRY(imitate(r, &go_on));
    kas_train_options options = training(r);
    if (!go_on || !kas_evaluation_enter(r, "preparing"))
        return KAS_OK;
    KAS_TRY(kas_evaluation_build(r, training_stage(r), NULL));
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
    kas_evaluation_waited(r, result.compile_seconds);
    r->out->measured.memory = (double)result.memory;
    r->out->epoch = result.epoch; /* ours now */
    r->out->epochs = result.epochs;
    r->out->correct = result.correct;
    if (r->out->state == KAS_WORK_WAITING && only_imitates(r)) { /* nothing goes on from these */
        unlink(options.checkpoint);
        unlink(r->start);
    }
    result.epoch = NULL;
    result.correct = NULL;
    kas_train_result_free(&result);
    return KAS_OK;
}

/* Memory that cannot be had is the item's own fault when its training is too large for the device;
 * otherwise somebody else has it.  Files (the data set, weights to start from) were good when this
 * worker opened the study: that they cannot be read any more is no fault of an item either, nor
 * that another rank of it has ended. */
kas_status kas_evaluation_blame(kas_evaluation *r, kas_status status)
{
    const kas_train_options options = training(r);
    size_t bytes, room;
    if (status == KAS_BAD_INPUT || (status == KAS_DEVICE && r->task->ranks))
        return KAS_MACHINE;
    if (status != KAS_NO_MEMORY)
        return status;
    return kas_evaluation_build(r, training_stage(r), NULL) == KAS_OK &&
                   plan_memory(r, &options, &bytes, &room) == KAS_OK && bytes > room
               ? KAS_NO_MEMORY
               : KAS_MACHINE;
}
