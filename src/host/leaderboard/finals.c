#include "host/leaderboard/finals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/leaderboard/leaderboard.h"
#include "host/report/line.h"
#include "host/report/table.h"

/* Returns whether the two are final trainings of the same network. */
static bool same_network(const kas_work *a, const kas_work *b)
{
    return a->kind == b->kind && a->index == b->index;
}

static const kas_work *baseline_of(const kas_work *work, int count, int seed)
{
    for (int i = 0; i < count; i++)
        if (work[i].kind == KAS_WORK_FINAL_BASELINE && work[i].seed == seed)
            return &work[i];
    return NULL;
}

static bool finished(const kas_work *w)
{
    return w && w->state == KAS_WORK_FINISHED && isfinite(w->measured.accuracy);
}

/* With one pair of trainings only the test images can be drawn again. */
static void spread_over_images(const kas_work *kernel, const kas_work *baseline, kas_interval *out)
{
    const kas_paired pair = kas_objective_lost(kernel, baseline, KAS_TESTED);
    out->low = out->mean - 1.96 * pair.error;
    out->high = out->mean + 1.96 * pair.error;
}

static kas_finalist collect(const kas_work *work, int count, const kas_work *first)
{
    const kas_work *turns =
        first->kind == KAS_WORK_FINAL ? kas_objective_turns(work, count, first->index) : NULL;
    const kas_measured timed = turns ? turns->measured : kas_measured_unknown();
    kas_finalist f = {.work = first,
                      .answers = first->answers,
                      .latency = NAN,
                      .ratio = timed.ratio,
                      .ratio_low = timed.ratio_low,
                      .ratio_high = timed.ratio_high};
    double accuracy[KAS_REPEATS_MOST] = {0}, difference[KAS_REPEATS_MOST] = {0}, latency = 0;
    const kas_work *one = NULL, *other = NULL;
    for (int i = 0; i < count && f.seeds < KAS_REPEATS_MOST; i++) {
        const kas_work *w = &work[i];
        if (!same_network(w, first))
            continue;
        f.trainings++;
        if (!finished(w))
            continue;
        accuracy[f.seeds++] = w->measured.accuracy;
        latency += w->measured.latency;
        const kas_work *against = baseline_of(work, count, w->seed);
        if (!finished(against) || w->kind == KAS_WORK_FINAL_BASELINE)
            continue;
        difference[f.pairs++] = w->measured.accuracy - against->measured.accuracy;
        one = w;
        other = against;
    }
    f.accuracy = kas_interval_of(accuracy, f.seeds);
    f.difference = kas_interval_of(difference, f.pairs);
    if (f.seeds > 0)
        f.latency = latency / f.seeds;
    if (f.pairs == 1)
        spread_over_images(one, other, &f.difference);
    return f;
}

static bool begins(const kas_work *work, int i)
{
    return i == 0 || !same_network(&work[i], &work[i - 1]); /* the list is sorted */
}

int kas_finals_of(const kas_work *work, int count, kas_finalist *out)
{
    int n = 0;
    for (int i = 0; i < count; i++)
        if (work[i].kind == KAS_WORK_FINAL_BASELINE && begins(work, i))
            out[n++] = collect(work, count, &work[i]);
    for (int answers = 1; answers >= 0; answers--)
        for (int i = 0; i < count && n <= KAS_FINALISTS_MOST; i++)
            if (work[i].kind == KAS_WORK_FINAL && work[i].answers == answers && begins(work, i))
                out[n++] = collect(work, count, &work[i]);
    return n;
}

const kas_work *kas_finals_answer(const kas_work *work, int count)
{
    for (int i = 0; i < count; i++)
        if (work[i].kind == KAS_WORK_FINAL && work[i].answers && work[i].seed == 0)
            return &work[i];
    return NULL;
}

bool kas_finals_done(const kas_work *work, int count)
{
    bool kernel = false, baseline = false;
    for (int i = 0; i < count; i++) {
        const kas_work *w = &work[i];
        const bool needed =
            w->kind == KAS_WORK_FINAL_BASELINE || (w->kind == KAS_WORK_FINAL && w->answers);
        if (needed ? w->state != KAS_WORK_FINISHED
                   : w->kind == KAS_WORK_FINAL && !kas_work_ended(w->state))
            return false;
        kernel |= needed && w->kind == KAS_WORK_FINAL;
        baseline |= w->kind == KAS_WORK_FINAL_BASELINE;
    }
    return kernel && baseline;
}

/* ---- output ---------------------------------------------------------------------------------- */

static void cell_points(kas_table *table, double share, const char *format)
{
    if (isfinite(share))
        kas_table_cell(table, format, 100 * share);
    else
        kas_table_cell(table, "-");
}

static void put_row(kas_table *table, const kas_finalist *f, double baseline_latency)
{
    const kas_interval *d = &f->difference;
    char origin[KAS_ORIGIN_TEXT];
    const bool kernel = f->work->kind == KAS_WORK_FINAL;
    kas_table_cell(table, "%s", kernel ? f->work->name : "unmodified network");
    kas_table_cell(table, "%s", !kernel ? "" : f->answers ? "answer" : "exploratory");
    kas_table_cell(table, "%d", f->seeds);
    cell_points(table, f->accuracy.mean, "%.2f%%");
    cell_points(table, f->accuracy.spread, "%.2f");
    cell_points(table, d->mean, "%+.2f");
    if (isfinite(d->low))
        kas_table_cell(table, "%+.2f to %+.2f", 100 * d->low, 100 * d->high);
    else
        kas_table_cell(table, "-");
    if (isfinite(f->ratio))
        kas_table_cell(table, "%.2fx (%.2f - %.2f)", f->ratio, f->ratio_low, f->ratio_high);
    else if (isfinite(f->latency) && baseline_latency > 0)
        kas_table_cell(table, "%.2fx", f->latency / baseline_latency);
    else
        kas_table_cell(table, "-");
    kas_table_cell(table, "%s", kas_work_origin(f->work, origin));
}

/* Finds the candidate that would be the answer without the known kernels; -1 = none. */
static kas_status best_new(const kas_search_options *options, const kas_work *work, int count,
                           int64_t *index)
{
    kas_work *news = calloc((size_t)count + 1, sizeof *news);
    int n = 0;
    *index = -1;
    if (!news)
        return kas_fail(KAS_NO_MEMORY, "leaderboard: out of memory");
    for (int i = 0; i < count; i++)
        if (!kas_work_known_as(&work[i]))
            news[n++] = work[i]; /* the texts stay those of the list */
    const kas_work *answer = kas_ending_of(options, news, n).answer;
    if (answer)
        *index = answer->index;
    free(news);
    return KAS_OK;
}

/* Appends the best candidate that is no known kernel where the answer is one. */
static kas_status put_best_new(const kas_search_options *options, const kas_work *work, int count,
                               const kas_work *answer, kas_buf *out)
{
    int64_t index = -1;
    char origin[KAS_ORIGIN_TEXT];
    if (answer && kas_work_known_as(answer))
        KAS_TRY(best_new(options, work, count, &index));
    for (int i = 0; i < count && index >= 0; i++)
        if (work[i].kind == KAS_WORK_CANDIDATE && work[i].index == index)
            kas_buf_printf(out,
                           "best new kernel: %s (%s), %.2f%% of the images that select, %.2fx the "
                           "latency\n",
                           work[i].name, kas_work_origin(&work[i], origin),
                           100 * work[i].measured.accuracy,
                           kas_objective_ratio(options, work, count, &work[i]));
    return KAS_OK;
}

/* Says which kernel answers, and to what. */
static kas_status put_answer(const kas_search_options *options, const kas_work *work, int count,
                             kas_buf *out)
{
    const kas_ending end = kas_ending_of(options, work, count);
    const kas_work *answer = kas_finals_answer(work, count);
    const char *points = options->max_loss == 1 ? "point" : "points";
    char origin[KAS_ORIGIN_TEXT];
    kas_buf_printf(out, "answer: kernel %s", answer ? answer->name : "");
    if (answer && *kas_work_origin(answer, origin))
        kas_buf_printf(out, " (%s)", origin);
    if (answer && end.answer && answer->index != end.answer->index)
        kas_buf_puts(out, "\n"); /* an earlier version chose it by other rules */
    else if (end.within)
        kas_buf_printf(out,
                       ", the fastest that loses less than %g %s against the unmodified network, "
                       "the standard error included, on both halves of the validation images\n",
                       options->max_loss, points);
    else if (options->objective == KAS_OBJECTIVE_FRONTIER && options->latency > 0 &&
             options->latency < 1)
        kas_buf_printf(out,
                       ", the most accurate; none is within --latency %g and loses less than %g "
                       "%s\n",
                       options->latency, options->max_loss, points);
    else if (options->objective == KAS_OBJECTIVE_FRONTIER)
        kas_buf_printf(out,
                       ", the most accurate; none is faster than the unmodified network and loses "
                       "less than %g %s\n",
                       options->max_loss, points);
    else
        kas_buf_puts(out, ", the most accurate\n");
    return put_best_new(options, work, count, answer, out);
}

static bool exchanges_so(const kas_work *w, const char *way)
{
    return kas_work_is_final(w->kind) && w->exchange && strcmp(w->exchange, way) == 0;
}

/* Returns how the ranks of training `i` exchange, if no earlier one does so too. */
static const char *new_way(const kas_work *work, int i)
{
    if (!kas_work_is_final(work[i].kind) || !work[i].exchange)
        return NULL;
    for (int j = 0; j < i; j++)
        if (exchanges_so(&work[j], work[i].exchange))
            return NULL;
    return work[i].exchange;
}

void kas_finals_exchanges(const kas_work *work, int count, const char *words, kas_buf *out)
{
    int ways = 0;
    for (int i = 0; i < count; i++)
        ways += new_way(work, i) != NULL;
    for (int i = 0; i < count; i++) {
        const char *way = new_way(work, i);
        if (!way)
            continue;
        kas_buf_printf(out, "%s %s", words, way);
        for (int j = i; j < count && ways > 1; j++)
            if (exchanges_so(&work[j], way))
                kas_buf_printf(out, "%s %s seed %lld", j == i ? ":" : ",",
                               work[j].kind == KAS_WORK_FINAL ? work[j].name : "unmodified network",
                               (long long)work[j].seed);
        kas_buf_puts(out, ".\n");
    }
}

kas_status kas_finals_text(const kas_search_options *options, const kas_work *work, int count,
                           kas_buf *out)
{
    static const kas_column columns[] = {
        {"kernel", KAS_LEFT},        {"", KAS_LEFT},         {"seeds", KAS_RIGHT},
        {"top-1", KAS_RIGHT},        {"spread", KAS_RIGHT},  {"difference", KAS_RIGHT},
        {"95% interval", KAS_RIGHT}, {"latency", KAS_RIGHT}, {"origin", KAS_LEFT}};
    kas_finalist list[KAS_FINALISTS_MOST + 1];
    if (!kas_finals_done(work, count))
        return KAS_OK;
    const int n = kas_finals_of(work, count, list);
    KAS_TRY(put_answer(options, work, count, out));
    kas_buf_puts(out, "\ntest set, after training on the whole training set:\n");
    kas_table *table = kas_table_create(columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < n; i++)
        put_row(table, &list[i], list[0].latency);
    kas_table_end(table, out);
    kas_buf_printf(out,
                   "difference: points against the unmodified network with the same seed; its 95%% "
                   "interval is over the %s.\n",
                   n > 1 && list[1].pairs > 1 ? "seeds (Student's t)" : "test images");
    if (n > 1 && isfinite(list[1].ratio))
        kas_buf_puts(out, "latency: ratio to the unmodified network, timed in turns with it; "
                          "median and quartiles.\n");
    kas_finals_exchanges(work, count, "trained by", out);
    if (n > 2)
        kas_buf_puts(out, "exploratory: not the answer, which was named before the test set was "
                          "opened.\n");
    return kas_buf_status(out);
}

void kas_finalist_json(const kas_finalist *f, kas_buf *out)
{
    const bool kernel = f->work->kind == KAS_WORK_FINAL;
    kas_line_begin(out);
    kas_line_text(out, "kind", "finalist");
    kas_line_int(out, "index", f->work->index);
    kas_line_text(out, "kernel", kernel ? f->work->name : NULL);
    kas_line_bool(out, "answers", f->answers);
    kas_line_int(out, "seeds", f->seeds);
    kas_line_number(out, "accuracy", f->accuracy.mean);
    kas_line_number(out, "spread", f->accuracy.spread);
    kas_line_int(out, "pairs", f->pairs);
    kas_line_number(out, "difference", f->difference.mean);
    kas_line_number(out, "difference_low", f->difference.low);
    kas_line_number(out, "difference_high", f->difference.high);
    kas_line_number(out, "latency_seconds", f->latency);
    kas_line_number(out, "latency_ratio", f->ratio);
    kas_line_number(out, "latency_ratio_low", f->ratio_low);
    kas_line_number(out, "latency_ratio_high", f->ratio_high);
    kas_line_text(out, "exchange", f->work->exchange);
    kas_line_end(out);
}

void kas_finals_json(const kas_work *work, int count, kas_buf *out)
{
    kas_finalist list[KAS_FINALISTS_MOST + 1];
    const int n = kas_finals_of(work, count, list);
    for (int i = 0; i < n; i++)
        kas_finalist_json(&list[i], out);
}
