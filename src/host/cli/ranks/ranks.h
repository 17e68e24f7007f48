/* Starts and watches the processes that train one network together (docs/parallel.md), one a device.
 *
 * The command starts itself once for each rank, and only watches: it opens no device. A rank finds its
 * number, and the folder in which the ranks meet, in the environment variable KAS_RANK, which it
 * removes. The folder is made for one attempt and removed at its end, so no file of another attempt is
 * ever in it. When a rank ends with a failure, the others get ten seconds to end by themselves. */
#ifndef KAS_CLI_RANKS_RANKS_H
#define KAS_CLI_RANKS_RANKS_H

#include <limits.h>

#include "host/device/group.h"

typedef struct kas_cli_ranks {
    int rank, ranks;                 /* 1: this process trains alone */
    bool started;                    /* this process is a rank */
    char device[32];                 /* of this rank */
    char folder[PATH_MAX], name[96]; /* where the ranks meet, under a name that only they have */
    double timeout;                  /* seconds */
    bool capture;                    /* see kas_group_options */
} kas_cli_ranks;

/* Finds out how many ranks train: `asked` (--ranks; 0 = one for each GPU that `device` names), and
 * whether this process is one of them. `timeout` and `capture` are set already. */
kas_status kas_cli_ranks_find(const char *device, int asked, kas_cli_ranks *out);
/* Runs all ranks of `kas-gpu train` to their end; argv[1] and what follows are its options. Fails as
 * the first rank that fails does. */
kas_status kas_cli_ranks_run(const kas_cli_ranks *ranks, char *const *argv);
/* Joins the group as a rank; *out is NULL for a process that trains alone. */
kas_status kas_cli_ranks_join(const kas_cli_ranks *ranks, kas_device *device, kas_group **out);

#endif
