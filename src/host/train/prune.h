/* Pruning by curve (paper 7; docs/design.md, decision 10).
 *
 * A candidate whose accuracy after an epoch is below lambda times that of the best finished
 * candidate after the same epoch is given up:
 *
 *     x = epoch / (epochs - 1),   lambda = theta + (1 - theta) * x,   theta = 0.5
 *
 * Early, half of the best is enough; in the last epoch the candidate must have caught up, where
 * nothing is saved any more, so the last epoch never prunes.  The best curve is that of candidates:
 * the baseline is usually better than all of them and would prune everything. */
#ifndef KAS_TRAIN_PRUNE_H
#define KAS_TRAIN_PRUNE_H

#include <stdbool.h>

#define KAS_PRUNE_THETA 0.5

/* lambda after 0-based `epoch` of `epochs`; 1 when there is only one epoch. */
double kas_prune_lambda(double theta, int epoch, int epochs);

/* Whether a candidate with `accuracy` after `epoch` should be given up. `best` is the accuracy of
 * the best curve after the same epoch; NaN or negative = there is none yet. An accuracy that is not
 * finite is given up. */
bool kas_prune_now(double theta, int epoch, int epochs, double accuracy, double best);

#endif
