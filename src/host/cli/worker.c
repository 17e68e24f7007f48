/* kas-gpu worker: started by the supervisor only, so it has no summary and is not listed. */
#include <fcntl.h>

#include "host/cli/cli.h"
#include "host/search/worker.h"

static kas_status run(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    if (fcntl(KAS_WORKER_REPLY_FD, F_GETFD) < 0)
        return kas_fail(KAS_USAGE, "`worker` is started by `kas-gpu search`, not by hand");
    return kas_worker_run(&kas_evaluator_train);
}

const kas_command kas_command_worker = {"worker", NULL, run};
