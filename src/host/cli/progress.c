#include "host/cli/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "host/core/clock.h"
#include "host/report/line.h"
#include "host/study/study_dir.h"

kas_progress kas_progress_make(bool quiet)
{
    return (kas_progress){.terminal = isatty(2), .quiet = quiet, .last_line = -1e9};
}

static void wipe(kas_progress *p)
{
    if (p->drawn)
        fputs("\r\033[K", stderr);
    p->drawn = false;
}

static int width(void)
{
    struct winsize size;
    return ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col - 1 : 79;
}

static void describe(const kas_event *e, kas_buf *out)
{
    char text[32];
    if (e->finals)
        kas_buf_puts(out, "final trainings");
    else if (e->total)
        kas_buf_printf(out, "%d/%d candidates", e->ended, e->total);
    else
        kas_buf_printf(out, "%d candidates", e->ended);
    if (!e->finals && e->ended > e->finished)
        kas_buf_printf(out, " (%d finished)", e->finished);
    if (e->best)
        kas_buf_printf(out, ", best %.1f%%", 100 * e->best->measured.accuracy);
    if (e->baseline && e->baseline->state == KAS_WORK_FINISHED)
        kas_buf_printf(out, ", baseline %.1f%%", 100 * e->baseline->measured.accuracy);
    if (e->running > 1)
        kas_buf_printf(out, ", %d at once", e->running);
    if (*e->phase)
        kas_buf_printf(out, ", %s", e->phase);
    if (e->fraction > 0)
        kas_buf_printf(out, " %.0f%%", 100 * e->fraction);
    kas_buf_printf(out, ", %s", kas_human_duration(e->elapsed, text));
    if (isfinite(e->eta))
        kas_buf_printf(out, ", %s left", kas_human_duration(e->eta, text));
}

static void put(bool terminal, const char *line)
{
    if (terminal)
        fprintf(stderr, "\r%.*s\033[K", width(), line);
    else
        fprintf(stderr, "%s\n", line);
    fflush(stderr);
}

static void draw(kas_progress *p, const char *line)
{
    const double now = kas_monotonic();
    if (!p->terminal && now - p->last_line < 60)
        return;
    p->last_line = now;
    p->drawn = p->terminal;
    put(p->terminal, line);
}

void kas_progress_ancestors(void *context, int scored, int wanted, double best)
{
    kas_progress *p = context;
    kas_buf line = {0};
    char text[32];
    const double now = kas_monotonic();
    if (p->quiet)
        return;
    if (p->began == 0) {
        p->began = now;
        p->first = scored;
    }
    kas_buf_printf(&line, "%d/%d ancestors scored, best %.0f%% of the variance", scored, wanted,
                   100 * best);
    if (scored > p->first)
        kas_buf_printf(
            &line, ", %s left",
            kas_human_duration((now - p->began) / (scored - p->first) * (wanted - scored), text));
    draw(p, kas_buf_text(&line));
    kas_buf_free(&line);
}

static void name_of(const kas_work *w, char out[KAS_ITEM_NAME])
{
    if (w->kind == KAS_WORK_CANDIDATE)
        snprintf(out, KAS_ITEM_NAME, "candidate %lld %s", (long long)w->index, w->name);
    else
        kas_study_item_name(w, out);
}

static void print_ended(const kas_event *e)
{
    const kas_work *w = e->work;
    char name[KAS_ITEM_NAME], text[32];
    name_of(w, name);
    fprintf(stderr, "%-34s %s", name, kas_work_state_name(w->state));
    if (w->state == KAS_WORK_FINISHED) {
        const kas_measured *m = &w->measured;
        if (w->kind == KAS_WORK_TURNS)
            fprintf(stderr, "  in turns %.2fx (%.2f - %.2f)", m->ratio, m->ratio_low,
                    m->ratio_high);
        else
            fprintf(stderr, "  %s %.2f%%", w->kind >= KAS_WORK_FINAL ? "test" : "validation",
                    100 * m->accuracy);
        fprintf(stderr, "  latency %s", kas_human_seconds(m->latency, text));
        if (w->kind == KAS_WORK_CANDIDATE)
            fprintf(stderr, "  FLOPs %.3fx  params %.3fx", w->flops / w->conv_flops,
                    w->params / w->conv_params);
    } else if (*w->reason) {
        fprintf(stderr, ": %.200s", w->reason);
    }
    fputc('\n', stderr);
}

void kas_progress_event(void *context, const kas_event *e)
{
    kas_progress *p = context;
    if (p->quiet)
        return;
    switch (e->kind) {
    case KAS_EVENT_ENDED:
        wipe(p);
        print_ended(e);
        break;
    case KAS_EVENT_WORKER:
    case KAS_EVENT_NOTE:
        wipe(p);
        fprintf(stderr, "note: %s\n", e->text);
        break;
    case KAS_EVENT_STOPPING:
        wipe(p);
        fputs("stopping: checkpoints are being written; a second signal (Ctrl-C) ends at once\n",
              stderr);
        break;
    case KAS_EVENT_STARTED:
        break;
    case KAS_EVENT_TICK: {
        kas_buf line = {0};
        describe(e, &line);
        draw(p, kas_buf_text(&line));
        kas_buf_free(&line);
        break;
    }
    }
    fflush(stderr);
}

void kas_progress_end(kas_progress *progress)
{
    wipe(progress);
    fflush(stderr);
}

void kas_progress_show(bool quiet, double pause, double *shown, const char *format, ...)
{
    const bool terminal = isatty(2);
    const double now = kas_monotonic();
    char line[512];
    if (quiet || now - *shown < (terminal ? pause : 60))
        return;
    *shown = now;
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    put(terminal, line);
}

void kas_progress_wipe(bool quiet)
{
    if (!quiet && isatty(2))
        fputs("\r\033[K", stderr);
}
