/* kas-gpu log: prints what happened in a study, for all items or for one in full. */
#include <stdlib.h>
#include <string.h>

#include "host/cli/study_open.h"
#include "host/core/file/files.h"
#include "host/leaderboard/leaderboard.h"
#include "host/report/line.h"
#include "host/report/table.h"
#include "host/study/study_dir.h"

static const char doc[] =
    "What happened in a study.\n\n"
    "  kas-gpu log STUDY               every item, its state and the reason\n"
    "  kas-gpu log STUDY 7             the log of candidate 7\n"
    "  kas-gpu log STUDY 3f9c          the log of the kernel whose name begins so\n"
    "  kas-gpu log STUDY baseline      likewise final, final-baseline and\n"
    "                                  final-0007-seed1 (finalist 7, second seed)\n"
    "  kas-gpu log STUDY 7 --json      accuracy and loss by epoch\n";

static kas_status print_items(const kas_study_args *args, const kas_study_view *view, kas_buf *out)
{
    static const kas_column columns[] = {{"item", KAS_LEFT},   {"candidate", KAS_RIGHT},
                                         {"kernel", KAS_LEFT}, {"epochs", KAS_RIGHT},
                                         {"state", KAS_LEFT},  {"reason", KAS_LEFT}};
    if (args->common.json)
        return kas_leaderboard_json(view->work, view->count, out);
    kas_table *table = kas_table_create(columns, 6);
    for (int i = 0; i < view->count; i++) {
        const kas_work *w = &view->work[i];
        char name[KAS_ITEM_NAME];
        kas_study_item_name(w, name);
        kas_table_cell(table, "%s",
                       w->kind == KAS_WORK_CANDIDATE ? kas_work_kind_name(w->kind) : name);
        if (*w->name) /* the unmodified network is no candidate */
            kas_table_cell(table, "%lld", (long long)w->index);
        else
            kas_table_cell(table, "%s", "");
        kas_table_cell(table, "%s", w->name);
        kas_table_cell(table, "%d", w->epochs);
        kas_table_cell(table, "%s", kas_work_state_name(w->state));
        kas_table_cell(table, "%.100s", w->reason);
    }
    kas_table_end(table, out);
    return kas_buf_status(out);
}

/* Returns whether an item that is no candidate has this name. "final" is the answer's first. */
static bool is_called(const kas_work *w, const char *item)
{
    char name[KAS_ITEM_NAME];
    kas_study_item_name(w, name);
    const bool first = w->kind == KAS_WORK_FINAL && w->answers && w->seed == 0;
    return strcmp(name, item) == 0 || (first && strcmp(item, "final") == 0);
}

/* Finds an item by its number, by its name, or by the unique beginning of a kernel's name. */
static kas_status find(const kas_study_args *args, const kas_study_view *view, const kas_work **out)
{
    int found = 0;
    for (int i = 0; i < view->count; i++) {
        const kas_work *w = &view->work[i];
        if (w->kind == KAS_WORK_CANDIDATE ? kas_study_is_candidate(w, args->item)
                                          : is_called(w, args->item)) {
            *out = w;
            found++;
        }
    }
    if (found == 1)
        return KAS_OK;
    return kas_fail(KAS_BAD_INPUT,
                    "%s: %s item \"%s\"; give a candidate's number, its kernel's name, baseline, "
                    "final, final-baseline or another item that `kas-gpu log %s` lists",
                    args->study, found ? "more than one" : "no", args->item, args->study);
}

static kas_status print_log(const kas_study_args *args, const kas_work *work, kas_buf *out)
{
    char path[KAS_STUDY_PATH];
    KAS_TRY(kas_study_log_path(args->study, work, path));
    if (!kas_file_exists(path) && kas_work_ended(work->state))
        return kas_fail(KAS_BAD_INPUT, "%s: no log: the item is %s%s%s", path,
                        kas_work_state_name(work->state), *work->reason ? ": " : "", work->reason);
    if (!kas_file_exists(path))
        return kas_fail(KAS_BAD_INPUT, "%s: no log yet: the item is %s", path,
                        kas_work_state_name(work->state));
    return kas_file_read(path, 1u << 30, out);
}

static kas_status print_epochs(const kas_study_view *view, const kas_work *work, kas_buf *out)
{
    kas_epoch *epoch;
    int epochs;
    KAS_TRY(kas_store_epochs(view->store, work->id, &epoch, &epochs));
    for (int i = 0; i < epochs; i++) {
        kas_line_begin(out);
        kas_line_int(out, "epoch", epoch[i].epoch);
        kas_line_number(out, "train_loss", epoch[i].train_loss);
        kas_line_number(out, "train_accuracy", epoch[i].train_accuracy);
        kas_line_number(out, "validation_loss", epoch[i].validation_loss);
        kas_line_number(out, "validation_accuracy", epoch[i].validation_accuracy);
        kas_line_number(out, "seconds", epoch[i].seconds);
        kas_line_end(out);
    }
    free(epoch);
    return KAS_OK;
}

static kas_status print(const kas_study_args *args, const kas_study_view *view, kas_buf *out)
{
    const kas_work *work = NULL;
    if (!args->item)
        return print_items(args, view, out);
    KAS_TRY(find(args, view, &work));
    return args->common.json ? print_epochs(view, work, out) : print_log(args, work, out);
}

static kas_status run(int argc, char **argv)
{
    static const kas_study_command log = {.doc = doc, .takes_item = true, .print = print};
    return kas_study_run(&log, argc, argv);
}

const kas_command kas_command_log = {"log", "What happened to each candidate", run};
