#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/core/clock.h"
#include "host/core/log.h"
#include "host/core/thread.h"
#include "host/search/crew.h"

/* ---- what an evaluation says -------------------------------------------------------------------
 */

static void tell(kas_worker *worker, cJSON *message)
{
    kas_crew *crew = worker->crew;
    kas_message_number(message, "id", (double)worker->id);
    pthread_mutex_lock(&crew->sending);
    const bool sent = kas_channel_send(&crew->channel, message) == KAS_OK;
    pthread_mutex_unlock(&crew->sending);
    if (sent)
        return;
    pthread_mutex_lock(&crew->lock);
    crew->lost = worker->stop = true;
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
}

static bool asked_to_stop(kas_worker *worker)
{
    pthread_mutex_lock(&worker->crew->lock);
    const bool stop = worker->stop || worker->crew->lost;
    pthread_mutex_unlock(&worker->crew->lock);
    return stop;
}

/* Sends a question and waits for its answer. */
static kas_verdict ask(kas_worker *worker, cJSON *message)
{
    kas_crew *crew = worker->crew;
    pthread_mutex_lock(&crew->lock);
    worker->answered = false;
    pthread_mutex_unlock(&crew->lock);
    tell(worker, message);
    pthread_mutex_lock(&crew->lock);
    while (!worker->answered && !crew->lost)
        pthread_cond_wait(&crew->changed, &crew->lock);
    const kas_verdict verdict = worker->stop || crew->lost ? KAS_STOP : worker->verdict;
    pthread_mutex_unlock(&crew->lock);
    return verdict;
}

static void tell_progress(kas_worker *worker, const char *phase, double step, double steps,
                          double loss)
{
    cJSON *message = kas_message("progress");
    kas_message_text(message, "phase", phase);
    kas_message_number(message, "step", step);
    kas_message_number(message, "steps", steps);
    kas_message_number(message, "loss", loss);
    tell(worker, message);
}

void kas_lane_wait(kas_worker *worker)
{
    const double now = kas_monotonic();
    if (!worker->work || now - worker->last_progress < 1)
        return;
    worker->last_progress = now;
    tell_progress(worker, "waiting", 0, 1, NAN);
}

kas_verdict kas_worker_progress(kas_worker *worker, const char *phase, uint64_t step,
                                uint64_t steps, double loss)
{
    double now = kas_monotonic();
    /* Ten lines a second are enough for any reader; a change of phase is always said. */
    if (now - worker->last_progress >= 0.1 || strcmp(worker->phase, phase) != 0) {
        if (strcmp(worker->phase, phase) != 0)
            kas_info("%s", phase);
        worker->last_progress = now;
        snprintf(worker->phase, sizeof worker->phase, "%s", phase);
        tell_progress(worker, phase, (double)step, (double)steps, loss);
    }
    kas_crew_yield(worker);
    return asked_to_stop(worker) ? KAS_STOP : KAS_CONTINUE;
}

kas_verdict kas_worker_measured(kas_worker *worker, const kas_measured *measured)
{
    kas_info("latency %.6f s", measured->latency);
    if (isfinite(measured->output_std_min))
        kas_info(
            "standard deviation of the output at initialisation: %.4g to %.4g over the targets",
            measured->output_std_min, measured->output_std_max);
    return ask(worker, kas_measured_message("measured", measured));
}

kas_verdict kas_worker_epoch(kas_worker *worker, const kas_epoch *epoch)
{
    char held_out[64] = "";
    if (isfinite(epoch->validation_accuracy))
        snprintf(held_out, sizeof held_out,
                 isfinite(epoch->validation_loss) ? "; held-out accuracy %.2f%%, loss %.4f"
                                                  : "; held-out accuracy %.2f%%, loss not finite",
                 100 * epoch->validation_accuracy, epoch->validation_loss);
    kas_info("epoch %d: loss %.4f, accuracy %.2f%%%s; %.1f s", epoch->epoch + 1, epoch->train_loss,
             100 * epoch->train_accuracy, held_out, epoch->seconds);
    cJSON *message = kas_message("epoch");
    kas_epoch_put(message, epoch);
    return ask(worker, message);
}

/* ---- a death that names its item ---------------------------------------------------------------
 */

/* Which of several items a worker died of only the thread knows: the lane's, or one that it made,
 * such as a compiler's. */
static void on_death(int number)
{
    const kas_worker *worker = kas_thread_owner();
    if (worker) {
        ssize_t written =
            write(KAS_WORKER_REPLY_FD, worker->last_words, strlen(worker->last_words));
        (void)written;
    }
    signal(number, SIG_DFL);
    raise(number);
}

static void watch_deaths(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    struct sigaction action = {.sa_handler = on_death};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
}

/* ---- an item -----------------------------------------------------------------------------------
 */

/* The log goes to the item's file; of a worker with one lane stdout and stderr too: also what a
 * library prints before it dies. */
static kas_status open_log(kas_worker *worker, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        return kas_fail(KAS_FAILURE, "%s: cannot be opened: %s", path, kas_strerror(errno));
    if (worker->crew->lanes == 1 && (dup2(fd, 1) < 0 || dup2(fd, 2) < 0)) {
        close(fd);
        return kas_fail(KAS_FAILURE, "%s: %s", path, kas_strerror(errno));
    }
    if (worker->log)
        fclose(worker->log);
    worker->log = fdopen(fd, "a");
    kas_log_set_thread_file(worker->log);
    return worker->log ? KAS_OK : kas_fail(KAS_NO_MEMORY, "%s: out of memory", path);
}

static const char *text_or_null(const cJSON *message, const char *key)
{
    const char *text = kas_message_get_text(message, key);
    return *text ? text : NULL;
}

static void set_outcome(kas_outcome *out, kas_status status)
{
    out->state = status == KAS_NO_MEMORY     ? KAS_WORK_OUT_OF_MEMORY
                 : status == KAS_DEVICE_LOST ? KAS_WORK_DEVICE_LOST
                 : status == KAS_MACHINE     ? KAS_WORK_MACHINE_FAULT
                                             : KAS_WORK_FAILED;
    snprintf(out->reason, sizeof out->reason, "%.500s", kas_error());
}

static void put_curve(cJSON *result, const kas_outcome *outcome)
{
    cJSON *curve = result ? cJSON_AddArrayToObject(result, "curve") : NULL;
    for (int i = 0; curve && i < outcome->epochs; i++) {
        cJSON *one = cJSON_CreateObject();
        if (one)
            kas_epoch_put(one, &outcome->epoch[i]);
        cJSON_AddItemToArray(curve, one);
    }
}

static void tell_result(kas_worker *worker, kas_outcome *outcome)
{
    kas_info("ends: %s%s%s", kas_work_state_name(outcome->state), *outcome->reason ? ": " : "",
             outcome->reason);
    cJSON *result = kas_measured_message("result", &outcome->measured);
    kas_message_text(result, "state", kas_work_state_name(outcome->state));
    kas_message_text(result, "reason", outcome->reason);
    put_curve(result, outcome);
    free(outcome->epoch);
    tell(worker, result);
}

static kas_status evaluate(kas_worker *worker, const kas_task *task, kas_outcome *outcome)
{
    const kas_evaluator *evaluator = worker->crew->evaluator;
    char device[128], arch[32];
    if (!worker->state)
        KAS_TRY(evaluator->enter(worker->crew->state, &worker->state, device, arch));
    kas_crew_enter(worker);
    const kas_status status = evaluator->evaluate(worker->state, worker, task, outcome);
    kas_worker_release(worker);
    kas_crew_leave(worker);
    return status;
}

/* KAS_DEVICE_LOST ends the process: a sticky error of the device goes away with it only, and the
 * other lanes have lost it too.  KAS_MACHINE does, too: descriptors and memory come back with a new
 * process, and data that cannot be read any more show when it opens them. */
static void serve(kas_worker *worker, const cJSON *message)
{
    kas_task task = {.id = (int64_t)kas_message_get_number(message, "id"),
                     .kind = (kas_work_kind)kas_message_get_number(message, "kind"),
                     .index = (int64_t)kas_message_get_number(message, "index"),
                     .name = kas_message_get_text(message, "name"),
                     .kernel = text_or_null(message, "kernel"),
                     .checkpoint = text_or_null(message, "checkpoint"),
                     .weights = text_or_null(message, "weights"),
                     .init = text_or_null(message, "init")};
    kas_outcome outcome = {.state = KAS_WORK_FAILED, .measured = kas_measured_unknown()};
    worker->phase[0] = 0;
    snprintf(worker->last_words, sizeof worker->last_words, "{\"type\":\"dying\",\"id\":%lld}\n",
             (long long)task.id);
    kas_status status = open_log(worker, kas_message_get_text(message, "log"));
    kas_info("%s %lld %s begins (process %ld)", kas_work_kind_name(task.kind),
             (long long)task.index, task.name, (long)getpid());
    if (status == KAS_OK)
        status = evaluate(worker, &task, &outcome);
    if (status != KAS_OK)
        set_outcome(&outcome, status);
    tell_result(worker, &outcome);
    if (status == KAS_DEVICE_LOST || status == KAS_MACHINE)
        _exit(kas_exit_code(status));
}

static void open_first(kas_worker *worker)
{
    kas_crew *crew = worker->crew;
    kas_status status =
        crew->evaluator->enter(crew->state, &worker->state, crew->device, crew->arch);
    pthread_mutex_lock(&crew->lock);
    crew->first = status;
    snprintf(crew->message, sizeof crew->message, "%s", status == KAS_OK ? "" : kas_error());
    crew->opened = true;
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
}

void *kas_lane_run(void *context)
{
    kas_worker *worker = context;
    kas_crew *crew = worker->crew;
    kas_thread_set_owner(worker);
    if (crew->lanes > 1)
        watch_deaths();
    if (worker->number == 0)
        open_first(worker);
    pthread_mutex_lock(&crew->lock);
    for (;;) {
        while (!worker->work && !crew->lost)
            pthread_cond_wait(&crew->changed, &crew->lock);
        if (crew->lost)
            break;
        pthread_mutex_unlock(&crew->lock);
        serve(worker, worker->work);
        pthread_mutex_lock(&crew->lock);
        cJSON_Delete(worker->work);
        worker->work = NULL;
        pthread_cond_broadcast(&crew->changed);
    }
    pthread_mutex_unlock(&crew->lock);
    if (worker->state)
        crew->evaluator->leave(worker->state);
    kas_log_set_thread_file(NULL);
    return NULL;
}
