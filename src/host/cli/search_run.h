/* What `search` and `resume` share: run a session and tell what came out. */
#ifndef KAS_CLI_SEARCH_RUN_H
#define KAS_CLI_SEARCH_RUN_H

#include "host/cli/cli.h"
#include "host/search/session.h"

/* Default limits: silence of ten minutes, checkpoints of 8 GiB together, weights of 4 GiB. */
#define KAS_HANG_SECONDS 600.0
#define KAS_CHECKPOINT_LIMIT (8ull << 30)
#define KAS_WEIGHTS_KEPT (4ull << 30)

/* Options that say how the work is done and not what is asked: --workers, --device, --stream,
 * --hang-timeout and others. A command lists it as a child with its request as input. */
extern const struct argp kas_search_work_argp;

kas_status kas_search_run(kas_session *session, const kas_cli_common *common);

#endif
