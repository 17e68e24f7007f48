/* Implements `search --dry-run`: it prints what a search would do, without training or
 * writing anything. */
#ifndef KAS_CLI_DRY_RUN_H
#define KAS_CLI_DRY_RUN_H

#include "host/cli/cli.h"
#include "host/search/session.h"

kas_status kas_dry_run(kas_session *session, const kas_cli_common *common);

#endif
