/* The common part of `search` and `resume`: running a session and printing its result. */
#ifndef KAS_CLI_SEARCH_RUN_H
#define KAS_CLI_SEARCH_RUN_H

#include "host/cli/cli.h"
#include "host/search/session.h"

/* Returns what a command asks for where its options say nothing: ten minutes of silence, 8 GiB of
 * checkpoints, 4 GiB of weights; compiling ahead is chosen by the device. */
kas_session_request kas_search_request(void);

/* The options that determine how the work is done, not what is done: --workers, --device, --stream,
 * --hang-timeout and others. A command lists the parser as a child, with its request as input. */
extern const struct argp kas_search_work_argp;
/* Those of commands that propose candidates: --propose, --retrain; used in the same way. */
extern const struct argp kas_search_lead_argp;

kas_status kas_search_run(kas_session *session, const kas_cli_common *common);
/* Opens or begins the study of a request, and runs it. KAS_INTERRUPTED or KAS_PREEMPTED, with a line
 * that says so, when a signal or --until comes before the search begins. */
kas_status kas_search_once(const kas_session_request *request, const kas_cli_common *common);

/* Runs rounds until one finds no kernel within the loss (the paper's outer loop, section 8.2). A
 * round is a study of its own, STUDY/round-0, STUDY/round-1, ...; it begins with the kernels of the
 * round before, and has `factor` times its limit on the FLOPs or, where they have none, on the
 * latency. Called again it goes on with the round that has not ended. Fails when the first round
 * finds none. */
kas_status kas_search_rounds(const kas_session_request *request, double factor,
                             const kas_cli_common *common);

#endif
