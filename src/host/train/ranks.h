/* What the ranks of a run must have in common. */
#ifndef KAS_TRAIN_RANKS_H
#define KAS_TRAIN_RANKS_H

#include "host/train/train.h"

/* Checks that all ranks train the same run (digest.h) from the same step: a shared disk may show
 * one of them an older checkpoint. If they do not, all fail with KAS_BAD_INPUT, and each says what
 * is different. Without a group nothing is checked. */
kas_status kas_train_check_ranks(const kas_train_options *options, const uint8_t digest[32],
                                 uint64_t step);

#endif
