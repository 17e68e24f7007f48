#include "host/search/supervisor/ahead.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "host/core/log.h"
#include "host/search/worker/channel.h"
#include "host/search/worker/process.h"
#include "host/search/worker/programs.h"
#include "host/search/worker/worker.h"
#include "host/study/problem.h"

/* ---- compiling ------------------------------------------------------------------------------- */

typedef struct workshop {
    kas_search_options options;
    kas_net *net;
    kas_target *target;
    int targets, threads;
    kas_compiler *compiler;
} workshop;

static void close_workshop(void *state)
{
    workshop *w = state;
    kas_compiler_close(w->compiler);
    free(w->target);
    if (w->net)
        kas_net_free(w->net);
    free(w);
}

static kas_status open_workshop(const kas_ahead_order *order, void **state)
{
    kas_status status = KAS_OK;
    workshop *w = calloc(1, sizeof *w);
    if (!w)
        return kas_fail(KAS_NO_MEMORY, "compiling ahead: out of memory");
    w->options = *order->search;
    w->threads = order->threads;
    KAS_TRY_GOTO(kas_problem_targets(order->search, order->h, order->w, order->c, order->classes,
                                     &w->net, &w->target, &w->targets),
                 fail);
    KAS_TRY_GOTO(kas_compiler_open(order->arch, NULL, &w->compiler), fail);
    kas_compiler_stand_aside(w->compiler);
    *state = w;
    return KAS_OK;
fail:
    close_workshop(w);
    return status;
}

static kas_status compile_stages(const workshop *w, const kas_replacement *replacement,
                                 kas_compile_stats *sum)
{
    *sum = (kas_compile_stats){.cached = true};
    for (int stage = 0; stage < KAS_STAGE_FINAL; stage++) { /* finalists are few */
        kas_compile_stats stats = {0};
        kas_programs programs;
        if (stage == KAS_STAGE_IMITATION && !w->options.imitate &&
            !kas_search_rung_imitates(&w->options, 0))
            continue;
        KAS_TRY(kas_stage_build(replacement, &w->options, (kas_stage)stage,
                                kas_compiler_arch(w->compiler), NULL, &programs));
        const kas_status status =
            kas_programs_compile(&programs, w->compiler, w->threads, NULL, NULL, &stats);
        kas_programs_free(&programs);
        KAS_TRY(status);
        sum->cached &= stats.cached;
        sum->seconds += stats.seconds;
        sum->cpu_seconds += stats.cpu_seconds;
        sum->image_bytes += stats.image_bytes;
    }
    return KAS_OK;
}

static kas_status make(void *state, const char *name, const char *text, kas_compile_stats *stats)
{
    const workshop *w = state;
    kas_replacement candidate;
    KAS_TRY(kas_problem_place(&w->options, name, text, NULL, w->target, w->targets, &candidate));
    const kas_status status = compile_stages(w, &candidate, stats);
    kas_replacement_free(&candidate);
    return status;
}

const kas_ahead_maker kas_ahead_programs = {open_workshop, make, close_workshop};

/* ---- the process ----------------------------------------------------------------------------- */

static kas_status prepare(void)
{
    KAS_TRY(kas_process_begin(800));
    KAS_TRY(kas_process_lead()); /* its compilers end with it */
    KAS_CHECK_LIBC(setpriority(PRIO_PROCESS, 0, KAS_AHEAD_NICE) == 0, KAS_FAILURE);
    kas_log_set_level(KAS_LOG_QUIET); /* lines go to the log that stderr is, with the time */
    kas_log_set_file(stderr);
    return KAS_OK;
}

static kas_status open_from(const cJSON *hello, const kas_ahead_maker *maker, void **state)
{
    kas_search_options options;
    if (!hello || !kas_message_is(hello, "hello"))
        return kas_fail(KAS_BAD_INPUT, "expected \"hello\"");
    KAS_TRY(kas_search_options_read("hello", kas_message_get_text(hello, "options"), &options));
    const kas_ahead_order order = {.search = &options,
                                   .arch = kas_message_get_text(hello, "arch"),
                                   .h = (int)kas_message_get_number(hello, "h"),
                                   .w = (int)kas_message_get_number(hello, "w"),
                                   .c = (int)kas_message_get_number(hello, "c"),
                                   .classes = (int)kas_message_get_number(hello, "classes"),
                                   .threads = (int)kas_message_get_number(hello, "threads")};
    return maker->open(&order, state);
}

static kas_status say_hello(kas_channel *channel, const kas_ahead_maker *maker, void **state)
{
    cJSON *hello;
    KAS_TRY(kas_channel_wait(channel, -1, &hello));
    const kas_status status = open_from(hello, maker, state);
    cJSON_Delete(hello);
    cJSON *answer = kas_message(status == KAS_OK ? "ready" : "error");
    if (status != KAS_OK) {
        kas_warn("cannot compile ahead: %s", kas_error());
        kas_message_text(answer, "message", kas_error());
    }
    KAS_TRY(kas_channel_send(channel, answer));
    return status;
}

static kas_status serve(kas_channel *channel, const kas_ahead_maker *maker, void *state,
                        const cJSON *message)
{
    const double index = kas_message_get_number(message, "index");
    const char *name = kas_message_get_text(message, "name");
    kas_compile_stats stats = {0};
    if (!kas_message_is(message, "kernel"))
        return kas_fail(KAS_BAD_INPUT, "message of unknown type");
    const kas_status status =
        maker->make(state, name, kas_message_get_text(message, "kernel"), &stats);
    cJSON *answer = kas_message("made");
    kas_message_number(answer, "index", index);
    if (status == KAS_OK) {
        kas_info("candidate %.0f %s: %s, %.2f s of CPU time", index, name,
                 stats.cached ? "in the cache" : "compiled", stats.cpu_seconds);
        kas_message_number(answer, "made", stats.cpu_seconds > 0);
        kas_message_number(answer, "cpu_seconds", stats.cpu_seconds);
    } else {
        kas_warn("candidate %.0f %s: %s", index, name, kas_error());
        kas_message_text(answer, "message", kas_error());
    }
    return kas_channel_send(channel, answer);
}

kas_status kas_ahead_run(const kas_ahead_maker *maker)
{
    kas_channel channel = {.in = 0, .out = KAS_WORKER_REPLY_FD};
    void *state = NULL;
    kas_status status;
    KAS_TRY(prepare());
    KAS_TRY_GOTO(say_hello(&channel, maker, &state), out);
    for (;;) {
        cJSON *message;
        KAS_TRY_GOTO(kas_channel_wait(&channel, -1, &message), out);
        if (!message)
            break;
        status = serve(&channel, maker, state, message);
        cJSON_Delete(message);
        if (status != KAS_OK)
            break;
    }
out:
    if (state)
        maker->close(state);
    kas_channel_free(&channel);
    return status;
}
