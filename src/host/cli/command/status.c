/* kas-gpu status: prints the state of a study. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host/cli/watch/watch.h"
#include "host/leaderboard/finals.h"
#include "host/leaderboard/leaderboard.h"
#include "host/leaderboard/objective.h"
#include "host/leaderboard/rungs.h"
#include "host/leaderboard/spent.h"
#include "host/report/line.h"
#include "host/study/study_dir.h"

static const char doc[] =
    "Where a study stands: items by state, what runs now, the best so far.\n\n"
    "  kas-gpu status STUDY\n"
    "  kas-gpu status STUDY --json\n"
    "  kas-gpu status --watch STUDY    the same, live, until the study is done\n";

/* What is known of a study beside its items. */
typedef struct facts {
    kas_rung_report rung[KAS_INT_LIST + 1];
    int rungs;
    double device_seconds;
    kas_buf machines;
} facts;

typedef struct tally {
    int state[KAS_WORK_STATES];
    int candidates; /* that reach training */
    int generations;
} tally;

static tally count(const kas_study_view *view)
{
    tally t = {0};
    for (int i = 0; i < view->count; i++)
        if (view->work[i].kind == KAS_WORK_CANDIDATE) {
            const kas_work *w = &view->work[i];
            t.state[w->state]++;
            t.candidates += !kas_work_discarded(w->state);
            t.generations = w->generation >= t.generations ? w->generation + 1 : t.generations;
        }
    return t;
}

/* Returns the seconds that all items together have waited for compilers. */
static double compile_seconds(const kas_study_view *view)
{
    double sum = 0;
    for (int i = 0; i < view->count; i++)
        if (isfinite(view->work[i].measured.compile_seconds))
            sum += view->work[i].measured.compile_seconds;
    return sum;
}

/* Returns the number of rungs, 0 without any, and what each was worth. */
static kas_status look_at_rungs(const kas_study_view *view, kas_rung_report *out, int *rungs)
{
    *rungs = view->options.rungs.count ? kas_rungs_last(&view->options) + 1 : 0;
    return *rungs ? kas_rungs_report(view->store, &view->options, view->work, view->count, out)
                  : KAS_OK;
}

static void put_rungs(const kas_rung_report *rung, int rungs, kas_buf *out)
{
    kas_line_key(out, "rungs");
    kas_buf_puts(out, "[");
    for (int i = 0; i < rungs; i++) {
        kas_buf_printf(out, "%s{\"epochs\": %d, \"reached\": %d, \"seconds\": %.3f,", i ? ", " : "",
                       rung[i].epochs, rung[i].reached, rung[i].seconds);
        kas_buf_printf(out, " \"compared\": %d, \"agreement\": ", rung[i].compared);
        if (isfinite(rung[i].agreement))
            kas_buf_printf(out, "%.4f}", rung[i].agreement);
        else
            kas_buf_puts(out, "null}");
    }
    kas_buf_puts(out, "]");
}

/* The last rung agrees with itself. */
static void print_rungs(const kas_rung_report *rung, int rungs, kas_buf *out)
{
    char text[32], name[KAS_RUNG_NAME];
    for (int i = 0; i < rungs; i++) {
        kas_buf_printf(out, "rung %d:     %s, reached by %d, %s of training", i,
                       kas_rungs_name(rung[i].epochs, name), rung[i].reached,
                       kas_human_duration(rung[i].seconds, text));
        if (i + 1 < rungs && isfinite(rung[i].agreement))
            kas_buf_printf(out, "; its ranks agree with the last rung's: Kendall's tau %.2f of %d",
                           rung[i].agreement, rung[i].compared);
        kas_buf_puts(out, "\n");
    }
}

/* Appends the devices of all supervisors of a study on a server, as a JSON list or as lines. */
static kas_status put_machines(const kas_study_view *view, bool json, kas_buf *out)
{
    kas_member *list;
    int members;
    char text[32];
    KAS_TRY(kas_store_members(view->store, &list, &members));
    kas_buf_puts(out, json ? "[" : "");
    for (int i = 0; i < members; i++) {
        const kas_member *m = &list[i];
        char host[sizeof m->owner];
        snprintf(host, sizeof host, "%.*s", (int)strcspn(m->owner, "|"), m->owner);
        if (json) {
            kas_buf_puts(out, i ? ", {\"host\": " : "{\"host\": ");
            kas_buf_json_string(out, host);
            kas_buf_puts(out, ", \"device\": ");
            kas_buf_json_string(out, m->device);
            kas_buf_printf(out, ", \"role\": \"%s\", \"seen_seconds\": %.1f}", m->role, m->seen);
        } else {
            kas_buf_printf(out, "machine:    %s, %s, role %s, seen %s ago\n", host, m->device,
                           m->role, kas_human_duration(m->seen, text));
        }
    }
    kas_buf_puts(out, json ? "]" : "");
    free(list);
    return KAS_OK;
}

static void print_json(const kas_study_args *args, const kas_study_view *view, const facts *f,
                       kas_buf *out)
{
    tally t = count(view);
    const kas_work *best = kas_objective_leader(&view->options, view->work, view->count);
    const kas_work *final = kas_finals_answer(view->work, view->count);
    kas_line_begin(out);
    kas_line_text(out, "study", args->study);
    kas_line_int(out, "candidates", t.candidates);
    kas_line_int(out, "candidates_wanted", view->options.candidates);
    kas_line_key(out, "states");
    for (int i = 0; i < KAS_WORK_STATES; i++)
        kas_buf_printf(out, "%s\"%s\":%d", i ? "," : "{", kas_work_state_name((kas_work_state)i),
                       t.state[i]);
    kas_buf_puts(out, "}");
    kas_line_int(out, "generations", t.generations);
    put_rungs(f->rung, f->rungs, out);
    kas_line_text(out, "best", best ? best->name : NULL);
    kas_line_number(out, "best_accuracy", best ? best->measured.accuracy : NAN);
    kas_line_bool(out, "done", kas_study_done(view));
    kas_line_text(out, "answer", final ? final->name : NULL);
    kas_line_number(out, "busy_seconds", view->study.busy_seconds);
    kas_line_number(out, "device_seconds", f->device_seconds);
    kas_line_number(out, "compile_seconds", compile_seconds(view));
    kas_line_text(out, "device", view->study.device);
    kas_line_text(out, "code_version", *view->study.code_version ? view->study.code_version : NULL);
    kas_line_text(out, "dataset", view->study.dataset_path);
    kas_line_json(out, "machines", kas_buf_text(&f->machines));
    kas_line_json(out, "options", view->study.options);
    kas_line_end(out);
}

static void print_running(const kas_study_view *view, kas_buf *out)
{
    char text[32];
    for (int i = 0; i < view->count; i++) {
        const kas_work *w = &view->work[i];
        if (w->state != KAS_WORK_RUNNING)
            continue;
        char name[KAS_ITEM_NAME];
        kas_study_item_name(w, name);
        kas_buf_printf(out, "running:    %s%s%s%s",
                       w->kind == KAS_WORK_CANDIDATE ? "candidate " : "", name, *w->name ? " " : "",
                       w->name);
        kas_buf_printf(out, ", %d of %d epochs, for %s\n", w->epochs,
                       kas_search_recipe(&view->options, w->kind == KAS_WORK_CANDIDATE).epochs,
                       kas_human_duration((double)time(NULL) - w->started, text));
        if (w->exchange)
            kas_buf_printf(out, "            by %s\n", w->exchange);
    }
}

static void print_text(const kas_study_args *args, const kas_study_view *view, const facts *f,
                       kas_buf *out)
{
    tally t = count(view);
    char text[32];
    kas_buf_printf(out, "study:      %s\nnetwork:    %s on %s\ndevice:     %s\n", args->study,
                   view->options.net, view->study.dataset_path,
                   *view->study.device ? view->study.device : "not used yet");
    if (view->options.candidates)
        kas_buf_printf(out, "candidates: %d of %d sampled", t.candidates, view->options.candidates);
    else
        kas_buf_printf(out, "candidates: %d sampled", t.candidates);
    for (int i = 0; i < KAS_WORK_STATES; i++)
        if (t.state[i])
            kas_buf_printf(out, ", %d %s", t.state[i], kas_work_state_name((kas_work_state)i));
    if (t.generations > 1)
        kas_buf_printf(out, "; %d generations", t.generations);
    kas_buf_printf(out, "\ntime spent: %s", kas_human_duration(view->study.busy_seconds, text));
    kas_buf_printf(out, ", device time %s", kas_human_duration(f->device_seconds, text));
    kas_buf_printf(out, "; all items together waited %s for compilers\n",
                   kas_human_duration(compile_seconds(view), text));
    const kas_work *best = kas_objective_leader(&view->options, view->work, view->count),
                   *baseline = kas_work_find(view->work, view->count, KAS_WORK_BASELINE);
    if (baseline)
        kas_buf_printf(out, "baseline:   %s%s", kas_work_state_name(baseline->state),
                       baseline->state == KAS_WORK_FINISHED ? "" : "\n");
    if (baseline && baseline->state == KAS_WORK_FINISHED)
        kas_buf_printf(out, ", %.2f%%\n", 100 * baseline->measured.accuracy);
    if (best)
        kas_buf_printf(out, "best:       %s, %.2f%%\n", best->name, 100 * best->measured.accuracy);
    print_rungs(f->rung, f->rungs, out);
    kas_buf_puts(out, kas_buf_text(&f->machines));
    print_running(view, out);
    const bool nothing = kas_study_without_answer(view);
    char missing[KAS_ENDING_MISSING];
    kas_buf word = {0};
    kas_buf_shell_word(&word, args->study);
    if (nothing && best && !view->options.finalists)
        kas_buf_puts(out, "the study is complete; it has no finalists and so no answer\n");
    else if (nothing && best)
        kas_buf_printf(out, "complete, but %s; kas-gpu best %s lists what there is\n",
                       kas_ending_missing(&view->options, best, missing), kas_buf_text(&word));
    else if (nothing)
        kas_buf_printf(out, "complete, but no candidate finished; kas-gpu log %s tells why\n",
                       kas_buf_text(&word));
    else if (kas_study_finals_done(view) && t.state[KAS_WORK_MACHINE_FAULT])
        kas_buf_printf(out,
                       "complete except for candidates that the machine could not evaluate; to try "
                       "them again: kas-gpu resume %s\n",
                       kas_buf_text(&word));
    else if (kas_study_finals_done(view))
        kas_buf_printf(out, "the study is complete\n");
    else
        kas_buf_printf(out, "not complete; if it is not running now, to go on: kas-gpu resume %s\n",
                       kas_buf_text(&word));
    kas_buf_free(&word);
}

static kas_status print(const kas_study_args *args, const kas_study_view *view, kas_buf *out)
{
    facts f = {.machines = {0}};
    KAS_TRY(look_at_rungs(view, f.rung, &f.rungs));
    KAS_TRY(kas_spent_study(view->store, &view->study, &view->options, view->work, view->count,
                            &f.device_seconds));
    const kas_status status = put_machines(view, args->common.json, &f.machines);
    if (status == KAS_OK)
        (args->common.json ? print_json : print_text)(args, view, &f, out);
    out->failed |= f.machines.failed;
    kas_buf_free(&f.machines);
    return status;
}

static kas_status run(int argc, char **argv)
{
    static const kas_study_command status = {.doc = doc, .print = print, .watch = kas_study_watch};
    return kas_study_run(&status, argc, argv);
}

const kas_command kas_command_status = {"status", "Where a study stands", run};
