#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "host/core/clock.h"
#include "host/core/log.h"
#include "host/core/thread.h"
#include "host/search/worker/crew.h"

/* A line of the channel ends at 1 MiB. A longer text, of two million images, is not sent: paired
 * differences are then unknown. The epochs of a long training take several lines. */
enum { MOST_CORRECT = 1 << 19, EPOCHS_A_LINE = 1000 };

/* ---- messages of an evaluation --------------------------------------------------------------- */

/* Ends the process when the message cannot be sent. The supervisor then sees that the worker ended,
 * where it would wait in vain for the message until the item is "hung". */
static void tell(kas_slot *slot, cJSON *message)
{
    kas_crew *crew = slot->crew;
    kas_message_number(message, "id", (double)slot->id);
    pthread_mutex_lock(&crew->sending);
    const kas_status status = kas_channel_send(&crew->channel, message);
    pthread_mutex_unlock(&crew->sending);
    if (status == KAS_OK)
        return;
    kas_warn("%s; this worker ends", kas_error());
    _exit(kas_exit_code(status));
}

static bool asked_to_stop(kas_slot *slot)
{
    pthread_mutex_lock(&slot->crew->lock);
    const bool stop = slot->stop || slot->crew->lost;
    pthread_mutex_unlock(&slot->crew->lock);
    return stop;
}

/* Sends a question and waits for its answer. A verdict that was given holds, whatever else has
 * happened since. */
static kas_verdict ask(kas_slot *slot, cJSON *message)
{
    kas_crew *crew = slot->crew;
    pthread_mutex_lock(&crew->lock);
    slot->answered = false;
    pthread_mutex_unlock(&crew->lock);
    tell(slot, message);
    pthread_mutex_lock(&crew->lock);
    while (!slot->answered && !crew->lost)
        pthread_cond_wait(&crew->changed, &crew->lock);
    const kas_verdict verdict = slot->answered && slot->verdict == KAS_PRUNE ? KAS_PRUNE
                                : slot->stop || crew->lost                   ? KAS_STOP
                                                                             : slot->verdict;
    pthread_mutex_unlock(&crew->lock);
    return verdict;
}

static void tell_progress(kas_slot *slot, const char *phase, double step, double steps, double loss)
{
    cJSON *message = kas_message("progress");
    kas_message_text(message, "phase", phase);
    kas_message_number(message, "step", step);
    kas_message_number(message, "steps", steps);
    kas_message_number(message, "loss", loss);
    tell(slot, message);
}

void kas_slot_wait(kas_slot *slot)
{
    const double now = kas_monotonic();
    if (!slot->work || now - slot->last_progress < 1)
        return;
    slot->last_progress = now;
    tell_progress(slot, "waiting", 0, 1, NAN);
}

kas_verdict kas_slot_progress(kas_slot *slot, const char *phase, uint64_t step, uint64_t steps,
                              double loss)
{
    double now = kas_monotonic();
    /* At most ten lines are sent a second, but a change of phase is always sent. */
    if (now - slot->last_progress >= 0.1 || strcmp(slot->phase, phase) != 0) {
        if (strcmp(slot->phase, phase) != 0)
            kas_info("%s", phase);
        slot->last_progress = now;
        snprintf(slot->phase, sizeof slot->phase, "%s", phase);
        tell_progress(slot, phase, (double)step, (double)steps, loss);
    }
    kas_crew_yield(slot);
    return asked_to_stop(slot) ? KAS_STOP : KAS_CONTINUE;
}

void kas_slot_calibrated(kas_slot *slot, const char *gains)
{
    cJSON *message = kas_message("calibrated");
    kas_message_text(message, "gains", gains);
    kas_info("gains %s", gains);
    tell(slot, message);
}

void kas_slot_exchange(kas_slot *slot, const char *exchange)
{
    cJSON *message = kas_message("exchange");
    kas_message_text(message, "exchange", exchange);
    tell(slot, message);
}

kas_verdict kas_slot_measured(kas_slot *slot, const kas_measured *measured)
{
    const bool again =
        isfinite(measured->missed); /* told after imitation, with what was told before */
    if (!again)
        kas_info("latency %.6f s", measured->latency);
    if (!again && isfinite(measured->output_std_min))
        kas_info(
            "standard deviation of the output at initialisation: %.4g to %.4g over the targets, "
            "without gains",
            measured->output_std_min, measured->output_std_max);
    return ask(slot, kas_measured_message("measured", measured));
}

kas_verdict kas_slot_epoch(kas_slot *slot, const kas_epoch *epoch)
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
    return ask(slot, message);
}

bool kas_slot_answered(kas_slot *slot)
{
    pthread_mutex_lock(&slot->crew->lock);
    const bool answered = slot->answered;
    pthread_mutex_unlock(&slot->crew->lock);
    return answered;
}

/* ---- a death that names its item ------------------------------------------------------------- */

/* Reports the item that kills the worker. Only the thread knows which of several items it is: the
 * slot's thread, or one that it created, such as a compiler's. */
static void on_death(int number)
{
    const kas_slot *slot = kas_thread_owner();
    if (slot) {
        ssize_t written = write(KAS_WORKER_REPLY_FD, slot->last_words, strlen(slot->last_words));
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

/* ---- an item --------------------------------------------------------------------------------- */

/* Opens the item's log. In a worker with one slot stdout and stderr go there too, so that it has
 * what a library prints before it dies. */
static kas_status open_log(kas_slot *slot, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        return kas_fail(KAS_FAILURE, "%s: cannot be opened: %s", path, kas_strerror(errno));
    if (slot->crew->slots == 1 && (dup2(fd, 1) < 0 || dup2(fd, 2) < 0)) {
        close(fd);
        return kas_fail(KAS_FAILURE, "%s: %s", path, kas_strerror(errno));
    }
    if (slot->log)
        fclose(slot->log);
    slot->log = fdopen(fd, "a");
    kas_log_set_thread_file(slot->log);
    return slot->log ? KAS_OK : kas_fail(KAS_NO_MEMORY, "%s: out of memory", path);
}

static const char *text_or_null(const cJSON *message, const char *key)
{
    const char *text = kas_message_get_text(message, key);
    return *text ? text : NULL;
}

/* Reads a number that is 0 unless it is there. */
static int whole(const cJSON *message, const char *key)
{
    const double number = kas_message_get_number(message, key);
    return number > 0 && number < 1e9 ? (int)number : 0;
}

static void set_outcome(kas_outcome *out, kas_status status)
{
    out->state = status == KAS_NO_MEMORY     ? KAS_WORK_OUT_OF_MEMORY
                 : status == KAS_DEVICE_LOST ? KAS_WORK_DEVICE_LOST
                 : status == KAS_MACHINE     ? KAS_WORK_MACHINE_FAULT
                                             : KAS_WORK_FAILED;
    snprintf(out->reason, sizeof out->reason, "%.500s", kas_error());
}

static void tell_curve(kas_slot *slot, const kas_outcome *outcome)
{
    for (int from = 0; from < outcome->epochs; from += EPOCHS_A_LINE) {
        cJSON *message = kas_message("curve");
        cJSON *list = message ? cJSON_AddArrayToObject(message, "epochs") : NULL;
        for (int i = from; list && i < outcome->epochs && i < from + EPOCHS_A_LINE; i++) {
            cJSON *one = cJSON_CreateObject();
            if (one)
                kas_epoch_put(one, &outcome->epoch[i]);
            cJSON_AddItemToArray(list, one);
        }
        tell(slot, message);
    }
}

/* Returns the processor time of this process and of the compilers that it has waited for. */
static double processor_seconds(void)
{
    struct rusage children;
    getrusage(RUSAGE_CHILDREN, &children); /* cannot fail: the address is good */
    return kas_processor_seconds() + (double)(children.ru_utime.tv_sec + children.ru_stime.tv_sec) +
           1e-6 * (double)(children.ru_utime.tv_usec + children.ru_stime.tv_usec);
}

/* Rank 0 tells the curve for all. `effort`: what the item took. */
static void tell_result(kas_slot *slot, int rank, kas_outcome *outcome, kas_elapsed effort)
{
    kas_info("ends: %s%s%s", kas_work_state_name(outcome->state), *outcome->reason ? ": " : "",
             outcome->reason);
    if (rank == 0 && outcome->state != KAS_WORK_QUEUED)
        tell_curve(slot, outcome);
    cJSON *result = kas_measured_message("result", &outcome->measured);
    kas_message_text(result, "state", kas_work_state_name(outcome->state));
    kas_message_text(result, "reason", outcome->reason);
    kas_message_number(result, "processor", effort.processor);
    kas_message_number(result, "wall", effort.wall);
    if (outcome->correct && strlen(outcome->correct) < MOST_CORRECT)
        kas_message_text(result, "correct", outcome->correct);
    free(outcome->correct);
    free(outcome->epoch);
    tell(slot, result);
}

static kas_status evaluate(kas_slot *slot, const kas_task *task, kas_outcome *outcome)
{
    const kas_evaluator *evaluator = slot->crew->evaluator;
    char device[128], arch[32];
    if (!slot->state)
        KAS_TRY(evaluator->enter(slot->crew->state, &slot->state, device, arch));
    kas_crew_enter(slot);
    const kas_status status = evaluator->evaluate(slot->state, slot, task, outcome);
    kas_slot_release(slot);
    kas_crew_leave(slot);
    return status;
}

/* Evaluates an item and reports the result. KAS_DEVICE_LOST ends the process, because only that
 * clears a sticky error of the device, which the other slots have lost too. KAS_MACHINE ends it
 * too: a new process gets descriptors and memory back, and finds data that can no longer be read
 * when it opens them. */
static void serve(kas_slot *slot, const cJSON *message)
{
    kas_task task = {.id = (int64_t)kas_message_get_number(message, "id"),
                     .kind = (kas_work_kind)kas_message_get_number(message, "kind"),
                     .index = (int64_t)kas_message_get_number(message, "index"),
                     .seed = (int64_t)kas_message_get_number(message, "seed"),
                     .name = kas_message_get_text(message, "name"),
                     .kernel = text_or_null(message, "kernel"),
                     .checkpoint = text_or_null(message, "checkpoint"),
                     .weights = text_or_null(message, "weights"),
                     .init = text_or_null(message, "init"),
                     .rung = whole(message, "rung"),
                     .until = whole(message, "until"),
                     .gains = text_or_null(message, "gains"),
                     .role = (kas_work_role)whole(message, "role"),
                     .rank = whole(message, "rank"),
                     .ranks = whole(message, "ranks"),
                     .meeting = kas_message_get_text(message, "meeting"),
                     .attempt = kas_message_get_text(message, "attempt"),
                     .rank_timeout = kas_message_get_number(message, "rank_timeout")};
    kas_outcome outcome = {.state = KAS_WORK_FAILED, .measured = kas_measured_unknown()};
    const kas_elapsed before = {kas_monotonic(), processor_seconds()};
    slot->phase[0] = 0;
    snprintf(slot->last_words, sizeof slot->last_words, "{\"type\":\"dying\",\"id\":%lld}\n",
             (long long)task.id);
    kas_status status = open_log(slot, kas_message_get_text(message, "log"));
    char rank[48] = ""; /* in one line, because all ranks write to this log */
    if (task.ranks)
        snprintf(rank, sizeof rank, ", rank %d of %d", task.rank, task.ranks);
    kas_info("%s %lld %s begins (process %ld%s)", kas_work_kind_name(task.kind),
             (long long)task.index, task.name, (long)getpid(), rank);
    if (status == KAS_OK)
        status = evaluate(slot, &task, &outcome);
    if (status != KAS_OK)
        set_outcome(&outcome, status);
    /* What several items of a process have used together cannot be told apart. */
    tell_result(
        slot, task.rank, &outcome,
        (kas_elapsed){kas_monotonic() - before.wall,
                      slot->crew->slots == 1 ? processor_seconds() - before.processor : NAN});
    if (status == KAS_DEVICE_LOST || status == KAS_MACHINE)
        _exit(kas_exit_code(status));
}

static void open_first(kas_slot *slot)
{
    kas_crew *crew = slot->crew;
    kas_status status = crew->evaluator->enter(crew->state, &slot->state, crew->device, crew->arch);
    pthread_mutex_lock(&crew->lock);
    crew->first = status;
    snprintf(crew->message, sizeof crew->message, "%s", status == KAS_OK ? "" : kas_error());
    crew->opened = true;
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
}

void *kas_slot_run(void *context)
{
    kas_slot *slot = context;
    kas_crew *crew = slot->crew;
    kas_thread_set_owner(slot);
    if (crew->slots > 1)
        watch_deaths();
    if (slot->number == 0)
        open_first(slot);
    pthread_mutex_lock(&crew->lock);
    for (;;) {
        while (!slot->work && !crew->lost)
            pthread_cond_wait(&crew->changed, &crew->lock);
        if (crew->lost)
            break;
        pthread_mutex_unlock(&crew->lock);
        serve(slot, slot->work);
        pthread_mutex_lock(&crew->lock);
        cJSON_Delete(slot->work);
        slot->work = NULL;
        pthread_cond_broadcast(&crew->changed);
    }
    pthread_mutex_unlock(&crew->lock);
    if (slot->state)
        crew->evaluator->leave(slot->state);
    kas_log_set_thread_file(NULL);
    return NULL;
}
