/* NAS-PTE's search, which trains nothing (Turner, Crowley and O'Boyle 2021, sections 6 and 7.2): it
 * draws configurations, rejects those whose Fisher potential is below that of the unmodified
 * network, and takes the fastest of the rest.
 *
 * A configuration has a sequence of transformations of its own for some of the layers; the others
 * keep their convolution.  The paper does not say how many layers a configuration changes.  Here
 * the number is uniform from one to all: where all layers are transformed at random nothing is
 * legal (docs/search.md, "Without training").
 *
 * Latency is predicted first, because that costs a thirtieth of a score.  Then configurations are
 * scored from the fastest on, and where only a few legal ones are wanted the slower ones need no
 * score.  The same seed gives the same configurations, scores and choice on any number of
 * threads. */
#ifndef KAS_SEARCH_UNTRAINED_H
#define KAS_SEARCH_UNTRAINED_H

#include "host/search/forecast.h"

typedef struct kas_untrained_options {
    const kas_search_options *search; /* seed, space, budget, latency, legality */
    const kas_problem *problem;
    const kas_machine *machine; /* for which latencies are predicted */
    int configurations;
    int wanted;     /* legal ones */
    bool score_all; /* also those that are slower than the legal ones wanted */
    int threads;    /* 0: all cores */
} kas_untrained_options;

typedef enum kas_configuration_state {
    KAS_CONFIGURATION_UNSCORED, /* slower than the legal ones wanted */
    KAS_CONFIGURATION_SLOW,     /* predicted slower than --latency allows; not scored */
    KAS_CONFIGURATION_BROKEN,   /* a kernel can be neither compiled nor scored */
    KAS_CONFIGURATION_REJECTED,
    KAS_CONFIGURATION_LEGAL,
    KAS_CONFIGURATION_STATES
} kas_configuration_state;
extern const char *const kas_configuration_states[]; /* "unscored", ... */

typedef struct kas_configuration {
    char name[KAS_NAME_SIZE];
    char *text;           /* as a file of layers; owned */
    int changed;          /* layers with a kernel */
    double flops, params; /* relative to the convolutions of all targets */
    double predicted;     /* seconds of a forward pass; NaN: BROKEN */
    double potential;     /* NaN: not scored, or not finite, which is rejected */
    /* Measured latency relative to the unmodified network, median and quartiles; NaN: not
     * measured */
    double ratio, ratio_low, ratio_high;
    kas_configuration_state state;
} kas_configuration;

typedef struct kas_stage_seconds {
    double wall, processor;
} kas_stage_seconds;

typedef struct kas_untrained {
    kas_configuration *configuration; /* [count], the one that is predicted fastest first */
    int count;
    int over_budget, twice;               /* drawn beside them and left out */
    int states[KAS_CONFIGURATION_STATES]; /* how many are in each */
    int *legal; /* [states[LEGAL]] their numbers, the fastest first: as predicted, or as measured */
    double predicted; /* of the unmodified network, seconds */
    double potential; /* of the unmodified network */
    double least;     /* potential that is allowed */
    kas_stage_seconds draw, predict, score, measure;
} kas_untrained;

/* Runs the search. KAS_NOTHING_VALID when the budget leaves too few configurations; that none of
 * them is legal is no failure. The caller frees *out with kas_untrained_free, also after a
 * failure. */
kas_status kas_untrained_search(const kas_untrained_options *options, kas_untrained *out);
void kas_untrained_free(kas_untrained *untrained);

/* Measures the legal ones in turns with the unmodified network (predict/turns.h), and orders them
 * by what it measures. It compiles their kernels, which takes minutes for a large network. One that
 * cannot be measured is reported and comes last. */
kas_status kas_untrained_measure(const kas_untrained_options *options, kas_device *device,
                                 kas_untrained *untrained);

#endif
