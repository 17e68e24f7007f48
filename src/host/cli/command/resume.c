/* kas-gpu resume: continues a study with the options with which it was begun. */
#include "host/cli/search_run.h"

typedef struct resume_options {
    kas_cli_common common;
    kas_session_request request;
} resume_options;

static const struct argp_option option_list[] = {
    {"dataset", 'd', "F.h5", 0, "Where the data set lies now, if it was moved", 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    resume_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->request;
        state->child_inputs[1] = &o->request;
        state->child_inputs[2] = &o->common;
        return 0;
    case 'd':
        o->request.dataset = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (*o->request.study)
            argp_error(state, "unexpected argument \"%s\"", arg);
        o->request.study = arg;
        return 0;
    case ARGP_KEY_END:
        if (!*o->request.study)
            argp_error(state, "no study is given; give its folder");
        if (o->common.threads)
            argp_error(state, "--threads: the study keeps the number with which it began");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char doc[] = "Go on with a study that was interrupted: finished items stay, items "
                          "under way go on from their checkpoints. The study keeps its number of "
                          "threads.\n\n"
                          "  kas-gpu resume studies/resnet18-cifar100-0\n"
                          "  kas-gpu resume STUDY --dataset /new/place/cifar100.h5\n"
                          "\vRunning the same `kas-gpu search` command again has the same effect.";

static kas_status run(int argc, char **argv)
{
    static const struct argp_child children[] = {{&kas_search_work_argp, 0, NULL, 0},
                                                 {&kas_search_lead_argp, 0, NULL, 0},
                                                 {&kas_cli_common_argp, 0, NULL, 0},
                                                 {0}};
    static const struct argp argp = {option_list, parse, "STUDY", doc, children, 0, 0};
    resume_options o = {.request = kas_search_request()};
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o));
    kas_session session;
    kas_status status = kas_session_resume(&o.request, &session);
    if (status == KAS_OK)
        status = kas_search_run(&session, &o.common);
    kas_session_close(&session);
    return status;
}

const kas_command kas_command_resume = {"resume", "Go on with a study", run};
