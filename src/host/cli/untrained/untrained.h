/* `kas-gpu search --no-training`: runs the search (search/untrained.h), prints what it found, and
 * writes it into a folder.
 *
 *     DIR/best/kernel.json   the fastest legal configuration, a file of layers
 *     DIR/legal/NAME.json    the legal ones that were found
 *     DIR/untrained.jsonl    what --json prints */
#ifndef KAS_CLI_UNTRAINED_UNTRAINED_H
#define KAS_CLI_UNTRAINED_UNTRAINED_H

#include "host/cli/cli.h"
#include "host/search/session.h"

typedef struct kas_cli_untrained {
    bool given;         /* --no-training */
    int configurations; /* 0 = not given */
    bool score_all, measure;
} kas_cli_untrained;
enum { KAS_UNTRAINED_CONFIGURATIONS = 1000, KAS_UNTRAINED_WANTED = 5 };

/* Of the request it reads study, dataset, net, device, threads and, of the options, what
 * kas_untrained_options names. KAS_NOTHING_VALID when no configuration is legal. */
kas_status kas_untrained_run(const kas_session_request *request, const kas_cli_untrained *how,
                             const kas_cli_common *common);

#endif
