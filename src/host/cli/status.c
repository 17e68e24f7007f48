/* kas-gpu status: where a study stands. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "host/cli/study_open.h"
#include "host/report/line.h"
#include "host/search/judge.h"
#include "host/search/leaderboard.h"

static const char doc[] =
    "Where a study stands: items by state, what runs now, the best so far.\n\n"
    "  kas-gpu status STUDY\n"
    "  kas-gpu status STUDY --json\n";

typedef struct tally {
    int state[KAS_WORK_STATES];
    int candidates;
} tally;

static tally count(const kas_study_view *view)
{
    tally t = {0};
    for (int i = 0; i < view->count; i++)
        if (view->work[i].kind == KAS_WORK_CANDIDATE) {
            t.state[view->work[i].state]++;
            t.candidates++;
        }
    return t;
}

static bool finals_done(const kas_study_view *view)
{
    const kas_work *a = kas_work_find(view->work, view->count, KAS_WORK_FINAL),
                   *b = kas_work_find(view->work, view->count, KAS_WORK_FINAL_BASELINE);
    return a && b && a->state == KAS_WORK_FINISHED && b->state == KAS_WORK_FINISHED;
}

static kas_status print_json(const kas_study_args *args, const kas_study_view *view)
{
    tally t = count(view);
    const kas_work *best = kas_judge_best(view->work, view->count);
    kas_buf out = {0}, states = {0};
    for (int i = 0; i < KAS_WORK_STATES; i++)
        kas_buf_printf(&states, "%s\"%s\":%d", i ? "," : "{",
                       kas_work_state_name((kas_work_state)i), t.state[i]);
    kas_buf_puts(&states, "}");
    kas_line_begin(&out);
    kas_line_text(&out, "study", args->study);
    kas_line_int(&out, "candidates", t.candidates);
    kas_line_int(&out, "candidates_wanted", view->options.candidates);
    kas_line_json(&out, "states", kas_buf_text(&states));
    kas_line_text(&out, "best", best ? best->name : NULL);
    kas_line_number(&out, "best_accuracy", best ? best->measured.accuracy : NAN);
    kas_line_bool(&out, "done", finals_done(view));
    kas_line_number(&out, "busy_seconds", view->study.busy_seconds);
    kas_line_text(&out, "device", view->study.device);
    kas_line_text(&out, "dataset", view->study.dataset_path);
    kas_line_json(&out, "options", view->study.options);
    kas_line_end(&out);
    kas_status status = kas_buf_status(&out);
    if (status == KAS_OK)
        fputs(out.data, stdout);
    kas_buf_free(&out);
    kas_buf_free(&states);
    return status;
}

static void print_running(const kas_study_view *view)
{
    char text[32];
    for (int i = 0; i < view->count; i++) {
        const kas_work *w = &view->work[i];
        if (w->state != KAS_WORK_RUNNING)
            continue;
        printf("running:    %s", kas_work_kind_name(w->kind));
        if (w->kind == KAS_WORK_CANDIDATE)
            printf(" %lld %s", (long long)w->index, w->name);
        printf(", %d of %d epochs, for %s\n", w->epochs, view->options.recipe.epochs,
               kas_human_duration((double)time(NULL) - w->started, text));
    }
}

static void print_text(const kas_study_args *args, const kas_study_view *view)
{
    tally t = count(view);
    char text[32];
    printf("study:      %s\nnetwork:    %s on %s\ndevice:     %s\n", args->study, view->options.net,
           view->study.dataset_path, *view->study.device ? view->study.device : "not used yet");
    if (view->options.candidates)
        printf("candidates: %d of %d sampled", t.candidates, view->options.candidates);
    else
        printf("candidates: %d sampled", t.candidates);
    for (int i = 0; i < KAS_WORK_STATES; i++)
        if (t.state[i])
            printf(", %d %s", t.state[i], kas_work_state_name((kas_work_state)i));
    printf("\ntime spent: %s\n", kas_human_duration(view->study.busy_seconds, text));
    const kas_work *best = kas_judge_best(view->work, view->count),
                   *baseline = kas_work_find(view->work, view->count, KAS_WORK_BASELINE);
    if (baseline)
        printf("baseline:   %s%s", kas_work_state_name(baseline->state),
               baseline->state == KAS_WORK_FINISHED ? "" : "\n");
    if (baseline && baseline->state == KAS_WORK_FINISHED)
        printf(", %.2f%%\n", 100 * baseline->measured.accuracy);
    if (best)
        printf("best:       %s, %.2f%%\n", best->name, 100 * best->measured.accuracy);
    print_running(view);
    bool nothing = !best && t.candidates > 0 && t.candidates == view->options.candidates &&
                   t.state[KAS_WORK_QUEUED] + t.state[KAS_WORK_RUNNING] == 0;
    kas_buf word = {0};
    kas_buf_shell_word(&word, args->study);
    if (nothing)
        printf("complete: no candidate finished; the reasons: kas-gpu log %s\n",
               kas_buf_text(&word));
    else if (finals_done(view))
        printf("the study is complete\n");
    else
        printf("not complete; unless it runs now, to go on: kas-gpu resume %s\n",
               kas_buf_text(&word));
    kas_buf_free(&word);
}

static kas_status run(int argc, char **argv)
{
    kas_study_args args;
    kas_study_view view;
    bool done;
    KAS_TRY(kas_study_parse(argc, argv, doc, false, &args, &done));
    if (done)
        return KAS_OK;
    kas_status status = kas_study_view_open(args.study, &view);
    if (status == KAS_OK && args.common.json)
        status = print_json(&args, &view);
    else if (status == KAS_OK)
        print_text(&args, &view);
    kas_study_view_close(&view);
    return status;
}

const kas_command kas_command_status = {"status", "Where a study stands", run};
