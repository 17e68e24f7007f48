#include "host/cli/search_run.h"

#include <stdio.h>
#include <string.h>

#include "host/cli/interrupt.h"
#include "host/cli/progress.h"
#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/leaderboard/finals.h"
#include "host/leaderboard/leaderboard.h"
#include "host/search/supervisor/ahead.h"
#include "host/search/worker/worker.h"
#include "host/study/study_dir.h"
#include "host/study/study_store.h"

enum { KEY_PACK = 0x500, KEY_STREAM, KEY_READ_THREADS, KEY_AHEAD, KEY_ROLE, KEY_UNTIL };
enum { KEY_RETRAIN = 0x580, KEY_PROPOSE };

kas_session_request kas_search_request(void)
{
    return (kas_session_request){.study = "",
                                 .ahead = -1,
                                 .hang_seconds = 600,
                                 .checkpoint_limit = 8ull << 30,
                                 .weights_limit = 4ull << 30};
}

static uint64_t gibibytes(struct argp_state *state, const char *option, const char *arg)
{
    return (uint64_t)(kas_cli_number(state, option, arg, 0, 1e9) * (1ull << 30));
}

static const struct argp_option options[] = {
    {"device", 'D', "DEVICE", 0, "auto, cpu, cuda or cuda:0,1,... (default auto)", 50},
    {"workers", 'w', "N", 0, "Worker processes (default: one a GPU; one on the CPU)", 50},
    {"role", KEY_ROLE, "ROLE", 0,
     "train: train what others have measured; measure: only measure latencies, for others; all "
     "(default)",
     50},
    {"pack", KEY_PACK, "N", 0,
     "Candidates at once in a worker, or auto (default): on a GPU as many as fill it and fit in "
     "its "
     "memory, 16 at most; 1 on the CPU",
     50},
    {"stream", KEY_STREAM, 0, 0, "Read images while training, even if they fit in memory", 50},
    {"read-threads", KEY_READ_THREADS, "N", 0,
     "Threads that read and decode streamed images, for each training (default: all cores for JPEG "
     "and PNG, "
     "else 4)",
     50},
    {"compile-ahead", KEY_AHEAD, "N", 0,
     "Compile up to N candidates, while others are trained, before a worker begins them; 0 = off; "
     "auto (default): 4 on a GPU, 0 on the CPU",
     50},
    {"hang-timeout", 'H', "SECONDS", 0,
     "Silence after which a worker is killed and its candidate is \"hung\", and time that the "
     "program of --propose has for an answer (default 600)",
     50},
    {"until", KEY_UNTIL, "TIME", 0,
     "Stop as upon SIGTERM at this time (seconds since 1970, as `date +%s` has them), and begin no "
     "candidate that would not reach its first checkpoint by then",
     50},
    {"checkpoint-limit", 'K', "GIB", 0, "Disk space for checkpoints of the study (default 8)", 50},
    {"weights-limit", 'W', "GIB", 0,
     "Disk space for trained weights of the frontier's candidates; 0 = none are kept (default 4)",
     50},
    {0}};

static const kas_cli_value values[] = {
    {'D', KAS_CLI_TEXT(kas_session_request, device)},
    {'w', KAS_CLI_INT(kas_session_request, workers, 1, 256)},
    {KEY_STREAM, KAS_CLI_FLAG(kas_session_request, stream)},
    {KEY_READ_THREADS, KAS_CLI_INT(kas_session_request, read_threads, 1, 256)},
    {KEY_ROLE, KAS_CLI_CHOICE(kas_session_request, role, kas_work_role_names)},
    {'H', KAS_CLI_NUMBER(kas_session_request, hang_seconds, 1, 1e7)},
    {KEY_UNTIL, KAS_CLI_NUMBER(kas_session_request, until, 1e9, 1e11)},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    kas_session_request *request = state->input;
    switch (key) {
    case KEY_PACK:
        request->pack = strcmp(arg, "auto") == 0
                            ? 0
                            : (int)kas_cli_int(state, "--pack", arg, 1, KAS_WORKER_SLOTS);
        return 0;
    case KEY_AHEAD:
        request->ahead = strcmp(arg, "auto") == 0
                             ? -1
                             : (int)kas_cli_int(state, "--compile-ahead", arg, 0, KAS_AHEAD_MOST);
        return 0;
    case 'K':
        request->checkpoint_limit = gibibytes(state, "--checkpoint-limit", arg);
        return 0;
    case 'W':
        request->weights_limit = gibibytes(state, "--weights-limit", arg);
        return 0;
    default:
        return kas_cli_set(state, options, values, key, arg);
    }
}

const struct argp kas_search_work_argp = {options, parse, 0, 0, 0, 0, 0};

static const struct argp_option lead_options[] = {
    {"propose", KEY_PROPOSE, "CMD", 0,
     "Up to half of each generation are kernels that this command proposes: it reads the study's "
     "history and writes kernel files, one a line. It is no option of the study, and each run may "
     "give another (docs/proposals.md)",
     51},
    {"retrain", KEY_RETRAIN, 0, 0,
     "Repeat final trainings that are finished and whose weights are gone", 51},
    {0}};

static error_t parse_lead(int key, char *arg, struct argp_state *state)
{
    kas_session_request *request = state->input;
    if (key == KEY_RETRAIN)
        request->retrain = true;
    else if (key == KEY_PROPOSE)
        request->propose = arg;
    else
        return ARGP_ERR_UNKNOWN;
    if (key == KEY_PROPOSE && strspn(arg, " \t\n") == strlen(arg))
        argp_error(state, "--propose: expected a command of the shell, found \"%s\"", arg);
    return 0;
}

const struct argp kas_search_lead_argp = {lead_options, parse_lead, 0, 0, 0, 0, 0};

/* A study without finalists has no answer; the next one begins with its candidates. */
static void add_next(const kas_session *s, kas_buf *out)
{
    kas_buf_puts(out, "no finalists were asked for; to train the best of these in another study: "
                      "kas-gpu search --from ");
    kas_buf_shell_word(out, s->study);
    kas_buf_puts(out, " ...\n");
}

/* Adds where the winner's files are, but only those that exist. */
static void add_places(const kas_session *s, const char *folder, const char *weights, kas_buf *out)
{
    kas_buf_printf(out, "best kernel: %s/best/kernel.json\n", s->study);
    if (kas_file_exists(weights)) {
        kas_buf_printf(out, "trained weights: %s\nto export it: kas-gpu export ", weights);
        kas_buf_shell_word(out, s->study);
        kas_buf_puts(out, " -o ");
        kas_buf_shell_word(out, folder);
        kas_buf_puts(out, " --verify\n");
    } else {
        kas_buf_printf(out,
                       "trained weights: gone (there is no %s); to train the winner again: kas-gpu "
                       "resume ",
                       weights);
        kas_buf_shell_word(out, s->study);
        kas_buf_puts(out, " --retrain\n");
    }
}

static kas_status print_results(kas_session *s, const kas_cli_common *common)
{
    kas_work *list;
    int count;
    kas_buf out = {0};
    char folder[KAS_STUDY_PATH], weights[KAS_STUDY_PATH];
    KAS_TRY(kas_study_path(s->study, "export", folder));
    KAS_TRY(kas_study_path(s->study, "best/weights.safetensors", weights));
    KAS_TRY(kas_store_list(s->store, &list, &count));
    kas_status status = common->json ? kas_leaderboard_json(list, count, &out)
                                     : kas_leaderboard_text(list, count, 20, &out);
    if (status == KAS_OK && !common->json) {
        kas_buf_puts(&out, "\n");
        status = kas_finals_text(&s->search, list, count, &out);
        if (s->search.finalists)
            add_places(s, folder, weights, &out);
        else
            add_next(s, &out);
        status = status == KAS_OK ? kas_buf_status(&out) : status;
    }
    if (status == KAS_OK)
        printf("%s", kas_buf_text(&out));
    kas_buf_free(&out);
    kas_work_list_free(list, count);
    return status;
}

static void print_beginning(const kas_session *s)
{
    fprintf(stderr, "%s %s: %s on %s, %d %s on %s%s, %d %s each\n",
            s->takes_only ? "taking part in"
            : s->created  ? "study"
                          : "going on with",
            s->study, s->search.net, s->dataset, s->workers, s->workers == 1 ? "worker" : "workers",
            s->devices.spec[0], s->devices.count > 1 ? ", ..." : "", s->search.threads,
            s->search.threads == 1 ? "thread" : "threads");
    if (s->pack > 1)
        fprintf(stderr, "up to %d candidates at once in a worker\n", s->pack);
    fprintf(stderr, "%d convolutions are replaced: %.1f%% of the network's FLOPs\n",
            s->problem.targets,
            100 * kas_targets_flops_share(s->problem.net, s->problem.target, s->problem.targets));
    if (kas_store_is_exclusive(s->store))
        fprintf(stderr,
                "%s lies on a network file system: one supervisor at a time, and `status` "
                "waits until it has ended\n",
                s->study);
}

kas_status kas_search_run(kas_session *s, const kas_cli_common *common)
{
    kas_progress progress = kas_progress_make(common->quiet);
    if (!common->quiet)
        print_beginning(s);
    kas_status status = kas_session_run(s, kas_progress_event, &progress);
    kas_progress_end(&progress);
    if (status == KAS_INTERRUPTED || status == KAS_PREEMPTED) {
        kas_buf word = {0};
        kas_buf_shell_word(&word, s->study);
        fprintf(stderr,
                s->takes_only ? "everything is saved; the same command goes on%.0s\n"
                              : "everything is saved; to go on: kas-gpu resume %s\n",
                kas_buf_text(&word));
        kas_buf_free(&word);
        return kas_fail(status, "%s", "");
    }
    if (status == KAS_OK && s->takes_only)
        kas_info("%s: the study has ended", s->study);
    return status == KAS_OK && !s->takes_only ? print_results(s, common) : status;
}

/* ---- a search -------------------------------------------------------------------------------- */

/* Opens the study, or begins it. While ancestors evolve a signal ends the search; afterwards the
 * supervisor takes signals. */
static kas_status begin(const kas_session_request *asked, bool quiet, kas_session *session)
{
    kas_session_request request = *asked;
    kas_progress progress = kas_progress_make(quiet);
    request.interrupted = kas_interrupted;
    request.progress = kas_progress_ancestors;
    request.context = &progress;
    kas_interrupt_watch();
    kas_interrupt_at(request.until);
    const kas_status status = kas_session_begin(&request, false, session);
    kas_interrupt_end();
    kas_progress_end(&progress);
    if (status != KAS_INTERRUPTED && (status != KAS_OK || !kas_interrupted()))
        return status;
    fprintf(
        stderr,
        "stopped before the first training; everything is saved, and the same command goes on\n");
    return kas_interrupt_status();
}

kas_status kas_search_once(const kas_session_request *request, const kas_cli_common *common)
{
    kas_session session;
    kas_status status = begin(request, common->quiet, &session);
    if (status == KAS_OK)
        status = kas_search_run(&session, common);
    kas_session_close(&session);
    return status;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* A round begins with all finished kernels of the one before, so that one gets no more. */
static kas_status may_grow(const char *folder, int round, bool *out)
{
    char relative[32], next[KAS_STUDY_PATH];
    snprintf(relative, sizeof relative, "round-%d", round + 1);
    KAS_TRY(kas_study_path(folder, relative, next));
    *out = !kas_study_exists(next);
    return KAS_OK;
}

kas_status kas_search_rounds(const kas_session_request *request, double factor,
                             const kas_cli_common *common)
{
    kas_session_request round = *request;
    char study[2][KAS_STUDY_PATH], relative[32];
    double *const limit = round.search.flops > 0 ? &round.search.flops : &round.search.latency;
    for (int r = 0;; r++) {
        snprintf(relative, sizeof relative, "round-%d", r);
        KAS_TRY(kas_study_path(request->study, relative, study[r % 2]));
        round.study = study[r % 2];
        if (request->may_grow)
            KAS_TRY(may_grow(request->study, r, &round.may_grow));
        if (r > 0) {
            round.from = study[(r + 1) % 2];
            *limit *= factor;
        }
        if (!common->quiet)
            fprintf(stderr, "round %d: at most %.4g times the %s\n", r, *limit,
                    limit == &round.search.flops ? "FLOPs" : "latency");
        kas_status status = kas_search_once(&round, common);
        if (status == KAS_BAD_INPUT && r > 0) { /* none of them fits the smaller limit */
            fprintf(stderr, "round %d begins anew: %s\n", r, kas_error());
            round.from = NULL;
            status = kas_search_once(&round, common);
        }
        if (status == KAS_NOTHING_VALID && r > 0) {
            fprintf(stderr, "round %d ends the search: %s\n", r, kas_error());
            fprintf(stderr, "the answer is that of round %d: %s/best\n", r - 1, study[(r + 1) % 2]);
            return KAS_OK;
        }
        if (status == KAS_INTERRUPTED || status == KAS_PREEMPTED)
            fprintf(stderr, "the same command goes on with this round and those after it; `resume` "
                            "ends this one only\n");
        KAS_TRY(status);
    }
}
