/* What the next generation follows from: the results of those before it, by the study's objective.
 *
 * Parents are for evolution (regularised evolution: Real et al., "Regularized Evolution for Image
 * Classifier Architecture Search", AAAI 2019).  The population are the newest candidates.  The
 * oldest generation of which only a part has room loses its worst.  A parent is the best of some
 * that are drawn at random from those that can be one.  A candidate that failed, was screened out
 * or pruned counts as the worst and is never a parent; one that ended at a rung counts less than
 * all that went further.
 * There is one exception: candidates that imitate the convolutions too badly to be trained
 * (--most-missed) count less than all that were trained, and among themselves by the variance that
 * they miss.  Kernels that are drawn at random seldom imitate well; so evolution has a direction
 * before any has been trained.
 *
 * Rewards are for the tree (tree.h), and ranks in the same order: 1 for the best, 0 for a candidate
 * without a result.  Internal to strategy/. */
#ifndef KAS_STRATEGY_SELECT_H
#define KAS_STRATEGY_SELECT_H

#include "host/core/random.h"
#include "host/space/kernel.h"
#include "host/store/store.h"
#include "host/study/options.h"

typedef struct kas_parent {
    char name[17];
    bool fertile; /* it has a result, and one kernel for all layers */
    kas_kernel kernel;
} kas_parent;

typedef struct kas_population {
    kas_parent *member; /* [count], the best first */
    int count;
    int fertile; /* members that can be parents: they come first */
} kas_population;
void kas_population_free(kas_population *population);

/* Selects `size` of the candidates of generations before `generation`, all of which have ended. The
 * caller frees *out. */
kas_status kas_population_select(const kas_search_options *options, const kas_work *items,
                                 int count, int generation, int size, kas_population *out);

/* Sets reward[k] for every candidate k of generations before `generation`, all of which have ended;
 * their numbers are below `candidates`. With m results, the one with r better ones has the reward
 * ((m - r) / m)^4: the power, which is Syno's, makes a tree seek the best and not what is good on
 * average. What prediction discarded has none, like what failed. */
kas_status kas_rewards(const kas_search_options *options, const kas_work *items, int count,
                       int generation, int64_t candidates, double *reward);

/* Returns the winner of a tournament; the population must have a fertile member. */
const kas_parent *kas_population_draw(const kas_population *population, int tournament,
                                      kas_rng *rng);

#endif
