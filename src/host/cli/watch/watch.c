#include "host/cli/watch/watch.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "host/core/clock.h"

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

/* A system call that a signal interrupts must return, so SA_RESTART is not set. */
static void catch_signals(struct sigaction old[2])
{
    const struct sigaction action = {.sa_handler = on_signal};
    stopped = 0;
    sigaction(SIGINT, &action, &old[0]);
    sigaction(SIGTERM, &action, &old[1]);
}

static void release_signals(const struct sigaction old[2])
{
    sigaction(SIGINT, &old[0], NULL);
    sigaction(SIGTERM, &old[1], NULL);
}

typedef struct screen {
    bool terminal;
    int lines;    /* drawn last time */
    kas_buf last; /* printed last, where there is no terminal */
} screen;

/* Moves back to the first line of the last picture and erases it. The escape sequences go past
 * kas_print, which replaces them in texts. */
static void erase(const screen *s)
{
    kas_print_flush();
    if (s->lines)
        fprintf(stdout, "\033[%dA\r\033[J", s->lines);
}

static int lines_of(const char *text)
{
    int lines = 0;
    for (; (text = strchr(text, '\n')); text++)
        lines++;
    return lines;
}

static void draw(screen *s, const kas_study_view *view, const char *study)
{
    struct winsize size;
    kas_buf frame = {0};
    const bool known = ioctl(1, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 && size.ws_row > 4;
    kas_watch_frame(view, study, (double)time(NULL), known ? size.ws_row - 1 : 23,
                    known ? size.ws_col - 1 : 79, &frame);
    erase(s);
    printf("%s", kas_buf_text(&frame));
    kas_print_flush();
    s->lines = lines_of(kas_buf_text(&frame));
    kas_buf_free(&frame);
}

static kas_status print_change(screen *s, const kas_study_command *command,
                               const kas_study_args *args, const kas_study_view *view)
{
    kas_buf text = {0};
    kas_status status = KAS_OK;
    if (args->common.json)
        status = command->print(args, view, &text);
    else
        kas_watch_line(view, &text);
    if (status == KAS_OK)
        status = kas_buf_status(&text);
    if (status == KAS_OK && strcmp(kas_buf_text(&text), kas_buf_text(&s->last)) != 0) {
        printf("%s", kas_buf_text(&text));
        kas_print_flush();
    }
    kas_buf_free(&s->last);
    s->last = text;
    return status;
}

/* Waits a second, or ten times as long as reading took, so that a large study is not read all the
 * time. */
static void pause_after(double reading)
{
    const double seconds = reading > 0.1 ? 10 * reading : 1;
    const struct timespec pause = {.tv_sec = (time_t)seconds,
                                   .tv_nsec = (long)((seconds - (time_t)seconds) * 1e9)};
    nanosleep(&pause, NULL);
}

static kas_status watch(screen *s, const kas_study_command *command, const kas_study_args *args,
                        kas_study_view *view)
{
    for (;;) {
        const double begin = kas_monotonic();
        KAS_TRY(kas_study_view_read(args->study, view));
        const double reading = kas_monotonic() - begin;
        if (s->terminal)
            draw(s, view, args->study);
        else
            KAS_TRY(print_change(s, command, args, view));
        if (kas_study_done(view))
            return KAS_OK;
        if (!stopped)
            pause_after(reading);
        if (stopped)
            return kas_fail(KAS_INTERRUPTED, "%s", "");
    }
}

kas_status kas_study_watch(const kas_study_command *command, const kas_study_args *args)
{
    screen s = {.terminal = isatty(1) && !args->common.json};
    struct sigaction old[2];
    kas_study_view view;
    kas_status status = kas_study_view_open(args->study, &view);
    if (status == KAS_OK) {
        catch_signals(old);
        status = watch(&s, command, args, &view);
        release_signals(old);
    }
    kas_study_view_close(&view);
    kas_buf_free(&s.last);
    return status;
}
