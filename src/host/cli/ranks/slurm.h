/* Ranks that Slurm starts, on one node or several: each task of a job step is one (docs/cluster.md). */
#ifndef KAS_CLI_RANKS_SLURM_H
#define KAS_CLI_RANKS_SLURM_H

#include "host/cli/ranks/ranks.h"

/* Finds out from the environment which rank of the step this process is. The ranks meet in `folder`,
 * which is created, under a name that no other step has, nor another attempt of a job that was
 * requeued. `asked` as in kas_cli_ranks_find. KAS_USAGE names the variable that is missing, or those
 * that contradict each other. */
kas_status kas_cli_slurm_find(const char *device, int asked, const char *folder,
                              kas_cli_ranks *out);

#endif
