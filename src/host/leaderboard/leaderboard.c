#include "host/leaderboard/leaderboard.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/leaderboard/finals.h"
#include "host/leaderboard/judge.h"
#include "host/report/line.h"
#include "host/report/table.h"
#include "host/space/known/known.h"

const kas_work *kas_work_find(const kas_work *work, int count, kas_work_kind kind)
{
    for (int i = 0; i < count; i++)
        if (work[i].kind == kind)
            return &work[i];
    return NULL;
}

/* Compares by accuracy, then fewer FLOPs, then the smaller number.
 * Unfinished candidates come last, by number. */
static int by_rank(const void *a, const void *b)
{
    const kas_work *x = ((const kas_ranked *)a)->work, *y = ((const kas_ranked *)b)->work;
    bool fx = x->state == KAS_WORK_FINISHED, fy = y->state == KAS_WORK_FINISHED;
    if (fx != fy)
        return fx ? -1 : 1;
    return fx ? kas_objective_compare(x, y) : (x->index > y->index) - (x->index < y->index);
}

kas_status kas_leaderboard_rank(const kas_work *work, int count, kas_ranked **out, int *candidates)
{
    *candidates = 0;
    bool *frontier = calloc((size_t)count + 1, sizeof *frontier);
    *out = calloc((size_t)count + 1, sizeof **out);
    if (!frontier || !*out) {
        free(frontier);
        free(*out);
        *out = NULL;
        return kas_fail(KAS_NO_MEMORY, "leaderboard: out of memory");
    }
    kas_judge_frontier(work, count, frontier);
    for (int i = 0; i < count; i++)
        if (work[i].kind == KAS_WORK_CANDIDATE)
            (*out)[(*candidates)++] = (kas_ranked){&work[i], frontier[i]};
    free(frontier);
    qsort(*out, (size_t)*candidates, sizeof **out, by_rank);
    return KAS_OK;
}

static void cell_ratio(kas_table *table, double value, double base, int digits)
{
    if (isfinite(value) && base > 0)
        kas_table_cell(table, "%.*fx", digits, value / base);
    else
        kas_table_cell(table, "-");
}

static const char *origin_of_known(const kas_work *w)
{
    static const char known[] = "known:";
    return strncmp(w->origin, known, sizeof known - 1) == 0 ? w->origin + sizeof known - 1 : NULL;
}

const char *kas_work_known_as(const kas_work *w)
{
    const char *name = origin_of_known(w); /* counts, should the known kernels have changed since */
    return name || !w->kernel ? name : kas_known_as(w->name, w->kernel);
}

const char *kas_work_origin(const kas_work *w, char out[KAS_ORIGIN_TEXT])
{
    const char *name = origin_of_known(w) ? NULL : kas_work_known_as(w);
    snprintf(out, KAS_ORIGIN_TEXT, "%s%s%s", w->origin,
             !name        ? ""
             : *w->origin ? ", known:"
                          : "known:",
             name ? name : "");
    return out;
}

static void cell_percent(kas_table *table, double value)
{
    if (isfinite(value))
        kas_table_cell(table, "%.2f%%", 100 * value);
    else
        kas_table_cell(table, "-");
}

/* Writes the points that a candidate loses and the standard error. */
static void cell_lost(kas_table *table, const kas_work *w, const kas_work *baseline)
{
    const kas_paired pair = kas_objective_lost(w, baseline, KAS_SELECTING);
    if (pair.images && w != baseline)
        kas_table_cell(table, "%.2f +- %.2f", 100 * pair.lost, 100 * pair.error);
    else
        kas_table_cell(table, "-");
}

static void put_row(kas_table *table, const char *place, const kas_work *w,
                    const kas_work *baseline, bool frontier)
{
    char text[32], origin[KAS_ORIGIN_TEXT];
    bool candidate = w->kind == KAS_WORK_CANDIDATE;
    kas_table_cell(table, "%s", place);
    kas_table_cell(table, "%s", candidate ? w->name : "unmodified network");
    cell_percent(table, w->measured.accuracy);
    cell_lost(table, w, baseline);
    kas_table_cell(table, "%s", kas_human_seconds(w->measured.latency, text));
    cell_ratio(table, w->measured.latency, baseline ? baseline->measured.latency : NAN, 2);
    kas_table_cell(table, "%s", kas_human_seconds(w->measured.step_seconds, text));
    cell_ratio(table, candidate ? w->flops : 1, candidate ? w->conv_flops : 1, 3);
    cell_ratio(table, candidate ? w->params : 1, candidate ? w->conv_params : 1, 3);
    kas_table_cell(table, "%s", frontier ? "*" : "");
    kas_table_cell(table, "%s", kas_work_origin(w, origin));
}

kas_status kas_leaderboard_text(const kas_work *work, int count, int limit, kas_buf *out)
{
    static const kas_column columns[] = {
        {"#", KAS_RIGHT},       {"kernel", KAS_LEFT},   {"top-1", KAS_RIGHT}, {"lost", KAS_RIGHT},
        {"latency", KAS_RIGHT}, {"ratio", KAS_RIGHT},   {"step", KAS_RIGHT},  {"FLOPs", KAS_RIGHT},
        {"params", KAS_RIGHT},  {"frontier", KAS_LEFT}, {"origin", KAS_LEFT}};
    kas_ranked *list;
    int candidates;
    KAS_TRY(kas_leaderboard_rank(work, count, &list, &candidates));
    const kas_work *baseline = kas_work_find(work, count, KAS_WORK_BASELINE);
    kas_table *table = kas_table_create(columns, sizeof columns / sizeof *columns);
    bool baseline_due = baseline && baseline->state == KAS_WORK_FINISHED;
    const bool star = baseline_due && kas_judge_on_frontier(work, count, (int)(baseline - work));
    int place = 0;
    for (int i = 0; i < candidates && list[i].work->state == KAS_WORK_FINISHED; i++) {
        const kas_measured *m = &list[i].work->measured;
        char text[16];
        if (baseline_due && !(m->accuracy > baseline->measured.accuracy)) {
            put_row(table, "", baseline, baseline, star);
            baseline_due = false;
        }
        if (limit && place == limit)
            break;
        snprintf(text, sizeof text, "%d", ++place);
        put_row(table, text, list[i].work, baseline, list[i].frontier);
    }
    if (baseline_due)
        put_row(table, "", baseline, baseline, star);
    free(list);
    kas_table_end(table, out);
    if (!place)
        kas_buf_puts(out, "no candidate has finished\n");
    kas_buf_printf(out,
                   "\ntop-1: validation images that select, last epoch. lost: points against the "
                   "unmodified network, with the\nstandard error over images. latency: forward "
                   "pass of %d images; ratio: to the unmodified network. step: a\ntraining step. "
                   "FLOPs, params: relative to the replaced convolutions. *: on the "
                   "accuracy/latency frontier.\n",
                   KAS_LATENCY_BATCH);
    return kas_buf_status(out);
}

/* Writes the names, which have commas between them, as a list of texts. */
static void put_parents(const kas_work *w, kas_buf *out)
{
    kas_line_key(out, "parents");
    kas_buf_puts(out, "[");
    for (const char *at = w->parents; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ','))
        kas_buf_printf(out, "%s\"%.*s\"", at == w->parents ? "" : ", ", (int)strcspn(at, ","), at);
    kas_buf_puts(out, "]");
}

/* Returns whether the candidate is a finalist: only then its other half of the images is shown. */
static bool is_finalist(const kas_work *work, int count, const kas_work *w)
{
    for (int i = 0; i < count; i++)
        if (work[i].kind == KAS_WORK_FINAL && work[i].index == w->index)
            return true;
    return false;
}

static void put_pairs(const kas_work *work, int count, const kas_work *w, kas_buf *out)
{
    const kas_work *baseline = kas_work_find(work, count, KAS_WORK_BASELINE);
    const bool candidate = w->kind == KAS_WORK_CANDIDATE;
    const bool shown = w->kind == KAS_WORK_BASELINE || (candidate && is_finalist(work, count, w));
    const kas_paired unknown = {NAN, NAN, 0},
                     select = candidate ? kas_objective_lost(w, baseline, KAS_SELECTING) : unknown,
                     confirm = candidate && shown ? kas_objective_lost(w, baseline, KAS_CONFIRMING)
                                                  : unknown;
    kas_line_number(out, "lost", select.lost);
    kas_line_number(out, "lost_error", select.error);
    kas_line_number(out, "confirm_accuracy",
                    shown ? kas_correct_share(w->correct, KAS_CONFIRMING) : NAN);
    kas_line_number(out, "confirm_lost", confirm.lost);
    kas_line_number(out, "confirm_lost_error", confirm.error);
}

static void put_work(const kas_work *work, int count, const kas_work *w, int place, bool frontier,
                     kas_buf *out)
{
    const kas_measured *m = &w->measured;
    bool kernel = w->kernel != NULL;
    kas_line_begin(out);
    kas_line_text(out, "kind", kas_work_kind_name(w->kind));
    kas_line_int(out, "index", w->index);
    kas_line_text(out, "kernel", kernel ? w->name : NULL);
    kas_line_text(out, "state", kas_work_state_name(w->state));
    kas_line_text(out, "reason", w->reason);
    if (place)
        kas_line_int(out, "rank", place);
    else
        kas_line_json(out, "rank", "null");
    kas_line_bool(out, "frontier", frontier);
    kas_line_number(out, "accuracy", m->accuracy);
    put_pairs(work, count, w, out);
    kas_line_number(out, "latency_seconds", m->latency);
    kas_line_number(out, "latency_iqr_seconds", m->latency_iqr);
    kas_line_number(out, "step_seconds", m->step_seconds);
    kas_line_number(out, "compile_seconds", m->compile_seconds);
    kas_line_number(out, "memory_bytes", m->memory);
    kas_line_number(out, "output_std_min", m->output_std_min);
    kas_line_number(out, "output_std_max", m->output_std_max);
    kas_line_number(out, "missed", m->missed);
    kas_line_number(out, "flops", w->flops);
    kas_line_number(out, "params", w->params);
    kas_line_number(out, "flops_ratio", w->flops / w->conv_flops);
    kas_line_number(out, "params_ratio", w->params / w->conv_params);
    kas_line_int(out, "attempt", w->attempt);
    kas_line_int(out, "seed", w->seed);
    kas_line_bool(out, "answers", w->answers);
    kas_line_int(out, "generation", w->generation);
    kas_line_text(out, "origin", *w->origin ? w->origin : NULL);
    kas_line_text(out, "known_as", kas_work_known_as(w));
    put_parents(w, out);
    kas_line_int(out, "rung", w->rung);
    kas_line_number(out, "predicted_seconds", w->predicted);
    kas_line_text(out, "gains", w->gains);
    kas_line_text(out, "exchange", w->exchange);
    kas_line_int(out, "epochs", w->epochs);
    kas_line_int(out, "leases", w->lease);
    kas_line_number(out, "started", w->started);
    kas_line_number(out, "ended", w->ended);
    kas_line_number(out, "processor_seconds", w->processor);
    kas_line_number(out, "lease_seconds", w->leased);
    kas_line_number(out, "latency_ratio", m->ratio);
    kas_line_number(out, "latency_ratio_low", m->ratio_low);
    kas_line_number(out, "latency_ratio_high", m->ratio_high);
}

void kas_work_json(const kas_work *work, int count, const kas_work *w, int place, bool frontier,
                   kas_buf *out)
{
    put_work(work, count, w, place, frontier, out);
    kas_line_end(out);
}

void kas_work_history(const kas_work *work, int count, const kas_work *w, kas_buf *out)
{
    put_work(work, count, w, 0, kas_judge_on_frontier(work, count, (int)(w - work)), out);
    kas_line_key(out, "file");
    for (const char *at = w->kernel ? w->kernel : "null"; *at; at++)
        kas_buf_add(out, *at == '\n' ? " " : at, 1); /* texts in JSON have no line ends */
    kas_line_end(out);
}

kas_status kas_leaderboard_json(const kas_work *work, int count, kas_buf *out)
{
    kas_ranked *list;
    int candidates;
    KAS_TRY(kas_leaderboard_rank(work, count, &list, &candidates));
    for (int i = 0; i < count; i++)
        if (work[i].kind == KAS_WORK_BASELINE)
            kas_work_json(work, count, &work[i], 0, kas_judge_on_frontier(work, count, i), out);
    for (int i = 0; i < candidates; i++)
        kas_work_json(work, count, list[i].work,
                      list[i].work->state == KAS_WORK_FINISHED ? i + 1 : 0, list[i].frontier, out);
    for (int i = 0; i < count; i++)
        if (work[i].kind >= KAS_WORK_FINAL)
            kas_work_json(work, count, &work[i], 0, false, out);
    kas_finals_json(work, count, out);
    free(list);
    return kas_buf_status(out);
}
