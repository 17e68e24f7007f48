/* Which candidates go on: pruning by curve (docs/design.md, decision 10; train/prune.h), the best
 * candidate, and the accuracy/latency frontier.  Pure functions over what the store holds.  Other
 * folders include this header. */
#ifndef KAS_LEADERBOARD_JUDGE_H
#define KAS_LEADERBOARD_JUDGE_H

#include "host/store/store.h"
#include "host/study/options.h"

typedef struct kas_curve {
    int64_t index;  /* of the candidate */
    double latency; /* seconds; NaN = unknown */
    double flops;
    int epochs;
    const double *accuracy; /* [epochs] on the validation split */
} kas_curve;

/* Whether candidate `index` with `accuracy` after `epoch` goes on, given the finished candidates.
 *
 * "curve": it is given up when it is too far below the curve of the best finished candidate, unless
 * no finished one is at least as accurate after the same epoch and at least as fast: then it may
 * lie on the frontier.  "deterministic": only candidates before index - window count, and FLOPs
 * stand for the latency, whose measurement differs from run to run.  "none": always goes on. */
bool kas_judge_prune(const kas_search_options *options, const kas_curve *finished, int count,
                     int64_t index, int epoch, double accuracy, double latency, double flops);

/* The finished candidate with the highest accuracy (ties: fewer FLOPs, then the smaller number), or
 * NULL. */
const kas_work *kas_judge_best(const kas_work *work, int count);

/* Is item i a finished candidate that no other one beats in accuracy and latency? */
bool kas_judge_on_frontier(const kas_work *work, int count, int i);
/* frontier[i] = kas_judge_on_frontier of each. */
void kas_judge_frontier(const kas_work *work, int count, bool *frontier);

#endif
