/* Pruning by curve (paper 7; docs/design.md, decision 10).
 *
 * A candidate is pruned when its accuracy after an epoch is below lambda times that of the best
 * finished candidate after the same epoch, with
 *
 *     x = epoch / (epochs - 1),   lambda = theta + (1 - theta) * x
 *
 * Early in training half of the best accuracy is enough; towards the end the candidate must
 * have caught up. The last epoch never prunes, because nothing would be saved. The best
 * curve is the best of candidates: the baseline is usually better than all of them and would
 * prune everything. */
#ifndef KAS_TRAIN_PRUNE_H
#define KAS_TRAIN_PRUNE_H

#include <stdbool.h>

#define KAS_PRUNE_THETA 0.5 /* the paper's, and the default of --theta */

/* Returns lambda after the 0-based `epoch` of `epochs`; 1 when there is only one epoch. */
double kas_prune_lambda(double theta, int epoch, int epochs);

/* Returns whether a candidate with `accuracy` after `epoch` should be pruned. `best` is the
 * accuracy of the best curve after the same epoch; NaN or negative = there is none yet. An accuracy
 * that is not finite is pruned. */
bool kas_prune_now(double theta, int epoch, int epochs, double accuracy, double best);

#endif
