/* BlockSwap: networks drawn at random from a list of blocks under a budget, of which the one of the
 * largest Fisher potential is taken (Turner, Crowley, O'Boyle, Storkey and Gray, "BlockSwap:
 * Fisher-guided block substitution for network compression on a budget", ICLR 2020).
 *
 * Each target draws one of its options, all with the same probability; what is above the budget of
 * parameters is drawn again.  Under a limit on latency, which the paper does not have, few random
 * networks of a tight one would be left, so an option must leave the other targets a way to be
 * within it.  The potential is that of `score` (score/untrained/fisher.h) on one minibatch of
 * initial weights: here summed over all targets, in the paper over the last convolutions of
 * residual blocks. */
#ifndef KAS_ASSEMBLE_BLOCKSWAP_H
#define KAS_ASSEMBLE_BLOCKSWAP_H

#include "host/assemble/choices.h"

typedef struct kas_blockswap_options {
    const kas_choices *choices;
    const kas_option *option; /* [targets][options] with costs */
    double limit;             /* of the sum of costs; INFINITY = none */
    int draws;                /* networks within the budget whose potential is computed */
    uint64_t seed;
    /* Gets the Fisher potentials of `count` networks; NaN where there is none. */
    kas_status (*potentials)(void *context, int count, const kas_replacement *replacement,
                             double *value);
    void *context;
} kas_blockswap_options;

typedef struct kas_blockswap_result {
    int *chosen;      /* [targets]; owned */
    double potential; /* of it */
    uint64_t drawn;   /* all, also those above the budget */
    uint64_t last;    /* draws up to the last one that was scored */
    int scored; /* different networks within the budget; fewer than `draws` if there are no more */
} kas_blockswap_result;

/* It ends after so many draws in a row that gave no network within the budget, or one that came
 * before: few are left then. */
enum { KAS_BLOCKSWAP_TRIES = 5000 };

/* KAS_NOTHING_VALID when no network within the budget was drawn, or none has a finite potential.
 * The caller frees out->chosen. */
kas_status kas_blockswap(const kas_blockswap_options *options, kas_blockswap_result *out);

#endif
