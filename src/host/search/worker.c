#include "host/search/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/core/clock.h"
#include "host/core/log.h"
#include "host/search/channel.h"

struct kas_worker {
    kas_channel channel;
    int64_t id;
    bool stop;
    bool lost; /* the supervisor is gone */
    double last_progress;
    char phase[32];
    FILE *log;
};

/* Field by field, so that both ends agree by construction. */
#define MEASURED_FIELDS(X)                                                                         \
    X(accuracy)                                                                                    \
    X(latency)                                                                                     \
    X(latency_iqr)                                                                                 \
    X(step_seconds) X(compile_seconds) X(memory) X(output_std_min) X(output_std_max)

cJSON *kas_measured_message(const char *type, const kas_measured *measured)
{
    cJSON *message = kas_message(type);
#define PUT(field) kas_message_number(message, #field, measured->field);
    MEASURED_FIELDS(PUT)
#undef PUT
    return message;
}

kas_measured kas_measured_from(const cJSON *message)
{
    kas_measured out;
#define GET(field) out.field = kas_message_get_number(message, #field);
    MEASURED_FIELDS(GET)
#undef GET
    return out;
}

void kas_epoch_put(cJSON *message, const kas_epoch *epoch)
{
    kas_message_number(message, "epoch", epoch->epoch);
    kas_message_number(message, "train_loss", epoch->train_loss);
    kas_message_number(message, "train_accuracy", epoch->train_accuracy);
    kas_message_number(message, "validation_loss", epoch->validation_loss);
    kas_message_number(message, "validation_accuracy", epoch->validation_accuracy);
    kas_message_number(message, "seconds", epoch->seconds);
}

kas_epoch kas_epoch_from(const cJSON *message)
{
    double number = kas_message_get_number(message, "epoch");
    return (kas_epoch){.epoch = number >= 0 && number < 1e9 ? (int)number : -1,
                       .train_loss = kas_message_get_number(message, "train_loss"),
                       .train_accuracy = kas_message_get_number(message, "train_accuracy"),
                       .validation_loss = kas_message_get_number(message, "validation_loss"),
                       .validation_accuracy =
                           kas_message_get_number(message, "validation_accuracy"),
                       .seconds = kas_message_get_number(message, "seconds")};
}

static kas_verdict verdict_of(const cJSON *message)
{
    const char *word = kas_message_get_text(message, "verdict");
    return strcmp(word, "prune") == 0  ? KAS_PRUNE
           : strcmp(word, "stop") == 0 ? KAS_STOP
                                       : KAS_CONTINUE;
}

/* Takes what the supervisor said; waits for a verdict when one is due. */
static kas_verdict listen(kas_worker *worker, bool verdict_due)
{
    kas_verdict verdict = KAS_CONTINUE;
    do {
        cJSON *message = NULL;
        kas_status status = kas_channel_wait(&worker->channel, verdict_due ? -1 : 0, &message);
        if (status != KAS_OK || worker->channel.closed)
            worker->lost = worker->stop = true;
        if (!message)
            break;
        if (kas_message_is(message, "stop"))
            worker->stop = true;
        if (kas_message_is(message, "verdict")) {
            verdict = verdict_of(message);
            verdict_due = false;
        }
        cJSON_Delete(message);
    } while (!worker->lost);
    return worker->stop ? KAS_STOP : verdict;
}

static void tell(kas_worker *worker, cJSON *message)
{
    kas_message_number(message, "id", (double)worker->id);
    if (kas_channel_send(&worker->channel, message) != KAS_OK)
        worker->lost = worker->stop = true;
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
        cJSON *message = kas_message("progress");
        kas_message_text(message, "phase", phase);
        kas_message_number(message, "step", (double)step);
        kas_message_number(message, "steps", (double)steps);
        kas_message_number(message, "loss", loss);
        tell(worker, message);
    }
    return listen(worker, false);
}

kas_verdict kas_worker_measured(kas_worker *worker, const kas_measured *measured)
{
    kas_info("latency %.6f s", measured->latency);
    if (isfinite(measured->output_std_min))
        kas_info(
            "standard deviation of the output at initialisation: %.4g to %.4g over the targets",
            measured->output_std_min, measured->output_std_max);
    tell(worker, kas_measured_message("measured", measured));
    return listen(worker, !worker->lost);
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
    tell(worker, message);
    return listen(worker, !worker->lost);
}

/* stdout, stderr and the log go to the item's file: also what a library prints before it dies. */
static kas_status open_log(kas_worker *worker, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        return kas_fail(KAS_FAILURE, "%s: cannot be opened: %s", path, strerror(errno));
    if (dup2(fd, 1) < 0 || dup2(fd, 2) < 0) {
        close(fd);
        return kas_fail(KAS_FAILURE, "%s: %s", path, strerror(errno));
    }
    if (worker->log)
        fclose(worker->log);
    worker->log = fdopen(fd, "a");
    kas_log_set_file(worker->log);
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

/* KAS_DEVICE_LOST ends the worker: a sticky error of the device goes away with its process only. */
static kas_status serve(kas_worker *worker, const kas_evaluator *evaluator, void *state,
                        const cJSON *message)
{
    kas_task task = {.id = (int64_t)kas_message_get_number(message, "id"),
                     .kind = (kas_work_kind)kas_message_get_number(message, "kind"),
                     .index = (int64_t)kas_message_get_number(message, "index"),
                     .name = kas_message_get_text(message, "name"),
                     .kernel = text_or_null(message, "kernel"),
                     .checkpoint = text_or_null(message, "checkpoint"),
                     .weights = text_or_null(message, "weights"),
                     .init = text_or_null(message, "init")};
    worker->id = task.id;
    worker->stop = false;
    worker->phase[0] = 0;
    KAS_TRY(open_log(worker, kas_message_get_text(message, "log")));
    kas_info("%s %lld %s begins (process %ld)", kas_work_kind_name(task.kind),
             (long long)task.index, task.name, (long)getpid());
    kas_outcome outcome = {.state = KAS_WORK_FAILED, .measured = kas_measured_unknown()};
    kas_status status = evaluator->evaluate(state, worker, &task, &outcome);
    if (status != KAS_OK)
        set_outcome(&outcome, status);
    kas_info("ends: %s%s%s", kas_work_state_name(outcome.state), *outcome.reason ? ": " : "",
             outcome.reason);
    cJSON *result = kas_measured_message("result", &outcome.measured);
    kas_message_text(result, "state", kas_work_state_name(outcome.state));
    kas_message_text(result, "reason", outcome.reason);
    put_curve(result, &outcome);
    free(outcome.epoch);
    tell(worker, result);
    return status == KAS_DEVICE_LOST ? status : KAS_OK;
}

static void ignore_signal(int number)
{
    (void)number; /* not SIG_IGN, which the compilers that a worker starts would inherit */
}

static kas_status prepare_process(void)
{
    struct sigaction action = {.sa_handler = ignore_signal, .sa_flags = SA_RESTART};
    KAS_CHECK_LIBC(sigaction(SIGINT, &action, NULL) == 0, KAS_FAILURE);
    KAS_CHECK_LIBC(sigaction(SIGTERM, &action, NULL) == 0, KAS_FAILURE);
    KAS_CHECK_LIBC(sigaction(SIGPIPE, &action, NULL) == 0, KAS_FAILURE);
    /* Compilers started by this process must not hold the pipes open after its death. */
    KAS_CHECK_LIBC(fcntl(KAS_WORKER_REPLY_FD, F_SETFD, FD_CLOEXEC) == 0, KAS_FAILURE);
    KAS_CHECK_LIBC(fcntl(0, F_SETFD, FD_CLOEXEC) == 0, KAS_FAILURE);
    /* When memory is short the kernel shall take a worker, not its supervisor. Best effort. */
    FILE *file = fopen("/proc/self/oom_score_adj", "we");
    if (file) {
        fputs("500", file);
        fclose(file);
    }
    kas_log_set_level(KAS_LOG_QUIET); /* the log goes to the item's file, with time */
    return KAS_OK;
}

static kas_status say_hello(kas_worker *worker, const kas_evaluator *evaluator, void **state)
{
    cJSON *hello;
    KAS_TRY(kas_channel_wait(&worker->channel, -1, &hello));
    if (!hello)
        return kas_fail(KAS_FAILURE, "the supervisor is gone");
    char name[128] = "";
    kas_search_options options;
    kas_status status =
        kas_message_is(hello, "hello")
            ? kas_search_options_read("hello", kas_message_get_text(hello, "options"), &options)
            : kas_fail(KAS_BAD_INPUT, "expected \"hello\"");
    if (status == KAS_OK)
        status = evaluator->open(&options, kas_message_get_text(hello, "dataset"),
                                 kas_message_get_text(hello, "device"), state, name);
    cJSON_Delete(hello);
    cJSON *answer = kas_message(status == KAS_OK ? "ready" : "error");
    kas_message_text(answer, "device", name);
    kas_message_number(answer, "status", status);
    kas_message_text(answer, "message", status == KAS_OK ? NULL : kas_error());
    tell(worker, answer);
    return status;
}

kas_status kas_worker_run(const kas_evaluator *evaluator)
{
    kas_worker worker = {.channel = {.in = 0, .out = KAS_WORKER_REPLY_FD}};
    void *state = NULL;
    kas_status status = KAS_OK;
    KAS_TRY(prepare_process());
    KAS_TRY_GOTO(say_hello(&worker, evaluator, &state), out);
    while (status == KAS_OK && !worker.lost) {
        cJSON *message;
        KAS_TRY_GOTO(kas_channel_wait(&worker.channel, -1, &message), out);
        if (!message)
            break;
        if (kas_message_is(message, "work"))
            status = serve(&worker, evaluator, state, message);
        cJSON_Delete(message);
    }
out:
    if (state)
        evaluator->close(state);
    kas_log_set_file(NULL);
    if (worker.log)
        fclose(worker.log);
    kas_channel_free(&worker.channel);
    return status;
}
