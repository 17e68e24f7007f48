/* The latency of a work item: its forward pass in turns with that of the unmodified network. */
#include <stdio.h>
#include <stdlib.h>

#include "host/core/log.h"
#include "host/predict/turns.h"
#include "host/search/worker/evaluation.h"
#include "host/tune/tune.h"
#include "jit/tuned.h"

/* Times the network in turns with the unmodified one: how busy the machine is at the moment, both
 * feel alike. Both networks are compiled, drawn and uploaded before the neighbours are made to wait:
 * that takes the host much longer than the device needs for the turns. */
static kas_status time_in_turns(kas_evaluation *r, int turns, double most_seconds)
{
    const kas_evaluation_shared *shared = r->mine->shared;
    kas_turns *taken = NULL;
    kas_turns_result found = {0};
    double seconds;
    KAS_TRY(kas_programs_load(&r->programs, r->mine->device, NULL, &seconds));
    kas_evaluation_waited(r, seconds);
    kas_status status =
        kas_turns_create(r->mine->device, shared->problem.net, KAS_LATENCY_BATCH,
                         (kas_precision)shared->options.recipe.precision, NULL, &taken);
    if (status == KAS_OK)
        status = kas_turns_prepare(taken, &r->programs);
    if (status == KAS_OK) {
        kas_slot_begin_alone(r->slot);
        status = kas_turns_measure(taken, &r->programs, turns, most_seconds, &found);
    }
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
static bool is_tuned(const kas_evaluation *r)
{
    const int whose = r->mine->shared->options.tune;
    return r->replacement && (whose == KAS_TUNE_ALL ||
                              (whose == KAS_TUNE_FRONTIER && (r->task->kind == KAS_WORK_TURNS ||
                                                              kas_work_is_final(r->task->kind))));
}

/* Searches the schedules of the inference's launches, or takes those that the study has, and lowers
 * the candidate with them. A search that fails costs the item its tuned schedules and nothing else,
 * unless the device or the machine is at fault. */
static kas_status tune(kas_evaluation *r, bool *go_on)
{
    const kas_device_info *info = kas_device_get_info(r->mine->device);
    char folder[4096];
    kas_machine machine;
    kas_tune_options options = {.trials = KAS_TUNE_TRIALS,
                                .seed = r->mine->shared->options.seed,
                                .folder = folder,
                                .pins = getenv("KAS_SCHEDULE_PINS"),
                                .begin = kas_evaluation_be_alone,
                                .quiet = r->slot};
    KAS_TRY(kas_tuned_folder(info, folder));
    KAS_TRY(kas_machine_of(info, &machine));
    for (int p = 0; p < r->programs.count; p++) {
        kas_tuned tuned;
        *go_on = kas_evaluation_enter(r, "tuning");
        if (!*go_on)
            return KAS_OK;
        const kas_status status =
            kas_tune(r->mine->device, &machine, NULL, &r->programs, p, &options, &tuned);
        kas_slot_end_alone(r->slot);
        if (status == KAS_DEVICE_LOST || status == KAS_MACHINE)
            return status;
        if (status == KAS_OK)
            kas_tuned_free(&tuned);
        else
            kas_warn("tuning: %s; launches have their default schedules", kas_error());
    }
    return kas_evaluation_build(r, KAS_STAGE_LATENCY, options.pins ? options.pins : folder);
}

kas_status kas_evaluation_measure(kas_evaluation *r, bool *go_on)
{
    enum { TURNS = 10 };
    const double most_seconds = 0.25;
    const kas_search_options *options = &r->mine->shared->options;
    const kas_measured *measured = &r->out->measured;
    /* The programs of the calibration are of inference in float32. */
    const bool serve =
        r->programs.count && !is_tuned(r) && options->recipe.precision == KAS_PRECISION_FP32 &&
        (kas_programs_take_gains(&r->programs) || !kas_replacement_scales(r->replacement));
    *go_on = kas_evaluation_enter(r, "measuring");
    if (!*go_on)
        return KAS_OK;
    if (!serve)
        KAS_TRY(kas_evaluation_build(r, KAS_STAGE_LATENCY, NULL));
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
kas_status kas_evaluation_take_turns(kas_evaluation *r)
{
    enum { TURNS = 30 };
    const double most_seconds = 5;
    bool go_on = kas_evaluation_enter(r, "measuring in turns");
    if (!go_on)
        return KAS_OK;
    KAS_TRY(kas_evaluation_build(r, KAS_STAGE_LATENCY, NULL));
    if (is_tuned(r))
        KAS_TRY(tune(r, &go_on));
    if (!go_on)
        return KAS_OK;
    KAS_TRY(time_in_turns(r, TURNS, most_seconds));
    r->out->state = KAS_WORK_FINISHED;
    return KAS_OK;
}
