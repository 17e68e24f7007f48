#include "host/search/supervisor/proposer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "host/search/supervisor/supervisor_state.h"

#define PROPOSE_LOG "logs/propose.log"

/* ---- the log --------------------------------------------------------------------------------- */

/* Appends a line to the log of the program. What cannot be logged is left out. */
static void log_line(const kas_asking *a, const char *text)
{
    char path[KAS_STUDY_PATH];
    FILE *file = kas_study_path(a->study, PROPOSE_LOG, path) == KAS_OK ? fopen(path, "ae") : NULL;
    if (!file)
        return;
    fprintf(file, "%s\n", text);
    fclose(file);
}

static long long log_bytes(const kas_asking *a)
{
    char path[KAS_STUDY_PATH];
    struct stat info;
    return kas_study_path(a->study, PROPOSE_LOG, path) == KAS_OK && stat(path, &info) == 0
               ? (long long)info.st_size
               : 0;
}

static void note(void *context, const kas_question *question, const char *text, bool summary)
{
    kas_asking *a = context;
    if (!a->asked || a->generation != question->generation) /* it is read again */
        return;
    log_line(a, text);
    if (summary)
        snprintf(a->news, sizeof a->news, "%s", text);
}

/* ---- the end of an answer -------------------------------------------------------------------- */

/* Copies the lines that came; of an answer that was cut off only the whole ones. */
static kas_status copy_lines(const kas_channel *channel, bool cut, char **out)
{
    size_t size = channel->size < KAS_PROPOSE_BYTES ? channel->size : KAS_PROPOSE_BYTES;
    while (cut && size > 0 && channel->text[size - 1] != '\n')
        size--;
    char *text = malloc(size + 1);
    if (!text)
        return kas_fail(KAS_NO_MEMORY, "an answer of the proposer: out of memory");
    for (size_t i = 0; i < size; i++)
        text[i] = channel->text[i] ? channel->text[i] : '\1'; /* neither is JSON */
    text[size] = 0;
    *out = text;
    return KAS_OK;
}

static void describe_end(int wait_status, char *out, size_t size)
{
    out[0] = 0;
    if (WIFSIGNALED(wait_status))
        snprintf(out, size, "was ended by signal %d (%s)", WTERMSIG(wait_status),
                 strsignal(WTERMSIG(wait_status)));
    else if (WEXITSTATUS(wait_status) != 0)
        snprintf(out, size, "ended with exit code %d", WEXITSTATUS(wait_status));
}

/* A program that fails again and again without an answer costs up to the time limit each time. */
static void count_failure(kas_asking *a, const char *what, bool empty)
{
    a->failures = *what && empty ? a->failures + 1 : 0;
    if (!*what)
        return;
    snprintf(a->news, sizeof a->news,
             "generation %d: the program of --propose %.300s%s; see %.300s/" PROPOSE_LOG,
             a->generation, what,
             a->failures == KAS_PROPOSE_FAILURES
                 ? ", again without an answer: it is not asked any more in this run"
                 : "",
             a->study);
    log_line(a, a->news);
}

static kas_status record(kas_asking *a, const char *what, long long errors)
{
    kas_answer answer = {0};
    char fault[400];
    snprintf(fault, sizeof fault, "%s", what);
    if (errors > 0)
        snprintf(fault, sizeof fault, "%.300s%swrote %lld bytes of errors", what, *what ? "; " : "",
                 errors);
    answer.fault = fault;
    KAS_TRY(copy_lines(&a->channel, *what, &answer.text));
    const kas_status status = kas_store_record_answer(a->store, a->generation, a->first, &answer);
    a->asked = status == KAS_OK;
    if (status == KAS_OK)
        count_failure(a, what, !*answer.text);
    free(answer.text);
    return status;
}

/* Reaps the program and records its answer. `why` says why it is stopped; NULL: it has ended. */
static kas_status finish(kas_asking *a, const char *why)
{
    char what[320];
    const int wait_status = kas_process_reap(&a->process, 0);
    const long long errors = log_bytes(a) - a->logged;
    describe_end(wait_status, what, sizeof what);
    if (why)
        snprintf(what, sizeof what, "%.300s", why);
    const kas_status status = record(a, what, errors);
    kas_channel_free(&a->channel);
    return status;
}

/* ---- asking ---------------------------------------------------------------------------------- */

bool kas_asking_busy(const kas_asking *a)
{
    return a && a->process.pid != 0;
}

/* A program need not read the question. */
static void send_question(kas_asking *a)
{
    if (kas_channel_flush(&a->channel) != KAS_OK || a->channel.unsent.size == 0)
        kas_process_close_input(&a->process);
}

static kas_status ask(kas_asking *a, const kas_question *question)
{
    const char *const argv[] = {"/proc/self/exe", "propose", a->command, NULL};
    char log[KAS_STUDY_PATH], text[80];
    a->generation = question->generation;
    a->first = question->first;
    a->asked = a->timed = false;
    snprintf(text, sizeof text, "generation %d: asked for %d proposals", question->generation,
             question->wanted);
    log_line(a, text);
    a->logged = log_bytes(a);
    KAS_TRY(kas_study_path(a->study, PROPOSE_LOG, log));
    if (kas_process_start(argv, log, &a->process) != KAS_OK)
        return record(a, kas_error(), 0);
    a->channel = (kas_channel){.in = a->process.from, .out = a->process.to};
    kas_question_write(a->options, a->target, a->targets, question, &a->channel.unsent);
    KAS_TRY(kas_buf_status(&a->channel.unsent));
    send_question(a);
    return KAS_OK;
}

/* Returns whether the program is to be asked, or is at work, for a generation without an answer. */
static bool is_due(const kas_asking *a, const kas_question *question)
{
    const bool asked = a->asked && a->generation == question->generation;
    return a->command && !question->recorded_only && !asked && a->failures < KAS_PROPOSE_FAILURES;
}

static kas_status answer(void *context, const kas_question *question, kas_answer *out, bool *ready)
{
    kas_asking *a = context;
    *ready = true;
    KAS_TRY(kas_store_find_answer(a->store, question->generation, out));
    if (out->text || !is_due(a, question)) {
        kas_asking_end(a); /* another supervisor was faster */
        return KAS_OK;
    }
    if (!kas_asking_busy(a))
        KAS_TRY(ask(a, question));
    *ready = !kas_asking_busy(a); /* it could not be started */
    return KAS_OK;
}

kas_proposer kas_asking_proposer(kas_asking *asking)
{
    return (kas_proposer){.answer = answer, .note = note, .context = asking};
}

/* ---- the supervisor's loop ------------------------------------------------------------------- */

kas_status kas_asking_serve(kas_asking *a, bool room, bool news)
{
    char why[80];
    if (room)
        send_question(a);
    if (!news)
        return KAS_OK;
    if (kas_channel_fill(&a->channel) != KAS_OK)
        return finish(a, kas_error());
    if (a->channel.closed)
        a->channel.in = -1; /* the program may go on for a while without its output */
    if (a->channel.size <= KAS_PROPOSE_BYTES)
        return KAS_OK;
    snprintf(why, sizeof why, "answered more than %d bytes and was stopped", KAS_PROPOSE_BYTES);
    return finish(a, why);
}

static kas_status watch(kas_asking *a, double now, double limit)
{
    char why[80];
    if (a->channel.closed && kas_process_ended(&a->process))
        return finish(a, NULL);
    if (!a->timed) {
        a->timed = true;
        a->began = now;
    }
    if (now - a->began <= limit)
        return KAS_OK;
    snprintf(why, sizeof why, "did not end within %g s and was stopped", limit);
    return finish(a, why);
}

kas_status kas_supervisor_watch_proposer(kas_supervisor *s)
{
    kas_asking *a = s->options->asking;
    if (kas_asking_busy(a))
        KAS_TRY(watch(a, s->listened, s->options->hang_seconds));
    if (a && *a->news)
        kas_supervisor_emit(s, KAS_EVENT_NOTE, NULL, a->news);
    if (a)
        a->news[0] = 0;
    return KAS_OK;
}

void kas_asking_end(kas_asking *a)
{
    if (!kas_asking_busy(a))
        return;
    kas_process_kill(&a->process);
    kas_process_reap(&a->process, 0);
    kas_channel_free(&a->channel);
}
