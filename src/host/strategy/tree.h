/* Monte-Carlo tree search: which way through a tree to try next.
 *
 * It is the variant of Syno (github.com/tsinghua-ideal/Syno), whose rules are those of FUSE (Gaudel
 * and Sebag, "Feature Selection as a One-Player Game", ICML 2010):
 *
 *     selection     from the root, UCB1-tuned (Auer et al. 2002): of the children that were visited the
 *                   one with the largest
 *                       mean + c sqrt(ln N / n min(1/4, variance + sqrt(2 ln N / n))),
 *                   c = 4 sqrt(2); a child that was never visited comes before all others
 *     widening      of a node with N visits only N^0.8 choices are open (progressive widening)
 *     RAVE          the next choice to be opened is the one that looks best by all results with
 *                   the same key: 3 / (3 + n) of the score is that in the whole tree, the rest that
 *                   below this node, where n results are known; 0.3 of it is chance
 *     completion    is left to the caller: whatever a leaf is completed to has a reward, which all
 *                   nodes on the way to the leaf get
 *
 * Several ways are chosen before any of them has a reward.  A visit without a reward counts in N and
 * n, and has no part in the mean and the variance (Liu et al., "Watch the Unobserved", ICLR 2020), so
 * that ways which are chosen together spread.  Rewards are from 0 to 1, and all of them are given anew
 * each time, since a reward may be a rank.  Nothing depends on time or on addresses.  Internal to
 * strategy/. */
#ifndef KAS_STRATEGY_TREE_H
#define KAS_STRATEGY_TREE_H

#include "host/core/random.h"
#include "host/core/status.h"

typedef struct kas_tree kas_tree;

/* What the tree is over. */
typedef struct kas_tree_space {
    /* Makes a node, whose number is the next one; the root comes first, with parent -1. Sets its
     * number of choices, and *open to whether anything can come of it. */
    kas_status (*make)(void *context, int parent, int choice, int *choices, bool *open);
    /* Returns what a choice has in common with choices of other nodes. */
    uint64_t (*key)(void *context, int node, int choice);
    void *context;
} kas_tree_space;

/* Makes a tree with its root. `exploration` is c. The caller frees *out with kas_tree_free. */
kas_status kas_tree_create(double exploration, const kas_tree_space *space, kas_tree **out);
void kas_tree_free(kas_tree *tree);

/* Chooses a leaf to complete; -1: the tree is exhausted. */
kas_status kas_tree_select(kas_tree *tree, kas_rng *rng, int *leaf);

/* Returns in *child the node that a choice leads to, and opens the choice. */
kas_status kas_tree_open(kas_tree *tree, int node, int choice, int *child);

/* Notes that nothing comes of a leaf, nor of anything below it. */
void kas_tree_close(kas_tree *tree, int leaf);
/* Notes that a leaf gave only what is known already: it is not completed again, but what lies below
 * it may be. */
void kas_tree_pass(kas_tree *tree, int leaf);

/* Notes a visit: a leaf was completed to something with these keys, each as often as it is in it.
 * Visits are numbered in the order of these calls. */
kas_status kas_tree_visit(kas_tree *tree, int leaf, const uint64_t *key, int keys);

/* Sets the rewards of all visits so far, in the order of their numbers. */
void kas_tree_reward(kas_tree *tree, const double *reward);

int64_t kas_tree_visits(const kas_tree *tree);
int kas_tree_nodes(const kas_tree *tree);
/* Returns the number of choices from the root to a node. */
int kas_tree_level(const kas_tree *tree, int node);

#endif
