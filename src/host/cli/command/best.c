/* kas-gpu best: prints the leaderboard of a study. */
#include "host/cli/study_open.h"
#include "host/leaderboard/finals.h"
#include "host/leaderboard/leaderboard.h"

static const char doc[] =
    "The leaderboard of a study: finished candidates, the most accurate first, the unmodified "
    "network among them, the accuracy/latency frontier marked with a star; then the final "
    "trainings.\n\n"
    "  kas-gpu best STUDY\n"
    "  kas-gpu best STUDY --limit 0\n"
    "  kas-gpu best STUDY --json | jq 'select(.frontier)'\n"
    "\vtop-1 is on the validation images that select; FLOPs and params are relative to the "
    "replaced "
    "convolutions, latency to the unmodified network. docs/search.md describes the JSON.";

static kas_status print(const kas_study_args *args, const kas_study_view *view, kas_buf *out)
{
    if (args->common.json)
        return kas_leaderboard_json(view->work, view->count, out);
    KAS_TRY(kas_leaderboard_text(view->work, view->count, args->limit, out));
    kas_buf_puts(out, "\n");
    return kas_finals_text(&view->options, view->work, view->count, out);
}

static kas_status run(int argc, char **argv)
{
    static const kas_study_command best = {.doc = doc, .takes_limit = true, .print = print};
    return kas_study_run(&best, argc, argv);
}

const kas_command kas_command_best = {"best", "Leaderboard and accuracy/latency frontier", run};
