/* The identity of a run, by which its checkpoint is recognised. */
#ifndef KAS_TRAIN_DIGEST_H
#define KAS_TRAIN_DIGEST_H

#include "host/train/train.h"

/* Computes the SHA-256 of everything that determines the bits of a run: network, kernel with its
 * sizes, data, indices, recipe, seed and initial weights. Options that only observe the run do not
 * count; of the device only the order of a kernel's weights does (options->linear_policy). */
kas_status kas_train_digest(const kas_train_options *options, uint8_t digest[32]);

#endif
