/* Handles the messages of workers: leases, epochs, verdicts, ends of items. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "host/core/arena.h"
#include "host/leaderboard/rungs.h"
#include "host/leaderboard/publish.h"
#include "host/search/supervisor/supervisor_state.h"
#include "host/search/worker/worker.h"

int kas_worker_busy(const kas_supervisor *s, const kas_worker *worker)
{
    int busy = 0;
    for (int i = 0; i < s->options->pack; i++)
        busy += worker->item[i].busy;
    return busy;
}

/* Returns how many faults of the machine an item may have in a run. */
static int most_faults(const kas_supervisor *s)
{
    return s->options->max_deaths ? s->options->max_deaths : 3;
}

/* The checkpoints of all running items are kept, those of other supervisors too. */
static kas_status trim_checkpoints(kas_supervisor *s)
{
    int n = 0, dropped;
    for (int i = 0; i < s->count; i++)
        n += s->list[i].state == KAS_WORK_RUNNING;
    char(*path)[KAS_STUDY_PATH] = calloc((size_t)n + 1, sizeof *path);
    const char **keep = calloc((size_t)n + 1, sizeof *keep);
    kas_status status = path && keep ? KAS_OK : kas_fail(KAS_NO_MEMORY, "out of memory");
    for (int i = n = 0; i < s->count && status == KAS_OK; i++)
        if (s->list[i].state == KAS_WORK_RUNNING) {
            status = kas_study_checkpoint_path(s->options->study, &s->list[i], path[n]);
            keep[n] = path[n];
            n++;
        }
    if (status == KAS_OK)
        status = kas_study_trim_checkpoints(s->options->study, s->options->checkpoint_limit, keep,
                                            &dropped);
    free(keep);
    free(path);
    return status;
}

/* Writes the path of the weights with which an item begins; "" = random ones. */
static kas_status initial_weights(const kas_supervisor *s, const kas_work *work,
                                  char out[KAS_STUDY_PATH])
{
    const kas_search_options *o = s->options->search;
    out[0] = 0;
    if (work->kind == KAS_WORK_CANDIDATE && kas_search_warm(o, work->rung))
        return kas_study_weights_path(s->options->study, &(kas_work){.kind = KAS_WORK_BASELINE},
                                      out);
    return o->init[0] ? kas_study_path(s->options->study, KAS_STUDY_INIT, out) : KAS_OK;
}

/* Returns whether the trained weights of an item are kept, at least until it has ended. */
static bool keeps_weights(const kas_supervisor *s, const kas_work *work)
{
    return work->kind == KAS_WORK_BASELINE    ? kas_search_warm(s->options->search, 0)
           : work->kind == KAS_WORK_CANDIDATE ? s->options->weights_limit > 0
                                              : true;
}

static kas_status send_work(kas_supervisor *s, kas_worker *worker, const kas_item *item,
                            const kas_work *work)
{
    const char *study = s->options->study;
    char log[KAS_STUDY_PATH], checkpoint[KAS_STUDY_PATH], weights[KAS_STUDY_PATH];
    char init[KAS_STUDY_PATH];
    KAS_TRY(kas_study_log_path(study, work, log));
    KAS_TRY(kas_study_checkpoint_path(study, work, checkpoint));
    KAS_TRY(kas_study_weights_path(study, work, weights));
    KAS_TRY(initial_weights(s, work, init));
    KAS_TRY(trim_checkpoints(s));
    cJSON *message = kas_message("work");
    kas_message_number(message, "id", (double)work->id);
    kas_message_number(message, "kind", work->kind);
    kas_message_number(message, "index", (double)work->index);
    kas_message_number(message, "seed", (double)work->seed);
    kas_message_text(message, "name", work->name);
    kas_message_text(message, "kernel", work->kernel);
    kas_message_text(message, "gains", work->gains);
    kas_message_text(message, "log", log);
    kas_message_text(message, "checkpoint", checkpoint);
    kas_message_text(message, "weights", *weights && keeps_weights(s, work) ? weights : NULL);
    kas_message_text(message, "init", *init ? init : NULL);
    kas_message_number(message, "role", s->options->role);
    if (work->kind == KAS_WORK_CANDIDATE) {
        kas_message_number(message, "rung", work->rung);
        kas_message_number(message, "until", kas_rungs_epochs(s->options->search, work->rung));
    }
    const kas_status status = kas_ranks_describe(s, item, message);
    if (status != KAS_OK) {
        cJSON_Delete(message);
        return status;
    }
    /* If the worker has died, the end of its pipe will show it; the item is not lost. */
    return kas_channel_send(&worker->channel, message) == KAS_NO_MEMORY ? KAS_NO_MEMORY : KAS_OK;
}

kas_status kas_worker_give(kas_supervisor *s, kas_worker *worker, kas_work *work)
{
    kas_item *item = worker->item;
    const bool shared = kas_worker_busy(s, worker) > 0;
    while (item->busy)
        item++; /* the caller has checked that there is one */
    *item = (kas_item){.busy = true, .shared = shared, .work = *work};
    *work = (kas_work){0};
    item->last_heard = kas_supervisor_listened(s);
    item->last_renewed = item->given = kas_monotonic();
    snprintf(item->phase, sizeof item->phase, "starting");
    for (int i = 0; i < s->options->pack; i++)
        worker->item[i].shared |= shared;
    if (s->options->search->ranks > 1 && kas_work_is_final(item->work.kind))
        KAS_TRY(kas_ranks_begin(s, worker));
    KAS_TRY(send_work(s, worker, item, &item->work));
    for (int rank = 1; rank < item->ranks; rank++)
        KAS_TRY(send_work(s, worker + rank, worker[rank].item, &item->work));
    kas_supervisor_emit(s, KAS_EVENT_STARTED, &item->work, NULL);
    return KAS_OK;
}

/* Drops an item that another supervisor has now: the results of this worker are ignored. */
static void drop(kas_worker *worker, kas_item *item)
{
    item->dropped = true;
    kas_process_kill(&worker->process);
}

static kas_status save_kernel(kas_supervisor *s, const kas_work *work)
{
    char path[KAS_STUDY_PATH], relative[64];
    if (!work->kernel || work->kind != KAS_WORK_CANDIDATE || work->state != KAS_WORK_FINISHED)
        return KAS_OK;
    snprintf(relative, sizeof relative, "kernels/%s.json", work->name);
    KAS_TRY(kas_study_path(s->options->study, relative, path));
    return kas_publish_kernel(work, path);
}

void kas_worker_clear(kas_supervisor *s, kas_worker *worker, kas_item *item)
{
    kas_work_clear(&item->work);
    cJSON_Delete(item->result);
    item->result = NULL;
    item->busy = false;
    worker->solo &= kas_worker_busy(s, worker) > 0;
}

/* Returns whether candidates of a later generation were drawn, which depend on the result of this
 * one: it must stay as it is. */
static bool decides_already(const kas_supervisor *s, int64_t id)
{
    int own = 0, newest = 0;
    for (int i = 0; i < s->count; i++) {
        const kas_work *w = &s->list[i];
        newest = w->generation > newest ? w->generation : newest;
        own = w->id == id ? w->generation : own;
    }
    return own < newest;
}

/* Counts candidates that end in a row by what may be a fault of the machine. A single one is
 * attributed to the candidate, which the next run tries again. After several the machine is
 * considered unfit, and the candidates wait for a better one. When later candidates depend on
 * earlier ones (--prune deterministic, generations), none may be left out, so the first ends the
 * search. */
static kas_status count_faults(kas_supervisor *s, int64_t id, kas_work_state state,
                               const char *reason)
{
    const kas_search_options *search = s->options->search;
    const bool exact =
        strcmp(search->prune, "deterministic") == 0 || kas_search_in_generations(search);
    if (state != KAS_WORK_MACHINE_FAULT && state != KAS_WORK_DEVICE_LOST) {
        s->faults = 0;
        return KAS_OK;
    }
    s->fault[s->faults++] = id;
    if (s->faults < KAS_FAULTS_IN_A_ROW && !(exact && state == KAS_WORK_MACHINE_FAULT))
        return KAS_OK;
    for (int i = 0; i < s->faults; i++)
        if (!decides_already(s, s->fault[i]))
            KAS_TRY(kas_store_requeue(s->store,
                                      &(kas_work){.id = s->fault[i], .kind = KAS_WORK_CANDIDATE}));
    return kas_fail(KAS_MACHINE,
                    "%s: this machine could not evaluate %d %s, %d times each: %.400s; they are in "
                    "the queue again: when the machine is repaired, run the same command",
                    s->options->study, s->faults,
                    s->faults > 1 ? "candidates in a row" : "candidate", most_faults(s), reason);
}

/* Commits the end of the item, then emits its event. */
static kas_status finish(kas_supervisor *s, kas_worker *worker, kas_item *item,
                         kas_work_state state, const char *reason, const kas_measured *measured)
{
    bool held;
    kas_work *work = &item->work;
    work->state = state;
    KAS_TRY(save_kernel(s, work)); /* before the commit: every finished candidate has its file */
    KAS_TRY(kas_store_finish(s->store, work->id, work->lease, state, reason, measured, &held));
    item->busy = false;
    if (held) {
        kas_study_drop_checkpoint(s->options->study, work);
        KAS_TRY(kas_supervisor_refresh(s));
        KAS_TRY(kas_supervisor_keep_weights(s));
        for (int i = 0; i < s->count; i++)
            if (s->list[i].id == work->id)
                kas_supervisor_emit(s, KAS_EVENT_ENDED, &s->list[i], NULL);
    }
    const int64_t id = work->id;
    const bool counts = held && work->kind == KAS_WORK_CANDIDATE;
    kas_worker_clear(s, worker, item);
    return counts ? count_faults(s, id, state, reason) : KAS_OK;
}

/* The item has reached its rung. */
static kas_status pause_at_rung(kas_supervisor *s, kas_worker *worker, kas_item *item,
                                const kas_measured *measured)
{
    bool held;
    KAS_TRY(kas_store_pause(s->store, item->work.id, item->work.lease, measured, &held));
    kas_worker_clear(s, worker, item);
    return kas_supervisor_refresh(s);
}

kas_status kas_worker_release(kas_supervisor *s, kas_worker *worker, kas_item *item, bool failed)
{
    bool held;
    const bool counts = failed && !s->stopping;
    KAS_TRY(kas_store_release(s->store, item->work.id, item->work.lease, counts, &held));
    kas_worker_clear(s, worker, item);
    return kas_supervisor_refresh(s);
}

/* Returns the item to the queue, to be tried again alone. */
static kas_status retry_alone(kas_supervisor *s, kas_worker *worker, kas_item *item, bool failed)
{
    if (!KAS_GROW(s->solo, s->solos))
        return kas_fail(KAS_NO_MEMORY, "items to be tried alone: out of memory");
    s->solo[s->solos++] = item->work.id;
    return kas_worker_release(s, worker, item, failed);
}

static kas_status hear_progress(kas_supervisor *s, kas_worker *worker, kas_item *item,
                                const cJSON *message)
{
    double step = kas_message_get_number(message, "step"),
           steps = kas_message_get_number(message, "steps");
    snprintf(item->phase, sizeof item->phase, "%s", kas_message_get_text(message, "phase"));
    item->fraction = steps > 0 ? step / steps : 0;
    const double now = kas_monotonic(); /* leases end in real time */
    if (item->rank > 0 || now - item->last_renewed < kas_supervisor_lease(s) / 4)
        return KAS_OK;
    bool held;
    KAS_TRY(
        kas_store_renew(s->store, item->work.id, item->work.lease, kas_supervisor_lease(s), &held));
    item->last_renewed = now;
    if (!held)
        drop(worker, item);
    return KAS_OK;
}

/* Answers a worker's question. The answer also carries a pending stop, but a verdict comes first: a
 * worker that stops saves a checkpoint behind the epoch, and nobody would ask about it again, so the
 * candidates that are pruned would depend on when a search is stopped. */
static kas_status answer(kas_supervisor *s, kas_worker *worker, const kas_item *item, bool prune)
{
    cJSON *message = kas_message("verdict");
    kas_message_number(message, "id", (double)item->work.id);
    kas_message_text(message, "verdict", prune ? "prune" : s->stopping ? "stop" : "continue");
    return kas_channel_send(&worker->channel, message) == KAS_NO_MEMORY ? KAS_NO_MEMORY : KAS_OK;
}

static kas_status hear_calibrated(kas_supervisor *s, kas_worker *worker, kas_item *item,
                                  const cJSON *message)
{
    bool held;
    char *gains = strdup(kas_message_get_text(message, "gains"));
    if (!gains)
        return kas_fail(KAS_NO_MEMORY, "gains: out of memory");
    free(item->work.gains);
    item->work.gains = gains;
    KAS_TRY(kas_store_record_gains(s->store, item->work.id, item->work.lease, gains, &held));
    if (!held)
        drop(worker, item);
    return KAS_OK;
}

static kas_status hear_measured(kas_supervisor *s, kas_worker *worker, kas_item *item,
                                const cJSON *message)
{
    const kas_measured measured = kas_verdict_measured(s, &item->work, message);
    bool held;
    KAS_TRY(kas_store_record_measured(s->store, item->work.id, item->work.lease, &measured, &held));
    if (!held) {
        drop(worker, item);
        return KAS_OK;
    }
    KAS_TRY(kas_supervisor_refresh(s));
    for (int i = 0; i < s->count; i++)
        if (s->list[i].id == item->work.id)
            item->work.measured = s->list[i].measured; /* with what was known before */
    return answer(s, worker, item, kas_verdict_too_slow(s, &item->work));
}

/* Reads an epoch; its number is KAS_EPOCH_OF_IMITATION at the rung that is none of the training. */
static kas_status epoch_of(const kas_supervisor *s, const kas_item *item, const cJSON *message,
                           kas_epoch *out)
{
    *out = kas_epoch_from(message);
    if (out->epoch < 0)
        return kas_fail(KAS_BAD_INPUT, "epoch: number missing");
    if (item->work.kind == KAS_WORK_CANDIDATE &&
        kas_search_rung_imitates(s->options->search, item->work.rung))
        out->epoch = KAS_EPOCH_OF_IMITATION;
    return KAS_OK;
}

static kas_status hear_epoch(kas_supervisor *s, kas_worker *worker, kas_item *item,
                             const cJSON *message)
{
    kas_epoch epoch;
    bool held, prune;
    KAS_TRY(epoch_of(s, item, message, &epoch));
    kas_deadline_hear(s, item);
    KAS_TRY(kas_store_record_epoch(s->store, item->work.id, item->work.lease, &epoch, &held));
    if (!held) {
        drop(worker, item);
        return KAS_OK;
    }
    KAS_TRY(
        kas_store_renew(s->store, item->work.id, item->work.lease, kas_supervisor_lease(s), &held));
    item->last_renewed = kas_monotonic();
    KAS_TRY(kas_verdict_prune(s, &item->work, &epoch, &prune));
    return answer(s, worker, item, prune);
}

/* After what may be a fault of the machine the item is tried again, a limited number of times, each
 * in a new worker and alone, as one that has ranks always is. */
static kas_status try_again(kas_supervisor *s, kas_worker *worker, kas_item *item,
                            const char *reason)
{
    char text[400];
    snprintf(text, sizeof text, "%s %lld: try %d of %d: %.300s",
             kas_work_kind_name(item->work.kind), (long long)item->work.index,
             item->work.deaths + 1, most_faults(s), reason);
    kas_supervisor_emit(s, KAS_EVENT_WORKER, NULL, text);
    return item->ranks ? kas_worker_release(s, worker, item, true)
                       : retry_alone(s, worker, item, true);
}

/* Records all epochs of an item that ends: reports of some may have been lost with a supervisor. */
static kas_status hear_curve(kas_supervisor *s, const kas_item *item, const cJSON *message)
{
    const cJSON *one;
    bool held = true;
    cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(message, "epochs"))
    {
        kas_epoch epoch;
        KAS_TRY(epoch_of(s, item, one, &epoch));
        KAS_TRY(kas_store_record_epoch(s->store, item->work.id, item->work.lease, &epoch, &held));
    }
    return KAS_OK;
}

static kas_status add_effort(kas_supervisor *s, const kas_item *item, const cJSON *result)
{
    bool held;
    const kas_elapsed effort = {kas_message_get_number(result, "wall"),
                                kas_message_get_number(result, "processor")};
    return isfinite(effort.wall)
               ? kas_store_add_elapsed(s->store, item->work.id, item->work.lease, effort, &held)
               : KAS_OK;
}

kas_status kas_worker_end_item(kas_supervisor *s, kas_worker *worker, kas_item *item,
                               const cJSON *message)
{
    kas_work_state state;
    const char *reason = kas_message_get_text(message, "reason");
    kas_measured measured = kas_verdict_measured(s, &item->work, message);
    if (!kas_work_state_parse(kas_message_get_text(message, "state"), &state))
        return kas_fail(KAS_BAD_INPUT, "result: unknown state");
    if (state == KAS_WORK_QUEUED)
        return kas_worker_release(s, worker, item, false);
    if (state == KAS_WORK_WAITING)
        return pause_at_rung(s, worker, item, &measured);
    if (!kas_work_ended(state))
        return kas_fail(KAS_BAD_INPUT, "result: state \"%s\"", kas_work_state_name(state));
    const bool fault = state == KAS_WORK_DEVICE_LOST || state == KAS_WORK_MACHINE_FAULT;
    if (item->shared && (fault || state == KAS_WORK_OUT_OF_MEMORY || state == KAS_WORK_FAILED)) {
        const bool first = !worker->ending; /* otherwise another item may be the cause, or all
                                               together */
        worker->ending |= fault;
        return first ? retry_alone(s, worker, item, false)
                     : kas_worker_release(s, worker, item, false);
    }
    worker->ending |= fault;  /* this worker gets no further item, which it might harm */
    if (fault && s->stopping) /* a batch system's signal also ends the compilers */
        return kas_worker_release(s, worker, item, false);
    if (fault && item->work.deaths + 1 < most_faults(s))
        return try_again(s, worker, item, reason);
    bool held;
    const char *correct = kas_message_get_text(message, "correct");
    if (*correct)
        KAS_TRY(
            kas_store_record_correct(s->store, item->work.id, item->work.lease, correct, &held));
    if (isfinite(measured.compile_seconds))
        s->ahead.compiler_wait += measured.compile_seconds;
    return finish(s, worker, item, state, reason, &measured);
}

static kas_status hear_result(kas_supervisor *s, kas_worker *worker, kas_item *item,
                              const cJSON *message)
{
    kas_deadline_hear(s, item);
    KAS_TRY(add_effort(s, item, message));
    return item->ranks ? kas_ranks_hear_result(s, worker, item, message)
                       : kas_worker_end_item(s, worker, item, message);
}

/* The latencies of a study are those of one kind of device: that of the first one that measured. */
static kas_status check_device(kas_supervisor *s, const char *name)
{
    kas_study study;
    char text[400];
    KAS_TRY(kas_store_set_device(s->store, name));
    KAS_TRY(kas_store_get_study(s->store, &study));
    const bool same = strcmp(study.device, name) == 0;
    snprintf(text, sizeof text, "the latencies of this study are of \"%s\", this is \"%s\"",
             study.device, name);
    kas_study_clear(&study);
    if (same)
        return KAS_OK;
    return kas_fail(KAS_STORE, "%s: %s: they would not be comparable; %s", s->options->study, text,
                    kas_store_get_place(s->store)
                        ? "--role train leaves measuring to others"
                        : "go on there, or begin another study from its kernels (--from)");
}

static kas_status hear_ready(kas_supervisor *s, kas_worker *worker, const cJSON *message)
{
    const char *name = kas_message_get_text(message, "device");
    worker->ready = true;
    worker->failed_starts = 0;
    snprintf(worker->device_name, sizeof worker->device_name, "%s", name);
    if (!*s->ahead.arch)
        snprintf(s->ahead.arch, sizeof s->ahead.arch, "%.31s",
                 kas_message_get_text(message, "arch"));
    KAS_TRY(kas_store_join(s->store, s->owner, name, s->options->role));
    return s->options->role == KAS_TAKES_TRAINING ? KAS_OK : check_device(s, name);
}

static kas_status hear_of_item(kas_supervisor *s, kas_worker *worker, kas_item *item,
                               const cJSON *message)
{
    item->last_heard = worker->last_heard;
    if (kas_message_is(message, "progress"))
        return hear_progress(s, worker, item, message);
    if (kas_message_is(message, "calibrated"))
        return hear_calibrated(s, worker, item, message);
    if (kas_message_is(message, "exchange"))
        return kas_ranks_hear_exchange(s, item, message);
    if (kas_message_is(message, "measured"))
        return hear_measured(s, worker, item, message);
    if (kas_message_is(message, "epoch"))
        return hear_epoch(s, worker, item, message);
    if (kas_message_is(message, "curve"))
        return hear_curve(s, item, message);
    if (kas_message_is(message, "result"))
        return hear_result(s, worker, item, message);
    if (!kas_message_is(message, "dying"))
        return kas_fail(KAS_BAD_INPUT, "message of unknown type");
    if (!worker->reporter)
        worker->reporter = item->work.id;
    return KAS_OK;
}

kas_status kas_worker_hear(kas_supervisor *s, kas_worker *worker, const cJSON *message)
{
    const int64_t id = (int64_t)kas_message_get_number(message, "id");
    worker->last_heard = kas_supervisor_listened(s);
    if (kas_message_is(message, "ready"))
        return hear_ready(s, worker, message);
    if (kas_message_is(message, "error")) {
        snprintf(worker->error, sizeof worker->error, "%s",
                 kas_message_get_text(message, "message"));
        worker->error_status = (kas_status)kas_message_get_number(message, "status");
        return KAS_OK;
    }
    for (int i = 0; i < s->options->pack; i++)
        if (worker->item[i].busy && !worker->item[i].dropped && worker->item[i].work.id == id)
            return hear_of_item(s, worker, &worker->item[i], message);
    return KAS_OK; /* the message is about an item that the worker no longer has */
}

/* Returns whether a signal comes from outside (an administrator, the kernel short of memory, limits
 * on files and time) and is no evidence against the candidate. */
static bool from_outside(int number)
{
    return number == SIGKILL || number == SIGTERM || number == SIGINT || number == SIGHUP ||
           number == SIGXFSZ || number == SIGXCPU;
}

/* Ends or requeues the only item that the worker had since it started: the item is responsible for
 * the worker's death. */
static kas_status judge_death(kas_supervisor *s, kas_worker *worker, kas_item *item,
                              int wait_status, const char *bad_message)
{
    kas_measured unknown = kas_measured_unknown();
    char reason[400];
    if (worker->hung) {
        snprintf(reason, sizeof reason, "no progress for %.0f s while %s; the worker was killed",
                 s->options->hang_seconds, item->phase);
        return finish(s, worker, item, KAS_WORK_HUNG, reason, &unknown);
    }
    if (bad_message) {
        snprintf(reason, sizeof reason, "the worker's answer could not be read: %.300s",
                 bad_message);
        return finish(s, worker, item, KAS_WORK_FAILED, reason, &unknown);
    }
    int number = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
    if (number == 0) {
        snprintf(reason, sizeof reason, "the worker ended with exit code %d while %s",
                 WEXITSTATUS(wait_status), item->phase);
        return finish(s, worker, item, KAS_WORK_FAILED, reason, &unknown);
    }
    if (!from_outside(number)) {
        snprintf(reason, sizeof reason, "the worker died of signal %d (%s) while %s", number,
                 strsignal(number), item->phase);
        return finish(s, worker, item, KAS_WORK_CRASHED, reason, &unknown);
    }
    if (s->stopping || item->work.deaths + 1 < most_faults(s))
        return kas_worker_release(s, worker, item, true);
    snprintf(reason, sizeof reason,
             "its worker was killed %d times (signal %d): is the machine short of memory?",
             item->work.deaths + 1, number);
    return finish(s, worker, item, KAS_WORK_MACHINE_FAULT, reason, &unknown);
}

/* Returns an item that shared the worker to the queue. It is tried alone when it reported the
 * fault, or when the reporter is unknown. If the worker was killed from outside, an item is tried
 * alone before its last attempt. */
static kas_status requeue_shared(kas_supervisor *s, kas_worker *worker, kas_item *item,
                                 int wait_status)
{
    const bool outside =
        !worker->hung && WIFSIGNALED(wait_status) && from_outside(WTERMSIG(wait_status));
    const bool suspect =
        outside ? item->work.deaths + 2 >= most_faults(s)
                : !worker->ending && (!worker->reporter || worker->reporter == item->work.id);
    return suspect ? retry_alone(s, worker, item, outside)
                   : kas_worker_release(s, worker, item, outside);
}

kas_status kas_worker_died(kas_supervisor *s, kas_worker *worker, int wait_status,
                           const char *bad_message)
{
    for (int i = 0; i < s->options->pack; i++) {
        kas_item *item = &worker->item[i];
        if (!item->busy)
            continue;
        if (item->ranks) {
            if (!item->over)
                KAS_TRY(kas_ranks_died(s, worker, item));
        } else if (item->dropped) { /* nothing to do: the lease belongs to another supervisor */
            KAS_TRY(kas_worker_release(s, worker, item, false));
        } else if (item->shared) {
            KAS_TRY(requeue_shared(s, worker, item, wait_status));
        } else {
            KAS_TRY(judge_death(s, worker, item, wait_status, bad_message));
        }
    }
    return KAS_OK;
}
