/* The program of --propose: asks it for kernels, and keeps what it answers (docs/proposals.md).
 *
 * The program is started once a generation, reads a question, answers lines and ends. The
 * supervisor listens to it in its loop (supervisor.c), so that workers are heard meanwhile. An
 * answer is recorded in the store before a candidate is made of it (kas_proposer of strategy.h),
 * whatever went wrong: a crash, an answer that is too long or takes too long, and no answer at all
 * are recorded as what they are, and the strategy fills the generation.
 *
 * The program runs in a process group of its own, below a process of kas-gpu (`kas-gpu propose`)
 * that ends the group when the supervisor dies, even by kill -9, and copies a limited part of its
 * errors to STUDY/logs/propose.log. */
#ifndef KAS_SEARCH_SUPERVISOR_PROPOSER_H
#define KAS_SEARCH_SUPERVISOR_PROPOSER_H

#include "host/search/worker/channel.h"
#include "host/search/worker/process.h"
#include "host/strategy/strategy.h"

enum {
    KAS_PROPOSE_BYTES = 1 << 20, /* of an answer, and of what is kept of the program's errors */
    KAS_PROPOSE_FAILURES = 3     /* in a row; then it is not asked any more in this run */
};

/* The state of asking; zero but for its first part. */
typedef struct kas_asking {
    const char *command; /* for /bin/sh; NULL: only recorded answers are read */
    const char *study;   /* folder */
    kas_store *store;
    const kas_search_options *options;
    const kas_target *target; /* [targets] */
    int targets;

    kas_process process; /* pid 0 = none */
    kas_channel channel;
    int generation;   /* for which it was asked last in this run */
    int64_t first;    /* see kas_question */
    bool asked;       /* that answer is recorded */
    bool timed;       /* `began` is known */
    double began;     /* in time of kas_supervisor_listened */
    long long logged; /* bytes of the log when it began */
    int failures;     /* in a row */
    char news[800];   /* for the user, not shown yet; "" = none */
} kas_asking;

/* Returns the proposer for a strategy; `asking` must outlive it. */
kas_proposer kas_asking_proposer(kas_asking *asking);

bool kas_asking_busy(const kas_asking *asking); /* the program is at work; NULL: it never is */
/* Sends more of the question, when its pipe has room, and reads more of the answer. */
kas_status kas_asking_serve(kas_asking *asking, bool room, bool news);
void kas_asking_end(kas_asking *asking); /* stops it without an answer; NULL is allowed */

/* Appends the question as JSON lines: the study, then the results of earlier generations. */
void kas_question_write(const kas_search_options *options, const kas_target *target, int targets,
                        const kas_question *question, kas_buf *out);

/* `kas-gpu propose`: runs the command and returns its exit code as a status. */
kas_status kas_propose_run(const char *command);

#endif
