/* kas-gpu best: the leaderboard of a study. */
#include <stdio.h>

#include "host/cli/study_open.h"
#include "host/search/leaderboard.h"

static const char doc[] =
    "The leaderboard of a study: finished candidates, best first, the unmodified network among "
    "them, the accuracy/latency frontier marked with a star.\n\n"
    "  kas-gpu best STUDY\n"
    "  kas-gpu best STUDY --limit 0\n"
    "  kas-gpu best STUDY --json | jq 'select(.frontier)'\n"
    "\vtop-1 is on the validation split; FLOPs and params are relative to the replaced "
    "convolutions, latency to the unmodified network. docs/search.md describes the JSON.";

static kas_status print(const kas_study_args *args, const kas_study_view *view)
{
    kas_buf out = {0};
    kas_status status = args->common.json
                            ? kas_leaderboard_json(view->work, view->count, &out)
                            : kas_leaderboard_text(view->work, view->count, args->limit, &out);
    if (status == KAS_OK && !args->common.json) {
        kas_buf_puts(&out, "\n");
        kas_leaderboard_final(view->work, view->count, &out);
    }
    if (status == KAS_OK)
        fputs(kas_buf_text(&out), stdout);
    kas_buf_free(&out);
    return status;
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
    if (status == KAS_OK)
        status = print(&args, &view);
    kas_study_view_close(&view);
    return status;
}

const kas_command kas_command_best = {"best", "Leaderboard and accuracy/latency frontier", run};
