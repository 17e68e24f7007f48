/* The picture of a study on a terminal. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/cli/watch/watch.h"
#include "host/leaderboard/finals.h"
#include "host/leaderboard/leaderboard.h"
#include "host/leaderboard/rungs.h"
#include "host/report/line.h"

/* RUNNING, FRONTIER: most lines for each; NAME: digits of a kernel's name; the others count
 * characters: of a bar, of what stands left of the lines, of a list in one line. */
enum { RUNNING = 8, FRONTIER = 5, NAME = 8, BAR = 24, MARGIN = 12, LIST = 64 };

typedef struct tally {
    int state[KAS_WORK_STATES];
    int candidates, ended; /* without those that are not counted among the wanted ones */
    int generation;        /* the highest */
} tally;

static tally count(const kas_study_view *v)
{
    tally t = {0};
    for (int i = 0; i < v->count; i++) {
        const kas_work *w = &v->work[i];
        if (w->kind != KAS_WORK_CANDIDATE)
            continue;
        t.state[w->state]++;
        t.generation = w->generation > t.generation ? w->generation : t.generation;
        if (kas_work_discarded(w->state))
            continue;
        t.candidates++;
        t.ended += kas_work_ended(w->state);
    }
    return t;
}

static void put_bar(double share, kas_buf *out)
{
    const int full = (int)lround(fmin(fmax(share, 0), 1) * BAR);
    kas_buf_puts(out, "[");
    for (int i = 0; i < BAR; i++)
        kas_buf_puts(out, i < full ? "#" : ".");
    kas_buf_puts(out, "]");
}

/* Appends "12 finished, 3 pruned, ...": the states that have ended, or those that have not. With
 * `margin` > 0 the list goes over several lines, each behind so many blanks. */
static void put_states(const tally *t, bool ended, int margin, kas_buf *out)
{
    size_t begin = out->size;
    const char *comma = "";
    for (int s = 0; s < KAS_WORK_STATES; s++) {
        char text[64];
        if (!t->state[s] || kas_work_ended((kas_work_state)s) != ended)
            continue;
        snprintf(text, sizeof text, "%d %s", t->state[s],
                 s == KAS_WORK_RUNNING ? "under way" : kas_work_state_name((kas_work_state)s));
        kas_buf_puts(out, comma);
        if (margin && out->size - begin + strlen(text) > LIST) {
            kas_buf_printf(out, "\n%*s", margin, "");
            begin = out->size;
        }
        kas_buf_puts(out, text);
        comma = ", ";
    }
}

static void put_head(const kas_study_view *v, const char *study, const tally *t, kas_buf *out)
{
    char text[32];
    const char *slash = strrchr(v->study.dataset_path, '/');
    kas_buf_printf(out, "%s: %s on %s, %s so far\n", study, v->options.net,
                   slash ? slash + 1 : v->study.dataset_path,
                   kas_human_duration(v->study.busy_seconds, text));
    kas_buf_puts(out, "candidates  ");
    if (v->options.candidates) {
        put_bar((double)t->ended / v->options.candidates, out);
        kas_buf_printf(out, " %d of %d ended", t->ended, v->options.candidates);
    } else {
        kas_buf_printf(out, "%d ended", t->ended);
    }
    if (t->generation)
        kas_buf_printf(out, ", generation %d", t->generation);
    kas_buf_puts(out, "\n");
    if (t->ended + t->state[KAS_WORK_PREDICTED_SLOW] + t->state[KAS_WORK_LOW_SCORE] +
        t->state[KAS_WORK_PREFILTERED]) {
        kas_buf_printf(out, "%*s", MARGIN, "");
        put_states(t, true, MARGIN, out);
        kas_buf_puts(out, "\n");
    }
    if (t->candidates > t->ended) {
        kas_buf_printf(out, "%*s", MARGIN, "");
        put_states(t, false, MARGIN, out);
        kas_buf_puts(out, "\n");
    }
}

/* A line for each rung: how many candidates were trained for it, and what became of them there. */
static void put_rungs(const kas_study_view *v, kas_buf *out)
{
    const int last = kas_rungs_last(&v->options);
    char name[KAS_RUNG_NAME];
    for (int r = 0; last && r <= last; r++) {
        int begun = 0, waiting = 0, ended = 0, passed = 0;
        for (int i = 0; i < v->count; i++) {
            const kas_work *w = &v->work[i];
            if (w->kind != KAS_WORK_CANDIDATE || w->rung < r || w->state == KAS_WORK_QUEUED ||
                (!w->epochs && kas_work_ended(w->state) && w->state != KAS_WORK_NOT_PROMOTED))
                continue;
            begun++;
            passed += w->rung > r || w->state == KAS_WORK_FINISHED;
            waiting += w->rung == r && w->state == KAS_WORK_WAITING;
            ended += w->rung == r && w->state == KAS_WORK_NOT_PROMOTED;
        }
        kas_buf_printf(out, "%s %s: %d begun, %d %s", r ? "           " : "rungs      ",
                       kas_rungs_name(kas_rungs_epochs(&v->options, r), name), begun, passed,
                       r == last ? "finished" : "promoted");
        if (r < last)
            kas_buf_printf(out, ", %d waiting, %d not promoted", waiting, ended);
        kas_buf_puts(out, "\n");
    }
}

static void put_running(const kas_study_view *v, double now, kas_buf *out)
{
    int shown = 0, running = 0;
    char text[32];
    for (int i = 0; i < v->count; i++) {
        const kas_work *w = &v->work[i];
        if (w->state != KAS_WORK_RUNNING || running++ >= RUNNING)
            continue;
        char name[64];
        snprintf(name, sizeof name, "%s", kas_work_kind_name(w->kind));
        if (w->kind == KAS_WORK_CANDIDATE)
            snprintf(name, sizeof name, "%lld %.*s", (long long)w->index, NAME, w->name);
        kas_buf_printf(out, "%s %-15s ", shown++ ? "           " : "under way  ", name);
        const int epochs = kas_search_recipe(&v->options, w->kind == KAS_WORK_CANDIDATE).epochs;
        put_bar((double)w->epochs / epochs, out);
        kas_buf_printf(out, " %d of %d epochs, %s\n", w->epochs, epochs,
                       kas_human_duration(fmax(now - w->started, 0), text));
    }
    if (running > RUNNING)
        kas_buf_printf(out, "            and %d more\n", running - RUNNING);
    if (!running)
        kas_buf_puts(out, "under way   nothing\n");
}

static void put_measured(const kas_work *w, const kas_work *baseline, kas_buf *out)
{
    char text[32], origin[KAS_ORIGIN_TEXT];
    const double base = baseline ? baseline->measured.latency : NAN;
    kas_buf_printf(out, "%6.2f%%", 100 * w->measured.accuracy);
    if (isfinite(w->measured.latency))
        kas_buf_printf(out, "  %s", kas_human_seconds(w->measured.latency, text));
    if (w != baseline && isfinite(w->measured.latency / base))
        kas_buf_printf(out, " (%.2fx)", w->measured.latency / base);
    if (w != baseline && *kas_work_origin(w, origin))
        kas_buf_printf(out, "  %s", origin);
    kas_buf_puts(out, "\n");
}

static void put_leaders(const kas_study_view *v, kas_buf *out)
{
    kas_ranked *ranked;
    int candidates, shown = 0;
    const kas_work *best = kas_objective_leader(&v->options, v->work, v->count),
                   *baseline = kas_work_find(v->work, v->count, KAS_WORK_BASELINE);
    if (baseline && baseline->state != KAS_WORK_FINISHED)
        baseline = NULL;
    if (baseline) {
        kas_buf_puts(out, "unmodified             ");
        put_measured(baseline, baseline, out);
    }
    if (best) {
        kas_buf_printf(out, "best        %-10.*s ", NAME, best->name);
        put_measured(best, baseline, out);
    }
    if (!best || kas_leaderboard_rank(v->work, v->count, &ranked, &candidates) != KAS_OK)
        return;
    for (int i = 0; i < candidates && shown < FRONTIER; i++)
        if (ranked[i].frontier) {
            kas_buf_printf(out, "%s %-10.*s ", shown++ ? "           " : "frontier   ", NAME,
                           ranked[i].work->name);
            put_measured(ranked[i].work, baseline, out);
        }
    free(ranked);
}

static void put_finals(const kas_study_view *v, kas_buf *out)
{
    kas_finalist final[KAS_FINALISTS_MOST + 1];
    const int count = kas_finals_of(v->work, v->count, final);
    for (int i = 0; i < count; i++) {
        const kas_finalist *f = &final[i];
        const bool kernel = f->work->kind == KAS_WORK_FINAL;
        kas_buf_printf(out, "%s %-10.*s ", i ? "           " : "test set   ", kernel ? NAME : 10,
                       kernel ? f->work->name : "unmodified");
        if (f->seeds)
            kas_buf_printf(out, "%6.2f%%  ", 100 * f->accuracy.mean);
        kas_buf_printf(out, "%d of %d trainings ended%s\n", f->seeds, f->trainings,
                       f->answers ? ", the answer" : "");
    }
}

/* The last failure: what pruning and limits end is no failure. */
static void put_failure(const kas_study_view *v, kas_buf *out)
{
    const kas_work *last = NULL;
    for (int i = 0; i < v->count; i++) {
        const kas_work *w = &v->work[i];
        const bool failed = w->state >= KAS_WORK_DIVERGED && w->state <= KAS_WORK_MACHINE_FAULT;
        if (failed && isfinite(w->ended) && (!last || w->ended >= last->ended))
            last = w;
    }
    if (last)
        kas_buf_printf(out, "failed last %lld %s: %s\n", (long long)last->index,
                       kas_work_state_name(last->state), last->reason);
}

/* Copies the first `rows` lines, each cut to `columns` characters. */
static void cut(const char *text, int rows, int columns, kas_buf *out)
{
    for (int row = 0; row < rows && *text; row++) {
        const char *end = strchr(text, '\n'), *p = text;
        for (int width = 0; p < end; p++) {
            width += ((unsigned char)*p & 0xc0) != 0x80;
            if (width > columns)
                break;
        }
        kas_buf_printf(out, "%.*s\n", (int)(p - text), text);
        text = end + 1;
    }
}

void kas_watch_frame(const kas_study_view *v, const char *study, double now, int rows, int columns,
                     kas_buf *out)
{
    kas_buf text = {0};
    const tally t = count(v);
    put_head(v, study, &t, &text);
    put_rungs(v, &text);
    put_running(v, now, &text);
    put_leaders(v, &text);
    put_finals(v, &text);
    put_failure(v, &text);
    out->failed |= text.failed;
    if (!text.failed)
        cut(kas_buf_text(&text), rows, columns, out);
    kas_buf_free(&text);
}

void kas_watch_line(const kas_study_view *v, kas_buf *out)
{
    const tally t = count(v);
    const kas_work *best = kas_objective_leader(&v->options, v->work, v->count),
                   *baseline = kas_work_find(v->work, v->count, KAS_WORK_BASELINE);
    kas_buf_printf(out, "%d", t.ended);
    if (v->options.candidates)
        kas_buf_printf(out, " of %d", v->options.candidates);
    kas_buf_puts(out, " candidates ended");
    if (t.ended) {
        kas_buf_puts(out, " (");
        put_states(&t, true, 0, out);
        kas_buf_puts(out, ")");
    }
    for (int i = 0; i < v->count; i++)
        if (v->work[i].state == KAS_WORK_RUNNING && v->work[i].kind != KAS_WORK_CANDIDATE)
            kas_buf_printf(out, ", %s under way", kas_work_kind_name(v->work[i].kind));
    if (best)
        kas_buf_printf(out, ", best %.2f%%", 100 * best->measured.accuracy);
    if (baseline && baseline->state == KAS_WORK_FINISHED)
        kas_buf_printf(out, ", unmodified network %.2f%%", 100 * baseline->measured.accuracy);
    kas_buf_puts(out, "\n");
}
