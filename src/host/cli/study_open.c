#include "host/cli/study_open.h"

#include <stdio.h>

#include "host/leaderboard/finals.h"
#include "host/leaderboard/objective.h"
#include "host/study/study_store.h"

static error_t parse(int key, char *arg, struct argp_state *state)
{
    kas_study_args *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->common;
        return 0;
    case 'N':
        a->limit = (int)kas_cli_int(state, "--limit", arg, 0, 1000000);
        return 0;
    case 'w':
        a->watch = true;
        return 0;
    case ARGP_KEY_ARG:
        if (!a->study)
            a->study = arg;
        else if (a->takes_item && !a->item)
            a->item = arg;
        else
            argp_error(state, "unexpected argument \"%s\"", arg);
        return 0;
    case ARGP_KEY_END:
        if (!a->study)
            argp_error(state, "no study is given; give its folder");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static kas_status parse_arguments(const kas_study_command *command, int argc, char **argv,
                                  kas_study_args *out)
{
    static const struct argp_child children[] = {{&kas_cli_common_argp, 0, NULL, 0}, {0}};
    static const struct argp_option none[] = {{0}};
    static const struct argp_option limit[] = {
        {"limit", 'N', "N", 0, "Show the N best only; 0 = all (default 20)", 0}, {0}};
    static const struct argp_option watch[] = {
        {"watch", 'w', 0, 0, "Show the state until the study is done; Ctrl-C ends it", 0}, {0}};
    *out = (kas_study_args){.takes_item = command->takes_item, .limit = 20};
    const struct argp argp = {command->takes_limit ? limit
                              : command->watch     ? watch
                                                   : none,
                              parse,
                              command->takes_item ? "STUDY [CANDIDATE]" : "STUDY",
                              command->doc,
                              children,
                              0,
                              0};
    return kas_cli_parse(&argp, argc, argv, out);
}

kas_status kas_study_view_read(const char *study, kas_study_view *v)
{
    kas_work_list_free(v->work, v->count);
    kas_study_clear(&v->study);
    v->work = NULL;
    v->count = 0;
    KAS_TRY(kas_store_get_study(v->store, &v->study));
    KAS_TRY(kas_search_options_read(study, v->study.options, &v->options));
    return kas_store_list(v->store, &v->work, &v->count);
}

kas_status kas_study_view_open(const char *study, kas_study_view *out)
{
    *out = (kas_study_view){0};
    KAS_TRY(kas_study_open(study, KAS_STORE_READ, &out->store));
    return kas_study_view_read(study, out);
}

void kas_study_view_close(kas_study_view *view)
{
    kas_work_list_free(view->work, view->count);
    kas_study_clear(&view->study);
    kas_store_close(view->store);
    *view = (kas_study_view){0};
}

bool kas_study_finals_done(const kas_study_view *v)
{
    return kas_finals_done(v->work, v->count);
}

bool kas_study_without_answer(const kas_study_view *v)
{
    return kas_ending_without_answer(&v->options, v->study.busy_seconds, v->work, v->count);
}

bool kas_study_done(const kas_study_view *v)
{
    return kas_study_finals_done(v) || kas_study_without_answer(v);
}

kas_status kas_study_run(const kas_study_command *command, int argc, char **argv)
{
    kas_study_args args;
    kas_study_view view;
    kas_buf out = {0};
    KAS_TRY(parse_arguments(command, argc, argv, &args));
    if (args.watch)
        return command->watch(command, &args);
    kas_status status = kas_study_view_open(args.study, &view);
    if (status == KAS_OK)
        status = command->print(&args, &view, &out);
    if (status == KAS_OK)
        status = kas_buf_status(&out);
    if (status == KAS_OK)
        printf("%s", kas_buf_text(&out));
    kas_buf_free(&out);
    kas_study_view_close(&view);
    return status;
}
