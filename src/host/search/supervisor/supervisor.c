#include "host/search/supervisor/supervisor_state.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/search/worker/worker.h"

enum { TICK_MS = 500, MAX_FAILED_STARTS = 3, SAVE_SECONDS = 60, UNKILLABLE = 10 /* s */ };
static const double LONGEST_TURN = 1; /* seconds; a longer turn counts only this much */

static volatile sig_atomic_t signals_seen, first_signal;

static void on_signal(int number)
{
    if (signals_seen == 0)
        first_signal = number;
    if (signals_seen == 0 || number == SIGINT)
        signals_seen++;
}

/* Returns the length of a lease. It is renewed when a quarter of it has passed, and a worker is
 * killed after hang_seconds of silence: with twice that and a minute, the lease of a live worker
 * never ends. */
double kas_supervisor_lease(const kas_supervisor *s)
{
    return 2 * s->options->hang_seconds + 60;
}

double kas_supervisor_listened(kas_supervisor *s)
{
    const double now = kas_monotonic();
    s->listened += fmin(now - s->looked, LONGEST_TURN);
    s->looked = now;
    return s->listened;
}

bool kas_supervisor_silent(const kas_supervisor *s, double last_heard)
{
    return s->listened - last_heard > s->options->hang_seconds;
}

kas_status kas_supervisor_refresh(kas_supervisor *s)
{
    return kas_store_refresh(s->store, &s->mark, &s->list, &s->count);
}

kas_status kas_supervisor_lead(kas_supervisor *s)
{
    bool leads = false;
    if (s->options->takes_only)
        return KAS_OK;
    KAS_TRY(kas_store_lead(s->store, &leads));
    if (!leads && !s->follows)
        kas_supervisor_emit(s, KAS_EVENT_NOTE, NULL,
                            "another search proposes the candidates of this study; this one takes "
                            "them, and proposes when that one is gone");
    if (leads && s->follows)
        kas_supervisor_emit(s, KAS_EVENT_NOTE, NULL,
                            "the search that proposed candidates is gone; this one does it now");
    s->leads = leads;
    s->follows = !leads;
    return KAS_OK;
}

static kas_status start_worker(kas_supervisor *s, kas_worker *worker)
{
    char relative[64], log[KAS_STUDY_PATH];
    snprintf(relative, sizeof relative, "logs/worker-%d.log", worker->number);
    KAS_TRY(kas_study_path(s->options->study, relative, log));
    KAS_TRY(kas_process_start(s->options->worker_argv, log, &worker->process));
    worker->channel = (kas_channel){.in = worker->process.from, .out = worker->process.to};
    worker->ready = worker->hung = worker->ending = worker->solo = false;
    worker->reporter = 0;
    worker->last_heard = kas_supervisor_listened(s);
    kas_buf options = {0};
    kas_search_options_write(s->options->search, &options);
    cJSON *hello = kas_message("hello");
    kas_message_text(hello, "options", kas_buf_text(&options));
    kas_message_text(hello, "dataset", s->options->dataset);
    kas_message_text(hello, "device", worker->device);
    kas_message_number(hello, "pack", s->options->pack);
    kas_status status = kas_buf_status(&options);
    kas_buf_free(&options);
    if (status != KAS_OK)
        cJSON_Delete(hello);
    else if (kas_channel_send(&worker->channel, hello) == KAS_NO_MEMORY)
        status = KAS_NO_MEMORY;
    return status; /* if the worker is gone, the end of its pipe will show it */
}

static kas_status cannot_start(kas_supervisor *s, const kas_worker *worker)
{
    if (worker->error[0])
        return kas_fail(worker->error_status != KAS_OK ? worker->error_status : KAS_DEVICE, "%s",
                        worker->error);
    return kas_fail(KAS_DEVICE,
                    "worker %d on %s ended %d times before it was ready; see "
                    "%s/logs/worker-%d.log",
                    worker->number, worker->device, worker->failed_starts, s->options->study,
                    worker->number);
}

/* Reaps a worker that has died or was told to end, and settles its items. A new worker
 * starts later. */
static kas_status reap_worker(kas_supervisor *s, kas_worker *worker, const char *bad_message)
{
    const int busy = kas_worker_busy(s, worker);
    bool was_ready = worker->ready;
    char text[160];
    int wait_status = kas_process_reap(&worker->process, bad_message || worker->hung ? 0 : 5);
    kas_channel_free(&worker->channel);
    worker->ready = false;
    if (!was_ready && (worker->error[0] || ++worker->failed_starts >= MAX_FAILED_STARTS))
        return cannot_start(s, worker);
    if (!busy)
        return KAS_OK;
    for (int i = 0; i < s->options->pack; i++)
        if (worker->item[i].busy)
            snprintf(text, sizeof text, "worker %d ended while %s%s; a new one takes its place",
                     worker->number, worker->item[i].phase,
                     busy > 1 ? ", with others beside it that go on from their checkpoints" : "");
    if (!s->stopping)
        kas_supervisor_emit(s, KAS_EVENT_WORKER, NULL, text);
    return kas_worker_died(s, worker, wait_status, bad_message);
}

static kas_status listen(kas_supervisor *s, kas_worker *worker)
{
    cJSON *message;
    kas_status status = kas_channel_fill(&worker->channel);
    while (status == KAS_OK) {
        status = kas_channel_next(&worker->channel, &message);
        if (status != KAS_OK || !message)
            break;
        status = kas_worker_hear(s, worker, message);
        cJSON_Delete(message);
    }
    if (status == KAS_BAD_INPUT) {
        char text[320];
        snprintf(text, sizeof text, "%.300s", kas_error());
        kas_process_kill(&worker->process);
        return reap_worker(s, worker, text);
    }
    KAS_TRY(status);
    return worker->channel.closed ? reap_worker(s, worker, NULL) : KAS_OK;
}

/* Watches a process's messages, and room in its pipe for unsent ones. */
static void watch_pipes(const kas_process *process, const kas_channel *channel,
                        struct pollfd poll[2])
{
    const bool unsent = process->pid && channel->unsent.size > 0;
    poll[0] = (struct pollfd){process->pid ? channel->in : -1, POLLIN, 0};
    poll[1] = (struct pollfd){unsent ? channel->out : -1, POLLOUT, 0};
}

/* Lets signals in that came while lines were there: ppoll does so only when it waits. */
static void take_signals(const sigset_t *mask)
{
    sigset_t blocked;
    sigprocmask(SIG_SETMASK, mask, &blocked);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
}

static kas_status wait_for_lines(kas_supervisor *s, const sigset_t *mask, int timeout_ms)
{
    int workers = s->options->workers;
    struct pollfd *helper = s->poll + 2 * (size_t)workers, *proposer = helper + 2;
    kas_asking *asking = s->options->asking;
    for (int i = 0; i < workers; i++)
        watch_pipes(&s->worker[i].process, &s->worker[i].channel, s->poll + 2 * (size_t)i);
    watch_pipes(&s->ahead.process, &s->ahead.channel, helper);
    if (asking)
        watch_pipes(&asking->process, &asking->channel, proposer);
    struct timespec timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
    const nfds_t pipes = 2 * (nfds_t)workers + (asking ? 4 : 2);
    s->poll[pipes] = (struct pollfd){kas_store_descriptor(s->store), POLLIN, 0};
    int ready = ppoll(s->poll, pipes + 1, &timeout, mask);
    take_signals(mask);
    (void)kas_supervisor_listened(s);
    if (ready < 0)
        return errno == EINTR ? KAS_OK : kas_fail(KAS_FAILURE, "ppoll: %s", kas_strerror(errno));
    for (int i = 0; i < workers; i++) {
        if (s->poll[2 * i + 1].revents) /* its death shows at the other pipe */
            (void)kas_channel_flush(&s->worker[i].channel);
        if (s->poll[2 * i].revents)
            KAS_TRY(listen(s, &s->worker[i]));
    }
    if (helper[1].revents)
        (void)kas_channel_flush(&s->ahead.channel);
    if (helper[0].revents)
        kas_lookahead_listen(s);
    return asking ? kas_asking_serve(asking, proposer[1].revents, proposer[0].revents) : KAS_OK;
}

/* Returns the item that was silent longest if that exceeds the limit, else NULL. */
static const kas_item *silent_item(const kas_supervisor *s, const kas_worker *worker)
{
    const kas_item *worst = NULL;
    for (int i = 0; i < s->options->pack; i++) {
        const kas_item *item = &worker->item[i];
        if (item->busy && !item->over && kas_supervisor_silent(s, item->last_heard) &&
            (!worst || item->last_heard < worst->last_heard))
            worst = item;
    }
    return worst;
}

/* Kills silent workers. All lines that have arrived were read before this. The pipes of one that
 * cannot be killed, because it hangs in the kernel, stay open; it is given up. */
static kas_status kill_silent_workers(kas_supervisor *s)
{
    for (int i = 0; i < s->options->workers; i++) {
        kas_worker *worker = &s->worker[i];
        const kas_item *silent = silent_item(s, worker);
        const bool starting =
            worker->process.pid && !worker->ready && kas_supervisor_silent(s, worker->last_heard);
        if (worker->process.pid && worker->hung && s->listened > worker->killed + UNKILLABLE)
            KAS_TRY(reap_worker(s, worker, NULL));
        else if (worker->process.pid && !worker->hung && (silent || starting)) {
            worker->hung = true;
            worker->killed = s->listened;
            worker->reporter = silent ? silent->work.id : 0;
            kas_process_kill(&worker->process);
        }
    }
    return KAS_OK;
}

static bool any_busy(const kas_supervisor *s)
{
    for (int i = 0; i < s->options->workers; i++)
        if (kas_worker_busy(s, &s->worker[i]))
            return true;
    return false;
}

/* Gives work to one worker: an item that must be alone when it has no other, else as many items as
 * it takes. *found says whether there may be more. */
static kas_status fill_worker(kas_supervisor *s, kas_worker *worker, bool *found, bool *done)
{
    kas_work work = {0};
    *found = true;
    if (s->solos > 0) {
        if (kas_worker_busy(s, worker))
            return KAS_OK;
        KAS_TRY(kas_queue_solo(s, &work, found));
        worker->solo = *found;
        if (*found)
            return kas_worker_give(s, worker, &work);
    }
    *found = true;
    while (*found && !*done && !worker->solo && kas_worker_busy(s, worker) < s->options->pack) {
        const bool finals = kas_ranks_free(s, worker);
        KAS_TRY(kas_queue_next(s, finals, &work, found, done));
        if (*found)
            KAS_TRY(kas_worker_give(s, worker, &work));
        else if (!finals) { /* there may be something for another worker */
            *found = true;
            return KAS_OK;
        }
    }
    return KAS_OK;
}

/* Gives work to idle workers and starts missing ones. *done when nothing is left to do. */
static kas_status hand_out(kas_supervisor *s, bool *done)
{
    /* Where nothing was found the store is not asked again before it has changed. */
    const bool news = kas_store_changed(s->store) || s->drawing;
    bool found = news || !s->dry || s->solos > 0 || kas_asking_busy(s->options->asking);
    *done = s->drawing = false;
    for (int i = 0; i < s->options->workers && !*done; i++) {
        kas_worker *worker = &s->worker[i];
        if (!worker->process.pid && !kas_worker_busy(s, worker)) /* ranks end together */
            KAS_TRY(start_worker(s, worker));
        if (worker->ready && !worker->ending && found)
            KAS_TRY(fill_worker(s, worker, &found, done));
    }
    s->dry = !found;
    KAS_TRY(kas_store_wait(s->store, s->dry));
    return news && !*done ? kas_queue_stock(s) : KAS_OK;
}

/* Returns whether the search must stop: a signal, or the time of --until. */
static bool must_stop(const kas_supervisor *s)
{
    return signals_seen || kas_seconds_until(s->options->until) <= 0 ||
           (kas_deadline_is_near(s) && !any_busy(s));
}

static void begin_stop(kas_supervisor *s)
{
    if (!signals_seen && !any_busy(s))
        kas_deadline_tell(s);
    s->stopping = true;
    kas_store_hurry(s->store);
    kas_asking_end(s->options->asking);
    s->stop_at = kas_supervisor_listened(s) + s->options->hang_seconds;
    for (int i = 0; i < s->options->workers; i++)
        if (kas_worker_busy(s, &s->worker[i]))
            (void)kas_channel_send(&s->worker[i].channel, kas_message("stop"));
    kas_supervisor_emit(s, KAS_EVENT_STOPPING, NULL, NULL);
}

/* Adds the elapsed time to the study regularly, so that kill -9 loses at most a minute of it, and
 * says that this supervisor is there. */
static kas_status add_busy_time(kas_supervisor *s, bool now)
{
    double spent = kas_monotonic() - s->counted;
    if (!now && spent < 60)
        return KAS_OK;
    s->counted += spent;
    for (int i = 0; i < s->options->workers; i++)
        if (*s->worker[i].device_name)
            KAS_TRY(kas_store_join(s->store, s->owner, s->worker[i].device_name, s->options->role));
    const double drew = s->drew;
    s->drew = 0;
    return s->leads ? kas_store_add_busy(s->store, spent, drew) : KAS_OK;
}

static kas_status loop(kas_supervisor *s, const sigset_t *mask)
{
    double ticked = 0;
    for (bool done = false; !done;) {
        if (!s->stopping && must_stop(s))
            begin_stop(s);
        if (s->stopping && (signals_seen > 1 || !any_busy(s) || s->listened > s->stop_at))
            return KAS_OK;
        if (!s->stopping && !kas_deadline_is_near(s))
            KAS_TRY(hand_out(s, &done));
        if (done)
            return KAS_OK;
        kas_lookahead_serve(s);
        KAS_TRY(wait_for_lines(s, mask, s->drawing ? 0 : TICK_MS));
        KAS_TRY(kill_silent_workers(s));
        kas_ranks_watch(s);
        kas_lookahead_watch(s);
        KAS_TRY(kas_supervisor_watch_proposer(s));
        KAS_TRY(add_busy_time(s, false));
        if (kas_monotonic() - ticked >= 0.5) {
            ticked = kas_monotonic();
            kas_supervisor_emit(s, KAS_EVENT_TICK, NULL, NULL);
        }
    }
    return KAS_OK;
}

/* Ends the workers. Items that they still have (after a second signal or a failure) return to
 * the queue. With `save` workers have time to save checkpoints: the store is gone, and the items
 * return to the queue when their leases end. */
static kas_status end_workers(kas_supervisor *s, bool save)
{
    kas_status status = KAS_OK;
    for (int i = 0; i < s->options->workers; i++) {
        kas_worker *worker = &s->worker[i];
        if (kas_worker_busy(s, worker) && !save)
            kas_process_kill(&worker->process);
        kas_process_close_input(&worker->process);
    }
    for (int i = 0; i < s->options->workers; i++) {
        if (s->worker[i].process.pid)
            kas_process_reap(&s->worker[i].process, save ? SAVE_SECONDS : 5);
        kas_channel_free(&s->worker[i].channel);
    }
    for (int i = 0; i < s->options->workers * s->options->pack; i++) {
        kas_item *item = &s->item[i];
        bool held;
        if (item->busy && status == KAS_OK)
            status = kas_store_release(s->store, item->work.id, item->work.lease, false, &held);
        kas_work_clear(&item->work);
        cJSON_Delete(item->result);
    }
    return status;
}

/* Finds out whether weights of the item were deleted that this run wants: those of the baseline
 * with which candidates begin, or with --retrain those of a final training. */
static kas_status lacks_weights(const kas_supervisor *s, const kas_work *work, bool *lacks)
{
    char path[KAS_STUDY_PATH];
    const bool final = work->kind >= KAS_WORK_FINAL && s->options->retrain;
    const bool start = work->kind == KAS_WORK_BASELINE && kas_search_warm(s->options->search, 0);
    *lacks = false;
    if (work->state != KAS_WORK_FINISHED || !(final || (start && !kas_queue_complete(s))))
        return KAS_OK;
    KAS_TRY(kas_study_weights_path(s->options->study, work, path));
    *lacks = *path && !kas_file_exists(path);
    return KAS_OK;
}

/* Requeues a baseline or final training that failed in an earlier run, and candidates that the
 * machine could not evaluate: a winner that was found without these may not be the best. */
static kas_status requeue_failed(kas_supervisor *s)
{
    for (int i = 0; i < s->count; i++) {
        const kas_work *w = &s->list[i];
        bool again = kas_supervisor_is_missing(w);
        if (!again)
            KAS_TRY(lacks_weights(s, w, &again));
        if (again)
            KAS_TRY(kas_store_requeue(s->store, w));
    }
    return kas_supervisor_refresh(s);
}

/* The baseline exists from the start. */
static kas_status begin(kas_supervisor *s)
{
    kas_store_set_role(s->store, s->options->role);
    KAS_TRY(kas_deadline_begin(s));
    if (s->options->takes_only)
        return kas_supervisor_refresh(s);
    kas_work baseline = {
        .kind = KAS_WORK_BASELINE, .attempt = -1, .predicted = s->options->predicted};
    baseline.flops = baseline.params = baseline.conv_flops = baseline.conv_params = NAN;
    bool added;
    kas_study study;
    KAS_TRY(kas_store_get_study(s->store, &study));
    s->busy_before = study.busy_seconds;
    kas_study_clear(&study);
    KAS_TRY(kas_store_add(s->store, &baseline, &added));
    KAS_TRY(kas_supervisor_refresh(s));
    KAS_TRY(kas_supervisor_lead(s));
    if (!s->leads)
        return KAS_OK;
    KAS_TRY(kas_store_set_ended(s->store, false));
    KAS_TRY(kas_store_clear_faults(s->store));
    KAS_TRY(requeue_failed(s));
    return kas_queue_reopen(s);
}

static kas_status with_signals(kas_supervisor *s)
{
    enum { STOPS = 5, ALL };
    static const int number[ALL] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE};
    struct sigaction action = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN}, old[ALL];
    sigset_t block, before;
    signals_seen = first_signal = 0;
    sigemptyset(&block);
    for (int i = 0; i < ALL; i++) {
        sigaction(number[i], i < STOPS ? &action : &ignore, &old[i]);
        if (i < STOPS)
            sigaddset(&block, number[i]);
    }
    /* Signals are delivered only in wait_for_lines, so that none is missed between a check and
     * the wait. */
    sigprocmask(SIG_BLOCK, &block, &before);
    kas_status status = loop(s, &before);
    char message[1024];
    snprintf(message, sizeof message, "%s", kas_error());
    kas_lookahead_end(s);
    kas_asking_end(s->options->asking);
    kas_status ended = end_workers(s, status == KAS_STORE);
    if (ended == KAS_OK)
        ended = add_busy_time(s, true);
    sigprocmask(SIG_SETMASK, &before, NULL);
    for (int i = 0; i < ALL; i++)
        sigaction(number[i], &old[i], NULL);
    /* A batch system that stops a job stops the job's server too. */
    if (status == KAS_STORE && signals_seen) {
        s->stopping = true;
        kas_warn("%s", message);
        return KAS_OK;
    }
    return status != KAS_OK ? kas_fail(status, "%s", message) : ended;
}

/* Deletes the checkpoints of a study that has ended, with or without an answer, and the folder in
 * which ranks met. Files in there are left by processes that were killed while they wrote them, or
 * before they could delete them. */
static kas_status drop_checkpoints(const kas_supervisor *s, bool answered)
{
    int dropped;
    char folder[KAS_STUDY_PATH];
    if (answered && !kas_queue_complete(s) && s->options->search->finalists)
        return KAS_OK;
    KAS_TRY(kas_ranks_folder(s, folder));
    if (s->options->search->ranks > 1)
        KAS_TRY(kas_remove_tree(folder));
    return kas_study_trim_checkpoints(s->options->study, 0, NULL, &dropped);
}

/* The supervisor that proposes says at the end how the study ended, and that it has. Others delete
 * checkpoints too: the one that proposed may have been killed, and its lock still be there. */
static kas_status ending(kas_supervisor *s)
{
    char message[1024];
    if (s->stopping && !kas_queue_complete(s) && !kas_queue_without_answer(s))
        return first_signal == SIGINT ? kas_fail(KAS_INTERRUPTED, "interrupted")
                                      : kas_fail(KAS_PREEMPTED, "preempted");
    if (s->options->takes_only)
        return KAS_OK;
    const kas_status status = kas_supervisor_ending(s);
    if (status != KAS_OK && status != KAS_NOTHING_VALID)
        return status;
    snprintf(message, sizeof message, "%s", kas_error());
    if (s->leads)
        KAS_TRY(kas_store_set_ended(s->store, true));
    KAS_TRY(drop_checkpoints(s, status == KAS_OK));
    return status == KAS_OK ? KAS_OK : kas_fail(status, "%s", message);
}

kas_status kas_supervise(kas_store *store, const kas_supervisor_options *asked)
{
    kas_supervisor_options own = *asked;
    const kas_supervisor_options *options = &own;
    own.pack = asked->pack < 1                  ? 1
               : asked->pack > KAS_WORKER_SLOTS ? KAS_WORKER_SLOTS
                                                : asked->pack;
    kas_supervisor s = {.options = options, .store = store, .wanted = asked->search->candidates};
    kas_status status = KAS_OK;
    s.worker = calloc((size_t)options->workers, sizeof *s.worker);
    s.item = calloc((size_t)options->workers * (size_t)own.pack, sizeof *s.item);
    s.poll = calloc(2 * (size_t)options->workers + 5, sizeof *s.poll);
    if (!s.worker || !s.item || !s.poll) {
        status = kas_fail(KAS_NO_MEMORY, "workers: out of memory");
        goto out;
    }
    for (int i = 0; i < options->workers; i++)
        s.worker[i] = (kas_worker){.number = i,
                                   .device = options->device[i % options->devices],
                                   .item = s.item + (size_t)i * (size_t)own.pack,
                                   .process = {.to = -1, .from = -1},
                                   .channel = {.in = -1, .out = -1}};
    kas_owner_self(s.owner);
    s.began = s.counted = s.looked = kas_monotonic();
    KAS_TRY_GOTO(begin(&s), out);
    kas_lookahead_begin(&s);
    if (!kas_queue_complete(&s))
        KAS_TRY_GOTO(with_signals(&s), out);
    status = ending(&s);
out:
    kas_verdict_end(&s);
    kas_losses_free(&s.losses);
    kas_work_list_free(s.list, s.count);
    for (int i = 0; i < s.foreseen.count; i++)
        kas_work_clear(&s.foreseen.work[i]);
    free(s.solo);
    free(s.poll);
    free(s.item);
    free(s.worker);
    return status;
}
