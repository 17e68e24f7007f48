/* kas-gpu evaluate (a worker), kas-gpu compile-ahead and kas-gpu propose: only the supervisor
 * starts them, so they have no summary and are not listed. */
#include <fcntl.h>

#include "host/cli/cli.h"
#include "host/search/supervisor/ahead.h"
#include "host/search/supervisor/proposer.h"
#include "host/search/worker/worker.h"

static kas_status check_started(const char *name)
{
    return fcntl(KAS_WORKER_REPLY_FD, F_GETFD) >= 0
               ? KAS_OK
               : kas_fail(KAS_USAGE, "`kas-gpu search` starts `%s`; do not start it by hand", name);
}

static kas_status run_evaluate(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    KAS_TRY(check_started("evaluate"));
    return kas_worker_run(&kas_evaluator_train);
}

static kas_status run_ahead(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    KAS_TRY(check_started("compile-ahead"));
    return kas_ahead_run(&kas_ahead_programs);
}

static kas_status run_propose(int argc, char **argv)
{
    KAS_TRY(check_started("propose"));
    return argc == 2 ? kas_propose_run(argv[1])
                     : kas_fail(KAS_USAGE, "propose: expected a command");
}

const kas_command kas_command_evaluate = {"evaluate", NULL, run_evaluate};
const kas_command kas_command_ahead = {"compile-ahead", NULL, run_ahead};
const kas_command kas_command_propose = {"propose", NULL, run_propose};
