/* What a worker said, and what follows from it: leases, epochs, verdicts, ends of items. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "host/core/files.h"
#include "host/search/judge.h"
#include "host/search/supervisor_state.h"
#include "host/search/worker.h"

static kas_status trim_checkpoints(kas_supervisor *s, const char *own)
{
    int workers = s->options->workers, dropped;
    char(*path)[KAS_STUDY_PATH] = calloc((size_t)workers, sizeof *path);
    const char **keep = calloc((size_t)workers + 2, sizeof *keep);
    kas_status status = path && keep ? KAS_OK : kas_fail(KAS_NO_MEMORY, "out of memory");
    int n = 0;
    for (int i = 0; i < workers && status == KAS_OK; i++)
        if (s->slot[i].busy) {
            status = kas_study_checkpoint_path(s->options->study, &s->slot[i].work, path[n]);
            keep[n] = path[n];
            n++;
        }
    if (status == KAS_OK) {
        keep[n] = own;
        status = kas_study_trim_checkpoints(s->options->study, s->options->checkpoint_limit, keep,
                                            &dropped);
    }
    free(keep);
    free(path);
    return status;
}

kas_status kas_slot_give(kas_supervisor *s, kas_slot *slot, kas_work *work)
{
    const char *study = s->options->study;
    char log[KAS_STUDY_PATH], checkpoint[KAS_STUDY_PATH], weights[KAS_STUDY_PATH];
    char init[KAS_STUDY_PATH];
    slot->work = *work;
    *work = (kas_work){0};
    slot->busy = true;
    slot->dropped = slot->hung = false;
    slot->last_heard = slot->last_renewed = kas_monotonic();
    snprintf(slot->phase, sizeof slot->phase, "starting");
    slot->fraction = 0;
    KAS_TRY(kas_study_log_path(study, &slot->work, log));
    KAS_TRY(kas_study_checkpoint_path(study, &slot->work, checkpoint));
    KAS_TRY(kas_study_weights_path(study, &slot->work, weights));
    KAS_TRY(kas_study_path(study, KAS_STUDY_INIT, init));
    KAS_TRY(trim_checkpoints(s, checkpoint));
    cJSON *message = kas_message("work");
    kas_message_number(message, "id", (double)slot->work.id);
    kas_message_number(message, "kind", slot->work.kind);
    kas_message_number(message, "index", (double)slot->work.index);
    kas_message_text(message, "name", slot->work.name);
    kas_message_text(message, "kernel", slot->work.kernel);
    kas_message_text(message, "log", log);
    kas_message_text(message, "checkpoint", checkpoint);
    bool unwanted = slot->work.kind == KAS_WORK_CANDIDATE && s->options->weights_limit == 0;
    kas_message_text(message, "weights", *weights && !unwanted ? weights : NULL);
    kas_message_text(message, "init", *s->options->search->init ? init : NULL);
    kas_supervisor_emit(s, KAS_EVENT_STARTED, &slot->work, NULL);
    /* A worker that died meanwhile shows at its pipe's end; the item is not lost. */
    return kas_channel_send(&slot->channel, message) == KAS_NO_MEMORY ? KAS_NO_MEMORY : KAS_OK;
}

/* Another supervisor has the item now: whatever this worker still does is of no use. */
static void drop(kas_slot *slot)
{
    slot->dropped = true;
    kas_process_kill(&slot->process);
}

static kas_status save_kernel(kas_supervisor *s, const kas_work *work)
{
    char path[KAS_STUDY_PATH], relative[64];
    if (!work->kernel || work->kind != KAS_WORK_CANDIDATE || work->state != KAS_WORK_FINISHED)
        return KAS_OK;
    snprintf(relative, sizeof relative, "kernels/%s.json", work->name);
    KAS_TRY(kas_study_path(s->options->study, relative, path));
    return kas_file_write_atomic(path, work->kernel, strlen(work->kernel));
}

/* Commits the end of the slot's item, then tells of it. */
static kas_status finish(kas_supervisor *s, kas_slot *slot, kas_work_state state,
                         const char *reason, const kas_measured *measured)
{
    bool held;
    slot->work.state = state;
    KAS_TRY(save_kernel(s, &slot->work)); /* before the commit: what is finished has its file */
    KAS_TRY(kas_store_finish(s->store, slot->work.id, slot->work.lease, state, reason, measured,
                             &held));
    slot->busy = false;
    if (held) {
        kas_study_drop_checkpoint(s->options->study, &slot->work);
        KAS_TRY(kas_supervisor_refresh(s));
        KAS_TRY(kas_supervisor_keep_weights(s));
        for (int i = 0; i < s->count; i++)
            if (s->list[i].id == slot->work.id)
                kas_supervisor_emit(s, KAS_EVENT_ENDED, &s->list[i], NULL);
    }
    kas_work_clear(&slot->work);
    return KAS_OK;
}

static kas_status release(kas_supervisor *s, kas_slot *slot, bool died)
{
    bool held;
    KAS_TRY(kas_store_release(s->store, slot->work.id, slot->work.lease, died, &held));
    slot->busy = false;
    kas_work_clear(&slot->work);
    return kas_supervisor_refresh(s);
}

static kas_status hear_progress(kas_supervisor *s, kas_slot *slot, const cJSON *message)
{
    double step = kas_message_get_number(message, "step"),
           steps = kas_message_get_number(message, "steps");
    snprintf(slot->phase, sizeof slot->phase, "%s", kas_message_get_text(message, "phase"));
    slot->fraction = steps > 0 ? step / steps : 0;
    if (slot->last_heard - slot->last_renewed < kas_supervisor_lease(s) / 4)
        return KAS_OK;
    bool held;
    KAS_TRY(
        kas_store_renew(s->store, slot->work.id, slot->work.lease, kas_supervisor_lease(s), &held));
    slot->last_renewed = slot->last_heard;
    if (!held)
        drop(slot);
    return KAS_OK;
}

/* The answer to a question; a stop that is under way goes with it. */
static kas_status answer(kas_supervisor *s, kas_slot *slot, bool prune)
{
    cJSON *message = kas_message("verdict");
    kas_message_text(message, "verdict", s->stopping ? "stop" : prune ? "prune" : "continue");
    return kas_channel_send(&slot->channel, message) == KAS_NO_MEMORY ? KAS_NO_MEMORY : KAS_OK;
}

static double baseline_latency(const kas_supervisor *s)
{
    for (int i = 0; i < s->count; i++)
        if (s->list[i].kind == KAS_WORK_BASELINE)
            return s->list[i].measured.latency;
    return NAN;
}

static kas_status hear_measured(kas_supervisor *s, kas_slot *slot, const cJSON *message)
{
    kas_measured measured = kas_measured_from(message);
    bool held;
    KAS_TRY(kas_store_record_measured(s->store, slot->work.id, slot->work.lease, &measured, &held));
    if (!held) {
        drop(slot);
        return KAS_OK;
    }
    KAS_TRY(kas_supervisor_refresh(s));
    slot->work.measured = measured;
    double limit = s->options->search->latency * baseline_latency(s);
    return answer(s, slot,
                  slot->work.kind == KAS_WORK_CANDIDATE && limit > 0 && measured.latency > limit);
}

static void free_curves(kas_curve *curve, int count)
{
    for (int i = 0; i < count; i++)
        free((void *)curve[i].accuracy);
    free(curve);
}

static kas_status load_curve(kas_supervisor *s, const kas_work *work, kas_curve *out)
{
    kas_epoch *epoch;
    int epochs;
    KAS_TRY(kas_store_epochs(s->store, work->id, &epoch, &epochs));
    double *accuracy = malloc(sizeof *accuracy * (size_t)(epochs ? epochs : 1));
    for (int e = 0; accuracy && e < epochs; e++)
        accuracy[e] = epoch[e].validation_accuracy;
    free(epoch);
    *out = (kas_curve){work->index, work->measured.latency, work->flops, epochs, accuracy};
    return accuracy ? KAS_OK : kas_fail(KAS_NO_MEMORY, "curves: out of memory");
}

static kas_status judge(kas_supervisor *s, const kas_slot *slot, const kas_epoch *epoch,
                        bool *prune)
{
    *prune = false;
    if (slot->work.kind != KAS_WORK_CANDIDATE || strcmp(s->options->search->prune, "none") == 0)
        return KAS_OK;
    int count = 0;
    kas_curve *curve = calloc((size_t)s->count + 1, sizeof *curve);
    kas_status status = curve ? KAS_OK : kas_fail(KAS_NO_MEMORY, "curves: out of memory");
    for (int i = 0; i < s->count && status == KAS_OK; i++)
        if (s->list[i].kind == KAS_WORK_CANDIDATE && s->list[i].state == KAS_WORK_FINISHED) {
            status = load_curve(s, &s->list[i], &curve[count]);
            count += status == KAS_OK;
        }
    if (status == KAS_OK)
        *prune = kas_judge_prune(s->options->search, curve, count, slot->work.index, epoch->epoch,
                                 epoch->validation_accuracy, slot->work.measured.latency,
                                 slot->work.flops);
    free_curves(curve, count);
    return status;
}

static kas_status hear_epoch(kas_supervisor *s, kas_slot *slot, const cJSON *message)
{
    kas_epoch epoch = kas_epoch_from(message);
    bool held, prune;
    if (epoch.epoch < 0)
        return kas_fail(KAS_BAD_INPUT, "epoch: number missing");
    KAS_TRY(kas_store_record_epoch(s->store, slot->work.id, slot->work.lease, &epoch, &held));
    if (!held) {
        drop(slot);
        return KAS_OK;
    }
    KAS_TRY(
        kas_store_renew(s->store, slot->work.id, slot->work.lease, kas_supervisor_lease(s), &held));
    slot->last_renewed = slot->last_heard;
    KAS_TRY(kas_supervisor_refresh(s)); /* also curves that another supervisor has added */
    KAS_TRY(judge(s, slot, &epoch, &prune));
    return answer(s, slot, prune);
}

static kas_status hear_result(kas_supervisor *s, kas_slot *slot, const cJSON *message)
{
    kas_work_state state;
    const char *reason = kas_message_get_text(message, "reason");
    kas_measured measured = kas_measured_from(message);
    if (!kas_work_state_parse(kas_message_get_text(message, "state"), &state))
        return kas_fail(KAS_BAD_INPUT, "result: unknown state");
    if (state == KAS_WORK_QUEUED)
        return release(s, slot, false);
    if (!kas_work_ended(state))
        return kas_fail(KAS_BAD_INPUT, "result: state \"%s\"", kas_work_state_name(state));
    if (state == KAS_WORK_DEVICE_LOST)
        slot->ending = true; /* the next item must not go down with this worker */
    const cJSON *one;
    bool held = true;
    cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(message, "curve"))
    {
        kas_epoch epoch = kas_epoch_from(one);
        if (epoch.epoch >= 0)
            KAS_TRY(
                kas_store_record_epoch(s->store, slot->work.id, slot->work.lease, &epoch, &held));
    }
    return finish(s, slot, state, reason, &measured);
}

static kas_status hear_ready(kas_supervisor *s, kas_slot *slot, const cJSON *message)
{
    const char *name = kas_message_get_text(message, "device");
    kas_study study;
    slot->ready = true;
    slot->failed_starts = 0;
    KAS_TRY(kas_store_set_device(s->store, name));
    KAS_TRY(kas_store_get_study(s->store, &study));
    if (strcmp(study.device, name) != 0) {
        char text[400];
        snprintf(text, sizeof text,
                 "this study began on \"%s\", this is \"%s\": latencies are not comparable and "
                 "results not bit-identical",
                 study.device, name);
        kas_supervisor_emit(s, KAS_EVENT_NOTE, NULL, text);
    }
    kas_study_clear(&study);
    return KAS_OK;
}

kas_status kas_slot_hear(kas_supervisor *s, kas_slot *slot, const cJSON *message)
{
    slot->last_heard = kas_monotonic();
    if (kas_message_is(message, "ready"))
        return hear_ready(s, slot, message);
    if (kas_message_is(message, "error")) {
        snprintf(slot->error, sizeof slot->error, "%s", kas_message_get_text(message, "message"));
        slot->error_status = (kas_status)kas_message_get_number(message, "status");
        return KAS_OK;
    }
    if (!slot->busy || slot->dropped ||
        (int64_t)kas_message_get_number(message, "id") != slot->work.id)
        return KAS_OK; /* about an item that it no longer has */
    if (kas_message_is(message, "progress"))
        return hear_progress(s, slot, message);
    if (kas_message_is(message, "measured"))
        return hear_measured(s, slot, message);
    if (kas_message_is(message, "epoch"))
        return hear_epoch(s, slot, message);
    if (kas_message_is(message, "result"))
        return hear_result(s, slot, message);
    return kas_fail(KAS_BAD_INPUT, "message of unknown type");
}

/* Signals that come from outside (an administrator, the kernel short of memory) and say nothing
 * against the candidate. */
static bool from_outside(int number)
{
    return number == SIGKILL || number == SIGTERM || number == SIGINT || number == SIGHUP;
}

kas_status kas_slot_died(kas_supervisor *s, kas_slot *slot, int wait_status, const char *nonsense)
{
    kas_measured unknown = kas_measured_unknown();
    char reason[400];
    int limit = s->options->max_deaths ? s->options->max_deaths : 3;
    if (slot->dropped)
        return release(s, slot, false); /* changes nothing: the lease is another's */
    if (slot->hung) {
        snprintf(reason, sizeof reason, "no progress for %.0f s while %s; the worker was killed",
                 s->options->hang_seconds, slot->phase);
        return finish(s, slot, KAS_WORK_HUNG, reason, &unknown);
    }
    if (nonsense) {
        snprintf(reason, sizeof reason, "the worker's answer could not be read: %.300s", nonsense);
        return finish(s, slot, KAS_WORK_FAILED, reason, &unknown);
    }
    int number = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
    if (number == 0) {
        snprintf(reason, sizeof reason, "the worker ended with exit code %d while %s",
                 WEXITSTATUS(wait_status), slot->phase);
        return finish(s, slot, KAS_WORK_FAILED, reason, &unknown);
    }
    if (!from_outside(number)) {
        snprintf(reason, sizeof reason, "the worker died of signal %d (%s) while %s", number,
                 strsignal(number), slot->phase);
        return finish(s, slot, KAS_WORK_CRASHED, reason, &unknown);
    }
    if (slot->work.deaths + 1 < limit)
        return release(s, slot, true);
    snprintf(reason, sizeof reason,
             "its worker was killed %d times (signal %d): is the machine short of memory?",
             slot->work.deaths + 1, number);
    return finish(s, slot, KAS_WORK_FAILED, reason, &unknown);
}
