/* What a program has proposed for the present generation, checked as samples are.
 *
 * A line of its answer is a kernel file.  The kernel must be one that the guided sampler can make
 * with the options of the study, within the budget, and must not have come before; lines of which
 * this does not hold are counted and noted.  It is a pure function of the answer, so an answer that
 * is read again gives the same kernels.  Internal to strategy/. */
#ifndef KAS_STRATEGY_PROPOSALS_H
#define KAS_STRATEGY_PROPOSALS_H

#include "host/space/evolve/evolve.h"
#include "host/space/name_set.h"
#include "host/strategy/strategy.h"

#define KAS_ORIGIN_PROPOSED "proposed"

typedef struct kas_proposed {
    char name[KAS_NAME_SIZE];
    kas_replacement replacement;
} kas_proposed;

/* What became of lines of answers. */
typedef enum kas_proposal_end {
    KAS_PROPOSAL_TAKEN,
    KAS_PROPOSAL_UNREADABLE, /* not JSON, or no kernel file */
    KAS_PROPOSAL_ILLEGAL,    /* no kernel that the sampler can make */
    KAS_PROPOSAL_OVER_BUDGET,
    KAS_PROPOSAL_TWICE,    /* in the study already */
    KAS_PROPOSAL_TOO_MANY, /* more than were asked for; not looked at */
    KAS_PROPOSAL_ENDS
} kas_proposal_end;

typedef struct kas_proposals {
    kas_proposer proposer; /* answer NULL: none */
    int generation;        /* the last one that has its proposals, or does without; -1 = none */
    kas_proposed *list;    /* [count] */
    int count, next;       /* those before `next` were taken from the list */
    int answers, failed;   /* of the program; of these with a fault */
    int ended[KAS_PROPOSAL_ENDS]; /* lines, by what became of them */
} kas_proposals;

void kas_proposals_free(kas_proposals *proposals);

/* Gathers the proposals of a generation. `checker` has the options of the study, and `names` the
 * candidates so far; the names of the proposals are added. *ready is false while the program is at
 * work: the caller asks again. */
kas_status kas_proposals_gather(kas_proposals *proposals, kas_children *checker,
                                const kas_question *question, kas_name_set *names, bool *ready);

/* Returns the next proposal, whose replacement the caller owns then; NULL when none is left. */
kas_proposed *kas_proposals_next(kas_proposals *proposals);

/* Appends what became of the lines, in words; nothing where no program was asked. */
void kas_proposals_describe(const kas_proposals *proposals, kas_buf *out);

#endif
