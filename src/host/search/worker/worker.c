#include "host/search/worker/worker.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/log.h"
#include "host/core/thread.h"
#include "host/search/worker/crew.h"
#include "host/search/worker/process.h"

static kas_status prepare_process(void)
{
    KAS_TRY(kas_process_begin(500));
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        KAS_TRY(kas_process_ignore(numbers[i]));
    kas_log_set_level(KAS_LOG_QUIET); /* the log goes to the item's file, with time */
    /* CUDA gives a process eight queues, and items that share one wait for each other; read by the driver when
     * it is opened. */
    if (setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0) != 0)
        return kas_fail(KAS_NO_MEMORY, "a worker: out of memory");
    return KAS_OK;
}

/* ---- slots ----------------------------------------------------------------------------------- */

static kas_status start_slots(kas_crew *crew, int slots)
{
    crew->slots = slots < 1 ? 1 : slots > KAS_WORKER_SLOTS ? KAS_WORKER_SLOTS : slots;
    crew->slot = calloc((size_t)crew->slots, sizeof *crew->slot);
    if (!crew->slot)
        return kas_fail(KAS_NO_MEMORY, "a worker: out of memory");
    for (int i = 0; i < crew->slots; i++) {
        kas_slot *slot = &crew->slot[i];
        slot->crew = crew;
        slot->number = i;
        slot->running = kas_thread_create(&slot->thread, kas_slot_run, slot);
        if (!slot->running)
            return kas_fail(KAS_FAILURE, "a worker cannot start a thread for item %d of %d", i + 1,
                            crew->slots);
    }
    return KAS_OK;
}

static void end_slots(kas_crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    crew->lost = true;
    for (int i = 0; i < crew->slots && crew->slot; i++)
        crew->slot[i].stop = true;
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
    for (int i = 0; i < crew->slots && crew->slot; i++) {
        if (crew->slot[i].running)
            pthread_join(crew->slot[i].thread, NULL);
        cJSON_Delete(crew->slot[i].work);
        if (crew->slot[i].log)
            fclose(crew->slot[i].log);
    }
    free(crew->slot);
}

/* ---- messages -------------------------------------------------------------------------------- */

static kas_slot *find_idle(const kas_crew *crew)
{
    for (int i = 0; i < crew->slots; i++)
        if (!crew->slot[i].work)
            return &crew->slot[i];
    return NULL;
}

/* Gives an item to an idle slot. A slot that has sent its result becomes idle a moment later. */
static void hand_out(kas_crew *crew, cJSON *message)
{
    kas_slot *slot;
    while (!(slot = find_idle(crew)))
        pthread_cond_wait(&crew->changed, &crew->lock);
    slot->id = (int64_t)kas_message_get_number(message, "id");
    slot->stop = false;
    slot->work = message;
}

static void take_verdict(kas_crew *crew, const cJSON *message)
{
    const int64_t id = (int64_t)kas_message_get_number(message, "id");
    const char *word = kas_message_get_text(message, "verdict");
    for (int i = 0; i < crew->slots; i++)
        if (crew->slot[i].work && crew->slot[i].id == id) {
            crew->slot[i].stop |= strcmp(word, "stop") == 0;
            crew->slot[i].verdict = strcmp(word, "prune") == 0 ? KAS_PRUNE : KAS_CONTINUE;
            crew->slot[i].answered = true;
        }
}

static void take_message(kas_crew *crew, cJSON *message)
{
    pthread_mutex_lock(&crew->lock);
    const bool work = kas_message_is(message, "work");
    if (work)
        hand_out(crew, message);
    else if (kas_message_is(message, "verdict"))
        take_verdict(crew, message);
    else if (kas_message_is(message, "stop"))
        for (int i = 0; i < crew->slots; i++)
            crew->slot[i].stop = true;
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
    if (!work)
        cJSON_Delete(message);
}

/* Opens the data, and then the device in the thread of the first slot, to which it belongs. */
static kas_status open_all(kas_crew *crew, const cJSON *hello)
{
    kas_search_options options;
    if (!kas_message_is(hello, "hello"))
        return kas_fail(KAS_BAD_INPUT, "expected \"hello\"");
    KAS_TRY(kas_search_options_read("hello", kas_message_get_text(hello, "options"), &options));
    KAS_TRY(crew->evaluator->open(&options, kas_message_get_text(hello, "dataset"),
                                  kas_message_get_text(hello, "device"), &crew->state));
    const double pack = kas_message_get_number(hello, "pack");
    KAS_TRY(start_slots(crew, pack >= 1 ? (int)pack : 1));
    pthread_mutex_lock(&crew->lock);
    while (!crew->opened)
        pthread_cond_wait(&crew->changed, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
    return crew->first == KAS_OK ? KAS_OK : kas_fail(crew->first, "%s", crew->message);
}

static kas_status say_hello(kas_crew *crew)
{
    cJSON *hello;
    KAS_TRY(kas_channel_wait(&crew->channel, -1, &hello));
    if (!hello)
        return kas_fail(KAS_FAILURE, "the supervisor is gone");
    const kas_status status = open_all(crew, hello);
    cJSON_Delete(hello);
    cJSON *answer = kas_message(status == KAS_OK ? "ready" : "error");
    kas_message_text(answer, "device", crew->device);
    kas_message_text(answer, "arch", crew->arch);
    kas_message_number(answer, "status", status);
    kas_message_text(answer, "message", status == KAS_OK ? NULL : kas_error());
    if (kas_channel_send(&crew->channel, answer) != KAS_OK)
        return kas_fail(KAS_FAILURE, "the supervisor is gone");
    return status;
}

kas_status kas_worker_run(const kas_evaluator *evaluator)
{
    kas_crew crew = {.channel = {.in = 0, .out = KAS_WORKER_REPLY_FD},
                     .evaluator = evaluator,
                     .sending = PTHREAD_MUTEX_INITIALIZER,
                     .lock = PTHREAD_MUTEX_INITIALIZER,
                     .changed = PTHREAD_COND_INITIALIZER};
    kas_status status = KAS_OK;
    KAS_TRY(prepare_process());
    KAS_TRY_GOTO(say_hello(&crew), out);
    for (;;) {
        cJSON *message;
        KAS_TRY_GOTO(kas_channel_wait(&crew.channel, -1, &message), out);
        if (!message)
            break;
        take_message(&crew, message);
    }
out:
    end_slots(&crew);
    if (crew.state)
        evaluator->close(crew.state);
    kas_channel_free(&crew.channel);
    return status;
}
