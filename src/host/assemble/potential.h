/* The Fisher potential of a network with kernels (score/untrained/fisher.h), as `sensitivity` and
 * `assemble` compare it with that of the unmodified network. */
#ifndef KAS_ASSEMBLE_POTENTIAL_H
#define KAS_ASSEMBLE_POTENTIAL_H

#include "host/assemble/choices.h"
#include "host/score/untrained/score.h"

/* What is the same for all networks. */
typedef struct kas_potential_setup {
    const kas_choices *choices;
    const kas_minibatch *minibatch; /* the first minibatch is looked at */
    uint64_t seed;                  /* of the first draw of the weights */
    int draws;
} kas_potential_setup;

/* Computes the potential of a replacement (NULL: the unmodified network); NaN where it is not
 * finite or a kernel cannot be evaluated. Threads may call it at once, each with memory of its
 * own. */
kas_status kas_potential(const kas_potential_setup *setup, const kas_replacement *replacement,
                         kas_score_memory *memory, double *out);

#endif
