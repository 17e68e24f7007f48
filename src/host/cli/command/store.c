/* kas-gpu store: a PostgreSQL server for studies of several machines, and moving studies to it. */
#include <stdio.h>
#include <string.h>

#include "host/cli/cli.h"
#include "host/report/line.h"
#include "host/store/server.h"
#include "host/study/study_store.h"

typedef struct store_options {
    kas_cli_common common;
    const char *action, *path, *store, *listen;
    int port;
} store_options;

static const char *const actions[] = {"start", "stop", "status", "import", "export", NULL};

static const struct argp_option option_list[] = {
    {"listen", 'l', "ADDRESS", 0,
     "start: the interface on which other machines reach it (default: none, only this machine)", 0},
    {"port", 'p', "N", 0, "start: its port on that interface (default: a free one)", 0},
    {"store", 's', "URL", 0, "import: the database, as in `kas-gpu search` (default: KAS_STORE)",
     0},
    {0}};

static const kas_cli_value values[] = {{'l', KAS_CLI_TEXT(store_options, listen)},
                                       {'p', KAS_CLI_INT(store_options, port, 1, 65535)},
                                       {'s', KAS_CLI_TEXT(store_options, store)},
                                       {0}};

/* Refuses what would have no effect, so that nobody believes that it had one. */
static void check(const store_options *o, struct argp_state *state)
{
    if (o->listen && strcmp(o->action, "start") != 0)
        argp_error(state, "--listen is an option of `kas-gpu store start`");
    else if (o->port && !o->listen)
        argp_error(state, "--port is that of --listen");
    else if (o->store && strcmp(o->action, "import") != 0)
        argp_error(state, "--store is an option of `kas-gpu store import`");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    store_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->common;
        return 0;
    case ARGP_KEY_ARG:
        kas_cli_action(state, arg, &o->action, &o->path);
        kas_cli_choice(state, "action", o->action, actions);
        return 0;
    case ARGP_KEY_END:
        if (!o->path)
            argp_error(state,
                       "expected start, stop or status and the folder of a server, or import "
                       "or export and a study");
        else
            check(o, state);
        return 0;
    default:
        return kas_cli_set(state, option_list, values, key, arg);
    }
}

static const char doc[] =
    "A PostgreSQL server for studies that several machines share.\n\n"
    "  kas-gpu store start /scratch/store --listen 10.0.0.5\n"
    "  kas-gpu search --store @/scratch/store/url --study /scratch/first --dataset cifar100.h5\n"
    "  kas-gpu store import first --store @/scratch/store/url   # from the file first/study.db\n"
    "  kas-gpu store export first                               # and back into it\n"
    "  kas-gpu store stop /scratch/store\n"
    "\v`start` needs PostgreSQL's programs (Debian: postgresql) and no rights; the server ends "
    "with "
    "the job in which it was started, and `start` goes on with its folder, which may be on a "
    "shared "
    "disk. DIR/url has its address with the password, and only its owner can read it. `status` "
    "ends with exit code 4 when no server runs.";

static kas_status print_server(const store_options *o, const kas_server *server)
{
    if (!o->common.json) {
        if (server->running)
            printf("%s: runs on %s: --store @%s/url (%s)\n", server->dir, server->host, server->dir,
                   server->shown);
        return KAS_OK;
    }
    kas_buf out = {0};
    kas_line_begin(&out);
    kas_line_text(&out, "folder", server->dir);
    kas_line_text(&out, "state", server->running ? "running" : "stopped");
    kas_line_text(&out, "host", server->host);
    kas_line_text(&out, "url", server->shown);
    kas_line_end(&out);
    return kas_print_buf(&out);
}

static kas_status act(const store_options *o)
{
    kas_server server;
    if (strcmp(o->action, "import") == 0)
        return kas_study_import(o->path, o->store);
    if (strcmp(o->action, "export") == 0)
        return kas_study_export(o->path);
    if (strcmp(o->action, "stop") == 0)
        return kas_server_stop(o->path);
    if (strcmp(o->action, "start") == 0) {
        KAS_TRY(kas_server_start(o->path, o->listen, o->port, &server));
        return print_server(o, &server);
    }
    KAS_TRY(kas_server_find(o->path, &server));
    KAS_TRY(print_server(o, &server));
    return server.running ? KAS_OK : kas_fail(KAS_STORE, "%s: no server runs", server.dir);
}

static kas_status run(int argc, char **argv)
{
    static const struct argp_child children[] = {{&kas_cli_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        option_list, parse, "start|stop|status DIR\nimport|export STUDY", doc, children, 0, 0};
    store_options o = {.action = NULL};
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o));
    return act(&o);
}

const kas_command kas_command_store = {
    "store", "Start a server for studies of several machines; move studies", run};
