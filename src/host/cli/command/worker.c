/* kas-gpu worker: takes part in a study, on any machine, and proposes nothing. */
#include "host/cli/search_run.h"

typedef struct worker_options {
    kas_cli_common common;
    kas_session_request request;
} worker_options;

enum { OPTION_STORE = 256 };

static const struct argp_option option_list[] = {
    {"store", OPTION_STORE, "URL", 0,
     "PostgreSQL database with the study: @FILE with its URL (DIR/url of `kas-gpu store start "
     "DIR`), or a URL without a password (default: KAS_STORE)",
     0},
    {"study", 's', "NAME", 0,
     "Name of the study there (default: the only one), or the path of its folder", 0},
    {"dataset", 'd', "F.h5", 0,
     "Where the data set lies on this machine (default: where the study began)", 0},
    {0}};

static const kas_cli_value values[] = {{OPTION_STORE, KAS_CLI_TEXT(worker_options, request.store)},
                                       {'s', KAS_CLI_TEXT(worker_options, request.study)},
                                       {'d', KAS_CLI_TEXT(worker_options, request.dataset)},
                                       {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    worker_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->request;
        state->child_inputs[1] = &o->common;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument \"%s\"", arg);
        return 0;
    default:
        return kas_cli_set(state, option_list, values, key, arg);
    }
}

static const char doc[] =
    "Take candidates of a study that `kas-gpu search` has begun, on this or another machine, until "
    "the study ends.\n\n"
    "  kas-gpu worker --store @/shared/store/url\n"
    "  kas-gpu worker --store @/shared/store/url --dataset /local/cifar100.h5\n"
    "  kas-gpu worker --store @url --role measure     # on the target machine\n"
    "\vA worker proposes nothing: without a search it waits for one. It needs the study's folder, "
    "at "
    "the same path or as --study, unless it only measures. Ctrl-C, SIGTERM, SIGUSR1 and SIGUSR2 "
    "save checkpoints and give the candidates back; the exit code is then 130 or 75. Exit code 4: "
    "the data set or the version of kas-gpu is not that of the study, or the database is gone.";

static kas_status run(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&kas_search_work_argp, 0, NULL, 0}, {&kas_cli_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {option_list, parse, "", doc, children, 0, 0};
    worker_options o = {.request = kas_search_request()};
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o));
    kas_session session;
    o.request.threads = o.common.threads;
    kas_status status = kas_session_join(&o.request, &session);
    if (status == KAS_OK)
        status = kas_search_run(&session, &o.common);
    kas_session_close(&session);
    return status;
}

const kas_command kas_command_worker = {"worker", "Take part in a study of several machines", run};
