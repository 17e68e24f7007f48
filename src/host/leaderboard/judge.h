/* Decides which candidates continue (pruning by curve: docs/design.md, decision 10; train/prune.h),
 * and which are on the accuracy/latency frontier. These are pure functions of the store's contents.
 * Other folders include this header. */
#ifndef KAS_LEADERBOARD_JUDGE_H
#define KAS_LEADERBOARD_JUDGE_H

#include "host/store/store.h"
#include "host/study/options.h"

typedef struct kas_curve {
    int64_t index; /* of the candidate */
    int generation;
    double latency; /* seconds; NaN = unknown */
    double cost;    /* kas_judge_cost */
    int epochs;
    const double *accuracy; /* [epochs] on the validation split */
} kas_curve;

/* Returns what a candidate costs, where no measurement may decide: the predicted seconds if they
 * are known, and else the FLOPs. */
double kas_judge_cost(const kas_work *work);

/* Returns whether candidate `work`, with `accuracy` after `epoch`, is pruned, given the
 * finished candidates.
 *
 * With "curve" it is pruned when it is too far below the curve of the best finished candidate,
 * unless it may lie on the frontier because no finished candidate is both at least as accurate
 * after the same epoch and at least as fast. With "deterministic" only candidates before index -
 * window count, and kas_judge_cost takes the place of the latency, whose measurement differs from
 * run to run. Where candidates come in generations only those of earlier generations count, with
 * the same cost, for both rules. With "none" it is never pruned; otherwise an accuracy that is not
 * finite always is. */
bool kas_judge_prune(const kas_search_options *options, const kas_curve *finished, int count,
                     const kas_work *work, int epoch, double accuracy);

/* Returns whether item i is a finished candidate, or the unmodified network, that none of them
 * beats in accuracy and latency. */
bool kas_judge_on_frontier(const kas_work *work, int count, int i);
/* Sets frontier[i] to kas_judge_on_frontier of every item i. */
void kas_judge_frontier(const kas_work *work, int count, bool *frontier);

#endif
