/* Manages the helper that compiles the next candidates: starts it, gives it one candidate at a
 * time, and replaces it.
 *
 * A candidate is chosen only when the helper is idle. So the helper always works on the one that is
 * needed first, however slow it is, and candidates that a worker has begun meanwhile are skipped. A
 * failure of the helper is a note, never an error. */
#include <stdio.h>

#include "host/search/supervisor/supervisor_state.h"

enum { MAX_DEATHS = 3 }; /* in a row */

static void give_up(kas_supervisor *s, const char *why)
{
    char text[700];
    s->ahead.given_up = true;
    snprintf(text, sizeof text,
             "candidates are no longer compiled ahead; workers compile each one when they begin "
             "it: %.400s; "
             "see logs/compile-ahead.log",
             why);
    kas_supervisor_emit(s, KAS_EVENT_NOTE, NULL, text);
}

static void reap_helper(kas_supervisor *s)
{
    kas_lookahead *a = &s->ahead;
    kas_process_kill(&a->process);
    kas_process_reap(&a->process, 0);
    kas_channel_free(&a->channel);
    a->ready = a->busy = false;
}

/* Handles the death of the helper. The candidate on which it worked is not tried again. */
static void died(kas_supervisor *s, const char *why)
{
    reap_helper(s);
    if (s->ahead.given_up || s->stopping)
        return;
    if (++s->ahead.deaths >= MAX_DEATHS)
        give_up(s, why);
    else
        kas_supervisor_emit(s, KAS_EVENT_WORKER, NULL,
                            "the process that compiles ahead ended; a new one takes its place");
}

static kas_status say_hello(const kas_supervisor *s)
{
    const kas_ahead_options *o = s->options->ahead;
    kas_buf options = {0};
    kas_search_options_write(s->options->search, &options);
    cJSON *hello = kas_message("hello");
    kas_message_text(hello, "options", kas_buf_text(&options));
    kas_message_text(hello, "arch", s->ahead.arch);
    kas_message_number(hello, "h", o->h);
    kas_message_number(hello, "w", o->w);
    kas_message_number(hello, "c", o->c);
    kas_message_number(hello, "classes", o->classes);
    kas_message_number(hello, "threads", o->threads);
    kas_buf_free(&options);
    return kas_channel_send((kas_channel *)&s->ahead.channel, hello);
}

static void start(kas_supervisor *s)
{
    kas_lookahead *a = &s->ahead;
    char log[KAS_STUDY_PATH];
    kas_status status = kas_study_path(s->options->study, "logs/compile-ahead.log", log);
    if (status == KAS_OK)
        status = kas_process_start(s->options->ahead->argv, log, &a->process);
    if (status != KAS_OK) {
        give_up(s, kas_error());
        return;
    }
    a->channel = (kas_channel){.in = a->process.from, .out = a->process.to};
    a->last_heard = kas_supervisor_listened(s);
    (void)say_hello(s); /* if it is gone, the end of its pipe will show it */
}

/* Returns the next candidate that the helper has not been given, among those that may be
 * prepared now. */
static const kas_work *choose(kas_supervisor *s)
{
    for (int n = 0; n < s->options->ahead->candidates; n++) {
        const kas_work *work = kas_queue_waiting(s, n);
        if (!work) {
            kas_queue_foresee(s);
            work = kas_queue_waiting(s, n);
        }
        if (!work)
            return NULL;
        if (work->index >= s->ahead.next && work->kernel)
            return work;
    }
    return NULL;
}

static void give(kas_supervisor *s, const kas_work *work)
{
    kas_lookahead *a = &s->ahead;
    cJSON *message = kas_message("kernel");
    kas_message_number(message, "index", (double)work->index);
    kas_message_text(message, "name", work->name);
    kas_message_text(message, "kernel", work->kernel);
    a->next = work->index + 1;
    a->busy = true;
    a->last_heard = kas_supervisor_listened(s);
    (void)kas_channel_send(&a->channel, message);
}

void kas_lookahead_serve(kas_supervisor *s)
{
    kas_lookahead *a = &s->ahead;
    if (!s->options->ahead || a->given_up || s->stopping || !*a->arch)
        return;
    if (!a->process.pid)
        start(s);
    else if (a->ready && !a->busy) {
        const kas_work *work = choose(s);
        if (work)
            give(s, work);
    }
}

void kas_lookahead_watch(kas_supervisor *s)
{
    const kas_lookahead *a = &s->ahead;
    if (a->process.pid && (a->busy || !a->ready) && kas_supervisor_silent(s, a->last_heard))
        died(s, "it did not answer");
}

static void hear(kas_supervisor *s, const cJSON *message)
{
    kas_lookahead *a = &s->ahead;
    a->last_heard = kas_supervisor_listened(s);
    if (kas_message_is(message, "ready"))
        a->ready = true;
    else if (kas_message_is(message, "error"))
        give_up(s, kas_message_get_text(message, "message"));
    else if (kas_message_is(message, "made")) {
        const double made = kas_message_get_number(message, "made"),
                     seconds = kas_message_get_number(message, "cpu_seconds");
        a->busy = false;
        a->deaths = 0;
        a->made += made > 0;
        a->cpu_seconds += seconds > 0 ? seconds : 0;
    }
}

void kas_lookahead_listen(kas_supervisor *s)
{
    cJSON *message;
    kas_lookahead *a = &s->ahead;
    kas_status status = kas_channel_fill(&a->channel);
    while (status == KAS_OK) {
        status = kas_channel_next(&a->channel, &message);
        if (status != KAS_OK || !message)
            break;
        hear(s, message);
        cJSON_Delete(message);
    }
    if (status != KAS_OK)
        died(s, kas_error());
    else if (a->channel.closed)
        died(s, "it ended again and again");
}

void kas_lookahead_begin(kas_supervisor *s)
{
    s->ahead.process = (kas_process){.to = -1, .from = -1};
}

void kas_lookahead_end(kas_supervisor *s)
{
    kas_lookahead *a = &s->ahead;
    char text[200];
    if (!s->options->ahead)
        return;
    if (a->process.pid)
        reap_helper(s);
    snprintf(text, sizeof text,
             "%d %s compiled ahead (%.1f s of CPU time); workers waited %.1f s for compilers",
             a->made, a->made == 1 ? "candidate was" : "candidates were", a->cpu_seconds,
             a->compiler_wait);
    kas_supervisor_emit(s, KAS_EVENT_NOTE, NULL, text);
}
