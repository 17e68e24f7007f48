#include "host/report/html/view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/data/dataset.h"
#include "host/leaderboard/judge.h"
#include "host/leaderboard/spent.h"
#include "host/study/problem.h"
#include "host/study/study_store.h"

static void set_title(kas_report_view *v)
{
    const char *end = v->folder + strlen(v->folder);
    while (end > v->folder + 1 && end[-1] == '/')
        end--;
    const char *begin = end;
    while (begin > v->folder && begin[-1] != '/')
        begin--;
    snprintf(v->title, sizeof v->title, "%.*s", (int)(end - begin), begin);
}

static const kas_work *find_finished(const kas_report_view *v, kas_work_kind kind)
{
    const kas_work *w = kas_work_find(v->work, v->count, kind);
    return w && w->state == KAS_WORK_FINISHED ? w : NULL;
}

const kas_work *kas_report_find(const kas_report_view *v, const char *name)
{
    for (int i = 0; i < v->count; i++)
        if (v->work[i].kind == KAS_WORK_CANDIDATE && strcmp(v->work[i].name, name) == 0)
            return &v->work[i];
    return NULL;
}

static void find_leaders(kas_report_view *v)
{
    const kas_work *final = kas_finals_answer(v->work, v->count);
    while (v->finished < v->candidates && v->ranked[v->finished].work->state == KAS_WORK_FINISHED)
        v->finished++;
    v->baseline = find_finished(v, KAS_WORK_BASELINE);
    v->baseline_on_frontier =
        v->baseline && kas_judge_on_frontier(v->work, v->count, (int)(v->baseline - v->work));
    v->finals = kas_finals_of(v->work, v->count, v->final);
    v->answer = final ? kas_report_find(v, final->name) : NULL;
    v->answered = v->answer && v->answer->state == KAS_WORK_FINISHED;
    v->ended_without =
        kas_ending_without_answer(&v->options, v->study.busy_seconds, v->work, v->count);
    if (!v->answered)
        v->answer = kas_objective_leader(&v->options, v->work, v->count);
}

/* ---- device time ---- */

static int by_end(const void *a, const void *b)
{
    const kas_work *x = *(const kas_work *const *)a, *y = *(const kas_work *const *)b;
    if (x->ended != y->ended)
        return x->ended < y->ended ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static kas_status add_up(kas_report_view *v, const kas_work *const *ended, int count)
{
    double best = -1;
    v->device_seconds = v->study.drawing_seconds;
    for (int i = 0; i < count; i++) {
        const kas_work *w = ended[i];
        double seconds;
        KAS_TRY(kas_spent_item(v->store, &v->options, w, &seconds));
        v->device_seconds += seconds;
        if (w->kind != KAS_WORK_CANDIDATE || w->state != KAS_WORK_FINISHED ||
            !(w->measured.accuracy > best))
            continue;
        best = w->measured.accuracy;
        v->step[v->steps++] = (kas_report_step){v->device_seconds, best};
    }
    return KAS_OK;
}

static kas_status find_steps(kas_report_view *v)
{
    const kas_work **ended = calloc((size_t)v->count + 1, sizeof *ended);
    v->step = calloc((size_t)v->count + 1, sizeof *v->step);
    int count = 0;
    if (!ended || !v->step) {
        free(ended);
        return kas_fail(KAS_NO_MEMORY, "%s: out of memory", v->folder);
    }
    for (int i = 0; i < v->count; i++)
        if (kas_spent_counts(&v->work[i]) && isfinite(v->work[i].ended))
            ended[count++] = &v->work[i];
    qsort(ended, (size_t)count, sizeof *ended, by_end);
    const kas_status status = add_up(v, ended, count);
    free(ended);
    return status;
}

/* ---- the data set ---- */

/* Without the data set the report lacks sizes in numbers, and is made all the same. */
static void find_targets(kas_report_view *v)
{
    kas_dataset *dataset = NULL;
    kas_status status = kas_dataset_open_without_images(v->study.dataset_path, &dataset);
    if (status == KAS_OK)
        status = kas_problem_targets(&v->options, (int)dataset->h, (int)dataset->w, (int)dataset->c,
                                     (int)dataset->classes, &v->net, &v->target, &v->targets);
    if (status != KAS_OK)
        snprintf(v->missing, sizeof v->missing, "%s", kas_error());
    kas_dataset_close(dataset);
}

kas_status kas_report_view_open(const char *folder, kas_report_view *v)
{
    *v = (kas_report_view){0};
    snprintf(v->folder, sizeof v->folder, "%s", folder);
    set_title(v);
    KAS_TRY(kas_study_open(folder, KAS_STORE_READ, &v->store));
    KAS_TRY(kas_store_get_study(v->store, &v->study));
    KAS_TRY(kas_search_options_read(folder, v->study.options, &v->options));
    KAS_TRY(kas_store_list(v->store, &v->work, &v->count));
    KAS_TRY(kas_leaderboard_rank(v->work, v->count, &v->ranked, &v->candidates));
    find_leaders(v);
    KAS_TRY(find_steps(v));
    find_targets(v);
    return KAS_OK;
}

void kas_report_view_close(kas_report_view *v)
{
    free(v->ranked);
    free(v->step);
    free(v->target);
    kas_net_free(v->net);
    kas_work_list_free(v->work, v->count);
    kas_study_clear(&v->study);
    kas_store_close(v->store);
    *v = (kas_report_view){0};
}

/* ---- facts of an item ---- */

bool kas_report_is_proposed(const kas_work *w)
{
    return strcmp(w->origin, "proposed") == 0;
}

void kas_report_origin(const kas_work *w, char out[KAS_ORIGIN_TEXT])
{
    static const char from[] = "from:";
    char came[80] = "";
    const char *known = kas_work_known_as(w);
    if (strncmp(w->origin, from, sizeof from - 1) == 0)
        snprintf(came, sizeof came, "from %s", w->origin + sizeof from - 1);
    else if (strncmp(w->origin, "known:", sizeof "known:" - 1) != 0)
        snprintf(came, sizeof came, "%s%s", w->origin,
                 kas_report_is_proposed(w) ? " by a program" : "");
    snprintf(out, KAS_ORIGIN_TEXT, "%s%s%s%s", known ? "known: " : "", known ? known : "",
             known && *came ? ", " : "", came);
}

const kas_finalist *kas_report_final(const kas_report_view *v, const char *name)
{
    for (int i = 0; i < v->finals; i++) {
        const kas_finalist *f = &v->final[i];
        const bool kernel = f->work->kind == KAS_WORK_FINAL;
        if (f->seeds && (name ? kernel && strcmp(f->work->name, name) == 0 : !kernel))
            return f;
    }
    return NULL;
}
